"""Commands on a whole job: start, stop, pause, resume, restart, and `ensure`; used by console and CLI.

A command writes the desired state, and reports success only after its effect is *seen* in the store and among the
processes. It can be run from any shell of the user, regardless of who started the job. While the state store cannot be
written, for example on a full disk, a stop sends a signal to the supervisor.

`ensure` starts jobs whose desired state is run but that are not running, for example after a reboot or after both
supervisor and driver were killed. It can be called several times at once: the start lock lets one caller start a job,
and the other callers find the job running. A job that a user paused, stopped or cancelled keeps its state, and a FAILED
job stays FAILED until a user acts.
"""

from __future__ import annotations

import os
import select
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.job import JobEvent, JobState, WantedState, transition
from slotkeeper.core.domain.report import Identity, JobStatus
from slotkeeper.core.domain.text import typed
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.launch import (
    FOREGROUND,
    OWNER,
    START_LOCK,
    SUPERVISOR_LOCK,
    TAKE_OVER,
    Launch,
    spawn_supervisor,
)
from slotkeeper.core.launch.log import last_lines
from slotkeeper.core.launch.view import Starting, Waiting, observe, observe_all, settled, waits
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.files import StoredConsents, marks
from slotkeeper.core.state.sqlite import Store

_LOCK_SECONDS = 30.0
"""Seconds that a start waits for another start of the same job."""
_POLL = 0.1
_LETS_GO = 1.0
"""Seconds that a supervisor can keep running after it has released its lock."""
Reached = Callable[[JobStatus], bool]
_ARRIVED = (JobState.RUNNING, JobState.PAUSED)
_COPYING = (JobState.SNAPSHOT, JobState.CATCHING_UP)


class Unwanted(Refused):
    """A job that the command did not name has ended or was stopped by a user in the meantime."""


@dataclass(frozen=True, slots=True)
class Patience:
    """The time in seconds to wait for an effect (0 means no wait), and the callbacks for progress.

    With `stalled`, the wait for a start continues beyond `seconds` while the start makes progress at least every
    `stalled` seconds. `waiting` receives a line of progress every ten seconds.
    """

    seconds: float = 30.0
    progress: Callable[[JobStatus], None] = lambda _: None
    stalled: float = 0.0
    waiting: Callable[[str], None] = lambda _: None


def start(
    store: Store,
    job: str,
    config: str,
    launch: Launch | None = None,
    take_over: bool = False,
    patience: Patience | None = None,
    again: bool = False,
) -> JobStatus:
    """Start a job and wait until it runs or its state shows why it does not run.

    Raises Refused, naming the process, if the job is running, Starting if the job is still PENDING after the time to
    wait, and Busy if no process was seen. A start whose copy continues after that time does not fail, because a copy
    can take hours. The start lock is held until the supervisor is running, so that the second of two simultaneous
    starts detects the first. `take_over` is passed to the driver, and also allows the start of a job that is recorded
    on another host. With `again`, the job is started only if its desired state is already run and its end was not
    recorded; otherwise Unwanted is raised.
    """
    with store.folder.locked(job, START_LOCK, _LOCK_SECONDS):
        run = _begin(store, job, config, launch, take_over, again)
        try:
            _bring_up_supervisor(store, job, config, run, patience or Patience())
        except Refused as error:
            store.set_wanted(job, WantedState.STOP)
            store.apply(job, JobEvent.FAILED, error.message)
            store.end_run(run, None, error.message)
            raise
    try:
        return _seen(store, job, patience, has_begun, "start")
    except Starting as error:
        if error.view.reported and error.view.state in _COPYING:
            return error.view
        raise


def has_begun(view: JobStatus) -> bool:
    """Return whether a start has completed: the job is running or has ended."""
    return not view.state.has_process or (view.reported and view.state in _ARRIVED)


