"""What a look at a table's slots says to the judgement: until when each is kept, by the clock of this host. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from slotkeeper.core.judgement.facts import SlotSeen
from slotkeeper.core.slots.status.inspect import SlotView, TableSlots
from slotkeeper.core.slots.status.retained import TableRetained


def sights(
    source: str,
    table: str,
    at: datetime,
    slots: TableSlots,
    retained: TableRetained,
    owners: Mapping[str, str] | None = None,
) -> list[SlotSeen]:
    """Every slot that the look at a moment of this host's clock has shown.

    `owners` are further jobs by the table's slots, which whoever looked did not ask for.
    """
    return [_sight(source, table, at, slot, retained, (owners or {}).get(slot.name, "")) for slot in slots.slots]


def _sight(source: str, table: str, at: datetime, slot: SlotView, retained: TableRetained, owner: str) -> SlotSeen:
    kept = retained.slot(slot.name)
    # where nothing is kept for a slot, nothing of it can expire; records that it has not read may, by their own age
    expires = retained.words.marks or kept.left is not None
    left, back = (kept.left if expires else None), kept.furthest_back
    return SlotSeen(
        source, table, slot.name, slot.job or owner, at, slot.exists,
        None if left is None else at + timedelta(seconds=left.seconds),
        retained.ttl.seconds if expires else None, slot.unread, back.shard if back is not None else "",
    )  # fmt: skip
