"""Read one table from the single stream of a MySQL or MariaDB server; nothing is registered on the server.

A range ends at the end of a transaction and can be read again until its file is purged; after that, SLOT LOST is
raised. A statement that changed rows without row events, or changed columns, stops the lane at the position of the
statement; all earlier changes have been applied by then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, BinaryIO, cast

from slotkeeper.core.domain.finding import refuse
from slotkeeper.core.domain.position import NOTHING_KEPT, Position
from slotkeeper.core.domain.slot import Column, Shard, SlotStatus, TableIdentity
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.drivers.pipe import put, put_all, put_made, takes_rows
from slotkeeper.core.errors import Refused, SlotkeeperError, Trouble, TroubleName, Unreachable
from slotkeeper.core.ports.sink import Top
from slotkeeper.core.ports.source import Chunk, FindNews, OpenTransactions, ReadBeside, Source
from slotkeeper.core.sources.mysql import chunks, faults, side_effects, starts
from slotkeeper.core.sources.mysql.alters import without_opaque
from slotkeeper.core.sources.mysql.events import Action
from slotkeeper.core.sources.mysql.faults import BinlogError
from slotkeeper.core.sources.mysql.feed import News
from slotkeeper.core.sources.mysql.filters import Accepts, Selection, compiled
from slotkeeper.core.sources.mysql.joined import FeedLine, Joined, logged_name
from slotkeeper.core.sources.mysql.position import FIRST_OFFSET, OFFSET_BITS, MysqlPosition, ours
from slotkeeper.core.sources.mysql.rows import Decoder, columns_of
from slotkeeper.core.sources.mysql.session import MysqlSession, admit, newest
from slotkeeper.core.sources.mysql.side_effects import Bystanders
from slotkeeper.core.sources.mysql.starts import open_now
from slotkeeper.core.sources.mysql.statements import Effect, Statement
from slotkeeper.core.sources.mysql.stream import (
    MOST_BYTES,
    SILENT_SECONDS,
    Follower,
    Reading,
    Spool,
    Stream,
    of_tables,
    same,
    there,
)
from slotkeeper.core.sources.mysql.table_map import TableMap
from slotkeeper.core.sources.mysql.tables import (
    Image,
    TableSeen,
    kernel_plan,
    read_charsets,
    read_table,
    read_tables,
    speller,
)
from slotkeeper.core.sources.mysql.transactions import Table, TableRows

SHARD = Shard("binlog", 1)
"""The server's only lane: its binlog."""
FILES_SECONDS = 10.0
"""Maximum time in seconds for which a list of the server's binlog files is reused."""
UNMOVED_SECONDS = 10.0
"""The same while the binlog's end does not move, because no row can then follow a change to the definition."""
DEFINITION_SECONDS = 3.0
"""Maximum time in seconds for which a status reuses the table's definition. A change of it stops the lane at the
statement in the binlog, whenever a status shows it; a query of the definition costs more than a step of a few rows."""
_NEW_SNAPSHOT = "all earlier changes are applied; take a new snapshot of the table"
_CURES = {
    Effect.CASCADES: (
        'all earlier changes are applied; set cascades = "allow" in the channel if incorrect rows are acceptable;'
        " or drop the key and take a new snapshot of the table"
    ),
    Effect.VERSIONS: "all earlier changes are applied; drop system versioning, and take a new snapshot of the table",
}
"""Hints for statements after which the job cannot follow the table, by the effect of the statement."""


