"""`slotkeeper status`: one line per job from the state store alone, for people in a hurry and for monitoring.

No server is asked. With --exit-code the plugin convention holds: 0 ok, 1 warning, 2 critical, 3 unknown.
Next door: `console.monitor.health` says how a job stands; `jobs show` says more about one job.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from console.cli import diagnostics, output, refusals, select
from console.monitor.health import JobStatus, Severity, judge, worst
from core.clock import SystemClock
from core.domain.verified import in_a_phrase
from core.errors import SlotkeeperError
from core.launch.view import observe_all
from core.state.sqlite import Store
from core.state.verified import last

app = typer.Typer(help="One answer for monitoring.")

EXIT_CODES = {Severity.OK: 0, Severity.WARNING: 1, Severity.CRITICAL: 2, Severity.UNKNOWN: 3}


@app.command()
def status(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object")] = False,
    by_code: Annotated[
        bool, typer.Option("--exit-code", help="end with 0 ok, 1 warning, 2 critical, 3 unknown")
    ] = False,
    state_dir: Annotated[
        Path | None, typer.Option("--state-dir", metavar="DIR", help="state folder; no configuration is read then")
    ] = None,
) -> None:
    """One line per job, from the state store only; no server is asked."""
    try:
        loaded, folder = select.state_of(ctx, state_dir)
        with Store.open(folder) as store:
            views, verified = observe_all(store), last(store)
    except SlotkeeperError as error:
        if not by_code:
            raise
        diagnostics.warn(f"{error}" + (f" ({error.hint})" if error.hint else ""))
        raise typer.Exit(EXIT_CODES[Severity.UNKNOWN]) from None
    now = SystemClock().utc()
    known = {view.name for view in views}
    idle = [name for name in (loaded.jobs if loaded else ()) if name not in known]
    found = [judge(view, now) for view in views]
    found += [JobStatus(name, Severity.OK, None, False, "never started") for name in idle]
    refused = [name for name in refusals.say(loaded) if name not in known]
    found += [JobStatus(name, Severity.WARNING, None, False, "refused by the configuration") for name in refused]
    found = [replace(one, verified=verified.get(one.job)) for one in found]
    found.sort(key=lambda one: one.job)
    overall = worst(one.severity for one in found)
    if as_json:
        output.as_json({"severity": overall, "jobs": found})
    else:
        for one in found:
            output.line(_line(one, now), select.ascii_only(ctx))
        if not found:
            output.line("no job is known here")
    if by_code:
        raise typer.Exit(EXIT_CODES[overall])


def _line(one: JobStatus, now: datetime) -> str:
    state = one.state.value if one.state else "-"
    alive = "" if one.alive or one.state is None or not one.state.has_process else " (no process here)"
    behind = f"; {one.behind} sync points behind" if one.behind else ""
    text = f": {one.text}" if one.text else ""
    verified = f"; {in_a_phrase(one.verified, now)}" if one.verified else ""
    return f"{one.severity.value.upper():<8}  {one.job}  {state}{alive}{text}{behind}{verified}"
