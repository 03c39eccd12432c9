"""Schedules polls of idle lanes over a few connections, regardless of the number of tables.

A poll is one query to all DNs of a table. If the poll of one table fails, the table's DNs are polled one by one. If the
poll of a second table fails before any poll succeeds, a DN is not answering, so the DNs of all tables are polled one by
one. A DN that hangs must not delay polls of other DNs. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

LINES = 4
"""Maximum number of parallel polls of all DNs, each for one table and over its own source session."""
ALL_AGAIN = 30.0
"""Seconds between polls of all DNs while one DN does not answer, in addition to the polls of single DNs."""
DN_AGAIN = 5.0
"""Seconds before a silent DN is polled again for any lane, because it can share its connection with other DNs."""


@dataclass(frozen=True, slots=True)
class Due:
    """A due poll. It covers all DNs of a table over connection `line`, or the DN of one lane if `line` is None."""

    table: str
    lanes: tuple[str, ...]
    line: int | None = None


@dataclass(slots=True)
class _Table:
    """A table's polls. `nodes`: node ids by lane; `alone`: lanes whose separate poll runs or waits for its DN."""

    nodes: Mapping[str, int]
    line: int
    alone: set[str] = field(default_factory=set)
    apart: bool = False
    again_at: float = 0.0
    next_at: float = 0.0
    empty_rounds: int = 0


