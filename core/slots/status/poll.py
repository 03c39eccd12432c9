"""Watches the slots of a source's tables with one light question at a time, and puts the answers together.

Every turn asks the most overdue question of one table: its points, or its unread rows, which cost more and are asked
for less often, and ever less where the server takes long. Answers keep their own times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from slotkeeper.core.domain.finding import clock_apart
from slotkeeper.core.domain.slot import TableAnswer, UnreadRows
from slotkeeper.core.domain.ttl import Purge
from slotkeeper.core.errors import Refused, SlotkeeperError, Unreachable
from slotkeeper.core.ports.source import SlotPoller
from slotkeeper.core.slots.status.inspect import TableSlots, inspect
from slotkeeper.core.slots.status.retained import OwnLane, TableRetained, purges_of, put_together, times_untold

POINTS_EVERY, COUNT_EVERY, OURS_EVERY = 2.0, 10.0, 30.0
COUNT_SLOWEST = 300.0
_SHARE = 20
"""A count may take at most this part of the time between two of them."""
NO_TIME = "the server did not count unread rows of this table in time"


@dataclass(frozen=True, slots=True)
class PolledTable:
    """A table's slots as put together now: points of `at`, unread rows of `counted_at` (None: not counted yet).

    `clock_apart`: by how many seconds the server's clock was ahead of ours then, at least
    (`slotkeeper.core.domain.finding`).
    """

    slots: TableSlots
    retained: TableRetained
    at: datetime
    counted_at: datetime | None
    clock_apart: float = 0.0


@dataclass(frozen=True, slots=True)
class PollTurn:
    """What one question brought: the table it was about, what is known of it now, and why it was not answered."""

    table: str
    seen: PolledTable | None
    error: SlotkeeperError | None = None

    @property
    def everywhere(self) -> bool:
        """Whether the error is the server's, not the table's."""
        return isinstance(self.error, Unreachable) and (not self.error.timed_out or self.error.silent)


@dataclass
class _Table:
    """What is known of one table; `asked` is when each question was last put, by a clock of our own."""

    asked: dict[str, float] = field(default_factory=dict)
    answer: TableAnswer | None = None
    at: datetime | None = None
    clock_apart: float = 0.0
    unread: Sequence[UnreadRows] | None = ()
    counted_at: datetime | None = None
    count_every: float = COUNT_EVERY
    late: bool = False
    ours: dict[str, Sequence[OwnLane]] = field(default_factory=dict)
    ours_at: float | None = None
    purges: dict[str, Purge] = field(default_factory=dict)


class StatusPoller:
    """The tables of one source, asked in turn; used by one thread.

    `owners` are, by table, the configured jobs by their slots; `ours` answers what the sink knows of a slot, asked only
    where the server cannot list points.
    """

    def __init__(
        self,
        reader: SlotPoller,
        source: str,
        owners: Mapping[str, Mapping[str, str]],
        ours: Callable[[str, str, datetime], Sequence[OwnLane]],
        now: Callable[[], float],
        utc: Callable[[], datetime],
    ) -> None:
        self._reader = reader
        self._source = source
        self._owners = owners
        self._ours = ours
        self._now = now
        self._utc = utc
        self._tables = {table: _Table() for table in owners}

    def turn(self) -> PollTurn:
        """Put the question that is most overdue."""
        now = self._now()
        table, question = self._due(now)
        mine = self._tables[table]
        mine.asked[question] = now
        try:
            if question == "points":
                self._points(table, mine)
            else:
                self._count(table, mine)
        except SlotkeeperError as error:
            return PollTurn(table, self._seen(table, mine), error)
        return PollTurn(table, self._seen(table, mine))

    def close(self) -> None:
        """End the session; a later turn opens another one."""
        self._reader.close()

    def _due(self, now: float) -> tuple[str, str]:
        """Points of every table first, then counts, then what waits longest by its own interval."""

        def waiting(each: tuple[str, str]) -> tuple[int, float]:
            mine = self._tables[each[0]]
            asked = mine.asked.get(each[1])
            if asked is None:
                return (0 if each[1] == "points" else 1 if mine.answer else 3), 0.0
            every = POINTS_EVERY if each[1] == "points" else mine.count_every
            return 2, -(now - asked) / every

        return min(((table, question) for table in self._tables for question in ("points", "count")), key=waiting)

    def _points(self, table: str, mine: _Table) -> None:
        before = self._utc()
        answer, after = self._reader.read_table(table), self._utc()
        if answer is None:
            del mine.asked["points"]  # asked again at the next turn, in other words
            return
        if answer.ttl is None:
            raise Refused(f"there is no table {table}", "check the table's name", where="source")
        if times_untold(answer.points, answer.ttl) and (
            mine.ours_at is None or self._now() - mine.ours_at >= OURS_EVERY
        ):
            mine.ours = {slot: self._ours(table, slot, answer.now) for slot in sorted(self._owners[table])}
            mine.purges = purges_of(self._reader, mine.ours)
            mine.ours_at = self._now()
        mine.answer, mine.at = answer, self._utc()
        mine.clock_apart = clock_apart(answer.now.timestamp(), before.timestamp(), after.timestamp())

    def _count(self, table: str, mine: _Table) -> None:
        began = self._now()
        try:
            mine.unread = self._reader.unread(table)
        except SlotkeeperError as error:
            if not error.timed_out or error.silent:
                raise
            mine.late = True
            mine.count_every = min(COUNT_SLOWEST, mine.count_every * 2)
            return
        mine.late, mine.counted_at = False, self._utc()
        slow = COUNT_SLOWEST if mine.unread is None else COUNT_EVERY  # a kernel that cannot count will not learn it
        mine.count_every = min(COUNT_SLOWEST, max(slow, (self._now() - began) * _SHARE))

    def _seen(self, table: str, mine: _Table) -> PolledTable | None:
        answer, at = mine.answer, mine.at
        if answer is None or answer.ttl is None or at is None:
            return None
        words = self._reader.words
        slots = inspect(self._source, table, self._owners[table], answer.points, mine.unread, words)
        if mine.late:
            slots = replace(slots, untold=(*slots.untold, NO_TIME))
        points, unread, ours = answer.points, mine.unread, mine.ours
        found = put_together(answer.ttl, answer.consume_timeout, answer.now, points, unread, ours, words)
        purges = {slot: one.counted_to(answer.now) for slot, one in mine.purges.items()}
        return PolledTable(slots, replace(found, purges=purges), at, mine.counted_at, mine.clock_apart)
