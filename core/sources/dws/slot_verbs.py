"""Clears a whole DWS slot; only the slot commands hold one.

Next door: `slot_admin.py` registers, and moves a slot to now; `queries.sql` holds what is sent.
"""

from __future__ import annotations

from core.sources.dws.session import REGISTER_LIMIT_MS
from core.sources.dws.slot_admin import DwsSlotAdmin


class DwsSlotVerbs(DwsSlotAdmin):
    """A source session of a slot command; implements the sessions that `core.slots` verbs ask for."""

    def clear(self) -> int:
        """Clear the slot on all DNs; returns how many points the server says it cleared."""
        names = {"table": self.table, "slot": self.slot}
        return int(self.session.rows("drop_slot", names, REGISTER_LIMIT_MS)[0][0])
