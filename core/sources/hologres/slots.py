"""A Hologres slot: its table and confirmed LSNs in the catalogs, the connection that confirms LSNs, and the source.

Hologres, "Troubleshoot Blink and Flink issues", names hologres.hg_replication_progress, which the first consumption
creates, and left-over publications; the published client finds the table of a slot through the publication. The columns
of hg_replication_progress are not documented.

The sink's progress row is authoritative: a job continues from that row, never from the slot. The driver confirms the
position that the sink has committed (the row is locked meanwhile), so the slot is never ahead of the row. holo-client
confirms over the stream that it reads (`setFlushedLSN`, `forceUpdateStatus`). In Slotkeeper, workers read and only the
driver confirms, after the commit. So the driver confirms over its own stream (`ConfirmLine`), which starts after the
confirmed LSN and is never read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.position import Kept, Position
from slotkeeper.core.domain.slot import FirstRecord, RegisteredPoint, Shard, SlotStatus, TableAnswer
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_stream import SlotReplication
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError
from slotkeeper.core.ports.source import Confirmation
from slotkeeper.core.sources.hologres import catalog
from slotkeeper.core.sources.hologres.catalog import number_of, parts
from slotkeeper.core.sources.hologres.inspector import HoloInspector
from slotkeeper.core.sources.hologres.position import HoloPosition, SlotKept, kept_of, ours
from slotkeeper.core.sources.hologres.session import HoloSession, classify
from slotkeeper.core.sources.hologres.stream.records import StreamRecords, Streams
from slotkeeper.core.sources.hologres.stream.shard import StreamAsked, command
from slotkeeper.core.sqltext import dotted, literal, quoted

SQL: Book = ("slotkeeper.core.sources.hologres", "slots.sql")
_NAME = re.compile(r"[a-z0-9_]{1,63}")
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_ABSENT, _OTHER_COLUMNS, _NO_RIGHT = "42P01", "42703", "42501"


@dataclass(frozen=True, slots=True)
class Bound:
    """The binding of a slot name: none, or a publication with its table ("" if the table does not exist)."""

    there: bool
    publication: str = ""
    table: str = ""


def refuse_name(slot: str) -> None:
    """Raise Refused for a slot name that Hologres would reject: only lower-case letters, digits and _ are valid."""
    if not _NAME.fullmatch(slot):
        what = f"slot name {slot!r}: Hologres allows lower-case letters, digits and _ only"
        raise Refused(what, "choose another slot name", where="source")


def bound(session: HoloSession, slot: str, table: str) -> Bound:
    """Return the binding of a slot; if its publication has several tables, `table` takes precedence."""
    schema, _, name = table.partition(".")
    rows = _rows(session, "of_name", {"slot": slot})
    tabled = [(str(one), f"{where}.{what}") for one, where, what in rows if what is not None]
    if (mine := [one for one in tabled if one[1] == f"{schema}.{name}"]) or tabled:
        return Bound(True, *(mine or tabled)[0])
    return Bound(bool(rows), str(rows[0][0]) if rows else "")


def confirmed(session: HoloSession, slots: Iterable[str]) -> dict[tuple[str, int], int]:
    """Return the confirmed LSN by slot and shard; a shard for which no LSN was ever confirmed has no entry.

    Raises Refused if the columns of the server's table differ from the columns that Slotkeeper knows.
    """
    try:
        rows = session.rows("progress", {"slots": list(slots)}, of=SQL)
    except SlotkeeperError as error:
        if error.code == _ABSENT:  # Hologres: the first consumption creates this table
            return {}
        if error.code == _OTHER_COLUMNS:
            what = "hologres.hg_replication_progress lacks column slot_name, parallel_index or lsn"
            hint = 'cannot read slot positions: set dialect = "hologres", which needs no slot'
            raise Refused(f"{what}: {error.message}", hint, error.code, "source") from error
        raise
    found: dict[tuple[str, int], int] = {}
    for slot, shard, lsn in rows:
        place = (str(slot), int(shard))
        found[place] = max(found.get(place, 0), lsn_of(str(lsn)))
    return found


def of_table(session: HoloSession, table: str) -> list[tuple[str, str]]:
    """Return (slot, publication) of every slot that reads a table."""
    rows = _rows(session, "of_table", parts(table))
    return sorted({(str(slot), str(publication)) for slot, publication in rows})


def create(session: HoloSession, slot: str, table: str) -> None:
    """Create a slot, and a publication if the table has none; raises Refused if the login lacks the privilege."""
    made = ""
    try:
        there = [str(one) for (one,) in session.rows("publication", parts(table), of=SQL)]
        if not there:
            created = f"CREATE PUBLICATION {quoted(publication_of(slot))} FOR TABLE {dotted(table)}"
            session.composed_rows(pg.sql.SQL(created), None)
            made = publication_of(slot)
        session.rows("create_slot", {"slot": slot, "publication": made or there[0]}, of=SQL)
    except SlotkeeperError as error:
        if made:
            with suppress(SlotkeeperError):
                session.composed_rows(pg.sql.SQL(f"DROP PUBLICATION {quoted(made)}"), None)
        if error.code != _NO_RIGHT:
            raise
        raise Refused(error.message, RIGHTS.format(table=dotted(table)), error.code, "source") from error


def drop(session: HoloSession, slot: str, publication: str) -> None:
    """Drop a slot, and its publication if that was created for the slot and no other slot uses it."""
    session.rows("drop_slot", {"slot": slot}, of=SQL)
    readers = session.rows("readers", {"publication": publication}, of=SQL)[0][0]
    if publication == publication_of(slot) and not readers:
        session.composed_rows(pg.sql.SQL(f"DROP PUBLICATION {quoted(publication)}"), None)


def calls(slot: str, table: str) -> tuple[str, ...]:
    """Return the statements that `create` sends, as shown in a plan."""
    return (
        f"CREATE PUBLICATION {quoted(publication_of(slot))} FOR TABLE {dotted(table)}; -- if it has none",
        f"CALL hg_create_logical_replication_slot({literal(slot)}, 'hgoutput', <its publication>)",
    )


def publication_of(slot: str) -> str:
    return f"{slot[:59]}_pub"


def lsn_of(text: str) -> int:
    """Parse an LSN written as a number or in PostgreSQL's format.

    >>> lsn_of("10516"), lsn_of("0/2914")
    (10516, 10516)
    """
    if text.isascii() and text.isdigit():
        return int(text)
    found = _LSN.fullmatch(text)
    if found is None:
        what = f"hologres.hg_replication_progress: invalid LSN {text[:40]!r}"
        raise Refused(what, 'set dialect = "hologres", which needs no slot', where="source")
    return int(found[1], 16) << 32 | int(found[2], 16)


RIGHTS = (
    "a slot needs a superuser, or the owner of {table} with CREATE on the database and the REPLICATION role"
    ' (Hologres, "Consume Binlog via JDBC"); from 2.1 on dialect = "hologres" needs only SELECT'
)


def _rows(session: HoloSession, name: str, parameters: dict[str, str]) -> list[tuple[object, ...]]:
    try:
        return list(session.rows(name, parameters, of=SQL))
    except SlotkeeperError as error:
        if error.code == _NO_RIGHT:  # Hologres before 1.3.14: superusers only
            hint = "Hologres before 1.3.14 shows slots to superusers only"
            raise Refused(error.message, hint, error.code, "source") from error
        if error.code not in (_ABSENT, "3F000"):
            raise
        what = "this server has no slot catalog (hologres.hg_replication_slot_properties)"
        hint = "Hologres before 2.0: run CREATE EXTENSION hg_binlog as a superuser, once in each database"
        raise Refused(what, hint, error.code, "source") from error


def listed(session: HoloSession, table: str) -> list[RegisteredPoint]:
    """Return one point by slot and shard, under both flags: Hologres stores one LSN without a time."""
    slots = [slot for slot, _ in of_table(session, table)]
    if not slots:
        return []
    shards = catalog.read_table(session, table).shards
    found = confirmed(session, slots)
    return [
        RegisteredPoint(
            shard.name, slot, flag, HoloPosition(found.get((slot, catalog.number_of(shard)), 0)), None, None
        )
        for slot in slots
        for shard in shards
        for flag in (False, True)
    ]


SEEN_SECONDS = 3.0
"""Time in seconds within which the server has to show a confirmed LSN."""
PAUSE_SECONDS = 0.02


class ConfirmLine:
    """Opens a connection for each confirmation; only one thread uses it at a time, but any thread can `sever` it."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._line: SlotReplication | None = None

    @contextmanager
    def open(self, table: str, slot: str, shard: int, lsn: int) -> Iterator[SlotReplication]:
        """Open a connection for the slot, on which nothing is confirmed yet; raises SlotkeeperError if that fails."""
        try:
            line = self._line = SlotReplication(self._login)
            line.start(command(StreamAsked(table, 1, slot=slot), shard, lsn))
            yield line
        except pg.DriverError as error:
            raise classify(pg.hiding(error, self._login.password), self._login.endpoint.place) from error
        finally:
            self.close()

    def seen(self, ask: Callable[[], int | None], lsn: int) -> int | None:
        """Wait at most `SEEN_SECONDS` until the server shows this LSN; return the LSN that the server shows."""
        until = time.monotonic() + SEEN_SECONDS
        while (there := ask()) != lsn and time.monotonic() < until:
            time.sleep(PAUSE_SECONDS)
        return there

    def sever(self) -> None:
        line = self._line
        if line is not None:
            line.sever()

    def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()


