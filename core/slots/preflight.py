"""Verdicts on whether VACUUM FULL, a scale-out or a table change can start now, and on the changes that slots retain.

The verdict follows the server's own answer, 0 or 1 (`pgxc_consumed_binlog_records`); points and unread counts identify
the slots that retain changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import RegisteredPoint, UnreadRows
from slotkeeper.core.domain.ttl import Behind
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import NEUTRAL, DdlWords, SlotWords, SourceTable
from slotkeeper.core.slots.status import count_unread, read_table


class Action(Enum):
    """The planned action on the table."""

    VACUUM_FULL = "vacuum full"
    SCALE_OUT = "scale out"
    ALTER = "alter"


class MayBegin(Enum):
    """Whether the action can start now."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Rate:
    """The apply rate of the owning job in changes per second, calculated from two of its reports."""

    job: str
    per_second: float


@dataclass(frozen=True, slots=True)
class Holder:
    """A slot that retains changes on a DN; `point` names the point that retains them, `rows` is None if not counted."""

    slot: str
    job: str | None
    shard: str
    point: Behind
    rows: int | None
    at: Position | None


@dataclass(frozen=True, slots=True)
class ActionVerdict:
    """Whether an action can start now, and the reason."""

    action: Action
    answer: MayBegin
    reason: str


@dataclass(frozen=True, slots=True)
class Facts:
    """The observed facts; `consumed` is the server's answer for all DNs, `by_shard` its answer per DN."""

    source: str
    table: str
    consumed: bool | None
    by_shard: Mapping[str, bool | None]
    points: Sequence[RegisteredPoint] | None
    unread: Sequence[UnreadRows] | None
    owners: Mapping[str, str]
    consume_timeout: int | None = None
    rates: Sequence[Rate] = ()
    words: SlotWords = NEUTRAL


@dataclass(frozen=True, slots=True)
class Preflight:
    """The answers for one table; `drain_seconds` is how long the owning jobs need at the current rate, if known."""

    source: str
    table: str
    consumed: bool | None
    by_shard: Mapping[str, bool | None]
    verdicts: tuple[ActionVerdict, ...]
    holders: tuple[Holder, ...]
    unread: int | None
    drain_seconds: int | None
    drain: str
    notes: tuple[str, ...]
    no_drained: str = NEUTRAL.no_drained

    @property
    def clear(self) -> bool:
        """Whether every action can start."""
        return all(one.answer is MayBegin.YES for one in self.verdicts)

    def answer(self, action: Action) -> MayBegin:
        return next(one.answer for one in self.verdicts if one.action is action)


MOMENT = "this answer is valid only at this moment: the next commit on the table can change it"
NO_DDL = "on this source, no DDL or maintenance waits for readers or clears unread changes"


def gather(at: SourceTable, source: str, table: str, owners: Mapping[str, str]) -> Facts:
    """Query a source; raises the source's errors, and Refused if no operation there waits for readers."""
    ask, words = at.inspector.consumed, at.words
    if words.ddl is None or ask is None:
        raise Refused(f"{source} {table}: {NO_DDL}", "start at any time", where="source")
    consumed = ask(0)
    nodes = sorted(at.source.nodes()) if consumed is not None else ()
    by_shard = {shard.name: ask(shard.node_id) for shard in nodes}
    answer, unread = read_table(at.inspector, table), count_unread(at.inspector)
    return Facts(source, table, consumed, by_shard, answer.points, unread, owners, answer.consume_timeout, words=words)


