"""How long records have lain unread, where a table deletes them by their own age, read or not.

DWS: with enable_binlog_timestamp a record goes once it is older than binlog_ttl, and no point of the slot tells. A lane
that has applied everything up to P may miss one only where P was latest longer than that ago.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotkeeper.core.domain.lag import Curve
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.errors import Trouble, TroubleName

MARGIN = 60.0
"""Seconds kept clear of the TTL, at most a tenth of it: what is judged now is read a little later."""


class RecordTtls:
    """What was latest when for each lane of a table with such a TTL; all others cost nothing.

    `ttls` are in seconds by source table; `curves` by lane outlive this: a job that is resumed goes on with them.
    """

    def __init__(self, ttls: Mapping[str, int], curves: dict[str, Curve]) -> None:
        self._ttls = ttls
        self._curves = curves

    @property
    def any(self) -> bool:
        """Whether there is such a table at all."""
        return bool(self._ttls)

    def see(self, table: str, shard: str, latest: Position, now: float) -> None:
        """The status of a table on a DN had this latest."""
        ttl = self._ttls.get(table)
        if ttl is not None:
            self._curves.setdefault(f"{table} {shard}", Curve(2.0 * ttl)).see(now, latest.pair[0])

    def late(self, lane: Lane, now: float) -> Trouble | None:
        """For a lane that is not at its latest: SLOT LOST where what it reads first may be deleted already."""
        table = lane.key.source_table
        ttl, curve = self._ttls.get(table), self._curves.get(f"{table} {lane.shard.name}")
        if ttl is None or curve is None:
            return None
        here = lane.position if lane.checked is None else max(lane.position, lane.checked)
        behind = curve.at_least(here.pair[0], now)
        if behind < ttl - min(MARGIN, ttl / 10):
            return None
        what = f"{lane.name} is {behind:.0f} s behind, and records of this table are deleted after {ttl} s, read or not"
        return trouble(TroubleName.SLOT_LOST, what)
