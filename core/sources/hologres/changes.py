"""Converts binlog records to the changes that a sink accepts, and reads a range of a shard's binlog page by page.

Hologres, "Subscribe to Hologres binlogs": type 5 is an insert, 2 a delete, 3 and 7 are the row before and after an
update, consecutive and with the same time; an update by Holo Client or Flink can also be 2, then 5. 27 is a heartbeat
without a row. `Pages` reads in the order of the binlog's key, and rejects pages that cannot be complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from slotkeeper.core.domain.slot import Column, Shard
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Rows
from slotkeeper.core.errors import Busy, Refused
from slotkeeper.core.sources.hologres.catalog import Record, number_of
from slotkeeper.core.sources.hologres.session import HoloSession
from slotkeeper.core.sources.pg_base import table_name
from slotkeeper.core.sqltext import statements

INSERT, DELETE, BEFORE, AFTER, HEARTBEAT = 5, 2, 3, 7, 27
"""Values of hg_binlog_event_type; HEARTBEAT occurs only if `hg_experimental_enable_binlog_heartbeat_record` is on."""
WORDS = {
    INSERT: "insert (5)",
    DELETE: "delete (2)",
    BEFORE: "before update (3)",
    AFTER: "after update (7)",
    HEARTBEAT: "heartbeat (27)",
}
"""The names of the event types, with the vendor's numbers."""
LETTERS = {INSERT: "I", DELETE: "d", BEFORE: "B", AFTER: "U"}
"""Event types as written in a batch."""


@dataclass(frozen=True, slots=True)
class Event:
    """A shard's binlog record; `values` are its columns in PostgreSQL's text format, `us` is its time since 1970."""

    lsn: int
    type: int
    us: int
    values: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A record as part of a batch: the two numbers that define its order, its type letter, its row, and its time."""

    point: int
    sequence: int
    kind: str
    values: tuple[str | None, ...]
    us: int


@dataclass(frozen=True, slots=True)
class Left:
    """Which events the vendor's parameters omit: deletes (`deletes`), and images before updates (`images`)."""

    deletes: bool = False
    images: bool = False

    @property
    def types(self) -> tuple[int, ...]:
        """The types that produce no change by themselves."""
        return (HEARTBEAT, BEFORE, *((DELETE,) if self.deletes else ()))


def changes(events: Iterable[Event], before: Event | None, left: Left) -> Iterator[Change]:
    """Yield the changes of consecutive records of a shard.

    Both images of an update get the point of the second record. A range that ends between the two images yields
    neither, and the range that starts there yields both; for this case, `before` is the record at the start of the
    range if its type is 3. Raises Refused for an unknown type, and for a 3 without a following 7, because their effect
    on a row is unknown.
    """
    image = before
    for event in events:
        if event.type == HEARTBEAT:
            continue
        if image is not None and not (event.type == AFTER and event.us == image.us):
            then = WORDS.get(event.type, str(event.type))
            what = f"LSN {image.lsn} is the before-image of an update, but {then} follows at {event.lsn}"
            raise Refused(what, "the binlog lacks the after-image: take a new snapshot", where="source")
        if event.type == BEFORE:
            image = event
            continue
        if event.type == AFTER and image is not None and not left.images:
            yield Change(event.lsn, 0, LETTERS[BEFORE], image.values, image.us)
        image = None
        if event.type not in LETTERS:
            what = f"LSN {event.lsn} has the unknown event type {event.type}"
            raise Refused(what, "ask for a release that supports it; nothing skipped", where="source")
        if event.type != DELETE or not left.deletes:
            yield Change(event.lsn, 1, LETTERS[event.type], event.values, event.us)


SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
_NO_COLUMNS = SQL("")
FEW = 64
"""Page size of the query that checks whether there are changes."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The records of a shard after one LSN and up to another LSN."""

    shard: Shard
    after: int
    up_to: int