class PollSchedule:
    """Tracks running polls and the times of the next polls, in monotonic seconds.

    `nodes`: the node ids of the lanes, by source table and lane.
    """

    def __init__(self, nodes: Mapping[str, Mapping[str, int]]) -> None:
        self._tables = {table: _Table(lanes, place % LINES) for place, (table, lanes) in enumerate(nodes.items())}
        self._gone: dict[str, int] = {}
        """The connection of each dropped table."""
        self._taken: set[int] = set()
        self._failed: set[str] = set()
        """Tables whose poll of all DNs has failed since the last successful poll of any table."""
        self._all_apart = False
        self._next = deque(self._tables)
        """The order of the tables for polls of all DNs, used while DNs are polled one by one.

        The order rotates, because the cause of a failed poll can be its table.
        """
        self._again_at = 0.0
        self._waiting: dict[int, deque[tuple[str, str]]] = {}
        self._asked: set[int] = set()
        self._rests: dict[int, float] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def drop(self, name: str) -> None:
        """Stop polling a table."""
        self._gone[name] = self._tables.pop(name).line
        self._failed.discard(name)
        self._next = deque(one for one in self._next if one != name)
        self._all_apart = self._all_apart and bool(self._next)
        for node, waiting in self._waiting.items():
            self._waiting[node] = deque(one for one in waiting if one[0] != name)

    def free(self, name: str) -> None:
        """Release the connection of a dropped table for other polls, after the table's own poll has ended."""
        self._taken.discard(self._gone[name])

    def answered(self, node: int) -> None:
        """Allow the next poll of a DN after a dropped table's poll of that DN has ended."""
        self._asked.discard(node)

    def due(self, idle: AbstractSet[str], now: float) -> list[Due]:
        """Return the due polls, and record them as running; `idle`: the names of idle lanes."""
        wanted: list[tuple[float, str, tuple[str, ...]]] = []
        for name, table in self._tables.items():
            if table.apart and now >= table.next_at:
                self._queue(name, table, idle)
            at = table.again_at if table.apart else table.next_at
            if self._all_apart or table.line in self._taken or now < at:
                continue
            free = tuple(lane for lane in table.nodes if lane in idle and lane not in table.alone)
            if free or table.apart:
                wanted.append((at, name, () if table.apart else free))
        if self._all_apart and now >= self._again_at and self._tables[self._next[0]].line not in self._taken:
            self._again_at = now + ALL_AGAIN
            wanted.append((now, self._next[0], ()))
            self._next.rotate(-1)
        return self._together(sorted(wanted)) + self._by_themselves(idle, now)

    def _together(self, wanted: list[tuple[float, str, tuple[str, ...]]]) -> list[Due]:
        found = []
        for _, name, lanes in wanted:  # a connection runs one poll at a time; the longest overdue poll runs first
            line = self._tables[name].line
            if line not in self._taken:
                self._taken.add(line)
                found.append(Due(name, lanes, line))
        return found

    def _queue(self, name: str, table: _Table, idle: AbstractSet[str]) -> None:
        for lane, node in table.nodes.items():
            if lane in idle and lane not in table.alone:
                table.alone.add(lane)
                self._waiting.setdefault(node, deque()).append((name, lane))

    def _by_themselves(self, idle: AbstractSet[str], now: float) -> list[Due]:
        found = []
        for node, waiting in self._waiting.items():
            while waiting and node not in self._asked and now >= self._rests.get(node, 0.0):
                name, lane = waiting.popleft()
                if lane in idle:
                    self._asked.add(node)
                    found.append(Due(name, (lane,)))
                else:
                    self._tables[name].alone.discard(lane)
        return found

    def together_failed(self, name: str, now: float) -> None:
        """Record that the query to all DNs failed, and poll each DN separately from now on."""
        table = self._tables[name]
        self._taken.discard(table.line)
        table.next_at = table.next_at if table.apart else 0.0
        table.apart, table.again_at = True, now + ALL_AGAIN
        self._failed.add(name)
        if len(self._failed) > 1 and not self._all_apart:
            self._all_apart, self._again_at = True, now + ALL_AGAIN
            self._next = deque(sorted(self._tables, key=lambda one: one in self._failed))
            for one in self._tables.values():
                one.apart = True

    def together_ended(self, name: str) -> None:
        """Record that all DNs answered, and poll them together again."""
        self._taken.discard(self._tables[name].line)
        for one in self._tables.values() if self._all_apart else (self._tables[name],):
            one.apart = False
        self._all_apart = False
        self._failed.clear()
        for node, waiting in self._waiting.items():
            kept = deque(one for one in waiting if self._tables[one[0]].apart)
            for table, lane in waiting if len(kept) < len(waiting) else ():
                if not self._tables[table].apart:
                    self._tables[table].alone.discard(lane)
            self._waiting[node] = kept

    def alone_ended(self, name: str, lane: str, answered: bool, now: float) -> None:
        """Record that a lane's DN answered, or that its poll failed."""
        table = self._tables[name]
        table.alone.discard(lane)
        self._asked.discard(table.nodes[lane])
        self._rests[table.nodes[lane]] = 0.0 if answered else now + DN_AGAIN

    def paced(self, name: str, found: bool, now: float, sleep_ms: int, max_sleep_ms: int) -> None:
        """Set the time of a table's next poll; `found`: a lane is due, so the next pause is the shortest."""
        table = self._tables[name]
        table.empty_rounds = 0 if found else table.empty_rounds + (not table.alone)
        table.next_at = now + poll_pause(table.empty_rounds, sleep_ms, max_sleep_ms)

    def soon(self, name: str, at: float) -> None:
        """Make a table's next poll due at `at` or earlier."""
        self._tables[name].next_at = min(self._tables[name].next_at, at)

    def now(self, name: str, now: float) -> None:
        """Make a table's next poll due now, even if its DNs are polled one by one."""
        table = self._tables[name]
        table.next_at, table.again_at = min(table.next_at, now), min(table.again_at, now)

    def busy(self, name: str) -> None:
        """Reset a table's poll pause to the shortest pause after rows were applied."""
        self._tables[name].empty_rounds = 0


def poll_pause(empty_rounds: int, sleep_ms: int, max_sleep_ms: int) -> float:
    """Return the seconds between polls: `binlog_sleep_time` x consecutive empty polls, at most `binlog_max_sleep_time`.

    >>> poll_pause(1, 500, 10_000), poll_pause(3, 500, 10_000), poll_pause(99, 500, 10_000)
    (0.5, 1.5, 10.0)
    """
    return min(sleep_ms * max(1, empty_rounds), max_sleep_ms) / 1000
