"""Reads the state store of this machine for the console.

What fails becomes a sentence, never an exception. Next door: `console.looker` looks at sources, `console.collector`
calls both in the background; `console.picture` are the values.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from console.commands import status
from console.picture import ErrorSeen, Happened, JobDetail, JobFacts, Level, Local, Unfinished
from core.clock import Clock
from core.config import secrets
from core.config.model import Loaded
from core.domain.job import JobState
from core.errors import SlotkeeperError
from core.launch.log import last_lines
from core.launch.view import JobView, observe_all
from core.state.audit import Audit
from core.state.resets import marks
from core.state.rows import ErrorRow
from core.state.sqlite import Store

LOG_LINES = 40
_EVENTS = 20
_MOVING = (JobState.PENDING, JobState.SNAPSHOT, JobState.CATCHING_UP)
_LEVELS = {
    status.Severity.CRITICAL: Level.CRITICAL,
    status.Severity.WARNING: Level.WARNING,
    status.Severity.UNKNOWN: Level.UNKNOWN,
}


class Reader:
    """Reads one configuration's jobs; used by one thread."""

    def __init__(self, loaded: Loaded | None, folder: Path, clock: Clock) -> None:
        self.loaded = loaded
        self._folder = folder
        self._clock = clock
        self._store: Store | None = None

    def local(self, job: str = "") -> Local:
        """What the state store says; with errors and log of one job where it is named."""
        now = self._clock.utc()
        try:
            if self._store is None:
                self._store = Store.open(self._folder, clock=self._clock)
            return self._read(self._store, job, now)
        except Exception as error:  # the top of a thread: whatever it is must be told, and asked again
            return Local(now, fault=told(error))

    def close(self) -> None:
        """Give the state store back."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _read(self, store: Store, job: str, now: datetime) -> Local:
        views = observe_all(store)
        known = {view.name for view in views}
        jobs = [facts(view, now) for view in views]
        jobs += [
            JobFacts(name, Level.REST, None, "never started")
            for name in (self.loaded.jobs if self.loaded else ())
            if name not in known
        ]
        events = [event for name in sorted(known) for event in store.events(name, _EVENTS)]
        events.sort(key=lambda one: (one.at, one.id), reverse=True)
        audit = Audit(store.folder).read(200)
        return Local(
            now,
            tuple(jobs),
            tuple(Happened(one.at, one.job, one.event, one.text) for one in events[:_EVENTS]),
            audit.lines,
            audit.damaged,
            tuple(_error(one) for name in sorted(known) for one in store.errors(name)),
            tuple(Unfinished(one.id, one.job, one.table, one.slot) for one in marks(store.folder.path)),
            _detail(store, job) if job in known else None,
        )


def facts(view: JobView, now: datetime) -> JobFacts:
    """A look at a job as the screens show it; how it stands is judged as `slotkeeper status` does."""
    judged = status.judge(view, now)
    calm = Level.BUSY if view.state in _MOVING else Level.FINE if view.state.has_process else Level.REST
    holder = view.driver or view.supervisor
    return JobFacts(
        name=view.name,
        level=_LEVELS.get(judged.severity, calm),
        state=view.state,
        wrong=judged.text,
        safe=view.safe,
        wish=view.wish.value,
        trouble=view.trouble,
        alive=None if view.elsewhere and not view.lives else view.lives,
        holder=f"pid {holder.pid}" if holder else "",
        behind=judged.behind,
        report=view.report,
        reported_at=view.reported_at,
        current=view.reported,
        started_at=view.started_at,
        ended_at=view.ended_at,
    )


def told(error: Exception) -> str:
    """The sentence for what went wrong; no secret in it."""
    known = isinstance(error, SlotkeeperError | OSError)
    return secrets.redact(str(error) if known else f"unexpected {type(error).__name__}: {error}; this is a defect")


def _error(row: ErrorRow) -> ErrorSeen:
    return ErrorSeen(row.job, row.signature, row.count, row.first_at, row.last_at, row.side, row.code, row.message)


def _detail(store: Store, job: str) -> JobDetail:
    errors = tuple((one.count, one.last_at, f"{one.side} {one.code} {one.message}") for one in store.errors(job)[:5])
    return JobDetail(job, errors, tuple(last_lines(store.folder.log(job), LOG_LINES)))