def run_here(store: Store, job: str, config: str, launch: Launch | None = None, take_over: bool = False) -> JobStatus:
    """Start a job and supervise it until its run ends, for systemd and containers; SIGTERM stops the job."""
    with store.folder.locked(job, START_LOCK, _LOCK_SECONDS):
        run = _begin(store, job, config, launch, take_over)
    from slotkeeper.core.launch.supervisor import supervise  # not needed by a caller that only queries a job

    supervise(job, config, store.folder.path, run, adopt=False)
    return observe(store, job)


def stop(store: Store, job: str, patience: Patience | None = None) -> JobStatus:
    """Request a stop and wait until the job's processes have exited; if the request cannot be stored, send a signal.

    A job that has already ended keeps its state, but its desired state becomes stop.
    """
    view = observe(store, job)
    refuse_elsewhere(view)
    if not view.state.is_open and not view.lives:
        if view.state is JobState.CANCELLED:
            transition(view.state, JobEvent.STOPPED)
        store.set_wanted(job, WantedState.STOP)
        return observe(store, job)
    try:
        store.set_wanted(job, WantedState.STOP)
        store.record_event(job, "stop asked", "by a command")
    except (StateError, Busy) as error:
        return _stop_by_signal(store, view, (patience or Patience()).seconds, error)
    if not view.supervisor_alive:
        _stop_without_supervisor(store, view)
    return _seen(store, job, patience, lambda now: not now.state.is_open and not now.lives, "stop")


def pause(store: Store, job: str, patience: Patience | None = None) -> JobStatus:
    """Request a pause and wait until the driver reports it."""
    return _wanted(store, job, WantedState.PAUSE, JobEvent.PAUSED, patience, lambda view: view.state is JobState.PAUSED)


def resume(store: Store, job: str, patience: Patience | None = None) -> JobStatus:
    """Resume a paused job and wait until it runs or copies; raise Busy if it does neither in time."""
    return _wanted(store, job, WantedState.RUN, JobEvent.RESUMED, patience, lambda view: view.goes_on)


def restart(
    store: Store, job: str, config: str = "", launch: Launch | None = None, patience: Patience | None = None
) -> JobStatus:
    """Stop the job if it is running, then start it, with its last configuration file unless another is given."""
    view = observe(store, job)
    if view.state.is_open or view.lives:
        stop(store, job, patience or Patience())
    return start(store, job, config or view.config, launch, patience=patience)


def _begin(store: Store, job: str, config: str, launch: Launch | None, take_over: bool, again: bool = False) -> str:
    """Record a new run, under the start lock.

    Raises Refused if the job is running; with `again`, raises Unwanted if the job has ended.
    """
    if again:
        view = observe(store, job)
        if not view.state.is_open:
            raise Unwanted(f"job {job} is already {view.state.value}")
        if view.wanted is not WantedState.RUN:
            raise Unwanted(f"job {job} already has the desired state {view.wanted.value}")
    launch = launch or Launch()
    if take_over:
        launch = replace(launch, extra=(*launch.extra, TAKE_OVER))
    refuse_open_reset(store, job)
    refuse_unconsented(store, job)
    store.register_job(job, config)
    _make_way(store, job, take_over)
    run = uuid.uuid4().hex
    if not store.begin_run(job, run, launch.text, unasked=again):
        raise Unwanted(f"job {job} no longer has the desired state run")
    store.record_event(job, JobEvent.START.value, f"run {run}")
    return run


def refuse_open_reset(store: Store, job: str) -> None:
    """Raise Refused if a reset of the job's slot is unfinished on this host.

    A slot must not be read if only some of its points were moved. The driver checks the sink, this function the
    markers.
    """
    for mark in marks(store.folder.path):
        if mark.job == job:
            what = f"reset {mark.id} of slot {mark.slot} is unfinished; job {job} must wait until the reset ends"
            raise Refused(what, f"`slotkeeper slots reset --resume {typed(mark.table, mark.slot)}`")


