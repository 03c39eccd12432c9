"""Observe a job: its stored state, its running processes, and whether a wait for it makes progress.

`slotkeeper.core.domain.elapsed` decides how long a wait can last; this module takes its samples.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from datetime import datetime, timezone

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.elapsed import STALLED_SECONDS, Progress, Signs, elapsed
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.placement import Known
from slotkeeper.core.domain.remedy import resume
from slotkeeper.core.domain.report import Identity, JobStatus
from slotkeeper.core.domain.text import typed
from slotkeeper.core.errors import Busy, Refused
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.state import placement
from slotkeeper.core.state.rows import RunRow
from slotkeeper.core.state.sqlite import Store

Say = Callable[[str], None]
STOP = WantedState.STOP
STARTING_SECONDS = 60.0
"""Seconds for which a supervisor that has not recorded itself counts as starting."""
LAST_MOMENTS = 20.0
"""Seconds that the processes of an ended run may need to exit: Spark ends after the job has recorded its end."""


class Starting(Busy):
    """A start that was accepted, but has not ended within the time to wait; `view` is the job as seen last."""

    def __init__(self, view: JobStatus, after: str) -> None:
        reason = f": {view.reason}" if view.reason else ""
        super().__init__(
            f"job {view.name} is still starting: {after} it is {view.state.value}{reason}",
            f"the start continues; `slotkeeper jobs show {typed(view.name)}` shows when the job runs",
        )
        self.view = view


def observe(store: Store, job: str) -> JobStatus:
    """Observe a job; raises Refused if it is unknown."""
    row = store.job(job)
    if row is None:
        store.wanted(job)  # raises the same error as every other query about an unknown job
        raise Refused(f"unknown job {job!r}")
    view = view_of(row, store.run(row.run) if row.run else None)
    return placed(view, placement.known(store.folder))


def settled(store: Store, job: str) -> JobStatus:
    """Observe a job; if its run has ended, wait until its processes have exited or their time limit has passed."""
    view = observe(store, job)
    if view.state.is_open or not view.lives:
        return view
    processes.wait_gone(lambda: observe(store, job).lives, LAST_MOMENTS)
    return observe(store, job)


def observe_all(store: Store) -> list[JobStatus]:
    known = placement.known(store.folder)
    return [placed(view_of(row, store.run(row.run) if row.run else None), known) for row in store.jobs()]


UNREPORTED_SECONDS = 60.0
"""Seconds without a heartbeat after which no host runs a job, as far as this host can know."""


def placed(view: JobStatus, known: Known | None) -> JobStatus:
    """Return a job as its shared row shows it; the processes on this host take precedence over the row.

    The row is that of the last round of this host's agent.
    """
    row = next((one for one in known.rows if one.job == view.name), None) if known is not None else None
    if row is None or known is None:
        return view
    mine = row.owner == known.owner
    if view.lives or view.starting:  # its own report is newer, and says whether the store answers
        return replace(view, runs_on="" if row.away else row.host)
    at = datetime.fromtimestamp(row.read_at, timezone.utc)
    old = elapsed(at, SystemClock().utc())
    why, do = row.away, ""
    if not row.away and (old is None or old > known.stale_after):
        why, do = "this host's agent does not report", "start `slotkeeper agent` on this host"
    elif not row.away and not mine and row.owner and row.age > UNREPORTED_SECONDS and row.desired is not STOP:
        why, do = f"host {row.host} reported it last {row.age:.0f} s ago", f"check host {row.host} and its agent"
    elif not row.away:
        if mine or not row.owner:
            return replace(view, runs_on=row.host)
        shown = f"{row.state} on {row.host} as of {at:%H:%M:%S}Z{': ' if row.text else ''}{row.text}"
        return replace(
            view, state=JobState.ELSEWHERE, reason=shown, trouble="", safe="", elsewhere=False, runs_on=row.host
        )
    where = f"{row.state} on {row.host}" if row.owner else "no host owned it"
    why = f"{why}; last known: {where} as of {at:%H:%M:%S}Z"
    return replace(view, state=JobState.UNKNOWN, reason=why, trouble="", safe=do, elsewhere=False, runs_on="")


def view_of(row: JobStatus, run: RunRow | None) -> JobStatus:
    """Return a stored job with its newest run and the state of its recorded processes."""
    supervisor, driver = (run.supervisor, run.driver) if run else (None, None)
    supervisor_alive, driver_alive = processes.alive(supervisor), processes.alive(driver)
    open_run = run is not None and run.ended_at is None
    away = open_run and (processes.elsewhere(supervisor) or processes.elsewhere(driver))
    recorded = supervisor is not None or driver is not None
    dead = row.state.has_process and recorded and not (supervisor_alive or driver_alive or away)
    # if the state is recent, its supervisor may not have recorded itself yet
    age = None if row.changed_at is None else elapsed(row.changed_at, SystemClock().utc())
    young = age is not None and age < STARTING_SECONDS
    starting = open_run and not recorded and row.state is JobState.PENDING and young
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


def _reason(row: JobStatus, supervisor_alive: bool, driver_alive: bool, away: bool) -> tuple[str, str]:
    """Return (reason, safe action), based on the processes if they show more than the store."""
    if not row.state.has_process or supervisor_alive:
        return row.reason, row.safe
    if away:
        return "started on another host; this host cannot see its processes", "check the job on that host"
    if driver_alive:
        return row.reason or "its supervisor has exited; the driver starts a new one", row.safe
    return "no process found; possibly killed", resume(row.name)


SHOWN_EVERY = 10.0
"""Seconds between two lines about a wait."""
_SAMPLE_EVERY = 2.0
"""Seconds between two samples of the driver's processes; each sample reads all of /proc."""


