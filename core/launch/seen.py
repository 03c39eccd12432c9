"""Gathers what is judged, from the state store and this machine alone: no server is asked.

Whoever shows or tells how jobs stand calls this and `core.judgement.judge`: screens, `status`, supervisors. Next door:
`core.launch.view` sees jobs and their processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from core.config.model import Loaded
from core.config.readable import unreadable
from core.domain.audit import AuditLine, Phase
from core.domain.elapsed import elapsed
from core.domain.job import JobState
from core.domain.job_view import JobView
from core.domain.spec import JobSpec
from core.domain.verified import Verified
from core.judgement.facts import Facts, JobSeen, Machine
from core.judgement.limits import LIMITS, Limits
from core.launch.view import observe_all
from core.state import slots_seen
from core.state.alerts import AlertFile
from core.state.audit import Audit
from core.state.audit import Read as AuditRead
from core.state.disk import free_bytes, full
from core.state.folder import StateFolder
from core.state.frames import Frame
from core.state.metrics import Metrics
from core.state.resets import marks
from core.state.sqlite import Store
from core.state.verified import last

OLD_SECONDS = 15.0
"""A lag that was recorded longer ago grows with the clock: what was applied then is all that is applied now."""
_EVENTS = 50
_LINES = 200
_ASKED = {JobState.PAUSED: ("jobs pause",), JobState.STOPPED: ("jobs stop", "jobs drain", "jobs restart")}
Lags = Mapping[str, Mapping[str, float | None]]


def gather(
    store: Store, loaded: Loaded | None, now: datetime, lags: Lags | None = None, limits: Limits | None = None
) -> Facts:
    """What the state store and this machine say; `lags` by job where they are known already.

    It is judged by `limits`, else by those of the configuration.

    Raises errors of `core.state`.
    """
    views = observe_all(store)
    limits = limits or (loaded.alerts.limits if loaded is not None else LIMITS)
    audit = Audit(store.folder).read(_LINES)
    jobs = loaded.jobs if loaded is not None else {}
    found = {frame.view.name: lags_of(frame, now) for frame in Metrics(store).frames(now)} if lags is None else lags
    compared = last(store)
    seen = tuple(
        job_seen(
            store,
            view,
            found.get(view.name, {}),
            jobs.get(view.name),
            compared.get(view.name),
            audit.lines,
            now,
            limits,
        )
        for view in views
    )
    refused = {**unreadable(loaded), **loaded.refused} if loaded is not None else {}
    return Facts(
        now,
        seen,
        slots_seen.all_seen(store),
        machine_of(store.folder, audit),
        {name: str(error) for name, error in refused.items()},
        tuple(marks(store.folder.path)),
        limits,
    )


def job_seen(
    store: Store,
    view: JobView,
    lags: Mapping[str, float | None],
    job: JobSpec | None,
    verified: Verified | None,
    audit: Iterable[AuditLine],
    now: datetime,
    limits: Limits = LIMITS,
) -> JobSeen:
    """One job with what its events and the audit say of it."""
    since = now - timedelta(seconds=limits.crashes)
    crashes = [one for one in store.events(view.name, _EVENTS) if one.event == "driver crashed" and one.at >= since]
    options = job.sink_options if job is not None else None
    seen = JobSeen(
        view,
        lags,
        tuple(one.at for one in crashes),
        crashes[0].text.partition("; retrying")[0] if crashes else "",
        quarantine_limit=options.quarantine_limit if options is not None and options.quarantines else None,
        verified=verified,
    )
    asked = _asked(view, audit)
    return seen if asked is None else replace(seen, asked_by=asked.actor.who, asked_why=asked.reason)


def _asked(view: JobView, audit: Iterable[AuditLine]) -> AuditLine | None:
    """The newest line, `audit` having the newest first, of who asked for the state that a job is in."""
    actions = _ASKED.get(view.state, ())
    mine = f"job {view.name}"
    return next(
        (one for one in audit if one.action in actions and one.what == mine and one.phase is Phase.INTENT), None
    )


def lags_of(frame: Frame, now: datetime) -> dict[str, float | None]:
    """A frame's lags as they are by now; unknown where nobody can tell how old they are."""
    old = elapsed(frame.at, now)
    more = old if old is None or old > OLD_SECONDS else 0.0
    return {name: None if lag is None or more is None else lag + more for name, lag in frame.lags.items()}


def machine_of(folder: StateFolder, audit: AuditRead) -> Machine:
    """The disk of a state folder, what of its audit cannot be read, and whether the alerts' command fails."""
    failure = AlertFile(folder).read().failure
    fails, since = ("", None) if failure is None else (failure.cause, failure.since)
    try:
        free = free_bytes(folder.path)
        return Machine(str(folder.path), "", full(folder.path), free, audit.damaged, fails, since)
    except OSError as error:
        return Machine(str(folder.path), f"{folder.path}: {error.strerror or error}", damaged=audit.damaged)
