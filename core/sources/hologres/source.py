"""Read one Hologres table and its binlog: the status of each shard, ranges of changes, and chunks of the table.

Changes are read by SQL or from the shards' streams, everything else by SQL. Nothing is registered on the server:
positions are stored only in Slotkeeper's progress rows, and the server retains no records for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO

from slotkeeper.core.domain.finding import refuse
from slotkeeper.core.domain.position import NOTHING_KEPT, Position
from slotkeeper.core.domain.shape import Mapped
from slotkeeper.core.domain.slot import Column, Shard, SlotStatus, TableIdentity
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec
from slotkeeper.core.domain.text import whole
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pipe import put, texts
from slotkeeper.core.errors import Refused, SlotkeeperError, TroubleName
from slotkeeper.core.ports.sink import Top
from slotkeeper.core.ports.source import Chunk, FindNews, ReadBeside
from slotkeeper.core.sources import pg_base
from slotkeeper.core.sources.hologres import catalog, eligibility
from slotkeeper.core.sources.hologres.catalog import SECOND, TableState, number_of
from slotkeeper.core.sources.hologres.changes import Left, Pages, Stretch
from slotkeeper.core.sources.hologres.position import HoloPosition, Oldest, ours
from slotkeeper.core.sources.hologres.session import HoloSession
from slotkeeper.core.sources.hologres.stream.records import StreamRecords, Streams
from slotkeeper.core.sources.pg_base import beyond, table_name

OLD_IMAGES = ("B", "d")
STEPS_OF_TTL = 8
"""Number of times per TTL that the position of an idle lane is updated to record that there was nothing to read."""


class HoloSource:
    """One table; implements `slotkeeper.core.ports.source.Source`."""

    joint_status = False
    read_beside: ReadBeside = None
    find_news: FindNews = None

    by_slot = False
    """Whether the job uses a slot whose position the server stores."""

    def __init__(
        self,
        session: HoloSession,
        table: str,
        options: BinlogOptions,
        channel: ChannelSpec | None,
        streams: Streams | None = None,
    ) -> None:
        self.session = session
        self.table = table
        self.options = options
        self._mapped = Mapped.of(channel) if channel else Mapped()
        self.whole_images = False
        """Whether old images are passed on as the server returns them; otherwise only the values of their key are."""
        self._state: TableState | None = None
        self.left = Left(options.binlog_ignore_delete, options.binlog_ignore_before_update)
        self.pages = Pages(session, table, options.binlog_read_batch_size, options.binlog_read_timeout)
        self.reader: Pages | StreamRecords = self.pages
        if streams is not None and options.by_stream:
            self.reader = StreamRecords(streams, table, options, self._version)

    # -- the table --------------------------------------------------------------------------------------------------

    def admit(self) -> None:
        eligibility.refuse_absent(self.session, self.table)
        state = self._read()
        if self.options.binlog:
            refuse(list(eligibility.table_objections(self.table, state)), "source")
        if self.options.binlog and self.options.by_stream:
            version = str(self.session.rows("server")[0][0])
            found = eligibility.stream_objections(self.table, state, version, self.options, self.by_slot)
            refuse(list(found), "source")
        self._selects(state.identity)

    def identify(self, filters: bool = False) -> TableIdentity:
        """Return the table's identity; a row filter is always rejected."""
        identity = self._read().identity
        self._selects(identity)
        return identity

    def _selects(self, identity: TableIdentity) -> None:
        if self._mapped.where:
            what = "a hologres source does not support a row filter (where)"
            raise Refused(what, "remove where, and filter in the target", where="source")
        self.columns(identity)

    def columns(self, identity: TableIdentity) -> tuple[Column, ...]:
        return self._mapped.columns(identity)

    def _read(self) -> TableState:
        self._state = catalog.read_table(self.session, self.table)
        return self._state

    def _version(self) -> tuple[int, Sequence[Column]]:
        """Return the table version, as used in stream messages, and the table's columns."""
        state = self._read()
        return whole(state.properties.get("schema_version", "")) or 0, state.identity.columns

    @property
    def state(self) -> TableState:
        """The table definition that was read last; it is read on first use."""
        return self._state or self._read()

    def nodes(self) -> list[Shard]:
        return self._read().shards

    # -- the state of the binlog --------------------------------------------------------------------------------------

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """Return the status of one shard, or of all shards; raise SLOT LOST if the table no longer records a binlog."""
        state = self._recorded()
        if shard is not None and shard not in state.shards:
            what = f"{shard.name} is no longer a shard of {self.table}: the table has {len(state.shards)}"
            raise trouble(TroubleName.TOPOLOGY_CHANGED, what)
        try:
            return [self._status(state, one) for one in (state.shards if shard is None else [shard])]
        except SlotkeeperError:
            self._recorded()  # DDL may have caused the failure: an error about the changed table is more precise
            raise

    def _recorded(self) -> TableState:
        state = self._read()
        if self.options.binlog and not eligibility.records(state):
            level = state.properties.get("binlog.level", "not set")
            what = f"{self.table}: binlog.level is {level}: the server records nothing"
            raise trouble(TroubleName.SLOT_LOST, what)
        return state

    def _status(self, state: TableState, shard: Shard) -> SlotStatus:
        first = catalog.oldest(self.session, self.table, shard)
        given = self.options.binlog_heart_beat_interval_ms
        every_us = given * 1_000 if given > 0 else max(SECOND, state.ttl * SECOND // STEPS_OF_TTL)
        newest, seen = self.newest(state, shard), state.seen(every_us)
        latest = HoloPosition(0, 0, seen, empty=True)
        if newest is not None:
            latest = replace(newest, seen=max(newest.at, seen))
        oldest = Oldest(0, empty=True, expired=state.expired)
        if first is not None:
            oldest = Oldest(first.lsn, first.us, first.us, expired=state.expired)
        return SlotStatus(shard, NOTHING_KEPT, latest, state.identity.text, oldest)

    def newest(self, state: TableState, shard: Shard) -> HoloPosition | None:
        """Return the newest record that can be read: with a visibility lag, the newest record older than the lag."""
        found, lag = catalog.newest(self.session, self.table, shard), self.options.binlog_visibility_lag
        if found is None:
            return None
        bound = state.now_us - lag * 1_000
        if not lag or found.us < bound:
            return found.applied
        whole = Stretch(shard, 0, found.lsn)
        older = self.pages.last_before(whole, bound)
        return older.applied if older else None

    # -- ranges -------------------------------------------------------------------------------------------------------

    def has_changes(self, shard: Shard, after: Position, up_to: Position) -> bool:
        low, high = ours(after).lsn, ours(up_to).lsn
        return low < high and self.pages.any(Stretch(shard, low, high), self.left)

    def next_range(self, after: Position, status: SlotStatus, width: int, begins: bool = False) -> HoloPosition:
        """Return the record at which the next range ends: the `width`-th after `after`, or the newest record."""
        low, newest = ours(after), ours(status.latest)
        if low.lsn >= newest.lsn:
            return newest
        found = self.pages.nth(Stretch(status.shard, low.lsn, newest.lsn), width)
        return found.applied if found and found.lsn < newest.lsn else newest

    def copy_changes(self, shard: Shard, after: Position, up_to: Position, out: BinaryIO) -> int:
        low, high, identity = ours(after).lsn, ours(up_to).lsn, self.state.identity
        columns, count = self.columns(identity), 0
        if low >= high:
            return 0
        keys = [column.name in identity.key for column in columns]
        for one in self.reader.changes(Stretch(shard, low, high), columns, self.left):
            values: Sequence[str | None] = one.values
            if one.kind in OLD_IMAGES and not self.whole_images:
                values = [value if key else None for value, key in zip(values, keys, strict=True)]
            put(out, texts((one.point, one.sequence, one.kind, *values)))
            count += 1
        return count

    def reached(self, after: Position, up_to: Position | None, top: Top | None, status: SlotStatus) -> HoloPosition:
        """Return the end of the range, or the newest record's position; `after` at its time if there is no record."""
        here, end = ours(after), ours(status.latest if up_to is None else up_to)
        return replace(here, seen=max(here.seen, end.seen)) if end.empty else end

    # -- the table as a whole -----------------------------------------------------------------------------------------

    def open_lanes(self) -> list[SlotStatus]:
        """Return the status of each shard; create nothing, because the binlog needs no slot."""
        return self.read_status(None)

    def open_now(self) -> None:
        """Return None, because a row and its record become visible together.

        A table's binlog records changes from the moment it is enabled (Hologres, "Technical Principle of Hologres
        Binlog": changes of both occur simultaneously). If a copy misses a change, the record of that change is
        therefore after the newest records that were noted before the copy.
        """

    def plan_chunks(self, rows: int) -> list[Chunk]:
        state, found = self._read(), list[Chunk]()
        for shard in state.shards:
            statement = plan_statement(self.table, state.identity, shard, rows)
            bounds = self.session.composed_rows(statement, None, self.options.full_sync_binlog_read_timeout)
            found += of_shard(shard, [tuple(map(str, one)) for one in bounds], len(found))
        return found

    def copy_chunk(self, chunk: Chunk, out: BinaryIO) -> int:
        identity, options = self.state.identity, self.options
        statement = read_statement(self.table, identity, chunk, self.columns(identity))
        limit_ms, batch = options.full_sync_binlog_read_timeout, options.full_sync_binlog_batch_read_size
        return self.session.cursor_out(statement, lambda row: put(out, texts(row)), limit_ms, batch)


# -- chunks: split and compared only by the source, by shard and then by key -------------------------------------------

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
SHARD = SQL("hg_shard_id")
"""Hidden column by which the vendor's own readers split a Hologres table."""


def text_columns(columns: Sequence[Column]) -> pg.sql.Composable:
    """Return SQL for the columns as text, in the format of COPY."""
    return SQL(", ").join(pg.text_form(one.type, Identifier(one.name)) for one in columns)


def plan_statement(table: str, identity: TableIdentity, shard: Shard, rows: int) -> pg.sql.Composable:
    """Return SQL that selects every `rows`-th key of a shard and its last key, as text, in key order, in one pass."""
    only = SQL("{} = {}").format(SHARD, Literal(number_of(shard)))
    return pg_base.plan_statement(table, identity.key, lambda _, key: SQL("{}::text").format(key), max(1, rows), only)


def of_shard(shard: Shard, bounds: Sequence[tuple[str, ...]], first: int) -> list[Chunk]:
    """Return the chunks between consecutive bounds of a shard, numbered from `first`; the first has no lower bound.

    >>> of_shard(Shard("shard_2", 3), [("3",), ("7",)], 5)
    [Chunk(number=5, lo=('2',), hi=('2', '3')), Chunk(number=6, lo=('2', '3'), hi=('2', '7'))]
    """
    id_ = str(number_of(shard))
    lows = [(id_,), *((id_, *bound) for bound in bounds)]
    return [Chunk(first + n, lo, (id_, *hi)) for n, (lo, hi) in enumerate(zip(lows, bounds, strict=False))]


def read_statement(table: str, identity: TableIdentity, chunk: Chunk, columns: Sequence[Column]) -> pg.sql.Composable:
    """Return SQL that reads these columns, as text, of the rows in the chunk's shard with lo < key <= hi."""
    types = {column.name: column.type for column in identity.columns}
    shard, *high = chunk.hi
    where = [SQL("{} = {}").format(SHARD, Literal(int(shard))), beyond(identity.key, types, high, "<", {})]
    if len(chunk.lo) > 1:
        where.append(beyond(identity.key, types, chunk.lo[1:], ">", {}))
    return SQL("SELECT {columns} FROM {table} WHERE {where}").format(
        columns=text_columns(columns), table=table_name(table), where=SQL(" AND ").join(where)
    )
