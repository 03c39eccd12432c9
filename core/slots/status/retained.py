"""What the slots of a table hold back, DN by DN: time left of their TTL, unread rows, and who is the oldest reader.

Unknown is None and a sentence in `TableRetained.untold`, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import RegisteredPoint, UnreadRows
from slotkeeper.core.domain.ttl import Behind, Purge, TimeLeft, Ttl, behind_of, left_of
from slotkeeper.core.errors import AccessRefused
from slotkeeper.core.ports.source import NEUTRAL, PurgesByAge, SlotViewer, SlotWords

NO_TIMES = "no registration time is known for {slots}, so no time left is told"


@dataclass(frozen=True, slots=True)
class OwnLane:
    """What our sink remembers of a slot on one DN; `registered_at` is by the source's clock."""

    shard: str
    live: Position | None
    durable: Position | None
    registered_at: datetime | None


class KnownBy(Enum):
    """Whose registration time it is."""

    SERVER = "server"
    OURS = "ours"


@dataclass(frozen=True, slots=True)
class ShardRetained:
    """A slot on one DN; `oldest` where no other slot lies further back there, None where that cannot be told.

    `unread` is what the DN keeps for the point that lies further back. Points marked OURS in `known_by` are those
    that we registered, not those that the server holds.
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
        """The point that keeps the DN from cleaning."""
        return None if self.live is None or self.durable is None else min(self.live, self.durable)


@dataclass(frozen=True, slots=True)
class SlotRetained:
    """A slot of a table over all its DNs."""

    slot: str
    shards: tuple[ShardRetained, ...]

    @property
    def left(self) -> TimeLeft | None:
        """What ends first among the DNs; None where it is unknown for one."""
        known = [one.left for one in self.shards if one.left is not None]
        return min(known, key=lambda one: one.expires_at) if known and len(known) == len(self.shards) else None

    @property
    def furthest_back(self) -> ShardRetained | None:
        """The DN where its point is the lowest; None where a point is unknown."""
        known = [(one.point, one.shard, one) for one in self.shards if one.point is not None]
        return min(known)[2] if known and len(known) == len(self.shards) else None


@dataclass(frozen=True, slots=True)
class TableRetained:
    """What is held back of a table's binlog; `consume_timeout` is in seconds, `words` are the dialect's."""

    ttl: Ttl
    consume_timeout: int | None
    now: datetime
    slots: tuple[SlotRetained, ...]
    untold: tuple[str, ...]
    words: SlotWords = NEUTRAL
    purges: Mapping[str, Purge] = field(default_factory=dict)
    """By slot, of a source that purges its files by their age."""

    def slot(self, name: str) -> SlotRetained:
        """One slot by its name; without DNs where nothing is known of it."""
        return next((one for one in self.slots if one.slot == name), SlotRetained(name, ()))

    def oldest_reader(self, shard: str) -> str | None:
        """The slot that holds back most on a DN; None where that cannot be told."""
        found = (slot.slot for slot in self.slots for one in slot.shards if one.shard == shard and one.oldest)
        return next(found, None)


def retained(
    viewer: SlotViewer,
    table: str,
    points: Sequence[RegisteredPoint] | None,
    unread: Sequence[UnreadRows] | None,
    ours: Callable[[], Mapping[str, Sequence[OwnLane]]],
) -> TableRetained | None:
    """What the slots of a table hold back; None where there is no such table.

    `points` and `unread` are the server's answers; `ours` is what the sink knows by slot, asked only where the server
    lists no points, or none with a time.
    """
    ttl = viewer.ttl(table)
    if ttl is None:
        return None
    mine = ours() if times_untold(points, ttl) else {}
    found = put_together(ttl, viewer.consume_timeout(), viewer.now(), points, unread, mine, viewer.words)
    return replace(found, purges=purges_of(viewer, mine))


def purges_of(viewer: object, ours: Mapping[str, Sequence[OwnLane]]) -> dict[str, Purge]:
    """What becomes of the files that each slot still needs, where the source purges them by their age."""
    if not isinstance(viewer, PurgesByAge):
        return {}
    lows = {
        slot: min((one.live for one in lanes if one.live is not None), default=None) for slot, lanes in ours.items()
    }
    try:
        return {slot: viewer.purge(low) for slot, low in lows.items()}
    except AccessRefused:  # of a login without the right to list files; doctor names the right
        return {}


def times_untold(points: Sequence[RegisteredPoint] | None, ttl: Ttl) -> bool:
    """Whether only we can tell when something ends: no points are listed, or records go by their age, and no point
    says up to when its slot has read."""
    if points is None:
        return True
    return ttl.by_record and not any(one.registered_at for one in points)


def put_together(
    ttl: Ttl,
    timeout: int | None,
    now: datetime,
    points: Sequence[RegisteredPoint] | None,
    unread: Sequence[UnreadRows] | None,
    ours: Mapping[str, Sequence[OwnLane]],
    words: SlotWords = NEUTRAL,
) -> TableRetained:
    """The answers of server and sink as one value."""
    if points is not None:
        slots = _listed(points, unread or (), ttl, now)
        for name, lanes in ours.items():
            times = {lane.shard: lane.registered_at for lane in lanes}
            slots[name] = [_by_ours(one, times.get(one.shard), ttl, now) for one in slots.get(name, [])]
    else:
        slots = {name: [_own(lane, ttl, now) for lane in lanes] for name, lanes in ours.items()}
    found = tuple(SlotRetained(name, tuple(slots[name])) for name in sorted(slots))
    untold = _untold(ttl, timeout, points is None, found, words)
    return TableRetained(ttl, timeout, now, found, tuple(filter(None, untold)), words)


def _listed(
    points: Sequence[RegisteredPoint], unread: Sequence[UnreadRows], ttl: Ttl, now: datetime
) -> dict[str, list[ShardRetained]]:
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
    shard: str,
    points: Sequence[RegisteredPoint],
    counts: Sequence[UnreadRows],
    lowest: Position | None,
    ttl: Ttl,
    now: datetime,
) -> ShardRetained:
    by_flag = {one.checkpoint: one for one in points}
    live, durable = (by_flag[flag].point if flag in by_flag else None for flag in (False, True))
    # each point has a time of its own, and the older one is cleared first
    times = [one.registered_at for one in points if one.registered_at is not None]
    at = min(times) if times and len(times) == len(points) else None
    rows = [one.rows for one in counts if one.rows is not None]
    known = [one.point for one in points if one.point is not None]
    return ShardRetained(
        shard,
        live,
        durable,
        behind_of(live, durable),
        max(rows) if rows and len(rows) == len(counts) else None,
        at,
        KnownBy.SERVER if at is not None else None,
        left_of(at, ttl, now),
        None if lowest is None or not known else min(known) == lowest,
    )


def _by_ours(one: ShardRetained, at: datetime | None, ttl: Ttl, now: datetime) -> ShardRetained:
    """The same with our own time, where the server says none."""
    if at is None or one.registered_at is not None:
        return one
    return replace(one, registered_at=at, known_by=KnownBy.OURS, left=left_of(at, ttl, now))


def _own(lane: OwnLane, ttl: Ttl, now: datetime) -> ShardRetained:
    at = lane.registered_at
    return ShardRetained(
        lane.shard,
        lane.live,
        lane.durable,
        behind_of(lane.live, lane.durable),
        None,
        at,
        KnownBy.OURS if at is not None else None,
        left_of(at, ttl, now),
        None,
    )


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
