"""Determine how far back a table's binlog reaches and what a range contains, for starts without a copy and resets."""

from __future__ import annotations

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.reset import Count
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.slot import FirstRecord, Shard
from slotkeeper.core.domain.ttl import Ttl
from slotkeeper.core.drivers.session import Rows
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sources.hologres import catalog
from slotkeeper.core.sources.hologres.changes import LETTERS, Stretch
from slotkeeper.core.sources.hologres.position import POSITIONS, HoloPosition, ours
from slotkeeper.core.sources.hologres.session import HoloSession
from slotkeeper.core.sources.hologres.source import HoloSource
from slotkeeper.core.sources.pg_base import COUNT_LIMIT_MS, LIMIT, count_statement, counted


class HoloTable(HoloSource):
    """A table, and what its binlog retains; each shard has its own positions."""

    def place(self, text: str) -> HoloPosition:
        """Parse the LSN after which a user wants to read, as in Hologres's own start_lsn."""
        return POSITIONS.place(text)

    def records(self, place: Position | None = None) -> dict[str, FirstRecord]:
        """Return by shard the position directly before the first record after `place`, or before the oldest record."""
        return {one.name: first_record(self.session, self.table, one, place) for one in self.nodes()}

    def since(self, at: str, lowest: bool = True, shard: Shard | None = None) -> dict[str, Position | None]:
        """Return the positions directly before the first records; in a shard, times grow with the LSNs."""
        asked = self.nodes() if shard is None else [shard]
        found = {one.name: catalog.first_since(self.session, self.table, one, at) for one in asked}
        return {name: record.before if record else None for name, record in found.items()}

    def count(self, shard: Shard, low: Position, high: Position) -> Count:
        """Count the records in (low, high] by kind; if counting takes too long, the result is a lower bound of 0."""
        try:
            rows = self.pages.count(Stretch(shard, ours(low).lsn, ours(high).lsn), COUNT_LIMIT_MS)
        except SlotkeeperError as error:
            if error.code != LIMIT:
                raise
            return Count((("", 0),), whole=False)
        found = [row for row in rows if row[0] in LETTERS]
        kinds = tuple(sorted((LETTERS[kind], many) for kind, many, _, _ in found))
        oldest = min((lsn for _, _, lsn, _ in found), default=None)
        return Count(kinds, True, None if oldest is None else str(oldest), min((us for *_, us in found), default=None))

    def count_rows(self) -> RowCount:
        def ask(most: int | None, limit_ms: int) -> Rows:
            return self.session.composed_rows(count_statement(self.table, None, most), None, limit_ms)

        return counted(ask)

    def clock(self) -> tuple[float, Ttl]:
        return float(self.session.rows("clock")[0][0]), Ttl(self._read().ttl, by_record=True)


def first_record(session: HoloSession, table: str, shard: Shard, place: Position | None) -> FirstRecord:
    """Return the first record of a shard after a position, or without a position the oldest record."""
    newest = catalog.newest(session, table, shard)
    latest = newest.applied if newest else None
    found = (
        catalog.oldest(session, table, shard)
        if place is None
        else catalog.first_behind(session, table, shard, ours(place).lsn)
    )
    return FirstRecord(latest, found.before, found.us) if found else FirstRecord(latest, None)
