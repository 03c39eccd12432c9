"""The source kind Hologres, read by SQL or by stream, with or without slots: its sessions, and its properties."""

from __future__ import annotations

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.position import Positions
from slotkeeper.core.domain.remedy import ManualSql
from slotkeeper.core.domain.spec import TableAsked
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import PgTables
from slotkeeper.core.drivers.session import PING_LIMIT_MS
from slotkeeper.core.ports.kinds import Doctor, OpenFeed, Probe, SourceKind
from slotkeeper.core.ports.source import SourceTable
from slotkeeper.core.sources.hologres.doctor import HoloDoctor
from slotkeeper.core.sources.hologres.inspector import HoloInspector
from slotkeeper.core.sources.hologres.position import POSITIONS, SLOT_POSITIONS
from slotkeeper.core.sources.hologres.session import HOLOGRES, HoloSession
from slotkeeper.core.sources.hologres.slots import ConfirmLine, SlotTable
from slotkeeper.core.sources.hologres.stream.records import IDLE_SECONDS, Streams
from slotkeeper.core.sources.hologres.traits import SLOT_TRAITS, TRAITS
from slotkeeper.core.sources.hologres.words import SLOT_WORDS, WORDS, HoloManualSql, SlotManualSql


class HoloConnection:
    """A session to Hologres, with its streams; implements `slotkeeper.core.ports.kinds.SourceSession`."""

    idle_seconds = IDLE_SECONDS
    """Seconds without a read after which the source ends its streams."""

    def __init__(self, login: Login, by_slot: bool = False) -> None:
        self.session = HoloSession(login.endpoint, login.password, login.name)
        self.doctor: Doctor = HoloDoctor(self.session, by_slot)
        self.streams = Streams(login, self.idle_seconds)
        self.confirming = ConfirmLine(login) if by_slot else None

    def table(self, asked: TableAsked) -> SourceTable:
        session, streams = self.session, self.streams
        if self.confirming is None:
            made = HoloInspector(session, asked.table, asked.binlog, asked.channel, streams)
            made.whole_images = asked.images is not None
            return SourceTable(made, None, made, WORDS)
        slot = SlotTable(session, asked.table, asked.binlog, asked.channel, streams, asked.slot, self.confirming)
        slot.whole_images = asked.images is not None
        return SourceTable(slot, slot, slot, SLOT_WORDS, session.pinned)

    def ping(self) -> None:
        self.session.composed_rows(pg.sql.SQL("SELECT 1"), None, PING_LIMIT_MS)

    def sever(self) -> None:
        if self.confirming is not None:
            self.confirming.sever()
        self.streams.sever()
        self.session.sever()

    def close(self) -> None:
        if self.confirming is not None:
            self.confirming.close()
        self.streams.close()
        self.session.close()


class HoloKind:
    """Hologres; implements `slotkeeper.core.ports.kinds.SourceKind`.

    With `by_slot`, jobs use slots, whose positions the server stores, as versions before 2.1 need for a stream.
    """

    gives: tuple[Encoding, ...] = (Encoding.ROWS,)
    feed: OpenFeed | None = None

    def __init__(self, by_slot: bool = False) -> None:
        self._by_slot = by_slot
        self.manual: ManualSql = SlotManualSql() if by_slot else HoloManualSql()
        self.positions: Positions = SLOT_POSITIONS if by_slot else POSITIONS
        self.traits = SLOT_TRAITS if by_slot else TRAITS
        self.words = SLOT_WORDS if by_slot else WORDS

    @staticmethod
    def probe(login: Login) -> Probe:
        from slotkeeper.core.sources.hologres.probe import probe  # only the probe needs this file

        return probe(login)

    def connect(self, login: Login, polls: bool = False) -> HoloConnection:
        return HoloConnection(login, self._by_slot)

    def tables(self, login: Login, limit_ms: int) -> PgTables:
        return PgTables(login, HOLOGRES, limit_ms)


KIND: SourceKind = HoloKind()
SLOT_KIND: SourceKind = HoloKind(by_slot=True)
