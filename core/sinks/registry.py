"""The kinds of sink, by the name that the configuration gives them (`kind`); a new one is one line here.

A kind is loaded when it is first asked for. Next door: `core.ports.kinds` says what one is.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from core.errors import Defect

if TYPE_CHECKING:
    from core.ports.kinds import SinkKind

KINDS = {
    "postgres": ("core.sinks.postgres.kind", "POSTGRES"),
    "dws": ("core.sinks.postgres.kind", "DWS"),
    "doris": ("core.sinks.doris.kind", "DORIS"),
    "hologres": ("core.sinks.hologres.kind", "HOLOGRES"),
}
"""The module of each kind, and its name there."""


@cache
def open(kind: str) -> SinkKind:
    """The kind of that name; raises Defect for one that the configuration should have refused."""
    if kind not in KINDS:
        raise Defect(f"there is no sink kind {kind!r}")
    module, name = KINDS[kind]
    return cast("SinkKind", getattr(import_module(module), name))
