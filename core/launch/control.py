"""What people ask of a whole job: start, stop, pause, resume, restart, and `ensure`; the same for TUI and CLI.

A request is written as desired state, and then waited for until its effect is *seen* in the store and among the
processes; nothing is said to have happened before. Any shell of the user may ask: nothing here depends on who started
the job. While the state store cannot be written, as on a full disk, a stop asks the supervisor by a signal.

`ensure` starts what is wanted and not running, after a reboot, or where supervisor and driver were both killed. It is
safe to call any number of times at once: the start lock lets one start a job, and whoever comes later finds it running.
What somebody paused, stopped or cancelled stays as it is, and what FAILED needs a person.
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
from slotkeeper.core.launch.launch import FOREGROUND, START_LOCK, SUPERVISOR_LOCK, TAKE_OVER, Launch, spawn_supervisor
from slotkeeper.core.launch.log import last_lines
from slotkeeper.core.launch.view import Waiting, observe, observe_all, settled, waits
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.files import StoredConsents, marks
from slotkeeper.core.state.sqlite import Store

_LOCK_SECONDS = 30.0
"""How long a start waits for another one of the same job."""
_POLL = 0.1
_LETS_GO = 1.0
"""Seconds that a supervisor may go on after it has let go of its lock."""
Reached = Callable[[JobStatus], bool]
_ARRIVED = (JobState.RUNNING, JobState.PAUSED)
_COPYING = (JobState.SNAPSHOT, JobState.CATCHING_UP)


class Unwanted(Refused):
    """A job that was not asked for by name has ended, or is not to run, by now: a person or its own end came first."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for an effect (0: not at all), and who is shown each change on the way.

    With `stalled` a start is waited for beyond `seconds`: as long as it is on its way, and shows progress at least
    that often. `waiting` gets a line about it every ten seconds.
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
    """Start a job and wait until it runs or the cause why not is seen; Refused where one runs already, naming it.

    A copy may take hours: one that continues when the patience ends is no failure. Busy where nothing has started by
    then. The start lock is held until the supervisor is running, so of two starts at once the later sees the first.
    `take_over` is passed to the driver, and here it starts a job that another machine's name stands at. `again`: only
    what is wanted already and was not seen to end is started; raises Unwanted for anything else.
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
    except Busy:
        view = observe(store, job)
        if view.reported and view.lives and view.state in _COPYING:
            return view
        raise


def has_begun(view: JobStatus) -> bool:
    """Whether a start is over: the job runs, or has ended."""
    return not view.state.has_process or (view.reported and view.state in _ARRIVED)


def run_here(store: Store, job: str, config: str, launch: Launch | None = None, take_over: bool = False) -> JobStatus:
    """Start a job and be its supervisor until its run is over: for systemd and containers; SIGTERM stops the job."""
    with store.folder.locked(job, START_LOCK, _LOCK_SECONDS):
        run = _begin(store, job, config, launch, take_over)
    from slotkeeper.core.launch.supervisor import supervise  # who only asks something of a job is no supervisor

    supervise(job, config, store.folder.path, run, adopt=False)
    return observe(store, job)


def stop(store: Store, job: str, patience: Patience | None = None) -> JobStatus:
    """Want the job stopped and wait until its processes have exited; by a signal where that cannot be stored.

    A job that has ended stays as it is, and is not wanted any more.
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
    """Wish the job paused and wait until its driver says so."""
    return _wanted(store, job, WantedState.PAUSE, JobEvent.PAUSED, patience, lambda view: view.state is JobState.PAUSED)


def resume(store: Store, job: str, patience: Patience | None = None) -> JobStatus:
    """Wish a paused job running again and wait until it runs, or copies on; Busy where it does neither by then."""
    return _wanted(store, job, WantedState.RUN, JobEvent.RESUMED, patience, lambda view: view.goes_on)


def restart(
    store: Store, job: str, config: str = "", launch: Launch | None = None, patience: Patience | None = None
) -> JobStatus:
    """Stop the job where it runs, then start it; with the configuration file it had unless another is given."""
    view = observe(store, job)
    if view.state.is_open or view.lives:
        stop(store, job, patience or Patience())
    return start(store, job, config or view.config, launch, patience=patience)


def _begin(store: Store, job: str, config: str, launch: Launch | None, take_over: bool, again: bool = False) -> str:
    """Record a new run, under the start lock; Refused where the job runs, Unwanted where `again` finds it ended."""
    if again:
        view = observe(store, job)
        if not view.state.is_open:
            raise Unwanted(f"job {job} is {view.state.value} by now")
        if view.wanted is not WantedState.RUN:
            raise Unwanted(f"job {job} is wanted to {view.wanted.value} by now")
    launch = launch or Launch()
    if take_over:
        launch = replace(launch, extra=(*launch.extra, TAKE_OVER))
    refuse_open_reset(store, job)
    refuse_unconsented(store, job)
    store.register_job(job, config)
    _make_way(store, job, take_over)
    run = uuid.uuid4().hex
    if not store.begin_run(job, run, launch.text, unasked=again):
        raise Unwanted(f"job {job} is not wanted to run any more")
    store.record_event(job, JobEvent.START.value, f"run {run}")
    return run


