"""One change to Typer: what was not typed needs no conversion.

Typer 0.29 makes a pydantic adapter for every parameter that is no flag, also for one without a value, and for each
`--help` (`build_runtime_param` in its _coercion.py): loading pydantic takes longer than `jobs list` does.
"""

from __future__ import annotations

from typing import Any

import typer.core

_CONVERTER = getattr(typer.core.TyperOption, "get_runtime_param", None)
"""None in another version of Typer, which is left as it is then."""


class _Converter:
    """Typer's own, made when there is something to convert; its `coerce` leaves None as it is, too."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None and not param.multiple and param.nargs != -1:
            return None
        assert _CONVERTER is not None
        return _CONVERTER(param).coerce(value, param=param, ctx=ctx)


def convert_what_was_typed() -> None:
    """Make the change; safe to call again."""
    if _CONVERTER is not None:
        for kind in (typer.core.TyperOption, typer.core.TyperArgument):
            setattr(kind, "get_runtime_param", lambda parameter: _Converter())  # noqa: B010 - no part of its types
