"""`slotkeeper audit list`: who did what to which slot or job, why, and what was seen afterwards.

Next door: `core.state.audit` keeps the lines.
"""

from __future__ import annotations

from typing import Annotated

import typer

from console.cli import diagnostics, output, select
from console.cli.select import StateDir
from core.state.audit import Audit
from core.state.folder import StateFolder

app = typer.Typer(help="Who changed what, when and why.", no_args_is_help=True)


@app.callback()
def audit() -> None:
    """Who changed what, when and why."""


@app.command("list")
def list_lines(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="how many of the newest lines")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of text, with the result per DN")] = False,
    state_dir: StateDir = None,
) -> None:
    """The newest lines, the newest first: an intent before an action, its outcome after it."""
    audit = Audit(StateFolder.open(select.state_of(ctx, state_dir)[1]))
    found = audit.read(limit)
    if as_json:
        output.as_json({"file": audit.file, "damaged": found.damaged, "lines": [one.as_json() for one in found.lines]})
    else:
        rows = [[f"{one.at:%m-%d %H:%M:%S}Z", one.actor.os_user, one.action, one.what, one.said] for one in found.lines]
        output.table(["at", "who", "action", "what", "said"], rows, select.ascii_only(ctx))
    if found.damaged:
        diagnostics.warn(f"{found.damaged} lines of {audit.file} cannot be read")
