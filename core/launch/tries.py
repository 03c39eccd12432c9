"""Asks a job that waits for its next try, or its next poll, to make it now, and waits for what it answers."""

from __future__ import annotations

import time
from collections.abc import Set

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobView
from slotkeeper.core.domain.text import typed
from slotkeeper.core.domain.tries import TryAnswer, in_words
from slotkeeper.core.errors import Busy, Refused
from slotkeeper.core.launch.control import refuse_elsewhere
from slotkeeper.core.launch.tables import known, table_of
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state import steering
from slotkeeper.core.state.sqlite import Store

_POLL = 0.1
_BEGINNING = (JobState.PENDING, JobState.SNAPSHOT)


def ask(store: Store, job: str, table: str = "", seconds: float = 30.0) -> tuple[TryAnswer, ...]:
    """Ask, and return what was done table by table; nothing where `seconds` are 0, which waits for no answer.

    Refused where nothing of it waits, or where a try may not come early; Busy where nobody answers in time.
    """
    expected = _expected(observe(store, job), table)
    number = steering.ask(store, job, table)
    store.record_event(job, "try asked", table)
    end = time.monotonic() + seconds
    while seconds > 0:
        found = tuple(steering.answers(store, number))
        if found and (any(not one.table for one in found) or expected <= {one.table for one in found}):
            if not any(one.done or one.busy for one in found):
                raise Refused(in_words(found), f"`slotkeeper jobs show {typed(job)}` says why, and when it is tried")
            return found
        view = observe(store, job)
        if not view.state.has_process or not view.lives:
            raise Busy(f"job {job} is {view.state.value} by now: {view.reason}", view.safe)
        if time.monotonic() > end:
            raise Busy(
                f"job {job}: a try was asked for, and not answered in {seconds:g} s: {view.reason or view.state.value}",
                f"it tries by itself; `slotkeeper jobs show {typed(job)}` has how it goes",
            )
        time.sleep(_POLL)
    return ()


def _expected(view: JobView, table: str) -> Set[str]:
    """The source tables that are to answer, none where that is not known; Refused where nothing could."""
    name = typed(view.name)
    refuse_elsewhere(view)
    if not view.state.has_process or not view.lives:
        raise Refused(f"job {view.name} is {view.state.value}: it tries nothing", f"`slotkeeper jobs start {name}`")
    if view.state is JobState.PAUSED:
        raise Refused(f"job {view.name} is PAUSED: it tries nothing", f"`slotkeeper jobs resume {name}`")
    waits = view.reason or (view.report.reason if view.report is not None and view.reported else "")
    if view.state in _BEGINNING and not waits:
        raise Refused(f"job {view.name} is {view.state.value} and waits for no try", "it goes on by itself")
    if table:
        one = table_of(view.name, known(view), table)
        if one.rests or one.state == JobState.PAUSED.value:
            verb = "start" if one.rests else "resume"
            do = f"`slotkeeper jobs {verb} {name} --table {typed(table)}`"
            raise Refused(f"table {table} of job {view.name} is {one.state}: it tries nothing", do)
        return {table}
    report = view.report if view.reported else None
    several = () if report is None else report.tables
    return {one.source_table for one in several if not one.rests and one.state != JobState.PAUSED.value}
