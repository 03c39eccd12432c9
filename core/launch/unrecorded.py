"""Stopping a job while its state store cannot be written, as on a full disk: its supervisor is asked by a signal.

The store is still read: it says which process to ask. One that the store names is believed only while it holds the
job's supervisor lock, which no other process does: whoever shares the folder could have written any number there.
"""

from __future__ import annotations

import time
from dataclasses import replace

from slotkeeper.core.domain.job import JobEvent, JobState
from slotkeeper.core.domain.report import Identity, JobView
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.launch import SUPERVISOR_LOCK, Launch
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.sqlite import Store

_POLL = 0.1
_LAST_MOMENTS = 1.0


def stop(store: Store, view: JobView, seconds: float, cause: SlotkeeperError) -> JobView:
    """Ask the job's processes to end and wait so many seconds (0: not at all); `cause` is why nothing can be stored.

    Returns the job as STOPPED with the cause as its reason, also where the store cannot say so. Raises Busy where they
    still live, Refused where the recorded supervisor is another process.
    """
    deadline = time.monotonic() + seconds
    asked: set[Identity] = set()
    while view.lives:
        _ask(store, view, asked)
        if seconds <= 0:
            return view
        if time.monotonic() > deadline:
            raise Busy(
                f"job {view.name} was asked to stop by a signal, but after {seconds:g} s its processes still live",
                f"its wanted state could not be stored: {cause.message}",
            )
        time.sleep(_POLL)
        view = observe(store, view.name)
    return _ended(store, view, cause)


def _ask(store: Store, view: JobView, asked: set[Identity]) -> None:
    """Signal the supervisor once, or end the driver where there is none."""
    if view.supervisor_alive and view.supervisor is not None:
        if view.supervisor not in asked:
            _ask_supervisor(store, view.name, view.supervisor)
            asked.add(view.supervisor)
    elif view.driver is not None:
        run = store.run(view.run)
        limits = Launch.parse(run.launch if run else "").limits
        processes.end(view.driver, limits.stop + limits.grace)


def _ask_supervisor(store: Store, job: str, supervisor: Identity) -> None:
    lock = store.folder.lock_file(job, SUPERVISOR_LOCK)
    if processes.terminate(supervisor, lambda: processes.has_open(supervisor.pid, lock)):
        return
    # it may have let go of its lock because it is about to end
    if processes.wait_gone(lambda: processes.alive(supervisor), _LAST_MOMENTS):
        return
    raise Refused(
        f"pid {supervisor.pid}, recorded as the supervisor of job {job}, does not hold its lock {lock}: it was not"
        " signalled",
        "find out who wrote that; end the job's processes by hand",
    )


def _ended(store: Store, view: JobView, cause: SlotkeeperError) -> JobView:
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
