"""Commands that are printed to be pasted: they name the configuration of whoever printed them.

A console or a command that was given --config knows what another shell does not. `$SLOTKEEPER_CONFIG` and the default
file are known to the same person's next command anyway.
"""

from __future__ import annotations

import re
import shlex

_PRINTED = re.compile(
    r"\b(slotkeeper )(?=(?:run|jobs|watch|slots|locks|errors|alerts|audit|verify|status|doctor|config)\b)"
)


class _Given:
    """What --config was, for this process."""

    config = ""


def given(config: str) -> None:
    """From now on what this process prints names that file; "" for none."""
    _Given.config = config


def complete(text: str) -> str:
    """A sentence or line with its commands as this process's user types them."""
    return with_config(text, _Given.config)


def with_config(text: str, config: str) -> str:
    """A sentence whose commands name the configuration that they are for, so that they can be pasted.

    >>> with_config("wait, or `slotkeeper jobs start a`", "/srv/my etl.toml"), with_config("slotkeeper doctor", "")
    ("wait, or `slotkeeper --config '/srv/my etl.toml' jobs start a`", 'slotkeeper doctor')
    """
    return _PRINTED.sub(lambda found: f"{found[1]}--config {shlex.quote(config)} ", text) if config else text