def refuse_unconsented(store: Store, job: str) -> None:
    """Raise AwaitsCopy if the job's only table awaits a copy that requires a consent, and no consent is stored here.

    The driver checks again, however it was started, and also if this host has no record of a reset.
    """
    row, now = store.job(job), SystemClock().utc().timestamp()
    if row is not None and row.state is JobState.AWAITS_COPY:
        for one in StoredConsents(store.folder, job).known():
            if one.alone and not one.valid(now):
                raise one.missing


def _make_way(store: Store, job: str, take_over: bool) -> None:
    """Raise Refused if the job is running; record it as STOPPED if it should be running but is not."""
    view = settled(store, job)
    lock = store.folder.try_lock(view.name, SUPERVISOR_LOCK)
    if lock is not None:
        lock.release()
    if view.lives or lock is None:
        to_do = f"`slotkeeper jobs stop {view.name}` stops it; `slotkeeper jobs restart {view.name}` restarts it"
        raise Refused(f"job {view.name} is already running: {_who(view)}", to_do)
    if view.elsewhere and not take_over:
        refuse_elsewhere(view)
    if view.state.is_open:
        store.apply(view.name, JobEvent.GONE, "no process was found")
        store.end_run(view.run, None, "no process was found")


def refuse_elsewhere(view: JobStatus) -> None:
    """Raise Refused if the job may be running on another host or in another container."""
    if view.state in (JobState.ELSEWHERE, JobState.UNKNOWN):
        where = f"on host {view.runs_on}" if view.runs_on else "once the store answers"
        raise Refused(f"job {view.name} is {view.state.value}: {view.reason}", f"repeat the command {where}")
    if view.elsewhere:
        what = f"job {view.name} was started on another host: {_who(view)}; this host cannot see whether it runs"
        over = f"`slotkeeper jobs start {view.name} --take-over`"
        do = f"check that host; if the host or container no longer exists, {over}"
        raise Refused(what, do)


def _who(view: JobStatus) -> str:
    known = view.driver if view.driver_alive or view.supervisor is None else view.supervisor
    since = "" if view.started_at is None else f", since {view.started_at:%Y-%m-%dT%H:%M:%SZ}"
    return "unknown" if known is None else f"pid {known.pid}{since}, host {known.host}"


def _bring_up_supervisor(store: Store, job: str, config: str, run: str, patience: Patience) -> None:
    """Start a supervisor and wait until it has recorded itself or has exited, which closes its pipe.

    That can take minutes on a busy host. Raises Refused.
    """
    reading, writing = os.pipe()
    pipe = select.poll()  # select(2) rejects descriptors from 1024 on
    pipe.register(reading)
    try:
        try:
            spawn_supervisor(store.folder, job, config, run, keeps_open=(writing,))
        finally:
            os.close(writing)
        waiting = Waiting(patience.waiting)
        while not _has_supervisor(view := observe(store, job)):
            if pipe.poll(_POLL * 1_000) and not _has_supervisor(observe(store, job)):
                said = "".join(last_lines(store.folder.log(job), 1)) or "no output"
                raise Refused(f"the supervisor of job {job} has exited: {said}", f"see {store.folder.log(job)}")
            if why := waiting.status(view):
                raise Refused(f"the supervisor of job {job} did not start: {why}", f"see {store.folder.log(job)}")
    finally:
        os.close(reading)


def _has_supervisor(view: JobStatus) -> bool:
    return view.supervisor_alive or not view.state.has_process


def _stop_without_supervisor(store: Store, view: JobStatus) -> None:
    """Stop a driver that has no supervisor: signal it, wait, end the recorded processes, and record the stop."""
    limits = _launch(store, view).limits
    if view.driver is not None and not processes.end(view.driver, limits.stop):
        raise Busy(f"driver of job {view.name} (pid {view.driver.pid}) could not be ended", "it may hang in the kernel")
    # The driver may have started a new supervisor in the meantime, which then records the same.
    if observe(store, view.name).state.is_open and not observe(store, view.name).supervisor_alive:
        store.apply(view.name, JobEvent.STOPPED, "stopped; its supervisor had exited")
        store.end_run(view.run, None, "stopped; its supervisor had exited")


