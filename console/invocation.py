"""What every command is given by the command line: the options that all commands share.

Next door: `console.cli` makes it; a command gets it with `of(ctx)` and loads its configuration through it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import typer

from core.config.load import load
from core.config.model import Loaded

_NO_OPTIONS: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class Invocation:
    """`config` is --config (None where not typed), `ascii_only` is --ascii."""

    config: Path | None = None
    ascii_only: bool = False
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def load(self, options: Mapping[str, object] = _NO_OPTIONS) -> Loaded:
        """The configuration that this command line means; raises ConfigError."""
        return load(self.config, self.env, options)


def of(ctx: typer.Context) -> Invocation:
    """The invocation of the running command."""
    found = ctx.find_object(Invocation)
    return found if found is not None else Invocation()
