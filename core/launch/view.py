"""One look at a job: what the store says, and which of the recorded processes live."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.remedy import goes_on
from slotkeeper.core.domain.report import JobView
from slotkeeper.core.errors import Refused
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.state.rows import RunRow
from slotkeeper.core.state.sqlite import Store

STARTING_SECONDS = 60.0
"""How long a supervisor that has not recorded itself counts as starting."""


def observe(store: Store, job: str) -> JobView:
    """Look at a job; Refused where it is unknown."""
    row = store.job(job)
    if row is None:
        store.wanted(job)  # raises the same refusal as every other question about an unknown job
        raise Refused(f"no job {job!r} is known here")
    return view_of(row, store.run(row.run) if row.run else None)


def observe_all(store: Store) -> list[JobView]:
    """Look at every job."""
    return [view_of(row, store.run(row.run) if row.run else None) for row in store.jobs()]


def view_of(row: JobView, run: RunRow | None) -> JobView:
    """Add to what the store says of a job its newest run, and what the system says about the recorded processes."""
    supervisor, driver = (run.supervisor, run.driver) if run else (None, None)
    supervisor_alive, driver_alive = processes.alive(supervisor), processes.alive(driver)
    open_run = run is not None and run.ended_at is None
    away = open_run and (processes.elsewhere(supervisor) or processes.elsewhere(driver))
    recorded = supervisor is not None or driver is not None
    dead = row.state.has_process and recorded and not (supervisor_alive or driver_alive or away)
    starting = open_run and not recorded and row.state is JobState.PENDING and _is_young(row)
    reason, safe = _reason(row, supervisor_alive, driver_alive, away)
    if starting:
        reason, safe = "its supervisor is starting", ""
    return replace(
        row,
        state=JobState.DEAD if dead else row.state,
        reason=reason,
        safe=safe,
        supervisor=supervisor,
        supervisor_alive=supervisor_alive,
        driver=driver,
        driver_alive=driver_alive,
        elsewhere=away,
        started_at=run.started_at if run else None,
        ended_at=run.ended_at if run else None,
        reported=row.report is not None and run is not None and row.report.run == run.run,
        exit_code=run.exit_code if run else None,
        starting=starting,
        supervisor_stopped=processes.stopped(supervisor),
        driver_stopped=processes.stopped(driver),
    )


def _is_young(row: JobView) -> bool:
    """Whether its state came so lately that its supervisor may not have said yet who it is."""
    age = None if row.changed_at is None else elapsed(SystemClock().utc(), row.changed_at)
    return age is not None and age < STARTING_SECONDS


def _reason(row: JobView, supervisor_alive: bool, driver_alive: bool, away: bool) -> tuple[str, str]:
    """(reason, what is safe to do), where the processes say more than the store."""
    if not row.state.has_process or supervisor_alive:
        return row.reason, row.safe
    if away:
        return "started elsewhere; whether it lives cannot be seen from here", "ask there"
    if driver_alive:
        return row.reason or "its supervisor is gone; the driver starts a new one", row.safe
    return (
        "no process: killed?",
        goes_on(row.name),
    )