def _wanted(
    store: Store, job: str, wanted: WantedState, event: JobEvent, patience: Patience | None, reached: Reached
) -> JobStatus:
    view = observe(store, job)
    transition(view.state, event)
    refuse_elsewhere(view)
    if not view.lives:
        raise Refused(f"job {job}: {view.reason}", view.safe)
    store.set_wanted(job, wanted)
    store.record_event(job, f"{wanted.value} asked", "by a command")
    what = "resume" if wanted is WantedState.RUN else wanted.value
    return _seen(store, job, patience, lambda now: reached(now) or not now.state.has_process, what)


def _seen(store: Store, job: str, patience: Patience | None, reached: Reached, what: str) -> JobStatus:
    """Check repeatedly for the effect, and report each change; raise Busy if the effect is not seen in time."""
    patience = patience or Patience()
    deadline = time.monotonic() + patience.seconds
    waiting = Waiting(patience.waiting, limit=patience.stalled) if patience.stalled else None
    shown: tuple[JobState, str] | None = None
    while not reached(view := observe(store, job)):
        if patience.seconds <= 0:
            return view
        if shown != (shown := (view.state, view.reason)):
            patience.progress(view)
        why = waiting.status(view) if waiting is not None else ""
        # only a start that neither copies yet nor waits for a server gets more time
        on_its_way = view.lives and view.state is JobState.PENDING and not waits(view)
        if time.monotonic() > deadline and (why or waiting is None or not on_its_way):
            after = why or f"after {patience.seconds:g} s"
            if what == "start" and view.lives:
                raise Starting(view, after)
            raise Busy(
                f"job {job}: {what} was requested, but {after} it is"
                f" {view.state.value}{': ' + view.reason if view.reason else ''}",
                f"the request remains; `slotkeeper jobs show {job}` shows when it takes effect",
            )
        time.sleep(_POLL)
    return view


def _stop_by_signal(store: Store, view: JobStatus, seconds: float, cause: SlotkeeperError) -> JobStatus:
    """Signal the job's processes to end, and wait up to `seconds`; `cause` is why the request cannot be stored.

    The store is still read, because it names the process to signal. A recorded supervisor is signaled only while it
    holds the job's supervisor lock, because any user of the folder could have recorded any pid.

    Returns the job as STOPPED with the cause as its reason, even if the store cannot record that state. Raises Busy if
    processes are still running, and Refused if the recorded pid is not the supervisor's.
    """
    deadline = time.monotonic() + seconds
    asked: set[Identity] = set()
    while view.lives:
        _signal_processes(store, view, asked)
        if seconds <= 0:
            return view
        if time.monotonic() > deadline:
            what = f"job {view.name} was signaled to stop, but after {seconds:g} s its processes are still running"
            raise Busy(what, f"its desired state could not be stored: {cause.message}")
        time.sleep(_POLL)
        view = observe(store, view.name)
    return _recorded_as_stopped(store, view, cause)


def _signal_processes(store: Store, view: JobStatus, asked: set[Identity]) -> None:
    """Signal the supervisor once; if there is none, end the driver."""
    if view.supervisor_alive and view.supervisor is not None:
        if view.supervisor not in asked:
            _signal_supervisor(store, view.name, view.supervisor)
            asked.add(view.supervisor)
    elif view.driver is not None:
        limits = _launch(store, view).limits
        processes.end(view.driver, limits.stop + limits.grace)


def _signal_supervisor(store: Store, job: str, supervisor: Identity) -> None:
    lock = store.folder.lock_file(job, SUPERVISOR_LOCK)
    if processes.terminate(supervisor, lambda: processes.has_open(supervisor.pid, lock)):
        return
    # the supervisor may have released its lock because it is about to exit
    if processes.wait_gone(lambda: processes.alive(supervisor), _LETS_GO):
        return
    pid = supervisor.pid
    what = f"pid {pid}, recorded as the supervisor of job {job}, does not hold its lock {lock}: no signal sent"
    raise Refused(what, "find out who recorded this pid, and end the job's processes yourself")


