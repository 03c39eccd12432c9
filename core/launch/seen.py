"""Gather the facts for the judgement, only from the state store and this host; no server is queried.

Screens, `status` and supervisors call this and `core.judgement.judge` to show or report the state of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from slotkeeper.core.config.model import Loaded
from slotkeeper.core.config.secrets import unreadable
from slotkeeper.core.domain import remedy
from slotkeeper.core.domain.audit import AuditLine, Phase
from slotkeeper.core.domain.elapsed import Lags, elapsed
from slotkeeper.core.domain.job import JobState
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
"""Seconds after which a recorded lag is assumed to grow with time, because nothing has been applied since."""
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
    """Return the facts from the state store and this host; `frames` are the last frames of the jobs, if known.

    `limits` replace those of the configuration.

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
    since = now - timedelta(seconds=limits.crashes)
    # the limit is in the configuration; a supervisor has not read it and uses its driver's report
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
        new_snapshot=_new_snapshot(job) if verified is not None and verified.verdict == "different" else "",
    )
    # the newest line (`audit` has the newest first) that requested the job's current state
    actions = _ASKED.get(view.state, ())
    lines = (one for one in audit if one.action in actions and one.what == f"job {view.name}")
    asked = next((one for one in lines if one.phase is Phase.INTENT), None)
    return seen if asked is None else replace(seen, asked_by=asked.actor.who, asked_why=asked.reason)


def _new_snapshot(job: JobSpec | None) -> str:
    """Return the commands that copy a job's target again; "" for several tables, as it is unknown which one differs.

    Call it only if the commands are shown: checking whether a copy is possible imports the sink's database driver.
    """
    if job is None or len(job.channels) != 1 or not job.binlog.binlog or sinks.open(job.sink_kind).no_reset:
        return ""
    return remedy.new_snapshot(job)


def lags_of(frame: Frame, now: datetime, newer: JobReport | None = None, ended: bool = False) -> Lags:
    """Return a frame's lags as of now; unknown if their age is unknown.

    The lag of a lane whose position is unchanged in a `newer` report grows with time, as do all lags of an `ended` job.
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
    """Return the positions of a report's lanes that are behind the newest known position of their source."""
    lanes = report.lanes if report is not None else ()
    return {lane.name: lane.done_to for lane in lanes if lane.done_to is not None and lane.behind != 0}


def machine_of(folder: StateFolder, audit: AuditRead) -> Machine:
    """Return the state of the folder's disk, the unreadable lines of its audit, and a failure of the alert command."""
    failure = AlertFile(folder).read().failure
    fails, since = ("", None) if failure is None else (failure.cause, failure.since)
    try:
        free = free_bytes(folder.path)
        return Machine(str(folder.path), "", full(folder.path), free, audit.damaged, fails, since)
    except OSError as error:
        return Machine(str(folder.path), f"{folder.path}: {error.strerror or error}", damaged=audit.damaged)


def evaluator_of(store: Store) -> Evaluator | None:
    """Return the process that is evaluating alerts and excludes all others, or else a stopped process that should send.

    None if there is no such process; the alert command has its own time limit.
    """
    file = AlertFile(store.folder)
    for one, does in ((file.holder(), "evaluates alerts"), (file.sender(), "passes alerts to the command")):
        if one is None or not (processes.alive(one.who) or processes.elsewhere(one.who)):
            continue
        run = store.run(one.who.run_id) if one.who.run_id else None
        name = f"pid {one.who.pid}" if run is None else f"the supervisor of job {run.job} (pid {one.who.pid})"
        found = Evaluator(name, one.who.pid, one.since, processes.stopped(one.who), does)
        if found.stopped or does == "evaluates alerts":
            return found
    return None
