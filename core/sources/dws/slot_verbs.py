"""Writes a whole DWS slot: moves it to now, or clears it; only the slot commands hold one.

Next door: `slot_admin.py` registers point by point; `slot_verbs.sql` and `queries.sql` hold what is sent.
"""

from __future__ import annotations

from core.domain.text import safe
from core.drivers import pg
from core.sources.dws.session import REGISTER_LIMIT_MS
from core.sources.dws.slot_admin import DwsSlotAdmin
from core.sqltext import statements


class DwsSlotVerbs(DwsSlotAdmin):
    """A source session of a slot command; implements the sessions that `core.slots` verbs ask for."""

    def register_full_sync(self) -> str:
        """Move both points of every DN to now; what the server answered, in words."""
        text = statements("core.sources.dws", "slot_verbs.sql")["full_sync"]
        names = {"table": self.table, "slot": self.slot}
        rows = self.session.composed_rows(pg.sql.SQL(text), names, REGISTER_LIMIT_MS)
        return "; ".join(safe(", ".join(map(str, row)), 80) for row in rows) or "nothing"

    def clear(self) -> int:
        """Clear the slot on all DNs; returns how many points the server says it cleared."""
        names = {"table": self.table, "slot": self.slot}
        return int(self.session.rows("drop_slot", names, REGISTER_LIMIT_MS)[0][0])
