"""Decides when a job's idle tables are polled, over a few connections regardless of the number of tables. Pure.

Times are monotonic seconds. `slotkeeper.core.engine.driver.gate` decides whether a table can wait.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice

from slotkeeper.core.domain.traits import Newest
from slotkeeper.core.engine.driver.gate import Gate

LINES = 4
"""Maximum number of parallel polls of all DNs, each for one table and over its own source session."""
EARLY = 1.0
"""Minimum seconds between a table's last check and a check that a move of the source's newest position makes due."""
EARLY_SHARE, ALONE_SHARE = 2, 10
"""Early checks of several tables, and early polls of one, use a connection for at most this part of the time: on a busy
cluster, each table is checked early."""
MOST_TOGETHER, AHEAD = 16, 10
"""Maximum number of tables without a move in one poll, and the part of its pause by which a table can be polled early
to be in one poll with others."""
FEWEST_CHECKED, MOST_CHECKED = 8, 64
"""Number of tables in one early check: at first, and at most."""
SHORT_CHECK, LONG_CHECK = 0.15, 0.4
"""Seconds below which the next early check covers twice as many tables, and above which it covers half as many."""
ALL_AGAIN = 30.0
"""Seconds between polls of all DNs while one DN does not answer, in addition to the polls of single DNs."""
DN_AGAIN = 5.0
"""Seconds before a silent DN is polled again for any lane, because it can share its connection with other DNs."""


@dataclass(frozen=True, slots=True)
class Due:
    """A due poll. It covers all DNs of a table over connection `line`, or the DN of one lane if `line` is None.

    `beside`: other tables with their lanes, whose DNs the same poll covers. `checked`: an early check of these tables
    instead, which only finds the tables that need a poll.
    """

    table: str
    lanes: tuple[str, ...]
    line: int | None = None
    checked: tuple[str, ...] = ()
    beside: tuple[tuple[str, tuple[str, ...]], ...] = ()


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
    pause: float = 0.0
    checked_at: float = -math.inf
    """The time of the last poll or early check."""
    asked_at: float = 0.0
    """The time from which a poll is due in any case; infinity if none was requested."""
    longest_at: float = 0.0
    """The end of the longest pause since the last poll."""


def with_quiet(due: Due, quiet: Mapping[int, list[tuple[float, str, tuple[str, ...]]]], most: int) -> Due:
    """Add other tables of the connection in `quiet` to the poll of a table without a move, `most` tables in total.

    >>> with_quiet(Due("b", ("b1",), 0), {0: [(2.0, "a", ("a1",)), (1.0, "b", ("b1",))]}, 2).beside
    (('a', ('a1',)),)
    """
    mine = sorted(quiet.get(due.line, ())) if due.line is not None else []
    if all(name != due.table for _, name, _ in mine):
        return due
    others = [(name, lanes) for _, name, lanes in mine if name != due.table]
    return replace(due, beside=tuple(others[: most - 1]))


class PollSchedule:
    """Tracks running polls and the times of the next polls, in monotonic seconds.

    A poll is one query to all DNs of a table. If the poll of one table fails, the table's DNs are polled one by one. If
    the poll of a second table fails before any poll succeeds, a DN is not answering, so the DNs of all tables are
    polled one by one. A DN that hangs must not delay polls of other DNs.

    `nodes`: the node ids of the lanes, by source table and lane. While the `gate` is trusted, a table waits for the end
    of its longest pause, unless the source's newest position has moved since its last poll.
    """

    def __init__(self, nodes: Mapping[str, Mapping[str, int]], gate: Gate | None = None) -> None:
        self.gate = gate or Gate(Newest.OWN)
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
        self._early: tuple[tuple[str, ...], float] | None = None
        """The tables of the running early check or poll, and its start."""
        self._early_at = self._started_at = self._checks_from = 0.0
        self._together_checked, self._most = True, FEWEST_CHECKED
        """Whether the source can check several tables at once, as far as known, and how many are checked."""
        self._sleep = math.inf
        """Seconds of the shortest pause."""
        self._most_beside, self._beside_from = MOST_TOGETHER, 0.0
        """The time from which a poll can cover several tables."""

    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def drop(self, name: str) -> None:
        self._gone[name] = self._tables.pop(name).line
        self.gate.drop(name)
        self._failed.discard(name)
        self._next = deque(one for one in self._next if one != name)
        self._all_apart = self._all_apart and bool(self._next)
        for node, waiting in self._waiting.items():
            self._waiting[node] = deque(one for one in waiting if one[0] != name)

    def free(self, name: str) -> None:
        """Release the connection of a dropped table for other polls, after the table's own poll has ended."""
        self._taken.discard(self._gone[name])
        self._early_poll_ended(name, 0.0)

    def answered(self, node: int) -> None:
        """Allow the next poll of a DN after a dropped table's poll of that DN has ended."""
        self._asked.discard(node)

    def due(self, idle: AbstractSet[str], now: float, paused: bool = False) -> list[Due]:
        """Return the due polls, and record them as running; `idle`: the names of idle lanes.

        `paused`: the polls do not query whether rows wait, so the gate does not count.
        """
        wanted: list[tuple[float, str, tuple[str, ...]]] = []
        early: list[tuple[float, str, tuple[str, ...]]] = []
        quiet: dict[int, list[tuple[float, str, tuple[str, ...]]]] = {}
        gated = not paused and self.gate.trusted(now)
        several = not paused and now >= self._beside_from
        for name, table in self._tables.items():
            if table.apart and now >= table.next_at:
                self._queue(name, table, idle)
            at, sooner = (table.again_at, False) if table.apart else self._due_at(name, table, gated, now)
            waits = several and not table.apart and not self.gate.moved(name)
            if self._all_apart or table.line in self._taken or now < at - (table.pause / AHEAD if waits else 0.0):
                continue
            free = tuple(lane for lane in table.nodes if lane in idle and lane not in table.alone)
            if waits and free:
                quiet.setdefault(table.line, []).append((at, name, free))
            if (free or table.apart) and now >= at:
                (early if sooner else wanted).append((at, name, () if table.apart else free))
        if self._all_apart and now >= self._again_at and self._tables[self._next[0]].line not in self._taken:
            self._again_at = now + ALL_AGAIN
            wanted.append((now, self._next[0], ()))
            self._next.rotate(-1)
        if gated and not wanted and not early and now - self._started_at >= self._sleep:
            wanted += self._observer(idle)
        found = [with_quiet(one, quiet, self._most_beside) for one in self._together(sorted(wanted))]
        if early and self._early is None and now >= self._early_at:
            found += self._begin_early(sorted(early), now)
        if any(one.line is not None for one in found):
            self._started_at = now
        return found + self._by_themselves(idle, now)

    def _due_at(self, name: str, table: _Table, gated: bool, now: float) -> tuple[float, bool]:
        """Return when a table is due, and whether for an early check."""
        if not gated:
            return table.next_at, False
        if not self.gate.moved(name):
            return min(table.asked_at, table.longest_at), False
        early = table.pause > EARLY and now >= self._checks_from
        if not self._together_checked:
            early = early and now < table.next_at
        return min(table.asked_at, table.checked_at + EARLY if early else table.next_at), early and now < table.asked_at

    def several_ended(self) -> None:
        """Record that a poll of several tables was answered."""
        self._most_beside = min(MOST_TOGETHER, 2 * self._most_beside)

    def several_failed(self, names: Iterable[str], now: float, possible: bool = True) -> None:
        """Record a failed poll of several tables: each is polled separately now, and for a while afterwards.

        `possible`: False if the source has no such poll.
        """
        self._beside_from = now + ALL_AGAIN if possible else math.inf
        self._most_beside = max(2, self._most_beside // 2)  # a slow server cannot answer for many in time
        for name in names:
            if name in self._tables:
                self._taken.discard(self._tables[name].line)
                self.soon(name, now)
            else:
                self.free(name)

    def _observer(self, idle: AbstractSet[str]) -> list[tuple[float, str, tuple[str, ...]]]:
        """Return the table that was checked least recently: its poll shows whether the newest position has moved."""
        free = [
            (table.longest_at, name, lanes)
            for name, table in self._tables.items()
            if not table.apart and table.line not in self._taken
            if (lanes := tuple(lane for lane in table.nodes if lane in idle and lane not in table.alone))
        ]
        return [min(free)] if free and not self._all_apart else []

    def _begin_early(self, early: list[tuple[float, str, tuple[str, ...]]], now: float) -> list[Due]:
        if self._together_checked:
            # a table with a lane in a task is polled after the task
            whole = (name for _, name, lanes in early if len(lanes) == len(self._tables[name].nodes))
            names = tuple(islice(whole, self._most))
            if names:
                self._early = names, now
            return [Due("", (), checked=names)] if names else []
        for _, name, lanes in early:
            if self._tables[name].line not in self._taken:
                self._early = (name,), now
                return self._together([(now, name, lanes)])
        return []

    def check_ended(self, found: AbstractSet[str], now: float) -> None:
        """Record the end of an early check; the tables in `found` need a poll now."""
        names, began = self._early or ((), now)
        for name in names:
            if name in self._tables:
                self._tables[name].checked_at = now
                if name in found:
                    self.soon(name, now)
        if now - began > LONG_CHECK:
            self._most = max(1, self._most // 2)
        elif now - began < SHORT_CHECK and len(names) == self._most:
            self._most = min(MOST_CHECKED, 2 * self._most)
        self._end_early(now)

    def check_failed(self, now: float, possible: bool = True) -> None:
        """Record a failed early check: for a while, tables are polled after their own pauses.

        `possible`: False if the source cannot check several tables at once, so that they are polled one by one.
        """
        self._end_early(now)
        self._together_checked, self._most = possible, FEWEST_CHECKED
        self._checks_from = now + ALL_AGAIN if possible else now

    def _early_poll_ended(self, name: str, now: float) -> None:
        if self._early is not None and self._early[0] == (name,) and not self._together_checked:
            self._end_early(now)

    def _end_early(self, now: float) -> None:
        if self._early is not None:
            share = EARLY_SHARE if self._together_checked else ALONE_SHARE
            self._early_at = now + (share - 1) * max(0.0, now - self._early[1])
            self._early = None

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
        self._early_poll_ended(name, now)
        table.next_at = table.next_at if table.apart else 0.0
        table.apart, table.again_at = True, now + ALL_AGAIN
        self._failed.add(name)
        if len(self._failed) > 1 and not self._all_apart:
            self._all_apart, self._again_at = True, now + ALL_AGAIN
            self._next = deque(sorted(self._tables, key=lambda one: one in self._failed))
            for one in self._tables.values():
                one.apart = True

    def together_ended(self, name: str, now: float = 0.0) -> None:
        """Record that all DNs answered, and poll them together again."""
        self._taken.discard(self._tables[name].line)
        self._early_poll_ended(name, now)
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
        table.pause = poll_pause(table.empty_rounds, sleep_ms, max_sleep_ms)
        table.next_at = now + table.pause
        table.checked_at, table.asked_at, table.longest_at = now, math.inf, now + max_sleep_ms / 1000
        self._sleep = sleep_ms / 1000

    def soon(self, name: str, at: float) -> None:
        """Make a table's next poll due at `at` or earlier."""
        table = self._tables[name]
        table.next_at, table.asked_at = min(table.next_at, at), min(table.asked_at, at)

    def now(self, name: str, now: float) -> None:
        """Make a table's next poll due now, even if its DNs are polled one by one."""
        table = self._tables[name]
        self.soon(name, now)
        table.again_at = min(table.again_at, now)

    def busy(self, name: str) -> None:
        """Reset a table's poll pause to the shortest pause after rows were applied."""
        self._tables[name].empty_rounds = 0
        self.gate.busy(name)


def poll_pause(empty_rounds: int, sleep_ms: int, max_sleep_ms: int) -> float:
    """Return the seconds between polls: `binlog_sleep_time` x consecutive empty polls, at most `binlog_max_sleep_time`.

    >>> poll_pause(1, 500, 10_000), poll_pause(3, 500, 10_000), poll_pause(99, 500, 10_000)
    (0.5, 1.5, 10.0)
    """
    return min(sleep_ms * max(1, empty_rounds), max_sleep_ms) / 1000
