"""One table of a job of several: what is wanted of it, and how it stands. Pure.

A table that stops alone has a state of its own, by the words of a job's (`slotkeeper.core.domain.job`); the job is
RUNNING as long as one of its tables is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.remedy import until_started
from slotkeeper.core.domain.text import typed


@dataclass(frozen=True, slots=True)
class TableWanted:
    """What a person wants of one table; `turn` grows with every start that is asked for, so that two are not one."""

    wanted: WantedState = WantedState.RUN
    turn: int = 0


AS_THE_JOB = TableWanted()
"""Of a table of which nobody has wanted anything: it goes as the job does."""


@dataclass(frozen=True, slots=True)
class TableReport:
    """One table as the driver tells of it: `state` is a `JobState` value, `trouble` a name of trouble or "",
    `safe` what is safe to do, `since` when it came into its state, in seconds since 1970, None where nobody noted it.
    """

    source_table: str
    target: str
    state: str
    reason: str = ""
    trouble: str = ""
    safe: str = ""
    since: float | None = None

    @property
    def rests(self) -> bool:
        """Whether nothing of it goes on."""
        return self.state in RESTING


RESTING = (JobState.FAILED.value, JobState.STOPPED.value)
_AMISS = (JobState.FAILED, JobState.STOPPED, JobState.PAUSED)
"""States that a table is in by itself, the worst first."""


def amiss(tables: Iterable[TableReport]) -> list[TableReport]:
    """The tables that do not go on, the worst first; none where all are paused, because then their job is."""
    known = list(tables)
    found = [one for state in _AMISS for one in known if one.state == state.value]
    return [] if all(one.state == JobState.PAUSED.value for one in known) else found


def to_do(job: str, table: TableReport) -> str:
    """What is safe to do about a table that does not go on, with the command that brings it back alone.

    >>> to_do("orders", TableReport("ods.a", "m.a", "FAILED", safe="cure it, then `slotkeeper jobs start orders`"))
    'cure it, then `slotkeeper jobs start orders --table ods.a`'
    >>> to_do("orders", TableReport("ods.a", "m.a", "FAILED", safe="check the password"))
    'by hand: check the password; then `slotkeeper jobs start orders --table ods.a`'
    >>> to_do("orders", TableReport("ods.a", "m.a", "PAUSED"))
    '`slotkeeper jobs resume orders --table ods.a` lets it go on'
    """
    alone = f"{typed(job)} --table {typed(table.source_table)}"
    if table.state == JobState.PAUSED.value:
        return f"`slotkeeper jobs resume {alone}` lets it go on"
    if not table.safe:
        return f"`slotkeeper jobs start {alone}` goes on where it stood"
    return started_alone(until_started(table.safe, job), job, table.source_table)


def started_alone(text: str, job: str, source_table: str) -> str:
    """A sentence with commands that start a job, which start one table of it instead.

    >>> started_alone("slotkeeper jobs start orders", "orders", "ods.a")
    'slotkeeper jobs start orders --table ods.a'
    """
    name = typed(job)
    alone = f"jobs start {name} --table {typed(source_table)}"
    return re.sub(rf"jobs start {re.escape(name)}(?![\w-])(?! --)", lambda _: alone, text)


def said_of(tables: Iterable[TableReport]) -> str:
    """What there is to say of tables that do not go on, the worst first; nothing where all do.

    >>> said_of([TableReport("ods.a", "m.a", "RUNNING"), TableReport("ods.b", "m.b", "FAILED", "SLOT LOST")])
    '1 of 2 tables FAILED: ods.b: SLOT LOST'
    >>> said_of([TableReport("ods.a", "m.a", "RUNNING")])
    ''
    """
    known = list(tables)
    parts = []
    for state in _AMISS:
        found = [one for one in known if one.state == state.value]
        if not found or (state is JobState.PAUSED and len(found) == len(known)):
            continue
        first = found[0]
        reason = first.reason.removeprefix(f"{first.source_table}: ")
        names = ": ".join(filter(None, (first.source_table, reason)))
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        parts.append(f"{len(found)} of {len(known)} tables {state.value}: {names}{more}")
    return "; ".join(parts)
