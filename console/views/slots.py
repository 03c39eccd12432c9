"""Convert polled slots to rows: time left, deadline, unread rows, holder, and oldest point. Pure.

A status is a few seconds old when it is shown, so the time left is counted down from the status; the deadline uses the
server's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from slotkeeper.console.monitor.snapshot import NOT_READ, JobFacts, Level, Local, TableSeen
from slotkeeper.console.views import slot_history
from slotkeeper.console.views.rows import (
    NARROW,
    UNKNOWN,
    WIDE,
    WIDEST,
    Column,
    Row,
    age,
    bar,
    both_ends,
    clock,
    count,
    named_by,
    part_of,
    rank,
    yes,
)
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.ttl import Severity, TimeLeft, in_words, severity_of

if TYPE_CHECKING:
    from slotkeeper.core.domain.ttl import Purge
    from slotkeeper.core.slots.status import ShardRetained, SlotOnShard, SlotRetained, SlotView

SLOT_COLUMNS = (
    Column("mark", "", 1),
    Column("slot", "TABLE/SLOT", 0, name=True),
    Column("left", "TTL LEFT", 8, right=True),
    Column("bar", "OF TTL", 8, least=WIDE),
    Column("deadline", "EXPIRES UTC", 12),
    Column("unread", "UNREAD", 6, right=True),
    Column("oldest", "OLDEST", 6, least=NARROW),
    Column("point", "RETAINS", 7, least=WIDEST),
    Column("dn", "OLDEST DN", 9, least=WIDE, name=True),
    Column("holder", "HOLDER", 10, least=NARROW),
    Column("age", "AGE", 4, right=True, least=WIDEST),
    Column("lost", "LOST AT EXPIRY", 20, least=150, grows=True),
)
SHARD_COLUMNS = (
    Column("mark", "", 1),
    Column("dn", "DN", 0, name=True),
    Column("live", "LIVE", 10, right=True),
    Column("durable", "DURABLE", 10, right=True),
    Column("unread", "UNREAD", 6, right=True),
    Column("oldest", "OLDEST", 6, least=NARROW),
    Column("registered", "REGISTERED", 10, right=True, least=NARROW),
    Column("by", "BY", 6, least=WIDE),
    Column("left", "TTL LEFT", 8, right=True),
    Column("bar", "OF TTL", 8, least=WIDE),
    Column("deadline", "EXPIRES UTC", 12),
)
OWN_COLUMNS = (Column("mark", "", 1), Column("dn", "DN", 0, name=True), Column("unread", "UNREAD", 6, right=True))
OWN_PLACE = Column("live", "POSITION", 20, right=True)
"""The column for the job's own position, used for sources that retain nothing and expire nothing.

A source with a single point has its own column name.
"""
AGE_COLUMNS = (
    Column("left", "TTL LEFT", 8, right=True),
    Column("bar", "OF TTL", 8, least=WIDE),
    Column("deadline", "RECORDS EXPIRE", 14),
)
"""The columns for a source whose records expire by age: the expiry of the first records after the job's own
position."""
_LEVELS = {Severity.FINE: Level.FINE, Severity.WARN: Level.WARNING, Severity.CRITICAL: Level.CRITICAL}


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """One slot, and the poll in which it was observed."""

    seen: TableSeen
    slot: SlotView
    retained: SlotRetained

    @property
    def key(self) -> str:
        """The slot's key, unique among all slots."""
        return f"{self.seen.source}\x1f{self.seen.table}\x1f{self.slot.name}"


def all_slots(tables: Iterable[TableSeen]) -> list[SlotFacts]:
    """Return every observed slot."""
    return [
        SlotFacts(one, slot, one.retained.slot(slot.name))
        for one in tables
        if one.slots is not None and one.retained is not None
        for slot in one.slots.slots
    ]


