"""The slots of a table as a Hologres lists them, point by point."""

from __future__ import annotations

from slotkeeper.core.domain.slot import RegisteredPoint
from slotkeeper.core.sources.hologres import catalog
from slotkeeper.core.sources.hologres.position import HoloPosition
from slotkeeper.core.sources.hologres.session import HoloSession
from slotkeeper.core.sources.hologres.slot import progress


def listed(session: HoloSession, table: str) -> list[RegisteredPoint]:
    """One point by slot and shard, under both flags: a Hologres keeps one LSN, and says no time of it."""
    slots = [slot for slot, _ in progress.of_table(session, table)]
    if not slots:
        return []
    shards = catalog.read_table(session, table).shards
    found = progress.confirmed(session, slots)
    return [
        RegisteredPoint(
            shard.name, slot, flag, HoloPosition(found.get((slot, catalog.number_of(shard)), 0)), None, None
        )
        for slot in slots
        for shard in shards
        for flag in (False, True)
    ]
