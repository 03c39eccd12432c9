"""Fixtures: one embedded server per run, and per test a fresh database with the DWS stand-in, cloned
from a template.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from slotkeeper.core.drivers import pg
from slotkeeper.demo import mariadb, postgres
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support import memory

TEMPLATE = "standin_template"
PREFIX = "slotkeeper-tests-"
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
    "autovacuum": "off",
    "max_prepared_transactions": "8",
    "shared_preload_libraries": "plpgsql",
    "plan_cache_mode": "force_generic_plan",
}
"""A crash of the server loses nothing because of it; a crash of the host ends the run anyway. The last two are for the
many sessions of a test, each of which calls a function of the stand-in a few times: its body is planned once, not each
time.
"""
_numbers = itertools.count(1)


class MakeWarehouse(Protocol):
    """Makes one more warehouse for this test; `dns` other than 4 installs a new one instead of cloning."""

    def __call__(self, dns: int = 4, switches: Switches | None = None) -> Warehouse: ...


@dataclass(frozen=True, slots=True)
class Point:
    """One row of pgxc_get_binlog_sync_point without the node's name."""

    node: int
    last: int
    latest: int
    xmin: int


class Surface:
    """A client of the documented calls, in one session of the ordinary role `etl`."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.connection = warehouse.connect_etl()

    def close(self) -> None:
        self.connection.close()

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, tuple(parameters))
            return cursor.fetchall() if cursor.description else []

    def columns(self, statement: str) -> list[str]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            assert cursor.description is not None
            return [column.name for column in cursor.description]

    def value(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        return self.rows(statement, parameters)[0][0]

    def read_status(self, table: str, slot: str, checkpoint: bool = False, node: int = 0) -> dict[str, Point]:
        answer = self.rows("SELECT * FROM pgxc_get_binlog_sync_point(%s, %s, %s, %s)", (table, slot, checkpoint, node))
        return {row[0]: Point(*row[1:]) for row in answer}

    def start(self, table: str, slot: str = "slot1") -> dict[str, Point]:
        """Register both points of every DN at latest, for any state of the switches; recording is on afterwards."""
        self.rows("SELECT * FROM pgxc_register_full_sync_point(%s, %s)", (table, slot))
        self.read_status(table, slot, True)
        return self.read_status(table, slot)

    def changes(self, table: str, node: int = 0, start: int = 0, end: int = 9_999_999_999) -> list[tuple[Any, ...]]:
        """All rows in (point, sequence) order; needs a check of the same table first."""
        return sorted(
            self.rows("SELECT * FROM pgxc_get_binlog_changes(%s, %s, %s, %s)", (table, node, start, end)),
            key=lambda row: row[:2],
        )

    def register(self, table: str, slot: str, node: int, point: int, checkpoint: bool = False, xmin: int = 3) -> int:
        return int(
            self.value(
                "SELECT pgxc_register_binlog_sync_point(%s, %s, %s, %s, %s, %s)",
                (table, slot, node, point, checkpoint, xmin),
            )
        )

    def register_both(self, table: str, slot: str, node: int, point: int, xmin: int = 3) -> None:
        for checkpoint in (False, True):
            self.register(table, slot, node, point, checkpoint, xmin)


def run(warehouse: Warehouse, *statements: str, settings: Sequence[str] = ()) -> None:
    """Run each statement in a separate transaction, as the superuser."""
    with closing(warehouse.connect()) as connection, connection.cursor() as cursor:
        for statement in (*settings, *statements):
            cursor.execute(statement)


def slot_points(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """Every slot point that the server keeps, read from its store."""
    with closing(warehouse.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM dws.slot ORDER BY rel, slot_name, dn, checkpoint")
        return cursor.fetchall()


def new_database(server: Server, database: str, *statements: str, template: str = "template1") -> None:
    """A database, in which the statements are run; copying files takes half the time of a copy through the log."""
    names = (pg.sql.Identifier(database), pg.sql.Identifier(template))
    _run_in(server, "postgres", pg.sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(*names))
    _run_in(server, database, *map(pg.sql.SQL, statements))


def drop_database(server: Server, database: str) -> None:
    _run_in(server, "postgres", pg.sql.SQL("DROP DATABASE {} WITH (FORCE)").format(pg.sql.Identifier(database)))


def _run_in(server: Server, database: str, *statements: pg.sql.Composable) -> None:
    if statements:
        with closing(server.connect(database)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


def sweep() -> None:
    """Remove the folders of killed runs. Another process can remove a folder at any moment, at its own end or as well
    as a sweep: an error would fail every test of this process.
    """
    for left in memory.DISK.glob(f"{PREFIX}*"):
        with suppress(OSError):
            old = time.time() - left.stat().st_mtime > 3_600
            if old and postgres.attach(left / "server") is None and not mariadb.running_pid(left / "maria"):
                postgres.discard(left / "server")
                mariadb.discard(left / "maria")
                shutil.rmtree(left, ignore_errors=True)


@pytest.fixture(scope="session")
def pg_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the whole run; it is removed with all its data at the end."""
    if (disk := memory.memory_disk()) is not None:
        sweep()
        above = Path(tempfile.mkdtemp(prefix=PREFIX, dir=disk))
    else:
        above = tmp_path_factory.mktemp("embedded")
    server = postgres.start(above / "server", "embedded", SETTINGS)
    yield server
    postgres.discard(above / "server")
    shutil.rmtree(above, ignore_errors=True)


@pytest.fixture(scope="session")
def standin_template(pg_server: Server) -> str:
    """The name of a database with the stand-in, four DNs and no table; no session stays connected to it."""
    Warehouse.install(pg_server, dns=4, database=TEMPLATE)
    return TEMPLATE


@pytest.fixture
def make_warehouse(pg_server: Server, standin_template: str) -> Iterator[MakeWarehouse]:
    """A maker of warehouses, each in a separate database that is dropped with the test."""
    made: list[str] = []

    def make(dns: int = 4, switches: Switches | None = None) -> Warehouse:
        database = f"warehouse_{next(_numbers)}"
        made.append(database)
        if dns != 4:
            return Warehouse.install(pg_server, dns, switches, database)
        new_database(pg_server, database, template=standin_template)
        warehouse = Warehouse.attach(pg_server, database)
        if switches is not None:
            warehouse.configure(switches)
        return warehouse

    yield make
    for database in made:
        drop_database(pg_server, database)


@pytest.fixture
def warehouse(make_warehouse: MakeWarehouse) -> Warehouse:
    """A warehouse with four DNs, default switches and no table."""
    return make_warehouse()


@pytest.fixture
def surface(warehouse: Warehouse) -> Iterator[Surface]:
    """A client of `warehouse` as the role `etl`."""
    client = Surface(warehouse)
    yield client
    client.close()
