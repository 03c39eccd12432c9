"""What this console's own look at the slots says to the judgement: the same values that drivers leave in the store.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slotkeeper.core.slots.status import sights as of_table

if TYPE_CHECKING:
    from slotkeeper.console.monitor.snapshot import TableSeen
    from slotkeeper.core.judgement.facts import SlotSeen


def sights(tables: Iterable[TableSeen]) -> list[SlotSeen]:
    """Every slot of the tables that were seen; a table that could not be asked tells nothing."""
    return [
        sight
        for one in tables
        if one.slots is not None and one.retained is not None and one.at is not None and not one.fault
        for sight in of_table(one.source, one.table, one.at, one.slots, one.retained)
    ]