def refuse_open_reset(store: Store, job: str) -> None:
    """Raise Refused where a reset of the job's slot is unfinished here: a slot that is half moved is not followed.

    The driver asks the sink, this asks the local marks.
    """
    for mark in marks(store.folder.path):
        if mark.job == job:
            what = f"reset {mark.id} of slot {mark.slot} is unfinished; job {job} has to wait for its end"
            raise Refused(what, f"`slotkeeper slots reset --resume {typed(mark.table, mark.slot)}`")


def refuse_unconsented(store: Store, job: str) -> None:
    """Raise AwaitsCopy where the job's one table awaits a copy that needs a consent, and none is stored here.

    The driver asks again, whoever has started it, and also where this host knows of no reset.
    """
    row, now = store.job(job), SystemClock().utc().timestamp()
    if row is not None and row.state is JobState.AWAITS_COPY:
        for one in StoredConsents(store.folder, job).known():
            if one.alone and not one.valid(now):
                raise one.missing


def _make_way(store: Store, job: str, take_over: bool) -> None:
    """Refuse where the job is running; record as STOPPED what should be running and is not."""
    view = settled(store, job)
    lock = store.folder.try_lock(view.name, SUPERVISOR_LOCK)
    if lock is not None:
        lock.release()
    if view.lives or lock is None:
        to_do = f"`slotkeeper jobs stop {view.name}` ends it; `slotkeeper jobs restart {view.name}` does both"
        raise Refused(f"job {view.name} runs already: {_who(view)}", to_do)
    if view.elsewhere and not take_over:
        refuse_elsewhere(view)
    if view.state.is_open:
        store.apply(view.name, JobEvent.GONE, "no process was found")
        store.end_run(view.run, None, "no process was found")


def refuse_elsewhere(view: JobStatus) -> None:
    """Raise Refused where the job may be running on another machine or in another container."""
    if view.elsewhere:
        what = f"job {view.name} was started elsewhere: {_who(view)}; whether it lives cannot be seen from here"
        do = (
            f"ask there; if that machine or container is gone for good, `slotkeeper jobs start {view.name} --take-over`"
        )
        raise Refused(what, do)


def _who(view: JobStatus) -> str:
    known = view.driver if view.driver_alive or view.supervisor is None else view.supervisor
    since = "" if view.started_at is None else f", since {view.started_at:%Y-%m-%dT%H:%M:%SZ}"
    return "unknown" if known is None else f"pid {known.pid}{since}, host {known.host}"


def _bring_up_supervisor(store: Store, job: str, config: str, run: str, patience: Patience) -> None:
    """Start a supervisor and wait until it has recorded itself, or has ended, which closes a pipe that it holds.

    A busy host may take minutes for that. Raises Refused.
    """
    reading, writing = os.pipe()
    pipe = select.poll()  # select(2) takes no descriptor from 1024 on
    pipe.register(reading)
    try:
        try:
            spawn_supervisor(store.folder, job, config, run, keeps_open=(writing,))
        finally:
            os.close(writing)
        waiting = Waiting(patience.waiting)
        while not _has_supervisor(view := observe(store, job)):
            if pipe.poll(_POLL * 1_000) and not _has_supervisor(observe(store, job)):
                said = "".join(last_lines(store.folder.log(job), 1)) or "it said nothing"
                raise Refused(f"the supervisor of job {job} has exited: {said}", f"see {store.folder.log(job)}")
            if why := waiting.status(view):
                raise Refused(f"the supervisor of job {job} did not start: {why}", f"see {store.folder.log(job)}")
    finally:
        os.close(reading)


def _has_supervisor(view: JobStatus) -> bool:
    return view.supervisor_alive or not view.state.has_process


