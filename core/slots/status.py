"""The status of a table's slots: their positions, the changes that they retain per DN, and a poller for both.

An unknown value is None, never 0, and is explained by a sentence in `TableSlots.untold` or `TableRetained.untold`. In
each turn, the poller sends the most overdue query for one table, which reads either the points or the unread rows. The
query for unread rows costs more and is sent less often, and even less often if the source is slow. Each answer has its
own time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum

from slotkeeper.core.domain.finding import clock_apart
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import RegisteredPoint, TableAnswer, UnreadRows
from slotkeeper.core.domain.spec import BinlogOptions, TableAsked
from slotkeeper.core.domain.ttl import Behind, Purge, TimeLeft, Ttl, behind_of, left_of
from slotkeeper.core.errors import AccessRefused, Defect, Refused, SlotkeeperError, Unreachable
from slotkeeper.core.judgement.facts import SlotSeen
from slotkeeper.core.ports.kinds import SourceSession
from slotkeeper.core.ports.source import NEUTRAL, Inspector, SlotWords

Points = Sequence[RegisteredPoint]
Counts = Sequence[UnreadRows]
Owners = Mapping[str, str]
"""Jobs by slot of a table."""


@dataclass(frozen=True, slots=True)
class SlotOnShard:
    """A slot on one DN; `unread` is the number of rows after the older of its points."""

    shard: str
    live: Position | None = None
    durable: Position | None = None
    registered_at: datetime | None = None
    xmin: int | None = None
    unread: int | None = None


@dataclass(frozen=True, slots=True)
class SlotView:
    """A slot of a table; `job` is the configured job that owns it, or None for an external slot.

    `exists` is None if unknown.
    """

    name: str
    job: str | None
    exists: bool | None
    shards: tuple[SlotOnShard, ...] = ()

    @property
    def oldest_point(self) -> Position | None:
        """The point that keeps the server from deleting records; None if a point is unknown."""
        found = [point for one in self.shards for point in (one.live, one.durable)]
        known = [place for place in found if place is not None]
        return min(known) if known and len(known) == len(found) else None

    @property
    def registered_at(self) -> datetime | None:
        """The time of the oldest registration on any DN; its TTL ends first."""
        times = [one.registered_at for one in self.shards]
        known = [at for at in times if at is not None]
        return min(known) if known and len(known) == len(times) else None

    @property
    def unread(self) -> int | None:
        """The total number of unread rows; None if it is unknown for a DN."""
        known = [one.unread for one in self.shards if one.unread is not None]
        return sum(known) if known and len(known) == len(self.shards) else None


@dataclass(frozen=True, slots=True)
class TableSlots:
    """The slots of one source table; `untold` explains missing values, `listed` is whether the server lists slots."""

    source: str
    table: str
    slots: tuple[SlotView, ...]
    untold: tuple[str, ...] = ()
    listed: bool = True

    def slot(self, name: str) -> SlotView:
        """Return one slot by its name; raises Refused with the known names if it does not exist."""
        for one in self.slots:
            if one.name == name:
                return one
        names = ", ".join(one.name for one in self.slots) or "none"
        raise Refused(f"{self.source} {self.table} has no slot {name!r}", f"its slots: {names}", where="source")


def inspect(
    source: str, table: str, owners: Owners, points: Points | None, unread: Counts | None, words: SlotWords = NEUTRAL
) -> TableSlots:
    """Return a table's slots as reported by the server, and its configured slots; `owners` are jobs by slot name.

    `points` and `unread` are the server's answers, or None if there is no answer; `words` explains a missing answer.
    """
    untold = [text for text, answer in ((words.no_list, points), (words.no_count, unread)) if answer is None]
    named = {one.slot for one in points or ()} | {one.slot for one in unread or ()}
    listed = points is not None
    slots = []
    for name in sorted(named | set(owners)):
        exists = True if name in named else False if listed else None
        slots.append(SlotView(name, owners.get(name), exists, _shards(name, points or (), unread or ())))
    return TableSlots(source, table, tuple(slots), tuple(filter(None, untold)), listed)


def _shards(name: str, points: Iterable[RegisteredPoint], unread: Iterable[UnreadRows]) -> tuple[SlotOnShard, ...]:
    mine = [one for one in points if one.slot == name]
    counts = [one for one in unread if one.slot == name]
    names = sorted({one.shard for one in mine} | {one.shard for one in counts})
    return tuple(
        _shard(shard, [one for one in mine if one.shard == shard], [one for one in counts if one.shard == shard])
        for shard in names
    )


def _shard(shard: str, points: Points, counts: Counts) -> SlotOnShard:
    by_flag = {one.checkpoint: one for one in points}
    live, durable = by_flag.get(False), by_flag.get(True)
    times = [one.registered_at for one in points if one.registered_at is not None]
    xmins = [one.xmin for one in points if one.xmin is not None]
    rows = [one.rows for one in counts if one.rows is not None]
    return SlotOnShard(
        shard, live.point if live else None, durable.point if durable else None,
        max(times, default=None), min(xmins, default=None), max(rows, default=None),
    )  # fmt: skip


NO_TIMES = "registration time and time left are unknown for {slots}"


@dataclass(frozen=True, slots=True)
class OwnLane:
    """The sink's record of a slot on one DN; `registered_at` is by the source's clock."""

    shard: str
    live: Position | None
    durable: Position | None
    registered_at: datetime | None


Ours = Mapping[str, Sequence[OwnLane]]
"""The sink's progress rows, by slot."""


