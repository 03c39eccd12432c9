"""Slots of a past moment, as the screens get those of now: from what the state store remembers of them. Pure.

A row a minute is remembered, of a slot as a whole: its DNs one by one, and what it holds back of whom, are not. Next
door: `slotkeeper.core.state.observed` keeps, `slotkeeper.console.monitor.history` asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from slotkeeper.console.monitor.snapshot import TableSeen
from slotkeeper.core.domain.ttl import TimeLeft, Ttl, severity_of
from slotkeeper.core.judgement.facts import SlotSeen
from slotkeeper.core.ports.source import NEUTRAL, SlotWords
from slotkeeper.core.slots.status import ShardRetained, SlotOnShard, SlotRetained, SlotView, TableRetained, TableSlots

SILENT = timedelta(minutes=10)
"""Rows are a minute apart: after so long nobody was there to see it."""
_KEPT = SlotWords(marks=("live", "durable"))
REMEMBERED = "of the past a slot is remembered as a whole, once a minute; its DNs are not"


def tables_of(
    found: Iterable[SlotSeen], at: datetime, positionless: Collection[str] = ()
) -> dict[tuple[str, str], TableSeen]:
    """The slots by source and table, as they had been seen by then; sources of `positionless` jobs keep nothing."""
    by_table: dict[tuple[str, str], list[SlotSeen]] = {}
    for one in found:
        by_table.setdefault((one.source, one.table), []).append(one)
    return {key: _table(key, slots, at, positionless) for key, slots in by_table.items()}


def _table(key: tuple[str, str], slots: list[SlotSeen], at: datetime, positionless: Collection[str]) -> TableSeen:
    seen = max(one.at for one in slots)
    ttl = next((int(one.ttl) for one in slots if one.ttl is not None), None)
    words = NEUTRAL if all(one.job in positionless for one in slots) else _KEPT
    silent = f"nobody saw it from {seen:%H:%M:%S} on" if at - seen > SILENT else ""
    return TableSeen(
        *key,
        seen,
        TableSlots(*key, tuple(_view(one) for one in slots)),
        TableRetained(Ttl(ttl), None, seen, tuple(_retained(one, seen) for one in slots), (REMEMBERED,), words),
        silent,
        seen,
    )


def _view(one: SlotSeen) -> SlotView:
    shards = (SlotOnShard(one.shard or "?", unread=one.unread),) if one.exists is not False else ()
    return SlotView(one.slot, one.job or None, one.exists, shards)


def _retained(one: SlotSeen, seen: datetime) -> SlotRetained:
    if one.exists is False:
        return SlotRetained(one.slot, ())
    left = None
    if one.expires_at is not None and one.ttl:
        still = max(0, int((one.expires_at - seen).total_seconds()))
        left = TimeLeft(one.expires_at, still, severity_of(still, int(one.ttl)))
    return SlotRetained(
        one.slot, (ShardRetained(one.shard or "?", None, None, None, one.unread, None, None, left, None),)
    )