REFUSED_BACK = "this server cannot move a slot back; reset with --to snapshot instead"


class SlotTable(HoloInspector):
    """A table with its slot; implements `slotkeeper.core.ports.source.Slot`."""

    by_slot = True
    shown_as = ""
    cleared_for = 1

    def __init__(
        self,
        session: HoloSession,
        table: str,
        options: BinlogOptions,
        channel: ChannelSpec | None,
        streams: Streams,
        slot: str,
        line: ConfirmLine,
    ) -> None:
        super().__init__(session, table, options, channel, streams)
        self.slot = slot
        self._line = line
        if options.by_stream:
            self.reader = StreamRecords(streams, table, options, self._version, slot)

    def admit(self) -> None:
        refuse_name(self.slot)
        super().admit()
        if self.options.binlog:
            self._bound()

    # -- the slot's position ------------------------------------------------------------------------------------------

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        kept = self._kept()
        return [replace(one, kept=kept(one.shard)) for one in super().read_status(shard)]

    def _kept(self) -> Callable[[Shard], SlotKept]:
        if not self.options.binlog:
            return lambda shard: SlotKept(None)
        # read before the binding: a drop removes both, and a dropped slot must not look like a slot that moved back
        found = confirmed(self.session, [self.slot])
        its = bound(self.session, self.slot, self.table)
        if not its.there or its.table != self.table:  # a slot of this name that reads another table is not this slot
            return lambda shard: SlotKept(None)
        return lambda shard: SlotKept(found.get((self.slot, number_of(shard)), 0))

    def _bound(self) -> Bound:
        found = bound(self.session, self.slot, self.table)
        if found.there and not found.table:
            what = f"slot {self.slot} is left over: its publication {found.publication} has no table"
            hint = f"CALL hg_drop_logical_replication_slot('{self.slot}'), or choose another slot name"
            raise Refused(what, hint, where="source")
        if found.there and found.table != self.table:
            what = f"slot {self.slot} reads {found.table} (publication {found.publication}), not {self.table}"
            raise Refused(what, "a slot serves one table: choose another slot name", where="source")
        return found

    # -- moving the slot ----------------------------------------------------------------------------------------------

    def confirm(self, first: SlotStatus, asked: Confirmation) -> SlotKept:
        before = kept_of(first.kept)
        goal = before.at(asked.position)
        if goal == before:
            asked.check()
            return goal
        asked.probe("before_confirm")
        self._tell(first.shard, goal, asked.check)
        asked.probe("after_confirm")
        return goal

    def put(
        self,
        shard: Shard,
        kept: Kept,
        probe: Callable[[str], None],
        first: SlotStatus | None = None,
        lost: bool = False,
    ) -> None:
        """Confirm exactly this LSN, forward or back; raises Refused if the server does not accept the LSN.

        For a new lane, also raises Refused if a shard without a record has a slot with a position.
        """
        goal = kept_of(kept)
        if first is not None:
            self._restore(shard, goal, kept_of(first.kept))
            probe("after_confirm")
            return
        before = self._kept()(shard)
        if goal.lsn and goal != before:
            self._tell(shard, goal, lambda: None)
        elif not goal.lsn and before.lsn:
            what = f"{shard.name}: cannot confirm a position on a shard without records; slot {self.slot}"
            hint = f"run `slotkeeper slots drop`, then start the job, which creates the slot again for {self.table}"
            raise Refused(f"{what} is at {before.lsn}", hint, where="source")
        probe("after_first_confirm")

    def _tell(self, shard: Shard, goal: SlotKept, check: Callable[[], None]) -> None:
        """Confirm an LSN and wait until the server shows it; raises Busy if the server does not show it in time."""
        lsn = goal.lsn or 0
        with self._line.open(self.table, self.slot, number_of(shard), lsn) as line:
            check()
            line.confirm(lsn)
            there = self._line.seen(lambda: self._kept()(shard).lsn, lsn)
        if there != lsn:
            what = f"{shard.name}: slot {self.slot} confirmed at LSN {lsn}, but the server shows {there}"
            raise Busy(what, "No action needed: the slot is updated later, nothing is lost.", where="source")

    def open_lanes(self) -> list[SlotStatus]:
        """Create the slot and its publication if they are missing; raises Refused if the slot reads another table."""
        if not self._bound().there:
            create(self.session, self.slot, self.table)
        return self.read_status(None)

    def full_sync(self) -> str:
        """Confirm the newest record of every shard; create the slot if it is missing, because a start requires it."""
        self.open_lanes()
        for status in self.read_status(None):
            goal = kept_of(status.kept).at(status.latest)
            if goal != status.kept:
                self._tell(status.shard, goal, lambda: None)
        return "the newest record of every shard"

    def end_sessions(self, pattern: str = "") -> bool:
        """Return False, so that the caller waits for earlier sessions: a view of all sessions is not documented."""
        return False

    def clear(self) -> int:
        """Drop the slot, and the publication if it was created for the slot; return the table's number of shards."""
        found = self._bound()
        drop(self.session, self.slot, found.publication)
        return len(self.nodes())

    def points(self) -> Sequence[RegisteredPoint] | None:
        return listed(self.session, self.table)

    def kept_by(self, points: Sequence[RegisteredPoint]) -> SlotKept:
        return SlotKept(ours(points[0].point).lsn if points and points[0].point else None)

    def begin_at(self, status: SlotStatus, place: Position, record: FirstRecord | None) -> SlotKept:
        return kept_of(status.kept).at(place)

    def kept_at(self, shard: Shard, place: Position, before: Kept, status: SlotStatus | None, back: bool) -> SlotKept:
        return kept_of(before).at(place)

    def _restore(self, shard: Shard, goal: SlotKept, before: SlotKept) -> None:
        if goal != before and goal.lsn:
            try:
                self._tell(shard, goal, lambda: None)
            except Busy as error:
                if before.behind(goal):
                    raise
                raise Refused(error.message, REFUSED_BACK, where="source") from error

    def read(self) -> TableAnswer:
        answer = super().read()
        try:
            return replace(answer, points=listed(self.session, self.table))
        except SlotkeeperError as error:
            if not catalog.gone(error):
                raise
            return replace(answer, points=[])

    def may_drop(self) -> bool:
        """Return True: a slot's owner can drop it, and the server rejects other logins."""
        return True
