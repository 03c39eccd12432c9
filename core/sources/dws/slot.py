"""Clear or reset a slot on DWS, and determine how far back its binlog reaches and what a range of it contains.

Only `status` and `register` can create a slot; the caller uses them only for slots that exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta, timezone

from slotkeeper.core.domain.position import Kept, Position
from slotkeeper.core.domain.reset import Count
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.slot import FirstRecord, RegisteredPoint, Shard, SlotStatus
from slotkeeper.core.domain.ttl import Ttl
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book, Rows
from slotkeeper.core.errors import Busy, ErrorKind, Refused, SlotkeeperError, TroubleName
from slotkeeper.core.sources.dws.eligibility import TIME
from slotkeeper.core.sources.dws.position import POSITIONS, DwsPosition, SyncPoints, ours, place, points_of
from slotkeeper.core.sources.dws.session import REGISTER_LIMIT_MS, DwsSession
from slotkeeper.core.sources.dws.source import ALL, DwsSlotAdmin, range_parts, register_one, seen
from slotkeeper.core.sources.dws.viewer import DwsViewer
from slotkeeper.core.sources.pg_base import COUNT_LIMIT_MS, LIMIT, count_statement, counted
from slotkeeper.core.sqltext import statements

REFUSED_BACK = "this server cannot move the position back; reset with --to snapshot instead"

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SQL: Book = ("slotkeeper.core.sources.dws", "retention.sql")
_TOO_MUCH = ("57014", "53")
"""SQLSTATEs for a timeout or a lack of disk or memory: a shorter range can avoid the error."""
_NO_TIMES = frozenset({"0A000", "42809", "42883"})
"""SQLSTATEs for a function that does not exist or that rejects a table without enable_binlog_timestamp."""


class DwsTable(DwsSlotAdmin):
    """A table with its slot, and what its binlog retains; implements `slotkeeper.core.ports.source.Slot`."""

    def clear(self) -> int:
        return int(self.session.rows("drop_slot", {"table": self.table, "slot": self.slot}, REGISTER_LIMIT_MS)[0][0])

    def points(self) -> Sequence[RegisteredPoint] | None:
        return DwsViewer(self.session).points(self.table)

    def place(self, text: str) -> DwsPosition:
        return POSITIONS.place(text)

    def kept_by(self, points: Sequence[RegisteredPoint]) -> SyncPoints:
        """Return both points, with the older of their xmins."""
        at = {one.checkpoint: one.point for one in points}
        xmin = min((one.xmin for one in points if one.xmin), default=0)
        live, durable = (ours(found).point if (found := at.get(flag)) is not None else None for flag in (False, True))
        return SyncPoints(live, durable, xmin)

    def begin_at(self, status: SlotStatus, at: Position, record: FirstRecord | None) -> SyncPoints:
        """Return both points at the position, with the xmin of the first needed record, or else of the status."""
        newest = ours(status.latest).xmin or 0
        first = ours(record.point).xmin if record and record.point else None
        return SyncPoints(ours(at).point, ours(at).point, newest if first is None else min(first, newest))

    def kept_at(self, shard: Shard, at: Position, before: Kept, status: SlotStatus | None, back: bool) -> SyncPoints:
        """Return both points at the position, with an xmin that is never newer than the position."""
        point, old = ours(at).point, points_of(before).xmin
        record = self.records(at, shard).get(shard.name)
        first = ours(record.point) if record and record.point else None
        newest = ours(status.latest) if status else None
        xmin = old
        if first and first.xmin and first.point == point:
            xmin = first.xmin
        elif newest and newest.point == point:
            xmin = max(newest.xmin or 0, old)
        elif first and first.xmin and back:
            xmin = min(first.xmin, old)  # no record is between the point and that record
        return SyncPoints(point, point, xmin)

    def put(
        self,
        shard: Shard,
        kept: Kept,
        probe: Callable[[str], None],
        first: SlotStatus | None = None,
        lost: bool = False,
    ) -> None:
        goal = points_of(kept)
        if first is None:
            for checkpoint in (False, True):
                point = (goal.durable if checkpoint else goal.live) or 0
                if self.register(shard, point, checkpoint, goal.xmin) != 1:
                    raise Busy(f"{shard.name}: the first registration reached no node", where="source")
                probe("in_first_registration")
            return
        before = points_of(first.kept)
        self._send(shard, goal, False)
        probe("after_false")
        second = points_of(seen(self, shard).kept)
        if second.live != goal.live:
            raise Refused(f"{shard.name}: registered {goal.live}, but the slot has {second.live}", REFUSED_BACK)
        if second.durable != before.durable and not (lost and not second.durable):
            raise trouble(
                TroubleName.SLOT_LOST, f"{shard.name}: the slot changed between the registrations of its two points"
            )
        self._send(shard, goal, True)
        probe("after_true")

    def records(self, at: Position | None = None, shard: Shard | None = None) -> dict[str, FirstRecord]:
        found = records(self.session, self.table, at, shard.node_id if shard else 0)
        self.session.oriented = self.table
        return found

    def _at_time(self, at: str, shown: bool = False) -> dict[str, Position | None]:
        if shown:
            cannot = f"{self.table} has no binlog timestamps, or this kernel cannot search by time"
            return first_at(self.session, self.table, at, cannot, "search by sync point instead")
        if not self.options.new_system_value:
            sentence = "only the new system columns contain a record's time"
            raise Refused(sentence, "set new_system_value = true if the server has gs_binlog_timestamp_us")
        said = f"{self.table} has no binlog timestamps", "reset with --to point"
        found = first_at(self.session, self.table, at, *said)
        self.session.oriented = self.table
        return found

    def since(self, at: str, lowest: bool = True, shard: Shard | None = None) -> dict[str, Position | None]:
        """Return by DN the point of a record at or after a time; the lowest of these is the cluster's lowest.

        DWS, PGXC_GET_BINLOG_CURSOR_BY_TIMESTAMP: "the first binlog record after the time", without stating the order.
        The order of times can differ from the order of points: a record has the time of its write (DWS, binlog fields:
        "saved to the database"), while its point belongs to the commit of its transaction. So the search includes
        points below the returned point.
        """
        found = self._at_time(at, shown=shard is not None)
        if not lowest or shard is not None:
            return found
        smallest = min((ours(one).point for one in found.values() if one is not None), default=None)
        if smallest is None:
            return found
        us, oldest = (datetime.fromisoformat(at) - EPOCH) // timedelta(microseconds=1), self.records()
        for shard in self.nodes():
            low = oldest[shard.name].point if shard.name in oldest else None
            if found.get(shard.name) is None or low is None:
                continue
            earlier = self._first_since(shard, ours(low).point, smallest, us)
            if earlier is not None:
                smallest, found[shard.name] = earlier, place(earlier)
        return found

    def count(self, shard: Shard, low: Position, high: Position) -> Count:
        self._orient(shard)
        try:
            found = self.session.composed_rows(self._range("count", shard, low, high), None, COUNT_LIMIT_MS)
        except SlotkeeperError as error:
            if error.code != LIMIT:
                raise
            return Count((("", self._some(shard, low, high)),), whole=False)
        kinds = tuple(sorted((str(kind), int(number)) for kind, number, _, _ in found))
        points = [int(point) for _, _, point, _ in found]
        times = [int(us) for _, _, _, us in found if us is not None]
        return Count(kinds, True, str(min(points)) if points else None, min(times, default=None))

    def count_rows(self) -> RowCount:
        """Return the number of rows that the channel's row filter accepts; unknown if this login cannot read them.

        Raises Refused if the filter cannot be used on the table: rows are counted exactly as a copy reads them.
        """
        if self.selection.where:
            self._selects(self.identity)

        def ask(most: int | None, limit_ms: int) -> Rows:
            statement = count_statement(self.table, self.selection.condition, most)
            with self.session.read_only() if self.selection.where else nullcontext():
                return self.session.composed_rows(statement, None, limit_ms)

        return counted(ask)

    def clock(self) -> tuple[float, Ttl | None]:
        return float(self.session.rows("clock", of=_SQL)[0][0]), DwsViewer(self.session).ttl(self.table)

    def _send(self, shard: Shard, goal: SyncPoints, checkpoint: bool) -> None:
        try:
            register_one(self, shard, goal, checkpoint)
        except SlotkeeperError as error:
            if error.kind is not ErrorKind.UNKNOWN:
                raise
            raise Refused(f"{shard.name}: {error.message}", REFUSED_BACK, error.code, error.where) from error

    def _first_since(self, shard: Shard, low: int, high: int, us: int) -> int | None:
        """Return the lowest point in [low, high) of a record at or after `us`; after a timeout, search each half."""
        if low >= high:
            return None
        try:
            self._orient(shard)
            statement = self._range("first_since", shard, DwsPosition(low), DwsPosition(high), us)
            return pg.number(self.session.composed_rows(statement, None, COUNT_LIMIT_MS)[0][0])
        except SlotkeeperError as error:
            if not error.code.startswith(_TOO_MUCH) or high - low == 1:
                raise
        middle = (low + high) // 2
        found = self._first_since(shard, low, middle, us)
        return self._first_since(shard, middle, high, us) if found is None else found

    def _some(self, shard: Shard, low: Position, high: Position) -> int:
        try:
            self._orient(shard)
            return int(self.session.composed_rows(self._range("count_some", shard, low, high), None)[0][0])
        except SlotkeeperError as error:
            if error.code != LIMIT:
                raise
            return 0

    def _range(self, name: str, shard: Shard, low: Position, high: Position, us: int = 0) -> pg.sql.Composable:
        new, begin, end = self.options.new_system_value, ours(low), ours(high)
        return pg.sql.SQL(statements(*_SQL)[name]).format(
            **range_parts(self.table, shard, begin, end.point, new),
            time=pg.sql.SQL(TIME if new else "NULL::bigint"),
            up_to_sequence=pg.sql.Literal(ALL if end.sequence is None else end.sequence),
            us=pg.sql.Literal(us),
        )


def records(session: DwsSession, table: str, at: Position | None, node: int) -> dict[str, FirstRecord]:
    """Return by DN the first record at or after a position, for one DN, or for all DNs if `node` is 0."""
    point = 0 if at is None else ours(at).point
    rows = session.rows("record_at", {"table": table, "point": point, "node": node}, of=_SQL)
    found = {}
    for name, *fields in rows:
        newest, first, time_us, xmin = map(pg.number, fields)
        found[str(name)] = FirstRecord(place(newest), place(first, xmin), time_us)
    return found


def first_at(session: DwsSession, table: str, at: str, sentence: str, hint: str) -> dict[str, Position | None]:
    """Return by DN the position of the first record at or after a time; raises Refused for a table without times."""
    try:
        rows = session.rows("record_at_time", {"table": table, "at": at}, of=_SQL)
    except SlotkeeperError as error:
        if error.code not in _NO_TIMES:
            raise
        raise Refused(sentence, hint, error.code, "source") from error
    return {str(name): place(pg.number(point)) for name, point, _ in rows}
