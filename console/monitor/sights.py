"""What this console's own look at the slots says to the judgement: the same values that drivers leave in the store.

Pure. Next door: `console.monitor.slot_poller` looks, `core.state.slots_seen` keeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from core.judgement.facts import SlotSeen

if TYPE_CHECKING:
    from console.monitor.snapshot import TableSeen
    from core.slots.status.inspect import SlotView
    from core.slots.status.retained import SlotRetained


def sights(tables: Iterable[TableSeen]) -> list[SlotSeen]:
    """Every slot of the tables that were seen; a table that could not be asked tells nothing."""
    return [
        _sight(one, slot, one.retained.slot(slot.name))
        for one in tables
        if one.slots is not None and one.retained is not None and one.at is not None and not one.fault
        for slot in one.slots.slots
    ]


def _sight(seen: TableSeen, slot: SlotView, kept: SlotRetained) -> SlotSeen:
    assert seen.at is not None and seen.retained is not None
    expires = seen.retained.words.marks  # where nothing is kept for a slot, nothing of it can expire
    left = kept.left if expires else None
    back = kept.furthest_back
    return SlotSeen(
        seen.source, seen.table, slot.name, slot.job or "", seen.at, slot.exists,
        None if left is None else seen.at + timedelta(seconds=left.seconds),
        seen.retained.ttl.seconds if expires else None, slot.unread, back.shard if back is not None else "",
    )  # fmt: skip
