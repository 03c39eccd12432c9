"""Start what is wanted and not running: after a reboot, or where supervisor and driver were both killed.

Safe to call any number of times at once: the start lock lets one start a job, and whoever comes later finds it alive.
What somebody paused, stopped or cancelled stays as it is, and what FAILED needs a person.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.report import JobView
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.launch import control
from slotkeeper.core.launch.control import Patience, Unwanted
from slotkeeper.core.launch.launch import FOREGROUND, TAKE_OVER, Launch
from slotkeeper.core.launch.view import observe, observe_all
from slotkeeper.core.state.sqlite import Store


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


def ensure(store: Store, start: Callable[[JobView], JobView] | None = None) -> list[Outcome]:
    """Start every job that is wanted running and is DEAD, as it was started last; one outcome per known job.

    A job that cannot be started is an outcome and keeps no other from its start. `start` starts one; the usual one does
    not wait for its driver.
    """
    return [_ensured(store, view, start or (lambda view: restarted(store, view))) for view in observe_all(store)]


def restarted(store: Store, view: JobView) -> JobView:
    """Start a job as its newest run was: with its configuration file, command and limits; does not wait for its driver.

    Raises what `control.start` raises, Unwanted where it has been stopped or has failed since it was seen.
    """
    launch = _launch(store, view)
    # what was taken over then is ours; another start elsewhere since then is not to be ended without being asked
    launch = replace(launch, extra=tuple(one for one in launch.extra if one != TAKE_OVER))
    return control.start(store, view.name, view.config, launch, patience=Patience(0), again=True)


def _launch(store: Store, view: JobView) -> Launch:
    run = store.run(view.run)
    return Launch.parse(run.launch if run else "")


def _ensured(store: Store, view: JobView, start: Callable[[JobView], JobView]) -> Outcome:
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
        if now.lives:  # somebody else started it first
            return Outcome(view.name, Ensured.LIVES, now.state)
        return Outcome(view.name, Ensured.REFUSED, now.state, error.message)
    return Outcome(view.name, Ensured.STARTED, started.state)
