"""`slotkeeper upgrade --check`: what this version would migrate or reject; nothing is written."""

from __future__ import annotations

from typing import Annotated

import typer

from slotkeeper.console.cli import diagnostics, output, select
from slotkeeper.console.cli.select import OneJson, StateDir
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.services.upgrade import Verdict
from slotkeeper.core.services.upgrade import check as check_all

app = typer.Typer()


@app.command()
def upgrade(
    ctx: typer.Context,
    check: Annotated[bool, typer.Option("--check", help="show what would be migrated; change nothing")] = False,
    as_json: OneJson = False,
    state_dir: StateDir = None,
) -> None:
    """Show what this version would migrate, and what it rejects because a newer version wrote it.

    Exit code 0: nothing is rejected; 3: at least one part is rejected; 5: a sink did not answer.
    """
    if not check:
        raise ConfigError("--check is missing", "`jobs start` migrates; `slotkeeper upgrade --check` shows what")
    found = check_all(*select.state_of(ctx, state_dir))
    if as_json:
        output.as_json({"parts": found})
    else:
        for one in found:
            output.paragraph(f"{one.verdict.value:<8}", f"{one.what}: {one.why}", select.ascii_only(ctx))
    verdicts = {one.verdict for one in found}
    if Verdict.REFUSED in verdicts:
        raise typer.Exit(int(diagnostics.ExitCode.REFUSED))
    if Verdict.UNKNOWN in verdicts:
        raise typer.Exit(int(diagnostics.ExitCode.UNREACHABLE))
