"""Fixtures: one MariaDB per run, if the host has MariaDB, and per test a fresh database of it. All tests of a run share
its binlog: each reads from its own start.

`Lane` is a lane of a MySQL source into a mirror in memory: the source's own code from start to step, and no sink.
"""

from __future__ import annotations

import io
import itertools
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.drivers import my
from slotkeeper.core.drivers.pipe import rows_of
from slotkeeper.core.errors import ConfigError, SlotkeeperError
from slotkeeper.core.sources.mysql import faults
from slotkeeper.core.sources.mysql.events import Event, Mapped, Parser
from slotkeeper.core.sources.mysql.events import Rows as RowsEvent
from slotkeeper.core.sources.mysql.filters import Selection
from slotkeeper.core.sources.mysql.position import MysqlPosition, ours, parse_gtids
from slotkeeper.core.sources.mysql.retention import MysqlTable
from slotkeeper.core.sources.mysql.rows import Changes, Decoder, Described, columns_of
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.source import SHARD
from slotkeeper.core.sources.mysql.stream import Reading, Stream, there
from slotkeeper.core.sources.mysql.tables import read_charsets, read_described
from slotkeeper.core.sources.mysql.transactions import Item, TableRows
from slotkeeper.demo import mariadb
from slotkeeper.demo.mariadb import SUPERUSER, MariaServer
from slotkeeper.demo.placement import give, owner_of
from tests.support.memory import memory_disk
from tests.support.standin import PREFIX
from tests.support.tls_lines import Authority

SETTINGS = {"innodb_flush_log_at_trx_commit": "0", "innodb_buffer_pool_size": "32M", "innodb_log_file_size": "16M"}
"""A crash of the server loses nothing that a test reads; a crash of the host ends the run in any case."""
SECONDS = 20.0
_numbers = itertools.count(1)


def begin(settings: dict[str, str] | None = None) -> MariaServer:
    """A separate server in memory; the caller discards it. Skips if the host has no MariaDB."""
    try:
        mariadb.find_programs()
    except ConfigError as error:
        pytest.skip(f"{error.message}: {error.hint}")
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=memory_disk()))
    return mariadb.create(folder / "maria", {**SETTINGS, **(settings or {})})


def end(server: MariaServer) -> None:
    server.discard()
    shutil.rmtree(server.folder.parent, ignore_errors=True)


@pytest.fixture(scope="session")
def maria_server() -> Iterator[MariaServer]:
    server = begin()
    yield server
    end(server)


def secure(server: MariaServer, authority: Authority) -> None:
    """Restart it with TLS, and with a certificate for its address."""
    made = authority.ca.issue_cert(mariadb.HOST)
    files = {"ssl_cert": server.place / "cert", "ssl_key": server.place / "key"}
    made.cert_chain_pems[0].write_to_path(files["ssl_cert"])
    made.private_key_pem.write_to_path(files["ssl_key"])
    for file in files.values():
        give(file, owner_of(server.place))
    server.restart({name: str(path) for name, path in files.items()})


def endpoint(server: MariaServer, user: str = mariadb.SUPERUSER) -> Endpoint:
    if user == mariadb.SUPERUSER:
        return server.endpoint()
    return Endpoint("maria", mariadb.HOST, server.port, "", user, sslmode="disable")


def log_in(server: MariaServer, user: str = mariadb.SUPERUSER, password: str = "", database: str = "") -> my.Session:
    known = password or password_of(server, user)
    return my.connect(endpoint(server, user), known, "slotkeeper/test", SECONDS, database)


def password_of(server: MariaServer, user: str = mariadb.SUPERUSER) -> str:
    """The superuser's password; logins created by tests have no password."""
    return server.password() if user == mariadb.SUPERUSER else ""