class MysqlSource:
    """One table; implements `slotkeeper.core.ports.source.Source`."""

    joint_status = True

    def __init__(
        self,
        session: MysqlSession,
        table: str,
        slot: str,
        options: BinlogOptions,
        selection: Selection | None = None,
        most_bytes: int = MOST_BYTES,
        step_bytes: int | None = None,
        silent_seconds: float = SILENT_SECONDS,
        line: FeedLine | None = None,
        known: Sequence[Column] = (),
    ) -> None:
        self.read_beside: ReadBeside = self.read_several
        self.find_news: FindNews = None if line is None else self._find_news
        self.session = session
        self.table = table
        self.slot = slot
        self._line = line
        self.options = options
        self.selection = selection or Selection()
        self._most_bytes, self._step_bytes, self._silent_seconds = most_bytes, step_bytes, silent_seconds
        self.whole_images = False
        """Whether old images have the values of all columns; otherwise only those of the key."""
        self._known = known
        """The table's columns at the lane's position; without them, its present columns."""
        self._room: int | None = None
        """Number of bytes that the running step can still read; None if there is no limit or no step."""
        self._seen: TableSeen | None = None
        self._seen_at = -math.inf
        """When `_seen` was read, in monotonic seconds."""
        self._seen_before: MysqlPosition | None = None
        """The end of the binlog shortly before `_seen` was read; None if unknown."""
        self._accepts: Accepts | None = None
        self._asked_of: tuple[Image, ...] = ()
        self._charsets: dict[int, str] = {}
        self._writers: dict[bytes, _Writer] = {}
        self._follower = self._follow("reader", line)
        self._scanner = self._follow("scanner", line)
        self._spool: Spool | None = None
        self._opened = 0
        """The session's number of connections when the streams were last valid."""
        self._passed: MysqlPosition | None = None
        """The newest position up to which no change was found, with the GTIDs executed up to there."""
        self._bystanders = Bystanders(session, self.newest, self._statements)

    # -- the table ----------------------------------------------------------------------------------------------------

    def admit(self) -> None:
        if self.options.binlog:
            self.session.asking(lambda line: admit(line, self.session.place, self.session.user))
            self.open_now()  # raises an error if a start could not determine the transactions to wait for
        self.identify()
        if self.options.binlog:
            side_effects.admit(self.session, self.seen, self.selection.cascades_known)

    def identify(self, filters: bool = False) -> TableIdentity:
        """Return the table's identity; the row filter is always checked."""
        began = time.monotonic()
        return self._take(read_table(self.session, self.table, self._known), began)

    def _take(self, seen: TableSeen, at: float) -> TableIdentity:
        self._seen, self._seen_at, self._seen_before = seen, at, None
        self.selection.columns(seen.identity)
        if self.selection.where and self._asked_of != seen.images:
            self._accepts, self._asked_of = compiled(self.selection.where, seen.images), seen.images
        return seen.identity

    @property
    def seen(self) -> TableSeen:
        if self._seen is None:
            self.identify()
        assert self._seen is not None
        return self._seen

    def nodes(self) -> list[Shard]:
        return [SHARD]

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """Return the binlog's end and the table's identity, which is at most `DEFINITION_SECONDS` old."""
        return self._read_status(self.newest())

    def read_several(self, others: Sequence[Source]) -> list[list[SlotStatus]]:
        """Return the statuses of several tables of this session, with one query of the binlog's end for all of them,
        and one for each part of their definitions.
        """
        sources, latest, now = [cast("MysqlSource", one) for one in others], self.newest(), time.monotonic()
        old = [one for one in sources if one._is_old(latest)]
        asked = [(one.table, one._known) for one in old]
        for one, seen in zip(old, read_tables(self.session, asked) if old else (), strict=True):
            one._take(seen, now)
            one._seen_before = latest
        return [one._read_status(latest) for one in sources]

    def _is_old(self, latest: MysqlPosition) -> bool:
        unmoved = self._seen_before is not None and same(self._seen_before, latest)
        most = UNMOVED_SECONDS if unmoved else DEFINITION_SECONDS
        return self._opened != self.session.opened or time.monotonic() - self._seen_at >= most

    def _find_news(self, places: Mapping[str, Position]) -> set[str]:
        """Return the tables for which the shared reader has rows after a position, or does not know it."""
        facts, latest = self.session.facts, self.newest()
        names = {logged_name(table, facts): table for table in places}
        asked = {name: ours(places[table]) for name, table in names.items()}
        found = self._line.find_news(News(facts.identity, latest, asked)) if self._line is not None else None
        if found is None:
            raise Unreachable(f"source {self.session.place}: the shared reader has not read up to here", where="source")
        return {names[name] for name in found}

    def _read_status(self, latest: MysqlPosition) -> list[SlotStatus]:
        if self._is_old(latest):
            self.identify()
            self._seen_before = latest
        if self._opened != self.session.opened:  # the new connection may have reached another server: its streams too
            if self.options.binlog:
                refuse(list(side_effects.filtered(self.session, self.seen)), "source")
            self._opened = self.session.opened
            self._forget()
            self._passed = None
            self._follower.close()
            self._scanner.close()
        return [SlotStatus(SHARD, NOTHING_KEPT, latest, self.seen.identity.text, self._first(latest))]

    def newest(self) -> MysqlPosition:
        file, offset = self.session.asking(newest)
        if not file:
            what = f"source {self.session.place}: the server writes no binlog (log_bin is off)"
            raise Refused(what, "set log_bin and restart the server", where="source")
        return MysqlPosition(file, offset)

    def _first(self, latest: MysqlPosition) -> MysqlPosition | None:
        """Return the oldest available position; cached for seconds, because listing the files accesses each of them."""
        known, now = self.session.oldest, time.monotonic()
        if known is None or known[0] != self.session.opened or now - known[1] >= FILES_SECONDS:
            name = self.session.asking(starts.binlog_files)[0].name
            known = self.session.oldest = self.session.opened, now, name
        first = MysqlPosition(known[2], FIRST_OFFSET)
        return first if there(latest, first) else None

    # -- ranges -------------------------------------------------------------------------------------------------------

    def has_changes(self, shard: Shard, after: Position, up_to: Position) -> bool:
        """Whether (after, up_to] contains a row of the table, or a statement that may affect it."""
        low, high = ours(after), ours(up_to)
        if self._spool is not None and same(self._spool.after, low) and same(self._spool.end, high):
            return self._spool.any
        if there(low, high):
            if low.born is not None:
                self._scanner.check(low)
            return False
        for item in self._scanner.read(low, high):
            if isinstance(item, TableRows | Statement):
                self._scanner.close()
                return True
        self._passed = self._scanner.here
        return False

    def next_range(self, after: Position, status: SlotStatus, width: int, begins: bool = False) -> MysqlPosition:
        """Return the end of the `width`-th transaction after `after`, or of the transaction that fills the range.

        A range ends before a statement that may affect the table; raises Trouble if such a statement comes first. The
        range also ends before a transaction that would exceed the step's `step_bytes`, unless that is the step's first
        transaction.
        """
        low, high, known = ours(after), ours(status.latest), self._spool
        if begins:
            self._room = self._step_bytes
        if self._room is not None and self._room <= 0:
            return low
        fits = known is not None and same(known.after, low) and known.width == width and there(high, known.end)
        if known is None or not fits or same(known.end, low):
            self._forget()
            known = self._spool = Spool(low, width)
            self._fill(known, high, max(1, width))
        if self._room is not None:
            self._room -= known.counted
        return known.end

    def _enough(self, spool: Spool) -> bool:
        """Whether the range exceeds the step's remaining bytes and the step has rows of an earlier transaction."""
        room = self._room
        return room is not None and spool.bytes > room and (spool.counted > 0 or room != self._step_bytes)

    def _fill(self, spool: Spool, up_to: MysqlPosition, width: int) -> None:
        ends, follower = 0, self._follower
        for item in follower.read(spool.after, up_to):
            if isinstance(item, Statement):
                if same(spool.end, spool.after):
                    raise self._stopped(item)
                return  # the stream is past the statement: the next range opens a new stream here
            if isinstance(item, TableRows):
                spool.add(item)
                if self._enough(spool):
                    return  # in the middle of a transaction: the next range reopens the stream before it
                continue
            ends += 1
            spool.ended(follower.stop(), item.time)
            if ends >= width or spool.bytes >= self._most_bytes:
                return
        if follower.here is not None:
            spool.ended(follower.here)

    def copy_changes(self, shard: Shard, after: Position, up_to: Position, out: BinaryIO) -> int:
        """Write the rows of (after, up_to] and return their number.

        Raises Trouble if rows changed without row events, or columns changed: `next_range` ends before that.
        """
        spool = self._spooled(ours(after), ours(up_to))
        if spool.statement is not None:
            raise self._stopped(spool.statement)
        count = 0
        try:
            for item in spool.rows():
                count += self._writer(item.table).write(item, out)
        except BinlogError as error:
            raise faults.of_binlog(error, self.session.place, spool.after.text) from error
        return count

    def _spooled(self, after: MysqlPosition, up_to: MysqlPosition) -> Spool:
        """Return the rows of exactly this range: the buffered rows if they match, else the rows of a new read."""
        known = self._spool
        if known is not None and same(known.after, after) and same(known.end, up_to):
            return known
        self._forget()
        spool = self._spool = Spool(after)
        self._read_whole(spool, up_to)
        if not same(spool.end, up_to):
            what = f"source {self.session.place}: {up_to.text} is not the end of a transaction"
            raise Refused(
                what,
                "a stored position is the end of a transaction: this position is from another server",
                "",
                "source",
            )
        return spool

    def _read_whole(self, spool: Spool, up_to: MysqlPosition) -> None:
        for item in self._follower.read(spool.after, up_to):
            if isinstance(item, TableRows):
                spool.add(item)
            elif isinstance(item, Statement):
                spool.statement = spool.statement or item
        if self._follower.here is not None:
            spool.ended(self._follower.here)

    def _writer(self, table: TableMap) -> _Writer:
        writer = self._writers.get(table.layout)
        if writer is None:
            skips = self.options.binlog_ignore_update_before
            decoder, whole = self._decoder(table), self.whole_images
            writer = _Writer(decoder, self.seen, self.selection, self._accepts, skips, whole)
            self._writers[table.layout] = writer
        return writer

    def _decoder(self, table: TableMap) -> Decoder:
        """Return the decoder of one layout; raise SCHEMA CHANGED if its columns are not the table's current columns."""
        seen = self.seen
        self._charsets = self._charsets or self.session.asking(read_charsets)
        columns = columns_of(*without_opaque(table, seen.described), self._charsets)
        now, then = [one.name for one in seen.images], [one.name for one in columns]
        if now != then:
            what = (
                f"{self.table} had columns {', '.join(then)} when these rows were written and now has {', '.join(now)}"
            )
            raise Trouble(what, _NEW_SNAPSHOT, where="source", name=TroubleName.SCHEMA_CHANGED)
        return Decoder(columns)

    def _stopped(self, statement: Statement) -> SlotkeeperError:
        text = " ".join(statement.text.split())[:200]
        where = f"source {self.session.place}, binlog after {statement.position.shown}: {text!r}"
        if statement.effect is Effect.RESHAPES:
            columns = ", ".join(f"{column.name} {column.full_type}" for column in self.seen.described)
            what = f"{where} {statement.effect.value}; the table now has {columns}"
            return Trouble(what, _NEW_SNAPSHOT, where="source", name=TroubleName.SCHEMA_CHANGED)
        what = f"{where} {statement.effect.value}" + (f": {statement.why}" if statement.why else "")
        if statement.effect in _CURES:
            return Refused(what, _CURES[statement.effect], "", "source")
        hint = _NEW_SNAPSHOT
        if statement.effect in (Effect.CHANGES, Effect.INDIRECT):
            hint += "; the client that wrote this must use binlog_format = ROW"
        return Trouble(what, hint, where="source", name=TroubleName.SLOT_LOST)

    def reached(self, after: Position, up_to: Position | None, top: Top | None, status: SlotStatus) -> Position:
        """Return the end of the range; without one, the newest position, with GTIDs if the stream was read up to it."""
        if up_to is not None:
            return up_to
        latest = ours(status.latest)
        before, spool = ours(after), self._spool
        read = None if spool is None or spool.any or not same(spool.after, before) else spool.end
        passed = next((one for one in (self._passed, read) if one is not None and there(one, latest)), None)
        if passed is None:
            passed = replace(before.moved(latest.file, latest.offset), gtids=None, mark=None)
        return replace(passed, time=before.time)

    # -- the copy -----------------------------------------------------------------------------------------------------

    def open_now(self) -> OpenTransactions | None:
        return open_now(self.session)

    def plan_chunks(self, rows: int) -> list[Chunk]:
        limit = self._copy_seconds
        return chunks.plan(self.seen, rows, lambda statement, values: self.session.rows(statement, values, limit))

    @property
    def _copy_seconds(self) -> float:
        return self.options.full_sync_binlog_read_timeout / 1000 or 3600.0

    def copy_chunk(self, chunk: Chunk, out: BinaryIO) -> int:
        seen, accepts = self.seen, self._accepts
        images, places = seen.images, self.selection.places(seen.identity)
        if accepts is None:  # a column that is not mirrored can have been dropped since the copy started
            images, places = tuple(images[place] for place in places), ()
        statement, values = chunks.read_statement(seen, images, chunk)
        spell, count = speller(images, places), 0
        self.session.check_expected()
        for rows in self.session.read(statement, values, self._copy_seconds):
            for row in rows:
                if accepts is None or accepts(row):
                    put(out, spell(row))
                    count += 1
        self.session.check_expected()  # the read may have opened a new connection
        return count

    def plan_again(self, rows: int) -> list[Chunk]:
        starts.refuse_invisible(self.session)
        self.identify()
        limit = self._copy_seconds
        return chunks.plan_again(self.seen, rows, lambda statement, values: self.session.rows(statement, values, limit))

    def copy_chunk_after(self, chunk: Chunk, after: Position, out: BinaryIO) -> int:
        with starts.showing(self.session, ours(after)):
            return self.copy_chunk(chunk, out)

    def images_of(self, item: TableRows) -> Iterator[tuple[str, Sequence[Any]]]:
        """Return the complete, decoded images of an event's rows, each with its kind."""
        changes = self._decoder(item.table).changes(item.rows)
        if changes.action is not Action.UPDATE:
            kind = "I" if changes.action is Action.INSERT else "d"
            return ((kind, row) for row in (changes.after or changes.before))
        pairs = zip(changes.before, changes.after, strict=True)
        return (one for old, new in pairs for one in (("B", old), ("U", new)))

    def close(self) -> None:
        self._forget()
        self._follower.close()
        self._scanner.close()
        self.session.close()

    def _forget(self) -> None:
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.close()

    def _follow(self, reader: str, line: FeedLine | None) -> Follower | Joined:
        own = Follower(lambda place: self.stream(place, reader))
        if line is None:
            return own
        return Joined(
            own,
            line,
            lambda: (self.session.facts.identity, self._named),
            lambda item: of_tables(item, self._reading(reader)),
        )

    @property
    def _named(self) -> Table:
        return self.seen.schema, self.seen.name

    def _reading(self, reader: str) -> Reading:
        known = self.selection.cascades_known or side_effects.cascades_are_written(self.session.facts)
        return Reading(
            self.session.replica(f"{self.slot}\x1f{self.table}\x1f{reader}"),
            [self._named],
            silent_seconds=self._silent_seconds,
            key_index=self.seen.key_index,
            cascades_known=known,
            doubt=self._bystanders.doubt,
        )

    def stream(self, place: MysqlPosition, reader: str) -> Stream:
        """Return the table's own stream from a position on; `reader` is a part of the replica's identity."""
        start, reading = self.resolved(place), self._reading(reader)
        return Stream(self.session.connect_same, self.session.place, self.session.user, start, reading)

    def _statements(self, after: MysqlPosition, up_to: MysqlPosition) -> Iterator[Statement]:
        """Return every statement of a range for `side_effects`; DML that is logged as row events is not included."""
        replica = self.session.replica(f"{self.slot}\x1f{self.table}\x1fbystanders")
        reading, named = Reading(replica, (), every=True), (self.session.place, self.session.user)
        follower = Follower(lambda place: Stream(self.session.connect, *named, place, reading))
        try:
            yield from (item for item in follower.read(after, up_to) if isinstance(item, Statement))
        finally:
            follower.close()

    def resolved(self, place: MysqlPosition) -> MysqlPosition:
        """Return the position with its full file name, even if a user typed the displayed form."""
        return self.session.resolved(place)


