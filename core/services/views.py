"""The views of configured jobs, read and changed directly in their sinks. A change is audited."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.views import Difference, Explained, ViewRow, ViewState
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.ports.kinds import StoreSession
from slotkeeper.core.ports.sink import Views
from slotkeeper.core.services.audit import CopiedAudit, Tell, audited
from slotkeeper.core.slots.change import Done
from slotkeeper.core.state.audit import intent
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.wiring import worker


@dataclass(frozen=True, slots=True)
class Seen:
    """The views of a job that its sink records, and the waiting changes by view; or why they are unknown."""

    job: str
    rows: tuple[ViewRow, ...] = ()
    waiting: Mapping[str, int] = field(default_factory=dict)
    error: SlotkeeperError | None = None


def seen(loaded: Loaded, job: str = "") -> list[Seen]:
    """Return the views of all jobs that have views, or of one job."""
    found = []
    for spec in loaded.jobs.values():
        if spec.views and job in ("", spec.name):
            try:
                with opened(spec) as (_, views):
                    found.append(Seen(spec.name, tuple(views.rows()), views.waiting()))
            except SlotkeeperError as error:
                found.append(Seen(spec.name, error=error))
    return found


@contextmanager
def opened(job: JobSpec) -> Iterator[tuple[StoreSession, Views]]:
    with closing(worker.store_session(job, "views-command")) as session:
        yield session, session.views(job)


def verify(job: JobSpec, target: str) -> list[Difference]:
    with opened(job) as (_, views):
        return views.verify(target)


def explain(job: JobSpec, target: str) -> Explained:
    with opened(job) as (_, views):
        return views.explain(target)


def rebuild(loaded: Loaded, job: JobSpec, target: str, reason: str, tell: Tell) -> str:
    """Mark a view, so that the job's driver builds it again; return the outcome."""

    def act(views: Views) -> str:
        views.set_state(target, ViewState.STALE, "rebuild requested")
        return "will be built again while the job runs"

    return _change(loaded, job, target, ("views rebuild", reason), act, tell)


def drop(loaded: Loaded, job: JobSpec, target: str, reason: str, tell: Tell) -> str:
    """Remove a view with its triggers and its table; return the outcome."""

    def act(views: Views) -> str:
        gone = "dropped" if views.drop(target) else "dropped, but its table remains: no view created it"
        return f"{gone}; remove it from the configuration, or the next start of the job creates it again"

    return _change(loaded, job, target, ("views drop", reason), act, tell)


def _change(
    loaded: Loaded,
    job: JobSpec,
    target: str,
    action: tuple[str, str],
    act: Callable[[Views], str],
    tell: Tell,
) -> str:
    with opened(job) as (session, views):
        if not any(row.target == target for row in views.rows()):
            raise Refused(f"job {job.name} has no view {target} in its sink", f"`slotkeeper views list {job.name}`")
        name, reason = action
        audit = CopiedAudit(StateFolder.open(loaded.state_dir), session, tell)
        line = intent(name, f"{job.name} view {target}", reason)
        return audited(audit, line, lambda: Done(act(views), {})).outcome
