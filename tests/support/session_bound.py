"""How many sessions a job holds at most, at either end; what it holds follows its DNs and not its tables."""

from __future__ import annotations

from dataclasses import dataclass

from slotkeeper.core.engine.driver.poll_schedule import LINES
from slotkeeper.core.engine.driver.threads import SHARED_FROM

STARTING = 3
"""Of a start: one that reads, one that registers, one for what the catalog says."""


@dataclass(frozen=True, slots=True)
class SessionCount:
    """Sessions at the source and at the sink."""

    source: int
    sink: int


def most_sessions(tables: int, dns: int, pool: int) -> SessionCount:
    """The most that a job of so many tables holds; `pool` is its `connection_pool_size`.

    At the source: the start's, one that watches the set of DNs, those that look at all DNs of a table, one per DN that
    looks where one does not answer, one per DN that registers, and those of the tasks. At the sink: the lease, one per
    DN that registers, three (keeping slots alive during a copy, progress, quarantine), and those of the tasks.

    >>> most_sessions(1, 4, 5), most_sessions(200, 4, 5), most_sessions(200, 64, 5)
    (SessionCount(source=18, sink=13), SessionCount(source=21, sink=13), SessionCount(source=45, sink=25))
    """
    lines = min(dns, SHARED_FROM)
    return SessionCount(STARTING + 1 + min(tables, LINES) + 2 * lines + pool, 1 + lines + 3 + pool)