class KnownBy(Enum):
    """The origin of a registration time: the server's point or Slotkeeper's own record."""

    SERVER = "server"
    OURS = "ours"


@dataclass(frozen=True, slots=True)
class ShardRetained:
    """A slot on one DN; `oldest` is whether its point is the oldest on this DN, or None if unknown. `unread` is the
    number of rows that the DN retains for the older of its points. If `known_by` is OURS, the points are those that
    Slotkeeper registered, not those that the server stores.
    """

    shard: str
    live: Position | None
    durable: Position | None
    behind: Behind | None
    unread: int | None
    registered_at: datetime | None
    known_by: KnownBy | None
    left: TimeLeft | None
    oldest: bool | None

    @property
    def point(self) -> Position | None:
        """The point that keeps the DN from deleting records."""
        return None if self.live is None or self.durable is None else min(self.live, self.durable)


@dataclass(frozen=True, slots=True)
class SlotRetained:
    """A slot of a table on all its DNs."""

    slot: str
    shards: tuple[ShardRetained, ...]

    @property
    def left(self) -> TimeLeft | None:
        """The earliest expiry on any DN; None if it is unknown for a DN."""
        known = [one.left for one in self.shards if one.left is not None]
        return min(known, key=lambda one: one.expires_at) if known and len(known) == len(self.shards) else None

    @property
    def furthest_back(self) -> ShardRetained | None:
        """The DN with the slot's lowest point; None if a point is unknown."""
        known = [(one.point, one.shard, one) for one in self.shards if one.point is not None]
        return min(known)[2] if known and len(known) == len(self.shards) else None


@dataclass(frozen=True, slots=True)
class TableRetained:
    """The part of a table's binlog that slots retain; `consume_timeout` is in seconds, `words` the source's terms."""

    ttl: Ttl
    consume_timeout: int | None
    now: datetime
    slots: tuple[SlotRetained, ...]
    untold: tuple[str, ...]
    words: SlotWords = NEUTRAL
    purges: Mapping[str, Purge] = field(default_factory=dict)
    """Purges by slot, for a source that purges its files by age."""

    def slot(self, name: str) -> SlotRetained:
        """Return one slot by its name; an unknown slot is returned without DNs."""
        return next((one for one in self.slots if one.slot == name), SlotRetained(name, ()))

    def oldest_reader(self, shard: str) -> str | None:
        """Return the slot that retains the most changes on a DN; None if it is unknown."""
        found = (slot.slot for slot in self.slots for one in slot.shards if one.shard == shard and one.oldest)
        return next(found, None)