def slot_rows(
    tables: Iterable[TableSeen], now: datetime, local: Local = NOT_READ, ascii_only: bool = True
) -> list[Row]:
    """Return the slots as rows, worst first, then the next to expire; an unfinished reset is critical."""
    keyed, jobs = [], slot_history.jobs_of(local)
    for one in all_slots(tables):
        lost, empty = slot_history.is_lost(one.seen.table, one.slot, jobs), no_position(one, jobs)
        level, left = slot_level(one, now), None if empty else remaining(one.retained.left, one.seen.at, now)
        if lost or slot_history.open_reset_of(local, one.seen.table, one.slot.name):
            level = Level.CRITICAL
        elif empty:
            level = Level.WARNING
        order = {"left": left, "bar": left, "deadline": left, "unread": _number(one.slot.unread)}
        order["age"] = _seconds(seen_at(one.seen), now)
        cells = _cells(one, level, jobs, now, ascii_only)
        if empty:
            cells |= {**_EMPTY, **(_LOST if lost else {}), "lost": empty}
            order["unread"] = None
        row = Row(one.key, level, cells, order)
        keyed.append((rank(level), -1.0 if lost else UNKNOWN_LAST if left is None else left, one.key, row))
    return [row for *_, row in sorted(keyed, key=lambda item: item[:3])]


_LOST_SAID = "LOST: its unread changes are no longer in any binlog; its job shows the action"
_EMPTY = {"left": "-", "bar": "", "deadline": "-", "unread": "-", "oldest": "-"}
"""The cells of a slot without a position: it has no time left, and no change is unread behind a position."""
_LOST = {"left": "LOST"}
_NO_POINT = "0"


def no_position(one: SlotFacts, jobs: Mapping[str, JobFacts]) -> str:
    """Return what it means that a slot holds no position: it is lost, or a copy will confirm it; "" otherwise."""
    if slot_history.is_lost(one.seen.table, one.slot, jobs):
        return _LOST_SAID
    job = jobs.get(one.slot.job or "")
    points = [each.point.shown if each.point else UNKNOWN for each in one.retained.shards]
    if job is None or job.state is not JobState.AWAITS_COPY or by_age(one, False) or _NO_POINT not in points:
        return ""
    part = one.seen.retained.words.part if one.seen.retained else part_of(())
    where = f"{points.count(_NO_POINT)} of {len(points)} {part}s"
    return f"no confirmed position on {where}: it retains nothing there until job {safe(job.name, 60)} starts its copy"


def seen_at(seen: TableSeen) -> datetime | None:
    """Return the time of the oldest part of a table's status."""
    known = [at for at in (seen.at, seen.counted_at) if at is not None]
    return min(known, default=None)


def ttl_bar(left: float | None, ttl: int | None, ascii_only: bool = True) -> str:
    """Return the remaining part of a TTL as a bar of eight cells; empty if unknown.

    >>> [ttl_bar(left, 800) for left in (800, 340.0, None)]
    ['########', '####....', '']
    """
    return "" if left is None or not ttl else bar(left / ttl, 8, ascii_only)


def shard_columns(one: SlotFacts | None) -> list[Column]:
    """Return the columns of a slot's DNs: the positions that its source stores, or the job's own position."""
    retained = one.seen.retained if one else None
    if retained is None or len(retained.words.marks) > 1:
        return list(SHARD_COLUMNS)
    place = [Column("live", mark.upper(), 20, right=True) for mark in retained.words.marks] or [OWN_PLACE]
    here = (*OWN_COLUMNS[:2], *place, *OWN_COLUMNS[2:])
    return named_by([*here, *(AGE_COLUMNS if retained.ttl.by_record else ())], (), (), (retained.words.part,))


def slot_columns(tables: Iterable[TableSeen]) -> list[Column]:
    """Return the columns of slots, with the sources' term for the part that a lane reads."""
    return named_by(SLOT_COLUMNS, (), (), {one.retained.words.part for one in tables if one.retained} or ("lane",))


UNKNOWN_LAST = float("inf")


def shard_rows(one: SlotFacts, now: datetime, ascii_only: bool = True, local: Local = NOT_READ) -> list[Row]:
    """Return a row for each DN of a slot, the next to expire first; a lost DN has no time left."""
    jobs = slot_history.jobs_of(local)
    lost, empty = slot_history.is_lost(one.seen.table, one.slot, jobs), bool(no_position(one, jobs))
    listed = {each.shard: each for each in one.slot.shards}
    kept = {each.shard: each for each in one.retained.shards}
    keyed = []
    for name in sorted({*listed, *kept}):
        retained = kept.get(name)
        left = remaining(retained.left if retained and not empty else None, one.seen.at, now)
        level = Level.FINE if keeps_nothing(one) else _level(left, _ttl(one))
        level = Level.CRITICAL if lost else Level.WARNING if empty else level
        cells = _shard_cells(name, listed.get(name), retained, one, now)
        ago = _seconds(
            retained.registered_at if retained else None, one.seen.retained.now if one.seen.retained else None
        )
        unread = listed[name].unread if name in listed and not empty else None
        order = {"left": left, "bar": left, "deadline": left, "unread": _number(unread), "registered": ago}
        cells |= {"mark": level.value, "bar": ttl_bar(left, _ttl(one), ascii_only)}
        cells |= (_EMPTY | (_LOST if lost else {})) if empty else {}
        keyed.append((rank(level), UNKNOWN_LAST if left is None else left, name, Row(name, level, cells, order)))
    return [row for *_, row in sorted(keyed, key=lambda item: item[:3])]