def judge(facts: Facts) -> Preflight:
    """Return the verdicts; no query is sent."""
    holders = _holders(facts)
    unread = _unread(facts)
    seconds, drain = _drain(facts, unread)
    waiting = _waiting(facts, holders)
    verdicts = (
        ActionVerdict(Action.VACUUM_FULL, waiting[0], _because(facts, waiting, Action.VACUUM_FULL)),
        ActionVerdict(Action.SCALE_OUT, waiting[0], _because(facts, waiting, Action.SCALE_OUT)),
        _alter(facts, waiting),
    )
    notes = [MOMENT, _ddl(facts).note]
    if facts.points is None:
        notes.append(f"{facts.words.no_list.partition(':')[0]}: the slots that retain changes are unknown")
    if facts.consumed and unread:
        notes.append(f"the server reports that all rows are read, but counts {unread} unread rows: repeat the check")
    return Preflight(
        facts.source, facts.table, facts.consumed, facts.by_shard, verdicts, tuple(holders), unread, seconds, drain,
        tuple(notes), facts.words.no_drained,
    )  # fmt: skip


def drain_seconds(rows: int, per_second: float) -> int | None:
    """Return the seconds needed to read rows at a rate; None if the rate is 0.

    >>> drain_seconds(1000, 300.0), drain_seconds(5, 0.0), drain_seconds(0, 0.0)
    (4, None, 0)
    """
    if rows == 0:
        return 0
    return math.ceil(rows / per_second) if per_second > 0 else None


def rate_between(job: str, earlier: tuple[int, datetime], later: tuple[int, datetime]) -> Rate | None:
    """Return the rate between two reports (total changes, time); None if no time passed between them."""
    seconds = (later[1] - earlier[1]).total_seconds()
    return Rate(job, max(0, later[0] - earlier[0]) / seconds) if seconds > 0 else None


def _holders(facts: Facts) -> list[Holder]:
    """Return the slots with unread rows on a DN or, if rows are not counted, the slots with the DN's lowest point."""
    at: dict[tuple[str, str], dict[bool, Position | None]] = {}
    for point in facts.points or ():
        at.setdefault((point.slot, point.shard), {})[point.checkpoint] = point.point
    rows: dict[tuple[str, str], dict[bool, int | None]] = {}
    for count in facts.unread or ():
        rows.setdefault((count.slot, count.shard), {})[count.checkpoint] = count.rows
    found = []
    for place in sorted(at.keys() | rows.keys()):
        if facts.unread is None and facts.by_shard.get(place[1]) is not False:
            continue
        if place in rows:
            flags = {flag for flag, count in rows[place].items() if count is None or count > 0}
        else:
            known = {flag: point for flag, point in at[place].items() if point is not None}
            flags = {flag for flag, point in known.items() if point == min(known.values())}
        if flags:
            found.append(_holder(place, flags, at.get(place, {}), rows.get(place, {}), facts.owners))
    return found


ByFlag = Mapping[bool, Position | None]


def _holder(
    place: tuple[str, str], flags: set[bool], points: ByFlag, rows: Mapping[bool, int | None], owners: Mapping[str, str]
) -> Holder:
    which = Behind.BOTH if len(flags) == 2 else Behind.DURABLE if True in flags else Behind.LIVE
    counts = [rows.get(flag) for flag in flags]
    known = [count for count in counts if count is not None]
    at = [point for point in (points.get(flag) for flag in flags) if point is not None]
    total = max(known) if known and len(known) == len(counts) else None
    return Holder(place[0], owners.get(place[0]), place[1], which, total, min(at) if at else None)


def _unread(facts: Facts) -> int | None:
    """Return the number of unread rows, summed over the DNs, for each DN the slot with the most; None if unknown."""
    if facts.unread is None or any(one.rows is None for one in facts.unread):
        return None
    by_shard: dict[str, int] = {}
    for one in facts.unread:
        by_shard[one.shard] = max(by_shard.get(one.shard, 0), one.rows or 0)
    return sum(by_shard.values())


def _waiting(facts: Facts, holders: Sequence[Holder]) -> tuple[MayBegin, str]:
    """Return whether the action can start, and a text that lists the slots with unread changes."""
    if facts.consumed is None:
        counted = [one for one in holders if one.rows]
        return (MayBegin.NO, _named(counted)) if counted else (MayBegin.UNKNOWN, facts.words.no_drained)
    if facts.consumed:
        return MayBegin.YES, "every slot has read all rows on every DN"
    if holders:
        return MayBegin.NO, _named(holders)
    shards = ", ".join(name for name, consumed in facts.by_shard.items() if consumed is False) or "some DN"
    return MayBegin.NO, f"{shards} has unread rows, but the slot that has not read them is unknown"


