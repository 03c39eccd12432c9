"""The declaration of `slotkeeper status`; `slotkeeper.console.commands.overall` is the command."""

from __future__ import annotations

from typing import Annotated

import typer

from slotkeeper.console.cli import context
from slotkeeper.console.cli.context import BY_CODE
from slotkeeper.console.cli.select import OneJson, StateDir
from slotkeeper.console.commands.overall import overall

app = typer.Typer(help="Overall state for monitoring.", add_completion=False)


@app.command()
def status(
    ctx: typer.Context,
    as_json: OneJson = False,
    by_code: Annotated[bool, typer.Option(BY_CODE, help="exit with 0 ok, 1 warning, 2 critical, 3 unknown")] = False,
    state_dir: StateDir = None,
) -> None:
    """Print one line per job, from the state store; only --exit-code queries stores for DataFrame queries."""
    raise typer.Exit(overall(context.of(ctx), as_json, by_code, state_dir))