def read_table(inspector: Inspector, table: str) -> TableAnswer:
    """Return a server's information about its table, by a second query if the kernel cannot list points."""
    answer = inspector.read() or inspector.read()
    if answer is None:
        raise Defect(f"two queries about {table} returned no answer")
    return answer


def count_unread(inspector: Inspector) -> Counts | None:
    """Return the unread rows of every slot of a table; None if the server does not count them."""
    return inspector.unread() if inspector.unread else None


def retained(
    inspector: Inspector, answer: TableAnswer, unread: Counts | None, ours: Callable[[], Ours], words: SlotWords
) -> TableRetained | None:
    """Return the changes that a table's slots retain; None if the table does not exist.

    `answer` and `unread` are the server's answers; `ours` returns the sink's records by slot, and is called only if the
    server lists no points, or only points without a time.
    """
    if answer.ttl is None:
        return None
    mine = ours() if times_untold(answer.points, answer.ttl) else {}
    found = put_together(answer.ttl, answer.consume_timeout, answer.now, answer.points, unread, mine, words)
    return replace(found, purges=purges_of(inspector, mine))


def purges_of(inspector: Inspector, ours: Ours) -> dict[str, Purge]:
    """Return when the files that each slot needs are purged, if the source purges them by age."""
    purge = inspector.purge
    if purge is None:
        return {}
    places = {slot: [one.live for one in lanes if one.live is not None] for slot, lanes in ours.items()}
    lows = {slot: min(known, default=None) for slot, known in places.items()}
    try:
        return {slot: purge(low) for slot, low in lows.items()}
    except AccessRefused:  # this login lacks the privilege to list files; doctor names the privilege
        return {}


def times_untold(points: Points | None, ttl: Ttl) -> bool:
    """Return whether the expiry is known only from Slotkeeper's records.

    That is the case if no points are listed, or if records expire by age and no listed point has a time.
    """
    if points is None:
        return True
    return ttl.by_record and not any(one.registered_at for one in points)


def put_together(
    ttl: Ttl,
    timeout: int | None,
    now: datetime,
    points: Points | None,
    unread: Counts | None,
    ours: Ours,
    words: SlotWords = NEUTRAL,
) -> TableRetained:
    """Combine the answers of server and sink into one value."""
    if points is not None:
        slots = _listed(points, unread or (), ttl, now)
        for name, lanes in ours.items():
            times = {lane.shard: lane.registered_at for lane in lanes}
            slots[name] = [
                one
                if one.registered_at is not None or (at := times.get(one.shard)) is None
                else replace(one, registered_at=at, known_by=KnownBy.OURS, left=left_of(at, ttl, now))
                for one in slots.get(name, [])
            ]
    else:
        slots = {name: [_own(lane, ttl, now) for lane in lanes] for name, lanes in ours.items()}
    found = tuple(SlotRetained(name, tuple(slots[name])) for name in sorted(slots))
    untold = _untold(ttl, timeout, points is None, found, words)
    return TableRetained(ttl, timeout, now, found, tuple(filter(None, untold)), words)


def _listed(points: Points, unread: Counts, ttl: Ttl, now: datetime) -> dict[str, list[ShardRetained]]:
    by_place: dict[tuple[str, str], list[RegisteredPoint]] = {}
    for point in points:
        by_place.setdefault((point.slot, point.shard), []).append(point)
    lowest: dict[str, Position | None] = {}
    for (_, shard), some in by_place.items():
        known = [one.point for one in some if one.point is not None]
        before = lowest.get(shard, known[0] if known else None)
        complete = len(known) == len(some) and before is not None
        lowest[shard] = min([before, *known]) if complete and before is not None else None
    slots: dict[str, list[ShardRetained]] = {}
    for (slot, shard), some in sorted(by_place.items()):
        counts = [one for one in unread if one.slot == slot and one.shard == shard]
        slots.setdefault(slot, []).append(_retaining(shard, some, counts, lowest[shard], ttl, now))
    return slots


