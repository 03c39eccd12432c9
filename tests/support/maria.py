"""Fixtures: one MariaDB per run, where the machine has one, and per test a fresh database of it.

Its binlog is one for all tests of a run: each reads from where it began.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import ConfigError, SlotkeeperError
from slotkeeper.core.sources.mysql import faults
from slotkeeper.core.sources.mysql.events import Event, Mapped, Parser, Rows
from slotkeeper.core.sources.mysql.position import MysqlPosition, parse_gtids
from slotkeeper.core.sources.mysql.rows import Changes, Decoder, Described, columns_of
from slotkeeper.core.sources.mysql.stream import Reading, Stream
from slotkeeper.core.sources.mysql.tables import read_charsets, read_described
from slotkeeper.core.sources.mysql.transactions import Item, TableRows
from slotkeeper.demo import mariadb
from slotkeeper.demo.mariadb import MariaServer
from slotkeeper.demo.placement import give, owner_of
from tests.support.postgres_lines import Authority
from tests.support.standin import MEMORY_DISK, MEMORY_ROOM, PREFIX

SETTINGS = {"innodb_flush_log_at_trx_commit": "0", "innodb_buffer_pool_size": "32M", "innodb_log_file_size": "16M"}
"""Crashes of the server lose nothing by it that a test reads, crashes of the machine end the run anyway."""
SECONDS = 20.0
_numbers = itertools.count(1)


def begin(settings: dict[str, str] | None = None) -> MariaServer:
    """A server of its own in memory; whoever asks discards it. Skips where the machine has no MariaDB."""
    try:
        mariadb.find_programs()
    except ConfigError as error:
        pytest.skip(f"{error.message}: {error.hint}")
    room = MEMORY_DISK.is_dir() and shutil.disk_usage(MEMORY_DISK).free > MEMORY_ROOM
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=MEMORY_DISK if room else None))
    return mariadb.create(folder / "maria", {**SETTINGS, **(settings or {})})


def end(server: MariaServer) -> None:
    """End it and delete its folder."""
    server.discard()
    shutil.rmtree(server.folder.parent, ignore_errors=True)


@pytest.fixture(scope="session")
def maria_server() -> Iterator[MariaServer]:
    """The run's own MariaDB."""
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
    """The superuser's password; logins that tests make have none."""
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
        """Where the binlog ends now."""
        file, offset = self.rows("SHOW MASTER STATUS")[0][:2]
        return str(file), int(offset)

    def mark(self) -> None:
        """What is read begins here."""
        self.file, self.offset = self.here()

    def position(self) -> MysqlPosition:
        """Where what is read begins, with the GTIDs of that place."""
        (text,) = self.rows("SELECT BINLOG_GTID_POS(%s, %s)", (self.file, self.offset))[0]
        return MysqlPosition(self.file, self.offset, parse_gtids(str(text or "")))

    def stream(
        self, *tables: str, start: MysqlPosition | None = None, by_gtid: bool = False, server_id: int = 0
    ) -> Stream:
        """A stream of some of the database's tables, from a position on or from the mark."""
        replica = my.Replica(server_id or next(_numbers) + 900_000, "", 1.0)
        reading = Reading(replica, [(self.database, table) for table in tables], by_gtid)
        connect = partial(log_in, self.server)
        return Stream(connect, "maria", "'root'@'%'", start or self.position(), reading)

    def decoded(self, items: Iterable[Item]) -> list[Changes]:
        """The rows among what a stream gave, decoded."""
        found, decoders = [], dict[bytes, Decoder]()
        for item in items:
            if isinstance(item, TableRows):
                table = item.table
                if table.layout not in decoders:
                    decoders[table.layout] = self.decoder(Mapped(item.rows.header, table))
                found.append(decoders[table.layout].changes(item.rows))
        return found

    def events(self) -> list[Event]:
        """What was written since, up to now."""
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
        """Rows of this database's tables written since, decoded."""
        found, decoders = [], {}
        for event in self.events():
            if isinstance(event, Mapped) and event.table.schema == self.database:
                decoders[event.table.number] = self.decoder(event)
            elif isinstance(event, Rows) and event.table_id in decoders:
                found.append(decoders[event.table_id].changes(event))
        return found

    def inserted(self) -> list[tuple[Any, ...]]:
        """All rows that were inserted since, in their order."""
        return [row for change in self.changes() for row in change.after]


@pytest.fixture
def maria(maria_server: MariaServer) -> Iterator[Maria]:
    """A fresh database of the run's MariaDB."""
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
