"""Writes a DWS slot's points and ends our own old sessions; only the driver and slot commands hold one.

Next door: `source.py` reads. A registration is bounded at the server (10 s), so that a killed driver's call cannot
land later than that.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from core.domain.slot import Shard
from core.domain.text import safe
from core.drivers import pg
from core.errors import SlotkeeperError
from core.sources.dws import sight
from core.sources.dws.session import REGISTER_LIMIT_MS, STATUS_LIMIT_MS
from core.sources.dws.source import DwsSource
from core.sqltext import statements


class DwsSlotAdmin(DwsSource):
    """A source session that may also register; implements `core.ports.source.SlotAdmin`."""

    cleared_for = 1
    """The sink connection up to which rivals were ended: the first one is cleared by the start itself."""

    def register(self, shard: Shard, point: int, checkpoint: bool, xmin: int) -> int:
        """Register one point on one DN.

        DWS: "returns the number of nodes registered"; anything but 1 for one node is a partial registration.
        """
        parameters = {
            "table": self.table,
            "slot": self.slot,
            "node": shard.node_id,
            "point": point,
            "checkpoint": checkpoint,
            "xmin": xmin,
        }
        return int(self.session.rows("register", parameters, REGISTER_LIMIT_MS)[0][0])

    def register_full_sync(self) -> str:
        """Move both points of every DN to now; what the server answered, in words."""
        text = statements("core.sources.dws", "slot_verbs.sql")["full_sync"]
        names = {"table": self.table, "slot": self.slot}
        rows = self.session.composed_rows(pg.sql.SQL(text), names, REGISTER_LIMIT_MS)
        return "; ".join(safe(", ".join(map(str, row)), 80) for row in rows) or "nothing"

    def pinned(self) -> AbstractContextManager[None]:
        """Hold one open session for the block: a lost one is not opened again inside it."""
        return self.session.pinned()

    def end_sessions(self, pattern: str, own: str) -> bool:
        """End our sessions whose name is like `pattern` and is not `own`; False where it is not certain.

        Sessions at another coordinator cannot be ended from ours, and where they cannot be listed nobody knows of them.
        """
        names = {"pattern": pattern, "own": own}
        try:
            self.session.rows("end_sessions", names)
            seen = self.sight()
            return self._all_gone(names, seen.across) and seen.all_coordinators
        except SlotkeeperError:
            return False

    def end_rivals(self) -> bool:
        """End other sessions that register the same lane, of any epoch; False where it is not certain.

        They carry our own name but for the epoch: a killed or stalled registrar's call must not land after ours.
        """
        parts = self.session.application_name.replace("_", r"\_").split("/")
        parts[2] = "%"
        return self.end_sessions("/".join(parts), "")

    def _all_gone(self, names: dict[str, str], across: bool) -> bool:
        # each round is one statement: a terminated backend leaves the view within a few of them, or we wait
        return any(not self._left(names, across) for _ in range(200))

    def _left(self, names: dict[str, str], across: bool) -> int:
        here = int(self.session.rows("sessions_left", names, STATUS_LIMIT_MS)[0][0])
        return here or (sight.left_across(self.session, names) if across else 0)