def remaining(left: TimeLeft | None, seen_at: datetime | None, now: datetime) -> float | None:
    """Return the seconds left now; None if unknown, for example after this host's clock was set back."""
    past = None if seen_at is None else elapsed(seen_at, now)
    return None if left is None or past is None else max(0.0, left.seconds - past)


def deadline(left: TimeLeft | None, now: datetime) -> str:
    """Return the expiry time by the server's clock: the time of day, with the date if it is not today.

    >>> from datetime import timezone
    >>> from slotkeeper.core.domain.ttl import Severity
    >>> noon = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
    >>> deadline(TimeLeft(datetime(2026, 11, 21, 13, 5, 9, tzinfo=timezone.utc), 9, Severity.FINE), noon)
    '13:05:09Z'
    >>> deadline(TimeLeft(datetime(2026, 11, 22, 13, 5, 9, tzinfo=timezone.utc), 9, Severity.FINE), noon)
    '11-22 13:05Z'
    """
    if left is None:
        return UNKNOWN
    at = left.expires_at
    return f"{at:%H:%M:%S}Z" if at.date() == now.date() else f"{at:%m-%d %H:%M}Z"


def slot_level(one: SlotFacts, now: datetime) -> Level:
    """Return the severity of a slot's expiry; a configured slot that does not exist is critical."""
    if one.slot.exists is False:
        return Level.CRITICAL
    if one.seen.fault:
        return Level.UNKNOWN
    if keeps_nothing(one):
        purge = _purge(one)
        return Level.FINE if purge is None else _LEVELS[purge.severity]
    return _level(remaining(one.retained.left, one.seen.at, now), _ttl(one))


def keeps_nothing(one: SlotFacts) -> bool:
    """Return whether a slot never expires: the source retains nothing for the slot, and no records expire by age."""
    return by_age(one, False) and one.retained.left is None


def by_age(one: SlotFacts, known: bool = True) -> bool:
    """Return whether the source retains nothing for a slot and, if `known`, its records expire at a known age."""
    words = one.seen.retained.words if one.seen.retained is not None else None
    nothing = words is not None and not (words.marks and words.retains)
    return nothing and (not known or one.retained.left is not None)


def _level(left: float | None, ttl: int | None) -> Level:
    if left is None or not ttl:
        return Level.UNKNOWN
    return _LEVELS[severity_of(left, ttl)]


def _ttl(one: SlotFacts) -> int | None:
    return one.seen.retained.ttl.seconds if one.seen.retained else None


def _number(value: int | None) -> float | None:
    return None if value is None else float(value)


def _seconds(at: datetime | None, now: datetime | None) -> float | None:
    return None if at is None or now is None else max(0.0, (now - at).total_seconds())


def _cells(
    one: SlotFacts, level: Level, jobs: Mapping[str, JobFacts], now: datetime, ascii_only: bool
) -> dict[str, str]:
    slot, retained = one.slot, one.retained
    back, nothing = retained.furthest_back, "-" if keeps_nothing(one) else ""
    unkept, oldest = "-" if by_age(one, False) else "", [each.oldest for each in retained.shards]
    return {
        "mark": level.value,
        "slot": safe(f"{one.seen.table}/{slot.name}", 120),
        "left": "ABSENT" if slot.exists is False else nothing or _left_words(retained.left, one.seen.at, now),
        "bar": ttl_bar(remaining(retained.left, one.seen.at, now), _ttl(one), ascii_only),
        "deadline": nothing or deadline(retained.left, now),
        "unread": count(slot.unread),
        "oldest": unkept or ("yes" if any(oldest) else UNKNOWN if not oldest or None in oldest else "no"),
        "point": unkept or (back.behind.value if back and back.behind else UNKNOWN),
        "dn": safe(back.shard, 40) if back else UNKNOWN,
        "holder": slot_history.holder(slot.job, jobs),
        "age": age(seen_at(one.seen), now),
        "lost": _consequence(one, now)[1],
    }