def _named(holders: Sequence[Holder]) -> str:
    """Describe the three slots that retain the most rows."""
    worst = sorted(holders, key=lambda one: (-(one.rows or 0), one.slot, one.shard))
    said = [
        f"slot {one.slot} ({f'job {one.job}' if one.job else 'external'}) on {one.shard}: {one.point.words}, "
        f"{'unknown number of' if one.rows is None else one.rows} unread rows"
        for one in worst[:3]
    ]
    return "; ".join(said) + (f"; and {len(worst) - 3} more" if len(worst) > 3 else "")


def _because(facts: Facts, waiting: tuple[MayBegin, str], action: Action) -> str:
    if waiting[0] is MayBegin.YES:
        return waiting[1]
    seconds, words = facts.consume_timeout, _ddl(facts)
    limit = words.limit if seconds is None else words.limit_of.format(seconds=seconds)
    return f"{waiting[1]}. {words.waits[action.value].format(limit=limit)}"


def _ddl(facts: Facts) -> DdlWords:
    words = facts.words.ddl
    assert words is not None, "gather() refuses a dialect without"
    return words


def _alter(facts: Facts, waiting: tuple[MayBegin, str]) -> ActionVerdict:
    clears = _ddl(facts).clears
    slots = sorted({one.slot for one in facts.points or ()} | {one.slot for one in facts.unread or ()})
    if slots:
        said = ", ".join(
            f"{slot} ({f'job {facts.owners[slot]}' if slot in facts.owners else 'external'})" for slot in slots
        )
        return ActionVerdict(Action.ALTER, MayBegin.NO, f"{clears}; these slots would be lost: {said}")
    if waiting[0] is MayBegin.NO:
        return ActionVerdict(Action.ALTER, MayBegin.NO, f"{clears}, and {waiting[1]}")
    if facts.points is None:
        return ActionVerdict(Action.ALTER, MayBegin.UNKNOWN, f"{clears}, and {facts.words.no_list.partition(' (')[0]}")
    return ActionVerdict(Action.ALTER, MayBegin.YES, f"{clears}; no slot has any")


def _drain(facts: Facts, unread: int | None) -> tuple[int | None, str]:
    """Return (seconds, text) for the slowest owning job; unknown if an external slot has unread rows."""
    if facts.consumed or unread == 0:
        return 0, "nothing to drain"
    if unread is None:
        return None, "unknown: the unread rows cannot be counted"
    foreign = sorted({one.slot for one in facts.unread or () if one.rows and one.slot not in facts.owners})
    if foreign:
        return None, f"unknown: the read rate of {', '.join(foreign)} cannot be determined here"
    rates = {one.job: one.per_second for one in facts.rates}
    times = []
    for job in sorted({facts.owners[one.slot] for one in facts.unread or () if one.rows}):
        if job not in rates:
            return None, f"unknown: job {job} is not running here or reports no rate"
        seconds = drain_seconds(unread, rates[job])
        if seconds is None:
            return None, f"unknown: job {job} is not applying any changes"
        times.append(seconds)
    return max(times), f"about {max(times)} s at the current rate, if no more rows are written"


def left_by_shard(found: Preflight) -> dict[str, str]:
    """Describe the unread changes of each DN; raises Refused if the kernel does not report them."""
    if found.consumed is None:
        raise Refused(found.no_drained, "`slots preflight` shows what the server reports")
    left = {}
    for shard, consumed in found.by_shard.items():
        if not consumed:
            retained = [
                f"slot {one.slot} ({one.point.words}): {'unknown number' if one.rows is None else one.rows} unread"
                for one in found.holders
                if one.shard == shard
            ]
            left[shard] = "; ".join(retained) or "unread rows of an unknown slot"
    if not left and not found.consumed:
        left["all"] = "the server reports unread rows"
    return left