class _Writer:
    """Writes the rows of one layout of the table in the encoding of the sink.

    Old images contain only the key, unless `whole` is true; an event whose images lack columns is rejected in any case.
    """

    def __init__(
        self,
        decoder: Decoder,
        seen: TableSeen,
        selection: Selection,
        accepts: Accepts | None,
        skips_before: bool,
        whole: bool = False,
    ) -> None:
        self._decoder, self._accepts, self._skips_before = decoder, accepts, skips_before
        places = selection.places(seen.identity)
        self._whole = speller(seen.images, places)
        keys = [whole or image.name in seen.identity.key for image in seen.images]
        self._key = speller(seen.images, places, keys)
        # a filter needs the values of a row
        self._plan = None if accepts else kernel_plan(decoder.columns, seen.images, places, keys)
        self._letters = {Action.INSERT: "I", Action.UPDATE: "-U" if skips_before else "BU", Action.DELETE: "d"}

    def write(self, item: TableRows, out: BinaryIO) -> int:
        place = str(item.number << OFFSET_BITS | item.at)
        if self._plan is not None:
            self._decoder.check(item.rows)
            read = self._plan.rows if takes_rows(out) else self._plan.lines
            rows = item.rows
            made = read(rows.body, rows.begin, rows.stop, place, item.first, self._letters[rows.action])
            if made is not None:
                return put_made(out, made)
        changes = self._decoder.changes(item.rows)
        # an image has at least one byte, so the next event of a compressed transaction starts at a higher number
        images = enumerate(self._kinds(changes.action, changes.before, changes.after), item.first)
        return put_all(out, ((place, str(n), kind, *values) for n, (kind, values) in images))

    def _kinds(
        self, action: Action, before: Sequence[Sequence[Any]], after: Sequence[Sequence[Any]]
    ) -> Iterator[tuple[str, tuple[Any, ...]]]:
        if action is Action.DELETE:
            return zip(repeat("d"), map(self._key, before))
        if action is Action.INSERT and self._accepts is None:
            return zip(repeat("I"), map(self._whole, after))
        if action is Action.INSERT:
            return (self._image("I", row) for row in after)
        return self._updated(before, after)

    def _updated(
        self, before: Sequence[Sequence[Any]], after: Sequence[Sequence[Any]]
    ) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for old, new in zip(before, after, strict=True):
            if not self._skips_before:
                yield "B", self._key(old)
            yield self._image("U", new)

    def _image(self, kind: str, row: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
        """Return a row's image after a change. If the filter rejects the row, the image has kind x, which removes the
        row with this key from the target.
        """
        if self._accepts is None or self._accepts(row):
            return kind, self._whole(row)
        return "x", self._key(row)