class Pages:
    """The binlog of one table, read over a session in pages of `size` records; `limit_ms` is the timeout per page."""

    def __init__(self, session: HoloSession, table: str, size: int, limit_ms: int | None) -> None:
        self._session = session
        self._table = table
        self._size = max(1, size)
        self._limit_ms = limit_ms

    def changes(self, stretch: Stretch, columns: Sequence[Column], left: Left) -> Iterator[Change]:
        """Yield the changes of a stretch in LSN order.

        The record at the start of the stretch is read as well: it can be the first half of an update within it.
        """
        events = self.events(Stretch(stretch.shard, stretch.after - 1, stretch.up_to), columns)
        first = next(events, None)
        if first is None:
            return
        if first.lsn > stretch.after:
            yield from changes(chain((first,), events), None, left)
        else:
            yield from changes(events, first if first.type == BEFORE else None, left)

    def events(self, stretch: Stretch, columns: Sequence[Column]) -> Iterator[Event]:
        """Yield the records of a stretch whose end is a record's LSN. Raises Busy if the server returns fewer records.

        Hologres: LSNs of a shard strictly grow, so a record that is not after the previous record is a repetition. An
        empty page before the end does not mean that there are no more records: the server has just reported that the
        end record exists.
        """
        last = stretch.after
        while last < stretch.up_to:
            begin = last
            for event in self._page("page", Stretch(stretch.shard, last, stretch.up_to), columns, self._size):
                if event.lsn > last:
                    last = event.lsn
                    yield event
            if last == begin:
                here = f"after LSN {max(0, last)}, but has a record at {stretch.up_to}"
                what = f"{stretch.shard.name} returned no record {here}"
                raise Busy(what, "retrying the same range; nothing skipped", where="source")

    def newest(self, stretch: Stretch, columns: Sequence[Column], most: int) -> list[Event]:
        """Return the last records of a stretch in LSN order."""
        return self._page("back_page", stretch, columns, most)[::-1]

    def nth(self, stretch: Stretch, number: int) -> Record | None:
        """Return the record with this number in a stretch, counted from 1; None if the stretch has fewer."""
        rows = self._rows("nth", stretch, self._limit_ms, skipped=Literal(max(1, number) - 1))
        return Record(int(rows[0][0]), int(rows[0][1])) if rows else None

    def last_before(self, stretch: Stretch, us: int) -> Record | None:
        """Return the last record of a stretch that is older than a time; None if there is none.

        In a shard, times grow with the LSNs, so the search starts at the newest records and goes back page by page.
        """
        most = self._size
        while True:
            found = self._rows("back_page", stretch, self._limit_ms, columns=_NO_COLUMNS, most=Literal(most))
            for lsn, _, at, *_ in found:
                if int(at) < us:
                    return Record(int(lsn), int(at))
            if len(found) < most:
                return None
            stretch = Stretch(stretch.shard, stretch.after, int(found[-1][0]) - 1)

    def any(self, stretch: Stretch, left: Left) -> bool:
        """Return whether a stretch contains a change; False is returned only after the end of the stretch was read."""
        few = Pages(self._session, self._table, min(self._size, FEW), self._limit_ms)
        return any(event.type not in left.types for event in few.events(stretch, ()))

    def count(self, stretch: Stretch, limit_ms: int) -> list[tuple[int, int, int, int]]:
        """Return (type, number of records, first LSN, first time) for each event type in a stretch."""
        found = self._rows("count", stretch, limit_ms)
        return [(int(kind), int(many), int(lsn), int(us)) for kind, many, lsn, us in found]

    def _page(self, name: str, stretch: Stretch, columns: Sequence[Column], most: int) -> list[Event]:
        spelled = SQL("").join(SQL(", {}").format(pg.text_form(one.type, Identifier(one.name))) for one in columns)
        rows = self._rows(name, stretch, self._limit_ms, columns=spelled, most=Literal(most))
        return [Event(int(lsn), int(kind), int(us), tuple(values)) for lsn, kind, us, *values in rows]

    def _rows(self, name: str, stretch: Stretch, limit_ms: int | None, **parts: pg.sql.Composable) -> Rows:
        statement = SQL(statements("slotkeeper.core.sources.hologres")[name]).format(
            table=table_name(self._table),
            shard=Literal(number_of(stretch.shard)),
            after=Literal(stretch.after),
            up_to=Literal(stretch.up_to),
            **parts,
        )
        return self._session.composed_rows(statement, None, limit_ms)
