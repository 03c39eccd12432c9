"""`slotkeeper probe live|ready JOB`: the checks of an orchestrator such as Kubernetes; they read local state only."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from slotkeeper.console.cli import diagnostics, output, select
from slotkeeper.console.cli.select import Job, StateDir
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.judgement.facts import LIMITS
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.sqlite import Store

app = typer.Typer()


class Question(Enum):
    """What an orchestrator asks."""

    LIVE = "live"
    READY = "ready"


@app.command()
def probe(
    ctx: typer.Context,
    question: Annotated[Question, typer.Argument(help="live: restart it if not; ready: it streams, copies or pauses")],
    job: Job,
    state_dir: StateDir = None,
) -> None:
    """Check a job of `slotkeeper run` for an orchestrator; exit code 0: yes, 1: no.

    A job that waits for a server, for its slot or for the lease of another replica is live, but not ready.
    """
    loaded, folder = select.state_of(ctx, state_dir)
    with Store.looked_at(folder) as store:
        view = observe(store, job)
    silent = LIMITS.silent_critical if loaded is None else loaded.alerts.limits.silent_critical
    why = refusal(view, question, SystemClock().utc().timestamp(), silent)
    output.line(f"{job}: {why or question.value}", select.ascii_only(ctx))
    if why:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def refusal(view: JobStatus, question: Question, now: float, silent_after: float) -> str:
    """Return why the answer is no; "" for yes. `now` is in seconds since 1970, `silent_after` in seconds.

    >>> from slotkeeper.core.domain.job import WantedState
    >>> waits = JobStatus("orders", JobState.PENDING, WantedState.RUN, supervisor_alive=True)
    >>> refusal(waits, Question.LIVE, 0.0, 300.0), refusal(waits, Question.READY, 0.0, 300.0)
    ('', 'PENDING')
    """
    if not (view.lives or view.starting):
        return f"no process of it is running here ({view.state.value})"
    if view.driver_stopped or view.supervisor_stopped:
        return "a signal has stopped its processes"
    if view.reported and view.reported_at is not None and view.driver_alive:
        quiet = elapsed(view.reported_at.timestamp(), now)
        if quiet is not None and quiet > silent_after:
            return f"its driver has not reported for {quiet:.0f} s"
    if question is Question.READY and (view.state is JobState.PENDING or not view.reported):
        return view.state.value
    return ""
