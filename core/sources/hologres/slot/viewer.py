"""Looks at the slots of a Hologres for commands and screens."""

from __future__ import annotations

from collections.abc import Sequence

from slotkeeper.core.domain.slot import RegisteredPoint, TableAnswer
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.source import SlotCalls
from slotkeeper.core.sources.hologres import catalog
from slotkeeper.core.sources.hologres.slot.points import listed
from slotkeeper.core.sources.hologres.slot.words import SLOT_WORDS
from slotkeeper.core.sources.hologres.viewer import HoloViewer

CALLS = SlotCalls(
    create=(
        "CREATE PUBLICATION ... FOR TABLE ...; -- where the table has none",
        "CALL hg_create_logical_replication_slot(<slot>, 'hgoutput', <publication>) -- {}",
    ),
    register="START_REPLICATION SLOT, flushed = the newest LSN of each shard -- {}",
    drop="CALL hg_drop_logical_replication_slot(<slot>) -- {}",
    drops="hg_drop_logical_replication_slot",
)


class SlotsViewer(HoloViewer):
    """Implements `slotkeeper.core.ports.source.SlotViewer` and `SlotPoller` where the server keeps positions."""

    calls = CALLS
    words = SLOT_WORDS

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        """What is confirmed, by slot and shard."""
        try:
            return listed(self.session, table)
        except SlotkeeperError as error:
            if not catalog.gone(error):
                raise
            return []

    def may_drop(self) -> bool | None:
        """Whoever made a slot may: the server says no otherwise."""
        return True

    def read_table(self, table: str) -> TableAnswer | None:
        """The clock, the TTL and the points."""
        return TableAnswer(self.now(), self.ttl(table), None, self.points(table))