def _recorded_as_stopped(store: Store, view: JobStatus, cause: SlotkeeperError) -> JobStatus:
    """Record that the job has stopped, if the store can be written again."""
    if not view.state.is_open:
        return view
    try:
        store.apply(view.name, JobEvent.STOPPED, "stopped by a signal")
        store.end_run(view.run, None, "stopped by a signal")
        return observe(store, view.name)
    except (Refused, Busy):
        reason = f"its processes have ended; not recorded: {cause.message}"
        return replace(view, state=JobState.STOPPED, reason=reason, safe="")


class Ensured(Enum):
    """The result of `ensure` for one job."""

    STARTED = "started"
    LIVES = "lives"
    STAYS = "stays"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one job, and the reason if the job was not started."""

    job: str
    what: Ensured
    state: JobState
    why: str = ""


def ensure(store: Store, start: Callable[[JobStatus], JobStatus] | None = None) -> list[Outcome]:
    """Start every DEAD job whose desired state is run, as it was started last time; return one outcome per known job.

    A failed start is returned as an outcome and does not prevent other starts. `start` starts one job; the default does
    not wait for its driver.
    """
    return [_ensured(store, view, start or (lambda view: restarted(store, view))) for view in observe_all(store)]


def restarted(store: Store, view: JobStatus) -> JobStatus:
    """Start a job like its newest run, with that run's configuration file, command and limits, without waiting for it.

    Raises the errors of `start`, and Unwanted if the job was stopped or has failed since it was observed.
    """
    launch = _launch(store, view)
    # an earlier take-over remains in effect; this start must not end a later start on another host
    launch = replace(launch, extra=tuple(one for one in launch.extra if one != TAKE_OVER))
    return start(store, view.name, view.config, launch, patience=Patience(0), again=True)


def _launch(store: Store, view: JobStatus) -> Launch:
    run = store.run(view.run)
    return Launch.parse(run.launch if run else "")


def _ensured(store: Store, view: JobStatus, start: Callable[[JobStatus], JobStatus]) -> Outcome:
    if view.state is JobState.STOPPED and view.wanted is WantedState.RUN:
        # another start has ended the previous run, and holds the lock until the supervisor of its own run has started
        with suppress(Busy), store.folder.locked(view.name, START_LOCK, _LOCK_SECONDS):
            pass
        view = observe(store, view.name)
    if view.lives:
        return Outcome(view.name, Ensured.LIVES, view.state)
    if not view.state.is_open:
        return Outcome(view.name, Ensured.STAYS, view.state, f"it is {view.state.value}")
    if view.wanted is not WantedState.RUN:
        return Outcome(view.name, Ensured.STAYS, view.state, f"desired state: {view.wanted.value}")
    if FOREGROUND in _launch(store, view).extra:
        why = "it was started by `slotkeeper run`, whose service restarts it"
        return Outcome(view.name, Ensured.STAYS, view.state, why)
    if OWNER in _launch(store, view).extra:
        why = "several hosts share it, and their agents start it"
        return Outcome(view.name, Ensured.STAYS, view.state, why)
    if view.elsewhere:
        return Outcome(view.name, Ensured.REFUSED, view.state, f"{view.reason}; {view.safe}")
    try:
        started = start(view)
    except Unwanted as error:
        return Outcome(view.name, Ensured.STAYS, observe(store, view.name).state, error.message)
    except SlotkeeperError as error:
        now = observe(store, view.name)
        if now.lives:  # another start came first
            return Outcome(view.name, Ensured.LIVES, now.state)
        return Outcome(view.name, Ensured.REFUSED, now.state, error.message)
    return Outcome(view.name, Ensured.STARTED, started.state)
