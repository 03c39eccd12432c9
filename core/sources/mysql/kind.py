"""MySQL and MariaDB as a kind of source: its sessions with their interfaces, and its properties."""

from __future__ import annotations

from collections.abc import Sequence

from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.remedy import ManualSql
from slotkeeper.core.domain.spec import TableAsked
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.ports.kinds import Doctor, OpenFeed, Probe, SourceKind
from slotkeeper.core.ports.source import SourceTable
from slotkeeper.core.sources.mysql.chunks import MysqlTables
from slotkeeper.core.sources.mysql.doctor import MysqlDoctor
from slotkeeper.core.sources.mysql.failover import MysqlFailover
from slotkeeper.core.sources.mysql.filters import Selection
from slotkeeper.core.sources.mysql.inspector import MysqlInspector
from slotkeeper.core.sources.mysql.joined import FeedLine, open_feed
from slotkeeper.core.sources.mysql.position import POSITIONS, WORDS
from slotkeeper.core.sources.mysql.retention import MysqlTable, Purges
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.shapes import MysqlShapes
from slotkeeper.core.sources.mysql.tables import shown
from slotkeeper.core.sources.mysql.traits import TRAITS

PING_SECONDS = 5.0


class MysqlConnection:
    """One session to a server; implements `slotkeeper.core.ports.kinds.SourceSession`."""

    def __init__(self, login: Login) -> None:
        self.session = MysqlSession(login)
        self.doctor: Doctor = MysqlDoctor(self.session, login)
        self._tables: list[MysqlTable] = []
        self._purges = Purges(self.session)
        self._line: FeedLine | None = None

    def table(self, asked: TableAsked) -> SourceTable:
        sync, selection = asked.sync, Selection.of(asked.channel) if asked.channel else None
        limits = sync.min_bytes_sync_commit, sync.max_bytes_sync_commit, sync.stream_read_timeout / 1000
        reader = asked.slot or f"peek of {self.session.name}"
        if asked.images is not None:  # a query has one stream to plan batches and one to read them
            reader += f"\x1f{self.session.name.rpartition('/')[2]}"
        if asked.feed and self._line is None:
            self._line = FeedLine(asked.feed)
        line = self._line if asked.feed else None
        known = asked.channel.known if asked.channel else ()
        made = MysqlInspector(self.session, asked.table, reader, asked.binlog, selection, *limits, line, known)
        made.purges, made.whole_images = self._purges, asked.images is not None
        self._tables.append(made)
        failover = MysqlFailover(self.session, f"{reader}\x1f{asked.table}\x1ffailover")
        return SourceTable(made, None, made, WORDS, failover=failover, shapes=MysqlShapes(made))

    def ping(self) -> None:
        self.session.rows("SELECT 1", (), PING_SECONDS)

    def sever(self) -> None:
        self.session.sever()

    def close(self) -> None:
        for table in self._tables:
            table.close()
        if self._line is not None:
            self._line.close()
        self.session.close()


class NothingByHand:
    """Implements `slotkeeper.core.domain.remedy.ManualSql`; the server stores no position that SQL could move."""

    def grants(self, endpoint: Endpoint, tables: Sequence[str]) -> list[str]:
        name = endpoint.user.replace("'", "''")
        to = f"'{name}'@'HOST'"
        return [
            f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {to}; -- HOST: see SELECT CURRENT_USER()",
            *(f"GRANT SELECT ON {shown(table)} TO {to};" for table in tables),
            f"GRANT PROCESS ON *.* TO {to}; -- MySQL only: a copy waits for open transactions",
        ]

    def status(self, table: str) -> str:
        return "SHOW MASTER STATUS; -- the server stores no position: see `slotkeeper slots show`"

    def register(
        self, table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
    ) -> str:
        return "-- a MySQL server stores no position: no statement to run"


class MysqlKind:
    """MySQL and MariaDB; implements `slotkeeper.core.ports.kinds.SourceKind`."""

    manual: ManualSql = NothingByHand()
    positions: Positions = POSITIONS
    traits = TRAITS
    words = WORDS
    gives: tuple[Encoding, ...] = (Encoding.ROWS,)
    feed: OpenFeed | None = staticmethod(open_feed)

    @staticmethod
    def probe(login: Login) -> Probe:
        from slotkeeper.core.sources.mysql.probe import probe  # only the probe needs this file

        return probe(login)

    def connect(self, login: Login, polls: bool = False) -> MysqlConnection:
        return MysqlConnection(login)

    def tables(self, login: Login, limit_ms: int) -> MysqlTables:
        return MysqlTables(login, limit_ms)


KIND: SourceKind = MysqlKind()
