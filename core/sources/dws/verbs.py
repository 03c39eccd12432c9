"""What slot commands alone may ask a DWS: to clear a slot."""

from __future__ import annotations

from slotkeeper.core.sources.dws.session import REGISTER_LIMIT_MS
from slotkeeper.core.sources.dws.source import DwsSlotAdmin


class DwsSlotVerbs(DwsSlotAdmin):
    """A source session of a slot command, which alone may clear a slot; implements what `slotkeeper.core.slots` verbs
    ask for.
    """

    def clear(self) -> int:
        """Clear the slot on all DNs; returns how many points the server says it cleared."""
        return int(self.session.rows("drop_slot", {"table": self.table, "slot": self.slot}, REGISTER_LIMIT_MS)[0][0])