def _retaining(
    shard: str, points: Points, counts: Counts, lowest: Position | None, ttl: Ttl, now: datetime
) -> ShardRetained:
    by_flag = {one.checkpoint: one for one in points}
    live, durable = (by_flag[flag].point if flag in by_flag else None for flag in (False, True))
    # each point has its own registration time, and the older point is cleared first
    times = [one.registered_at for one in points if one.registered_at is not None]
    at = min(times) if times and len(times) == len(points) else None
    rows = [one.rows for one in counts if one.rows is not None]
    known = [one.point for one in points if one.point is not None]
    count = max(rows) if rows and len(rows) == len(counts) else None
    oldest = None if lowest is None or not known else min(known) == lowest
    by = KnownBy.SERVER if at is not None else None
    return ShardRetained(shard, live, durable, behind_of(live, durable), count, at, by, left_of(at, ttl, now), oldest)


def _own(lane: OwnLane, ttl: Ttl, now: datetime) -> ShardRetained:
    at, points = lane.registered_at, (lane.live, lane.durable)
    by = KnownBy.OURS if at is not None else None
    return ShardRetained(lane.shard, *points, behind_of(*points), None, at, by, left_of(at, ttl, now), None)


def _untold(ttl: Ttl, timeout: int | None, silent: bool, slots: Sequence[SlotRetained], words: SlotWords) -> list[str]:
    said = []
    if ttl.seconds is None:
        said.append(words.no_ttl)
    if ttl.by_record:
        said.append(words.ages)
    if timeout is None:
        said.append(words.no_timeout)
    if silent and any(one.known_by for slot in slots for one in slot.shards):
        said.append(words.own_times)
    nameless = [slot.slot for slot in slots if not all(one.registered_at for one in slot.shards) or not slot.shards]
    if nameless and ttl.seconds is not None:
        said.append(NO_TIMES.format(slots=", ".join(nameless)))
    return said


POINTS_EVERY, COUNT_EVERY, OURS_EVERY = 2.0, 10.0, 30.0
COUNT_SLOWEST = 300.0
_SHARE = 20
"""The minimum interval between two counts, as a multiple of a count's duration."""
NO_TIME = "the server did not count unread rows of this table in time"


@dataclass(frozen=True, slots=True)
class PolledTable:
    """A table's slots, combined from points as of `at` and unread rows as of `counted_at` (None if not counted yet).

    `clock_apart` is the minimum number of seconds by which the server's clock was ahead of this host's clock at that
    time (`slotkeeper.core.domain.finding`).
    """

    slots: TableSlots
    retained: TableRetained
    at: datetime
    counted_at: datetime | None
    clock_apart: float = 0.0


@dataclass(frozen=True, slots=True)
class PollTurn:
    """The result of one query: the table, its known state, and the error if the query failed."""

    table: str
    seen: PolledTable | None
    error: SlotkeeperError | None = None

    @property
    def everywhere(self) -> bool:
        """Whether the error concerns the server, not only the table."""
        return isinstance(self.error, Unreachable) and (not self.error.timed_out or self.error.silent)


@dataclass
class _Table:
    """The known state of one table; `asked` is the time at which each query was last sent, by this process's clock."""

    asked: dict[str, float] = field(default_factory=dict)
    answer: TableAnswer | None = None
    at: datetime | None = None
    clock_apart: float = 0.0
    unread: Counts | None = ()
    counted_at: datetime | None = None
    count_every: float = COUNT_EVERY
    late: bool = False
    ours: dict[str, Sequence[OwnLane]] = field(default_factory=dict)
    ours_at: float | None = None
    purges: dict[str, Purge] = field(default_factory=dict)


