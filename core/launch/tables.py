"""Commands on single tables of a running job: pause, resume, stop, start, restart, and immediate retry.

As for whole jobs, a command writes its request, and then waits until the effect is *seen* or the request is answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, replace
from enum import Enum

from slotkeeper.core.domain.job import JobState, TableReport, WantedState
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.domain.text import typed
from slotkeeper.core.domain.tries import TryAnswer, in_words
from slotkeeper.core.errors import Busy, Refused
from slotkeeper.core.launch.control import refuse_elsewhere
from slotkeeper.core.launch.launch import START_LOCK
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state import steering
from slotkeeper.core.state.files import marks
from slotkeeper.core.state.sqlite import Store

LOCK_SECONDS = 5.0
_POLL = 0.1


class Ask(Enum):
    """The commands on a table; the values are those of the command line."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    START = "start"
    RESTART = "restart"


_WANTED = {Ask.PAUSE: WantedState.PAUSE, Ask.STOP: WantedState.STOP}
_AGAIN = (Ask.START, Ask.RESTART)
_GOALS = {Ask.PAUSE: JobState.PAUSED, Ask.STOP: JobState.STOPPED}
_BEGINNING = (JobState.PENDING, JobState.SNAPSHOT)
_COPYING = (JobState.SNAPSHOT.value, JobState.CATCHING_UP.value)


@dataclass(frozen=True, slots=True)
class TablePatience:
    """The time in seconds to wait for an effect (0 means no wait), and the callback for each change during the wait."""

    seconds: float = 30.0
    progress: Callable[[TableReport], None] = lambda _: None


def known(view: JobStatus) -> tuple[TableReport, ...]:
    """Return a running job's tables, as its driver reports them; raises Refused if none can be controlled."""
    name = view.name
    refuse_elsewhere(view)
    if not view.lives or not view.state.has_process:
        what = f"job {name} is {view.state.value}: single tables can be controlled only while it runs"
        raise Refused(
            what, f"`slotkeeper jobs start {name}` starts it, without the tables that were stopped individually"
        )
    report = view.report if view.reported else None
    if report is not None and report.tables:
        return report.tables
    if report is not None and len({lane.source_table for lane in report.lanes}) > 1:
        refuse_one_position(name)
    if report is not None and report.lanes:
        refuse_one_table(name)
    raise Refused(f"the driver of job {name} has not reported its tables yet", "repeat the command in a few seconds")


def refuse_one_table(job: str) -> None:
    """Raise Refused, because a job with one table cannot continue without it."""
    raise Refused(f"job {job} has only one table: use the command without --table")


def refuse_one_position(job: str) -> None:
    """Raise Refused for a source that stores one position for all tables, which cannot be controlled separately."""
    what = f"job {job}: its source has one position for all tables, so a single table cannot be controlled"
    raise Refused(what, "use the command without --table; with one job per table, each table has its own position")


def table_of(job: str, tables: Iterable[TableReport], name: str) -> TableReport:
    """Return the table with this name; raises Refused with the known names if it is unknown."""
    found = {one.source_table: one for one in tables}
    if name not in found:
        raise Refused(f"job {job} has no table {name!r}", f"known: {', '.join(sorted(found))}")
    return found[name]


def ask(store: Store, job: str, name: str, what: Ask, patience: TablePatience | None = None) -> TableReport:
    """Run a command on one table and wait until its effect is seen or the table has FAILED.

    Raises Refused if the command has no effect, and Busy if its effect is not seen in time. A start whose copy
    continues after that time does not fail. A reset of the table holds the start lock, so that the table does not start
    during the reset.
    """
    with store.folder.locked(job, START_LOCK, LOCK_SECONDS):
        view = observe(store, job)
        before = table_of(job, known(view), name)
        _refuse(store, view, before, what)
        steering.want(store, job, name, _WANTED.get(what, WantedState.RUN), again=what in _AGAIN)
        store.record_event(job, f"table {what.value} asked", name)
    return _seen(store, job, before, what, patience or TablePatience())


def _refuse(store: Store, view: JobStatus, table: TableReport, what: Ask) -> None:
    """Raise Refused if the command has no effect in the table's state, or if a reset of its slot is unfinished."""
    alone = f"{typed(view.name)} --table {typed(table.source_table)}"
    said = f"table {table.source_table} of job {view.name} is {table.state}"
    paused = table.state == JobState.PAUSED.value
    if what is Ask.PAUSE and table.rests:
        raise Refused(said, f"`slotkeeper jobs start {alone}` starts it")
    if what is Ask.RESUME and view.state is JobState.PAUSED:
        raise Refused(f"the whole job {view.name} is PAUSED", f"`slotkeeper jobs resume {view.name}`")
    if what is Ask.RESUME and not paused:
        raise Refused(said, f"`slotkeeper jobs start {alone}` starts it" if table.rests else "it is not paused")
    if what is Ask.START and not table.rests:
        raise Refused(said, f"`slotkeeper jobs {'resume' if paused else 'restart'} {alone}`")
    for mark in marks(store.folder.path) if what in _AGAIN else ():
        if (mark.job, mark.table) == (view.name, table.source_table):
            waits = f"table {mark.table} must wait until the reset ends"
            said = f"reset {mark.id} of slot {mark.slot} is unfinished; {waits}"
            raise Refused(said, f"`slotkeeper slots reset --resume {typed(mark.table, mark.slot)}`")