def _left_words(left: TimeLeft | None, seen_at: datetime | None, now: datetime) -> str:
    still = remaining(left, seen_at, now)
    return UNKNOWN if still is None else "DUE NOW" if still <= 0 else in_words(still)


def _shard_cells(
    name: str, listed: SlotOnShard | None, retained: ShardRetained | None, one: SlotFacts, now: datetime
) -> dict[str, str]:
    live = listed.live if listed else retained.live if retained else None
    durable = listed.durable if listed else retained.durable if retained else None
    unread = listed.unread if listed else None
    at = retained.registered_at if retained else None
    server_now = one.seen.retained.now if one.seen.retained else None
    ago = UNKNOWN if at is None or server_now is None else in_words(max(0.0, (server_now - at).total_seconds()))
    return {
        "dn": both_ends(safe(name), 40),
        "live": UNKNOWN if live is None else live.shown,
        "durable": UNKNOWN if durable is None else durable.shown,
        "unread": count(unread),
        "oldest": yes(retained.oldest if retained else None),
        "registered": ago,
        "by": retained.known_by.value if retained and retained.known_by else UNKNOWN,
        "left": _left_words(retained.left if retained else None, one.seen.at, now),
        "deadline": deadline(retained.left if retained else None, now),
    }


# -- sentences -------------------------------------------------------------------------------------------------------


def slot_lines(
    one: SlotFacts, now: datetime, local: Local = NOT_READ, shard: str | None = None
) -> list[tuple[Level, str]]:
    """Return the lines of a slot: first an unfinished reset, the consequence and the deadline, raw SQL last.

    `local` contains this host's own records; the SQL is for the DN `shard`, or for the DN furthest behind.
    """
    table, slot = one.seen.table, one.slot
    left = slot_history.open_reset_of(local, table, slot.name)
    said = [(Level.CRITICAL, slot_history.open_reset_line(left, table, slot.name))] if left else []
    from slotkeeper.console.views.locks import blocking_lines  # not needed for the first frame

    said += blocking_lines(local.jobs, table, slot.name, now)
    if one.seen.fault:
        said.append((Level.UNKNOWN, f"not seen since {age(one.seen.at, now)}: {safe(one.seen.fault, 200)}"))
    jobs = slot_history.jobs_of(local)
    lost, empty = slot_history.is_lost(table, slot, jobs), no_position(one, jobs)
    means = (Level.CRITICAL if lost else Level.WARNING, empty) if empty else _consequence(one, now)
    said += [means, slot_history.holder_line(slot, jobs)]
    if local.at is not None:
        said.append((Level.FINE, slot_history.last_line(local.audit, table, slot.name, now)))
    if empty:
        return said  # its figures are meaningless, and the SQL would register nothing
    said += _retained(one)
    if one.seen.at is not None and one.seen.counted_at is None:
        said.append((Level.UNKNOWN, "unread rows not counted yet"))
    untold = [
        *(one.seen.slots.untold if one.seen.slots else ()),
        *(one.seen.retained.untold if one.seen.retained else ()),
    ]
    said += [(Level.UNKNOWN, safe(text, 200)) for text in dict.fromkeys(untold)]
    back = one.retained.furthest_back
    at = shard or (back.shard if back else None)
    manual = one.seen.manual if slot.exists else None
    sql = slot_history.manual_sql_lines(manual, table, slot, at) if manual else []
    return said + [(Level.REST, text) for text in sql]