class StatusPoller:
    """The tables of one source, queried in turn over a session of its own; used by one thread.

    `owners` are the configured jobs by table and slot; `ours` returns the sink's record of a slot, and is called only
    if the server cannot list points.
    """

    def __init__(
        self,
        session: SourceSession,
        words: SlotWords,
        source: str,
        owners: Mapping[str, Mapping[str, str]],
        ours: Callable[[str, str, datetime], Sequence[OwnLane]],
        now: Callable[[], float],
        utc: Callable[[], datetime],
    ) -> None:
        self._session, self._words = session, words
        self._inspectors = {table: session.table(TableAsked(table, "", BinlogOptions())).inspector for table in owners}
        self._source, self._owners, self._ours = source, owners, ours
        self._now, self._utc = now, utc
        self._tables = {table: _Table() for table in owners}

    def turn(self) -> PollTurn:
        """Send the most overdue query."""
        now = self._now()
        table, question = self._due(now)
        mine = self._tables[table]
        mine.asked[question] = now
        try:
            (self._points if question == "points" else self._count)(table, mine)
        except SlotkeeperError as error:
            return PollTurn(table, self._seen(table, mine), error)
        return PollTurn(table, self._seen(table, mine))

    def close(self) -> None:
        """End the session; a later turn opens a new session."""
        self._session.close()

    def _due(self, now: float) -> tuple[str, str]:
        """Return the next query: first the points of every table, then the counts, then the most overdue query."""

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
        answer, after = self._inspectors[table].read(), self._utc()
        if answer is None:
            del mine.asked["points"]  # the next turn sends another statement
            return
        if answer.ttl is None:
            raise Refused(f"table {table} does not exist", "check the table's name", where="source")
        old = mine.ours_at is None or self._now() - mine.ours_at >= OURS_EVERY
        if times_untold(answer.points, answer.ttl) and old:
            mine.ours = {slot: self._ours(table, slot, answer.now) for slot in sorted(self._owners[table])}
            mine.purges = purges_of(self._inspectors[table], mine.ours)
            mine.ours_at = self._now()
        mine.answer, mine.at = answer, self._utc()
        mine.clock_apart = clock_apart(answer.now.timestamp(), before.timestamp(), after.timestamp())

    def _count(self, table: str, mine: _Table) -> None:
        began = self._now()
        try:
            mine.unread = count_unread(self._inspectors[table])
        except SlotkeeperError as error:
            if not error.timed_out or error.silent:
                raise
            mine.late = True
            mine.count_every = min(COUNT_SLOWEST, mine.count_every * 2)
            return
        mine.late, mine.counted_at = False, self._utc()
        slow = COUNT_SLOWEST if mine.unread is None else COUNT_EVERY  # None means that this kernel cannot count
        mine.count_every = min(COUNT_SLOWEST, max(slow, (self._now() - began) * _SHARE))

    def _seen(self, table: str, mine: _Table) -> PolledTable | None:
        answer, at = mine.answer, mine.at
        if answer is None or answer.ttl is None or at is None:
            return None
        words = self._words
        slots = inspect(self._source, table, self._owners[table], answer.points, mine.unread, words)
        if mine.late:
            slots = replace(slots, untold=(*slots.untold, NO_TIME))
        points, unread, ours = answer.points, mine.unread, mine.ours
        found = put_together(answer.ttl, answer.consume_timeout, answer.now, points, unread, ours, words)
        purges = {slot: one.counted_to(answer.now) for slot, one in mine.purges.items()}
        return PolledTable(slots, replace(found, purges=purges), at, mine.counted_at, mine.clock_apart)


def sights(
    source: str, table: str, at: datetime, slots: TableSlots, retained: TableRetained, owners: Owners | None = None
) -> list[SlotSeen]:
    """Return every slot of one observation; `at` is a time by this host's clock.

    `owners` contains further jobs by slot of the table; the caller did not query these jobs.
    """
    return [_sight(source, table, at, slot, retained, (owners or {}).get(slot.name, "")) for slot in slots.slots]


def _sight(source: str, table: str, at: datetime, slot: SlotView, retained: TableRetained, owner: str) -> SlotSeen:
    kept = retained.slot(slot.name)
    # a slot for which nothing is retained cannot expire, but its unread records can expire because of their own age
    expires = retained.words.marks or kept.left is not None
    left, back = (kept.left if expires else None), kept.furthest_back
    return SlotSeen(
        source, table, slot.name, slot.job or owner, at, slot.exists,
        None if left is None else at + timedelta(seconds=left.seconds),
        retained.ttl.seconds if expires else None, slot.unread, back.shard if back is not None else "",
    )  # fmt: skip