@dataclass(slots=True)
class Maria:
    """A database of the run's server with a session of the superuser, and the binlog since it was made."""

    server: MariaServer
    session: my.Session
    database: str
    file: str
    offset: int

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.session.rows(statement)

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self.session.rows(statement, values)

    def here(self) -> tuple[str, int]:
        file, offset = self.rows("SHOW MASTER STATUS")[0][:2]
        return str(file), int(offset)

    def mark(self) -> None:
        self.file, self.offset = self.here()

    def position(self) -> MysqlPosition:
        """The position at which reading starts, with its GTIDs."""
        (text,) = self.rows("SELECT BINLOG_GTID_POS(%s, %s)", (self.file, self.offset))[0]
        return MysqlPosition(self.file, self.offset, parse_gtids(str(text or "")))

    def stream(
        self, *tables: str, start: MysqlPosition | None = None, by_gtid: bool = False, server_id: int = 0
    ) -> Stream:
        """A stream of some of the database's tables, from a position or from the mark."""
        replica = my.Replica(server_id or next(_numbers) + 900_000, "", 1.0)
        reading = Reading(replica, [(self.database, table) for table in tables], by_gtid)
        connect = partial(log_in, self.server)
        return Stream(connect, "maria", "'root'@'%'", start or self.position(), reading)

    def decoded(self, items: Iterable[Item]) -> list[Changes]:
        found, decoders = [], dict[bytes, Decoder]()
        for item in items:
            if isinstance(item, TableRows):
                table = item.table
                if table.layout not in decoders:
                    decoders[table.layout] = self.decoder(Mapped(item.rows.header, table))
                found.append(decoders[table.layout].changes(item.rows))
        return found

    def events(self) -> list[Event]:
        reader = log_in(self.server)
        parser = Parser()
        try:
            my.register(reader, my.Replica(next(_numbers) + 900_000, "", 5.0))
            dump = my.dump_file(reader, my.Replica(next(_numbers) + 900_000, "", 5.0), self.file, self.offset, False)
            found = []
            while (packet := dump.packet(SECONDS)) is not None:
                found.append(parser.parse(packet, 1))
            return found
        finally:
            reader.close()

    def decoder(self, event: Mapped, described: Described | None = None) -> Decoder:
        known = described or read_described(self.session, event.table.schema, event.table.table)
        return Decoder(columns_of(event.table, known, read_charsets(self.session)))

    def changes(self) -> list[Changes]:
        found, decoders = [], {}
        for event in self.events():
            if isinstance(event, Mapped) and event.table.schema == self.database:
                decoders[event.table.number] = self.decoder(event)
            elif isinstance(event, RowsEvent) and event.table_id in decoders:
                found.append(decoders[event.table_id].changes(event))
        return found

    def inserted(self) -> list[tuple[Any, ...]]:
        """All rows that were inserted since the mark, in order."""
        return [row for change in self.changes() for row in change.after]


@pytest.fixture
def maria(maria_server: MariaServer) -> Iterator[Maria]:
    session = log_in(maria_server)
    database = f"test_{next(_numbers)}"
    session.rows(f"CREATE DATABASE {database}")
    session.rows(f"USE {database}")
    found = Maria(maria_server, session, database, "", 0)
    found.mark()
    yield found
    session.rows(f"DROP DATABASE {database}")
    session.close()


def classified(error: BaseException) -> SlotkeeperError:
    return faults.classify(error, "maria", "root")


Rows = dict[tuple[str | None, ...], tuple[str | None, ...]]


class Lane:
    """One table, its rows by key, and the position up to which they are applied."""

    def __init__(
        self, server: MariaServer, table: str, cascades_known: bool = False, user: str = SUPERUSER, slot: str = "lane"
    ) -> None:
        session = MysqlSession(Login(endpoint(server, user), password_of(server, user), "slotkeeper/lane"))
        selection = Selection(cascades_known=cascades_known)
        self.source = MysqlTable(session, table, slot, BinlogOptions(binlog=True), selection)
        self.rows: Rows = {}
        self.position: Position | None = None
        self.changes = 0
        """Images that the stream has produced."""

    def start(self) -> Lane:
        self.source.admit()
        self.position = self.source.open_lanes()[0].latest
        self.rows = self.copied()
        return self

    def resume(self, other: Lane) -> Lane:
        """Take over another lane's rows and position, as a restart does."""
        self.source.admit()
        self.rows, self.position, self.changes = other.rows, other.position, other.changes
        return self

    def copied(self) -> Rows:
        """The table's rows as a copy reads them now."""
        out = io.BytesIO()
        for chunk in self.source.plan_chunks(1_000):
            self.source.copy_chunk(chunk, out)
        out.seek(0)
        return {self._key(row): row for row in rows_of(out)}

    def _key(self, row: tuple[str | None, ...]) -> tuple[str | None, ...]:
        seen = self.source.seen
        return tuple(row[place] for place, image in enumerate(seen.images) if image.name in seen.identity.key)

    def catch_up(self) -> Lane:
        """Apply everything up to the current end of the binlog.

        Raises SlotkeeperError if the lane stops.
        """
        assert self.position is not None
        status = self.source.read_status(None)[0]
        while not there(ours(self.position), ours(status.latest)):
            end = self.source.next_range(self.position, status, 50)
            out = io.BytesIO()
            self.changes += self.source.copy_changes(SHARD, self.position, end, out)
            out.seek(0)
            for _, _, kind, *values in rows_of(out):
                row = tuple(values)
                if kind in ("I", "U"):
                    self.rows[self._key(row)] = row
                else:
                    self.rows.pop(self._key(row), None)
            self.position = end
        return self

    def close(self) -> None:
        self.source.close()


@contextmanager
def lane(
    server: MariaServer, table: str, cascades_known: bool = False, user: str = SUPERUSER, slot: str = "lane"
) -> Iterator[Lane]:
    made = Lane(server, table, cascades_known, user, slot)
    try:
        yield made.start()
    finally:
        made.close()
