"""Determine how far back a table's binlog reaches and what a range contains, for starts without a copy and resets."""

from __future__ import annotations

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.reset import Count
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.slot import FirstRecord, Shard, SlotStatus
from slotkeeper.core.drivers.session import Rows
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sources.hologres import catalog
from slotkeeper.core.sources.hologres.changes import LETTERS, Stretch
from slotkeeper.core.sources.hologres.position import POSITIONS, HoloPosition, ours
from slotkeeper.core.sources.hologres.session import HoloSession
from slotkeeper.core.sources.hologres.source import HoloSource
from slotkeeper.core.sources.pg_base import COUNT_LIMIT_MS, LIMIT, count_statement, counted


class HoloTable(HoloSource):
    """A table with its history; implements `slotkeeper.core.ports.source.History`; each shard has its own positions."""

    def open_lanes(self) -> list[SlotStatus]:
        """Return the status of each shard; create nothing, because the binlog needs no slot."""
        return self.read_status(None)

    def place(self, text: str) -> HoloPosition:
        """Parse the LSN after which a user wants to read, as in Hologres's own start_lsn."""
        return POSITIONS.place(text)

    def records(self, place: Position | None = None, shard: Shard | None = None) -> dict[str, FirstRecord]:
        """Return by shard the position directly before the first record after `place`, or before the oldest record."""
        asked = [shard] if shard is not None else self.nodes()
        return {one.name: first_record(self.session, self.table, one, place) for one in asked}

    def at_time(self, at: str) -> dict[str, Position | None]:
        return {one.name: first_at(self.session, self.table, one, at) for one in self.nodes()}

    def since(self, at: str) -> dict[str, Position | None]:
        """Return the same as `at_time`, because in a shard, times grow with the LSNs."""
        return self.at_time(at)

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

    def seconds(self) -> float:
        return float(self.session.rows("clock")[0][0])

    def ttl(self) -> int | None:
        return self._read().ttl


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


def first_at(session: HoloSession, table: str, shard: Shard, at: str) -> Position | None:
    """Return the position directly before a shard's first record at or after a time; None if there is none."""
    found = catalog.first_since(session, table, shard, at)
    return found.before if found else None