def _retained(one: SlotFacts) -> list[tuple[Level, str]]:
    """Return the point that retains binlog, the DNs where the slot is the oldest reader, and the blocked statements."""
    said = []
    back = one.retained.furthest_back
    if back is not None and back.behind is not None:
        at = back.point.shown if back.point else UNKNOWN
        keeping = not by_age(one, False)
        how = f"retains binlog with {back.behind.words}," if keeping else "the source retains nothing for it; it is at"
        none = f"no confirmed position on {safe(back.shard, 40)}: it retains nothing there"
        said.append((Level.FINE, none if keeping and at == "0" else f"{how} {at} on {safe(back.shard, 40)}"))
    mine = [safe(each.shard, 20) for each in one.retained.shards if each.oldest and not by_age(one, False)]
    if mine:
        part = one.seen.retained.words.part if one.seen.retained else part_of(())
        reader = f"oldest reader on {len(mine)} of {len(one.retained.shards)} {part}s: {', '.join(mine[:6])}"
        said.append((Level.FINE, reader))
    if (purge := _purge(one)) is not None and purge.gtids:
        said.append((Level.FINE, f"GTIDs of the position: {safe(purge.gtids, 300)}"))
    limit = one.seen.retained.consume_timeout if one.seen.retained else None
    ddl = one.seen.retained.words.ddl if one.seen.retained else None
    if one.slot.unread and mine and ddl:
        wait = "" if limit is None else f" (each waits up to {in_words(limit)}, then fails)"
        said.append((Level.FINE, f"blocked until read: {ddl.blocked}{wait}"))
    if one.slot.exists and ddl:
        said.append((Level.FINE, ddl.lost_by))
    return said


def _purge(one: SlotFacts) -> Purge | None:
    """Return the purge of the binlog files that the slot needs, if its source purges them by age."""
    return one.seen.retained.purges.get(one.slot.name) if one.seen.retained else None


def _consequence(one: SlotFacts, now: datetime) -> tuple[Level, str]:
    level = slot_level(one, now)
    if one.slot.exists is False:
        return level, "the slot does not exist (viewing does not create it)"
    left = one.retained.left
    purge = _purge(one)
    if left is None and purge is not None and purge.file_text:
        return level, purge.file_text
    if left is None and keeps_nothing(one):
        return level, "it does not expire: its source retains nothing for it"
    if left is None:
        return level, "its expiry time cannot be determined here"
    if by_age(one):
        return (
            level,
            f"records after its position expire from {clock(left.expires_at)} UTC, read or not, unless it advances",
        )
    unread = "" if one.slot.unread is None else f"{count(one.slot.unread)} "
    lost = f"its {unread}unread rows are" if one.slot.unread != 0 else "the changes after it are"
    return level, f"unless confirmed, it expires at {clock(left.expires_at)} UTC and {lost} lost"


def ttl_line(one: SlotFacts, now: datetime, ascii_only: bool = True, local: Local = NOT_READ) -> str:
    """Return the TTL with a bar of the time left; a default TTL is marked as such, and a lost slot has no time left."""
    ttl = one.seen.retained.ttl if one.seen.retained else None
    purge = _purge(one)
    if keeps_nothing(one):
        return "TTL -" if purge is None else purge.age_text
    if ttl is None or ttl.seconds is None:
        return f"TTL {UNKNOWN}"
    empty = no_position(one, slot_history.jobs_of(local))
    left = None if empty else remaining(one.retained.left, one.seen.at, now)
    some = f"   {ttl_bar(left, ttl.seconds, ascii_only)} {left / ttl.seconds:.0%} left" if left is not None else ""
    return f"TTL {in_words(ttl.seconds)}{' (default)' if ttl.default else ''}{some}"


def faults(tables: Iterable[TableSeen]) -> list[str]:
    """Return the tables whose slots were never observed, with the reason."""
    return [
        f"{safe(one.source, 40)} {safe(one.table, 80)}: {safe(one.fault, 200)}"
        for one in tables
        if one.slots is None and one.fault
    ]


def slot_risk(one: SlotFacts, now: datetime, local: Local = NOT_READ) -> tuple[Level, str]:
    """Return the next risk to a job's slot and when it occurs; for a lost slot, report the loss."""
    if slot_history.is_lost(one.seen.table, one.slot, slot_history.jobs_of(local)):
        return Level.CRITICAL, f"slot {both_ends(safe(one.slot.name), 40)}: {_LOST_SAID} -> [3] Slots"
    if empty := no_position(one, slot_history.jobs_of(local)):
        return Level.WARNING, f"slot {both_ends(safe(one.slot.name), 40)}: {empty} -> [3] Slots"
    level, said = _consequence(one, now)
    left = remaining(one.retained.left, one.seen.at, now)
    still = "" if left is None else f" ({in_words(left)} left)"
    return level, f"next risk: slot {both_ends(safe(one.slot.name), 40)}: {said}{still} -> [3] Slots"