def _stop_without_supervisor(store: Store, view: JobStatus) -> None:
    """Nobody else ends this driver for certain: ask it, wait, end what was recorded, and write it down."""
    limits = _launch(store, view).limits
    if view.driver is not None and not processes.end(view.driver, limits.stop):
        raise Busy(f"driver of job {view.name} (pid {view.driver.pid}) cannot be ended", "it may hang in the kernel")
    # Until here the driver may have brought up a new supervisor, which then writes the same.
    if observe(store, view.name).state.is_open and not observe(store, view.name).supervisor_alive:
        store.apply(view.name, JobEvent.STOPPED, "stopped; its supervisor was gone")
        store.end_run(view.run, None, "stopped; its supervisor was gone")


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
    """Look until the effect is there, showing each change; Busy where it is not within the patience."""
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
        # a start needs time alone while it neither copies yet nor waits for a server
        on_its_way = view.lives and view.state is JobState.PENDING and not waits(view)
        if time.monotonic() > deadline and (why or waiting is None or not on_its_way):
            raise Busy(
                f"job {job}: {what} was asked for, but {why or f'after {patience.seconds:g} s'} it is"
                f" {view.state.value}{': ' + view.reason if view.reason else ''}",
                f"it is still wanted; `slotkeeper jobs show {job}` tells when it is reached",
            )
        time.sleep(_POLL)
    return view


def _stop_by_signal(store: Store, view: JobStatus, seconds: float, cause: SlotkeeperError) -> JobStatus:
    """Ask the job's processes to end and wait so many seconds (0: not at all); `cause` is why nothing can be stored.

    The store is still read: it says which process to ask. One that the store names is believed only while it holds the
    job's supervisor lock, which no other process does: each user of the folder could have written any number there.

    Returns the job as STOPPED with the cause as its reason, also where the store cannot say so. Raises Busy where they
    are still running, Refused where the recorded supervisor is another process.
    """
    deadline = time.monotonic() + seconds
    asked: set[Identity] = set()
    while view.lives:
        _signal_processes(store, view, asked)
        if seconds <= 0:
            return view
        if time.monotonic() > deadline:
            what = f"job {view.name} was asked to stop by a signal, but after {seconds:g} s its processes still live"
            raise Busy(what, f"its wanted state could not be stored: {cause.message}")
        time.sleep(_POLL)
        view = observe(store, view.name)
    return _recorded_as_stopped(store, view, cause)


def _signal_processes(store: Store, view: JobStatus, asked: set[Identity]) -> None:
    """Signal the supervisor once, or end the driver where there is none."""
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
    # it may have let go of its lock because it is about to end
    if processes.wait_gone(lambda: processes.alive(supervisor), _LETS_GO):
        return
    pid = supervisor.pid
    what = f"pid {pid}, recorded as the supervisor of job {job}, does not hold its lock {lock}: it was not signalled"
    raise Refused(what, "find out who wrote that; end the job's processes by hand")


def _recorded_as_stopped(store: Store, view: JobStatus, cause: SlotkeeperError) -> JobStatus:
    """Write down that the job has stopped, where that can be had by now."""
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
    """What became of one job."""

    STARTED = "started"
    LIVES = "lives"
    STAYS = "stays"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One job: what was done, and why where nothing was."""

    job: str
    what: Ensured
    state: JobState
    why: str = ""


def ensure(store: Store, start: Callable[[JobStatus], JobStatus] | None = None) -> list[Outcome]:
    """Start every job that is wanted running and is DEAD, as it was started last; one outcome per known job.

    A job that cannot be started is an outcome and keeps no other from its start. `start` starts one; the usual one does
    not wait for its driver.
    """
    return [_ensured(store, view, start or (lambda view: restarted(store, view))) for view in observe_all(store)]


def restarted(store: Store, view: JobStatus) -> JobStatus:
    """Start a job as its newest run was: with its configuration file, command and limits; does not wait for its driver.

    Raises what `start` raises, Unwanted where it has been stopped or has failed since it was seen.
    """
    launch = _launch(store, view)
    # what was taken over then is ours; another start elsewhere since then is not to be ended without being asked
    launch = replace(launch, extra=tuple(one for one in launch.extra if one != TAKE_OVER))
    return start(store, view.name, view.config, launch, patience=Patience(0), again=True)


def _launch(store: Store, view: JobStatus) -> Launch:
    run = store.run(view.run)
    return Launch.parse(run.launch if run else "")


def _ensured(store: Store, view: JobStatus, start: Callable[[JobStatus], JobStatus]) -> Outcome:
    if view.state is JobState.STOPPED and view.wanted is WantedState.RUN:
        # another start has ended the run before and not yet recorded its own: it holds the lock until that lives
        with suppress(Busy), store.folder.locked(view.name, START_LOCK, _LOCK_SECONDS):
            pass
        view = observe(store, view.name)
    if view.lives:
        return Outcome(view.name, Ensured.LIVES, view.state)
    if not view.state.is_open:
        return Outcome(view.name, Ensured.STAYS, view.state, f"it is {view.state.value}")
    if view.wanted is not WantedState.RUN:
        return Outcome(view.name, Ensured.STAYS, view.state, f"wanted: {view.wanted.value}")
    if FOREGROUND in _launch(store, view).extra:
        why = "it was started by `slotkeeper run`: its own service starts it"
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