def _reached(view: JobStatus, before: TableReport, now: TableReport, what: Ask) -> bool:
    """Return whether the effect is reported; after a start, the report must be newer than the previous state."""
    if what in _AGAIN and now.since == before.since:
        return False
    goal = _GOALS.get(what, JobState.RUNNING)
    if what in _AGAIN and view.state is JobState.PAUSED:
        goal = JobState.PAUSED
    return now.state in (goal.value, JobState.FAILED.value)


def _seen(store: Store, job: str, before: TableReport, what: Ask, patience: TablePatience) -> TableReport:
    """Check repeatedly for the effect, and report each change; raise Busy if the effect is not seen in time."""
    deadline, name = time.monotonic() + patience.seconds, before.source_table
    shown, now = "", before
    while True:
        view = observe(store, job)
        if what is Ask.STOP and view.state is JobState.STOPPED:
            return replace(now, state=view.state.value, reason=view.reason)  # it was the job's last running table
        if not view.state.has_process or not view.lives:
            raise Busy(f"job {job} is already {view.state.value}: {view.reason}", view.safe)
        found = view.report.tables if view.report and view.reported else ()
        now = next((one for one in found if one.source_table == name), now)
        if patience.seconds <= 0 or _reached(view, before, now, what):
            return now
        if shown != now.state and now is not before:
            shown = now.state
            patience.progress(now)
        if time.monotonic() > deadline:
            if what in _AGAIN and now.state in _COPYING and now.since != before.since:
                return now
            raise Busy(
                f"table {name} of job {job}: {what.value} was requested, but after {patience.seconds:g} s it is"
                f" {now.state}{': ' + now.reason if now.reason else ''}",
                f"the request remains; `slotkeeper jobs show {job}` shows when it takes effect",
            )
        time.sleep(_POLL)


def try_now(store: Store, job: str, table: str = "", seconds: float = 30.0) -> tuple[TryAnswer, ...]:
    """Request a retry and return the result per table; if `seconds` is 0, return nothing and do not wait.

    Raises Refused if no table waits for a retry or an early retry is not allowed, and Busy if no process answers in
    time.
    """
    expected = _expected(observe(store, job), table)
    number = steering.ask(store, job, table)
    store.record_event(job, "try asked", table)
    end = time.monotonic() + seconds
    while seconds > 0:
        found = tuple(steering.answers(store, number))
        if found and (any(not one.table for one in found) or expected <= {one.table for one in found}):
            if not any(one.done or one.busy for one in found):
                raise Refused(in_words(found), f"`slotkeeper jobs show {typed(job)}` shows why, and when it retries")
            return found
        view = observe(store, job)
        if not view.state.has_process or not view.lives:
            raise Busy(f"job {job} is already {view.state.value}: {view.reason}", view.safe)
        if time.monotonic() > end:
            why = view.reason or view.state.value
            to_do = f"it retries automatically; `slotkeeper jobs show {typed(job)}` shows the progress"
            raise Busy(f"job {job}: a retry was requested, but not answered within {seconds:g} s: {why}", to_do)
        time.sleep(_POLL)
    return ()


def _expected(view: JobStatus, table: str) -> Set[str]:
    """Return the source tables that must answer (empty if unknown); raises Refused if no table can answer."""
    name = typed(view.name)
    refuse_elsewhere(view)
    if not view.state.has_process or not view.lives:
        raise Refused(f"job {view.name} is {view.state.value} and is not retrying", f"`slotkeeper jobs start {name}`")
    if view.state is JobState.PAUSED:
        raise Refused(f"job {view.name} is PAUSED and is not retrying", f"`slotkeeper jobs resume {name}`")
    waits = view.reason or (view.report.reason if view.report is not None and view.reported else "")
    if view.state in _BEGINNING and not waits:
        raise Refused(
            f"job {view.name} is {view.state.value} and not waiting for a retry",
            "No action needed: it continues automatically",
        )
    if table:
        one = table_of(view.name, known(view), table)
        if one.rests or one.state == JobState.PAUSED.value:
            verb = "start" if one.rests else "resume"
            do = f"`slotkeeper jobs {verb} {name} --table {typed(table)}`"
            raise Refused(f"table {table} of job {view.name} is {one.state} and is not retrying", do)
        return {table}
    report = view.report if view.reported else None
    several = () if report is None else report.tables
    return {one.source_table for one in several if not one.rests and one.state != JobState.PAUSED.value}
