"""Gathers what is judged, from the state store and this machine alone: no server is asked.

What shows or reports the state of jobs calls this and `core.judgement.judge`: screens, `status`, supervisors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from slotkeeper.core.config.model import Loaded
from slotkeeper.core.config.secrets import unreadable
from slotkeeper.core.domain import remedy
from slotkeeper.core.domain.audit import AuditLine, Phase
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.lane import Lags
from slotkeeper.core.domain.report import JobReport, JobStatus
from slotkeeper.core.domain.row_counts import Verified
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.judgement.facts import LIMITS, Evaluator, Facts, JobSeen, Limits, Machine
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.view import observe_all
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.state import observed
from slotkeeper.core.state.alerts import AlertFile
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.audit import Read as AuditRead
from slotkeeper.core.state.faults import free_bytes, full
from slotkeeper.core.state.files import marks
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.frames import Frame, Metrics
from slotkeeper.core.state.observed import last
from slotkeeper.core.state.sqlite import Store

OLD_SECONDS = 15.0
"""A lag that was recorded longer ago grows with the clock: what was applied then is all that is applied now."""
_EVENTS = 50
_LINES = 200
_ASKED = {JobState.PAUSED: ("jobs pause",), JobState.STOPPED: ("jobs stop", "jobs drain", "jobs restart")}


def gather(
    store: Store,
    loaded: Loaded | None,
    now: datetime,
    frames: Iterable[Frame] | None = None,
    limits: Limits | None = None,
) -> Facts:
    """What the state store and this machine say; `frames` are the last of each job where they are known already.

    It is judged by `limits`, else by those of the configuration.

    Raises errors of `slotkeeper.core.state`.
    """
    views = observe_all(store)
    limits = limits or (loaded.alerts.limits if loaded is not None else LIMITS)
    audit = Audit(store.folder).read(_LINES)
    jobs = loaded.jobs if loaded is not None else {}
    newer = {view.name: view.report for view in views}
    recorded = Metrics(store).newest() if frames is None else frames
    lags = {frame.view.name: lags_of(frame, now, newer.get(frame.view.name)) for frame in recorded}
    hosts = {frame.view.name: frame.host for frame in recorded}
    compared = last(store)
    seen = tuple(
        replace(
            job_seen(store, view, lags.get(name, Lags()), jobs.get(name), compared.get(name), audit.lines, now, limits),
            host=hosts.get(name),
        )
        for name, view in ((view.name, view) for view in views)
    )
    refused = {**unreadable(loaded), **loaded.refused} if loaded is not None else {}
    return Facts(
        now,
        seen,
        observed.all_seen(store),
        replace(machine_of(store.folder, audit), evaluator=evaluator_of(store)),
        {name: str(error) for name, error in refused.items()},
        tuple(marks(store.folder.path)),
        limits,
    )


def job_seen(
    store: Store,
    view: JobStatus,
    lags: Lags,
    job: JobSpec | None,
    verified: Verified | None,
    audit: Iterable[AuditLine],
    now: datetime,
    limits: Limits = LIMITS,
) -> JobSeen:
    """One job with what its events and the audit say of it."""
    since = now - timedelta(seconds=limits.crashes)
    # by the configuration; who has not read one (a supervisor) goes by what its driver says
    limit = None if view.report is None else view.report.quarantine_limit
    if job is not None:
        limit = job.sink_options.quarantine_limit if job.sink_options.quarantines else None
    crashes = [one for one in store.events(view.name, _EVENTS) if one.event == "driver crashed" and one.at >= since]
    seen = JobSeen(
        view,
        lags.known,
        tuple(one.at for one in crashes),
        crashes[0].text.partition("; retrying")[0] if crashes else "",
        quarantine_limit=limit,
        least_lags=lags.least,
        verified=verified,
        copy_anew=_copy_anew(job) if verified is not None and verified.verdict == "different" else "",
    )
    # the newest line, `audit` having the newest first, of who asked for the state that the job is in
    actions = _ASKED.get(view.state, ())
    lines = (one for one in audit if one.action in actions and one.what == f"job {view.name}")
    asked = next((one for one in lines if one.phase is Phase.INTENT), None)
    return seen if asked is None else replace(seen, asked_by=asked.actor.who, asked_why=asked.reason)


def _copy_anew(job: JobSpec | None) -> str:
    """How its target is copied again; "" for a job of several tables, as which one differs is not known here.

    Only asked where it is shown: what a kind of sink can do is asked of its module, which loads a driver.
    """
    if job is None or len(job.channels) != 1 or not job.binlog.binlog or sinks.open(job.sink_kind).no_reset:
        return ""
    return remedy.copy_anew(job)


def lags_of(frame: Frame, now: datetime, newer: JobReport | None = None, ended: bool = False) -> Lags:
    """A frame's lags as they are by now; unknown where it is not known how old they are.

    A lane that by a `newer` report has not moved lags by what has passed since, and so does each of a job that `ended`.
    """
    old = elapsed(frame.at, now)
    if old is None:
        return Lags(dict.fromkeys(frame.lags))
    past, still = old, {name for name, _ in _places(frame.view.report).items() & _places(newer).items()}

    def grown(name: str, lag: float) -> float:
        return lag + past if ended or past > OLD_SECONDS or (lag > 0 and name in still) else lag

    return Lags(
        {name: None if lag is None else grown(name, lag) for name, lag in frame.lags.items()},
        {name: grown(name, lag) for name, lag in frame.least.items()},
    )


def _places(report: JobReport | None) -> dict[str, int]:
    """The positions of a report's lanes that lag behind the newest known of their source."""
    lanes = report.lanes if report is not None else ()
    return {lane.name: lane.done_to for lane in lanes if lane.done_to is not None and lane.behind != 0}


def machine_of(folder: StateFolder, audit: AuditRead) -> Machine:
    """The disk of a state folder, what of its audit cannot be read, and whether the alerts' command fails."""
    failure = AlertFile(folder).read().failure
    fails, since = ("", None) if failure is None else (failure.cause, failure.since)
    try:
        free = free_bytes(folder.path)
        return Machine(str(folder.path), "", full(folder.path), free, audit.damaged, fails, since)
    except OSError as error:
        return Machine(str(folder.path), f"{folder.path}: {error.strerror or error}", damaged=audit.damaged)


def evaluator_of(store: Store) -> Evaluator | None:
    """Who evaluates alerts at this moment, and keeps all others from it; else a stopped process that should send them.

    None where no running process does; how long a command takes has a limit of its own.
    """
    file = AlertFile(store.folder)
    for one, does in ((file.holder(), "evaluates alerts"), (file.sender(), "gives alerts to the command")):
        if one is None or not (processes.alive(one.who) or processes.elsewhere(one.who)):
            continue
        run = store.run(one.who.run_id) if one.who.run_id else None
        name = f"pid {one.who.pid}" if run is None else f"the supervisor of job {run.job} (pid {one.who.pid})"
        found = Evaluator(name, one.who.pid, one.since, processes.stopped(one.who), does)
        if found.stopped or does == "evaluates alerts":
            return found
    return None