class Waiting:
    """One wait for a job; `say` receives a line every ten seconds."""

    def __init__(
        self, say: Say = lambda _: None, monotonic: Callable[[], float] = time.monotonic, limit: float = 0.0
    ) -> None:
        self._say, self._monotonic = say, monotonic
        self._progress = Progress(monotonic(), limit or STALLED_SECONDS)
        self._sampled_at = self._shown_at = self._progress.began
        self._fresh = True

    def status(self, view: JobStatus, moved: Hashable = None, what: str = "") -> str:
        """Sample the job, at most every 2 s; return why the wait ends, or "" while it continues.

        `moved` changes after each piece of work of a running job. If it is given, heartbeats and CPU time of a running
        job do not count as progress, and `what` is shown as its step.
        """
        now = self._monotonic()
        if self._fresh or now - self._sampled_at >= _SAMPLE_EVERY:
            self._fresh, self._sampled_at = False, now
            signs = signs_of(view, _usage(view.driver), moved)
            running = what and view.state is JobState.RUNNING and not waits(view)
            self._progress.see(replace(signs, step=what) if running else signs, now)
        if now - self._shown_at >= SHOWN_EVERY:
            self._shown_at = now
            self._say(f"waiting for {self._progress.step}: {now - self._progress.began:.0f} s; {load_here()}")
        return self._progress.stalled(now)


def signs_of(view: JobStatus, usage: tuple[float, bool], moved: Hashable = None) -> Signs:
    """Return a job's signs of progress, from its status and its processes (CPU seconds, whether Java runs).

    While a driver reports a wait, its heartbeats and CPU time continue, but do not count as progress.
    """
    report = view.report if view.reported else None
    work = None if report is None else (report.chunks_done, report.snapshot_rows, report.changes, report.registrations)
    alive = (view.supervisor_alive, view.driver.pid if view.driver and view.driver_alive else 0)
    marks: tuple[object, ...] = (view.state, view.run, alive, work, moved)
    cpu, java = usage
    step = step_of(view, java)
    if waits(view) or (moved is not None and view.state is JobState.RUNNING):
        return Signs(step, marks)
    return Signs(step, (*marks, view.reported_at, java), cpu)


def waits(view: JobStatus) -> bool:
    """Return whether the job's driver reports what blocks the job, such as a server that does not answer."""
    return view.reported and view.driver_alive and view.state is not JobState.RUNNING and bool(view.reason)


def step_of(view: JobStatus, java: bool) -> str:
    report = view.report if view.reported else None
    if waits(view):
        return f"the condition that its driver reports ({view.reason})"
    if not view.driver_alive:
        return "its driver's process" if view.supervisor_alive else "its supervisor"
    if view.state is JobState.PENDING:
        if report is None or not report.tasks_started:
            return ("the first task" if report is not None else "the Spark session") if java else "the JVM"
        return "its lanes"
    if view.state is JobState.SNAPSHOT:
        known = report is not None and report.chunks_total
        return f"the copy, chunk {report.chunks_done} of {report.chunks_total}" if known and report else "the copy"
    if view.state is JobState.CATCHING_UP:
        return "the changes since the copy started"
    return f"its next report ({view.state.value})"


def load_here() -> str:
    """Describe this host's load over one minute; two busy cores are a load of 2."""
    return f"load of this host: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def _usage(driver: Identity | None) -> tuple[float, bool]:
    """Return the CPU seconds of a driver's running processes, and whether one of them is a JVM."""
    import psutil

    seconds, java = 0.0, False
    for pid in processes.members(driver) if driver is not None else ():
        try:
            process = psutil.Process(pid)
            times = process.cpu_times()
            seconds += times.user + times.system
            java = java or process.name() == "java"
        except (psutil.Error, OSError):
            continue
    return seconds, java
