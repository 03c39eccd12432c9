"""Two servers with the same settings, and in them the four databases of a round.

source server: `warehouse` (the stand-in for DWS, which records changes by triggers) and `publisher` (the same table
and the same changes, plain). sink server: `ours_<n>` and `base_<n>`, new in every round; each peer works in a copy of
the latter, made just before its turn.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotkeeper.core.drivers import pg
from slotkeeper.demo import postgres, workload
from slotkeeper.demo.ledger import Tally, add
from slotkeeper.demo.orders import DDL_COLUMNS, KEY, TABLE, load
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.warehouse import Warehouse
from slotkeeper.demo.workload import BULK_FIRST, bulk

SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
    "wal_level": "logical",
    "shared_preload_libraries": "pg_stat_statements",
}
"""On top of `slotkeeper.demo.postgres.SETTINGS`, for both servers; fsync and synchronous_commit stay on."""
WAREHOUSE, PUBLISHER = "warehouse", "publisher"
TARGET = "mart.orders"
MARKERS = (-7, -8)
"""The customers of the rows that end a round's changes at the publisher, one in each half of the filtered publications:
once they are there, everything before them is too."""
PUBLICATIONS = ("bench", "bench_even", "bench_odd")
"""The whole table, and its halves by a filter over the key."""
RESERVED = "bench_peers"
"""The slot that makes the stand-in keep a round's changes for what reads them after us."""
PER_TRANSACTION = 4_000

_PLACEMENT = """
CREATE SCHEMA dws;
CREATE TABLE dws.node (ord smallint, node_name text);
INSERT INTO dws.node VALUES (0, 'one');
CREATE FUNCTION dws.dn_expression(regclass, text) RETURNS text LANGUAGE sql AS $$ SELECT '0::smallint' $$
"""
"""What the workload asks of a warehouse before it writes, for a database that is none: all rows are of one node."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows the table has before the first round, and what a round changes."""

    rows: int
    changes: int
    rounds: int
    seed: int

    @property
    def inserts(self) -> int:
        return self.changes * 4 // 7

    @property
    def updates(self) -> int:
        return self.changes * 2 // 7

    @property
    def deletes(self) -> int:
        return self.changes - self.inserts - self.updates

    @property
    def loaded(self) -> int:
        """Enough that every round updates and deletes rows that it has not inserted itself."""
        return max(self.rows, self.updates + (self.rounds + 1) * self.deletes)


@dataclass(frozen=True, slots=True)
class Span:
    """What a round has changed on one DN: sync points from `after` on and up to `latest`.

    The stand-in's newest point is the first that no transaction has yet, so the round's first one has `after` itself.
    """

    name: str
    node: int
    after: int
    latest: int


class Publisher:
    """The plain database with the workload's table; implements `slotkeeper.demo.workload.Tables`."""

    def __init__(self, server: Server) -> None:
        self.server = server
        run(server, "postgres", f"CREATE DATABASE {PUBLISHER}")
        run(server, PUBLISHER, _PLACEMENT)

    def create_table(
        self, sql_name: str, ddl_columns: str, primary_key: Any, distribute_by: Any = None, ttl_s: int = 0
    ) -> None:
        """The table, its key, and the publications of it."""
        create_plain(self.server, PUBLISHER, sql_name, ddl_columns, primary_key)
        for name, where in zip(PUBLICATIONS, ("", " WHERE ((cust & 1) = 0)", " WHERE ((cust & 1) = 1)"), strict=True):
            run(self.server, PUBLISHER, f"CREATE PUBLICATION {name} FOR TABLE {sql_name}{where}")

    def connect(self) -> pg.Connection:
        """A superuser session."""
        return self.server.connect(PUBLISHER)


class Rig:
    """The servers and what is in them; `close` removes everything."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.folder = Path(tempfile.mkdtemp(prefix="slotkeeper-bench-"))
        with ThreadPoolExecutor(2) as pool:
            starting = [pool.submit(postgres.start, self.folder / name, name, SETTINGS) for name in ("source", "sink")]
            self.source, self.sink = (one.result() for one in starting)
        self.warehouse = Warehouse.install(self.source, 4, database=WAREHOUSE)
        self.publisher = Publisher(self.source)
        for server in (self.source, self.sink):
            run(server, "postgres", "CREATE EXTENSION pg_stat_statements")
        for tables in (self.warehouse, self.publisher):
            workload.create(tables)
            connection = tables.connect()
            load(connection, sizes.loaded, sizes.seed)
            connection.close()

    def new_sinks(self, round_: int) -> tuple[str, str]:
        """Empty databases for a round: ours (which makes its own table) and the peers' base, with the table and its
        key."""
        ours, base = f"ours_{round_}", f"base_{round_}"
        for name in (ours, base):
            run(self.sink, "postgres", f"CREATE DATABASE {name}")
        create_plain(self.sink, base, TABLE, DDL_COLUMNS, KEY)
        return ours, base

    def copy_of(self, base: str, name: str) -> str:
        """A database with the same files as another, to which no session may be connected."""
        run(self.sink, "postgres", f"CREATE DATABASE {name} TEMPLATE {base} STRATEGY file_copy")
        return name

    def drop(self, *names: str) -> None:
        """Drop databases of the sink."""
        for name in names:
            run(self.sink, "postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def settle(self, *sinks: str) -> None:
        """Vacuum, analyze and checkpoint, so that no timing pays for what went before it and each finds warm pages."""
        for database in (WAREHOUSE, PUBLISHER):
            run(self.source, database, "VACUUM ANALYZE")
        for database in sinks:
            run(self.sink, database, "VACUUM ANALYZE")
        self.checkpoint()

    def reserve(self) -> None:
        """Register the peers' slot up to now: what is changed from here on is kept until the next time."""
        run(self.source, WAREHOUSE, f"SELECT pgxc_register_full_sync_point('{TABLE}', '{RESERVED}')")

    def spans(self) -> list[Span]:
        """What was changed since `reserve`, per DN."""
        statement = "SELECT node_name::text, node_id, last_sync_point, latest_sync_point FROM"
        found = run(self.source, WAREHOUSE, f"{statement} pgxc_get_binlog_sync_point('{TABLE}', '{RESERVED}', true, 0)")
        return [Span(*row) for row in found]

    def checkpoint(self) -> None:
        """Write out both servers' dirty pages."""
        for server in (self.source, self.sink):
            run(server, "postgres", "CHECKPOINT")

    def change_warehouse(self, round_: int) -> int:
        """One round's changes at the stand-in; events by the generator's account."""
        return sum(events.total for events in self._change(self.warehouse.connect, round_).values())

    def change_publisher(self, round_: int) -> None:
        """The same changes at the publisher, and the markers."""
        self._change(self.publisher.connect, round_)
        rows = ", ".join(f"({cust}, {round_})" for cust in MARKERS)
        run(self.source, PUBLISHER, f"INSERT INTO {TABLE} (cust, order_no) VALUES {rows}")

    def _change(self, connect: Callable[[], pg.Connection], round_: int) -> Tally:
        """Inserts, updates and deletes in turn, a few thousand rows a transaction, no row twice within a round."""
        sizes, total = self.sizes, Tally()
        connection = connect()
        turns = max(1, -(-sizes.inserts // PER_TRANSACTION))
        for verb, first, rows in turns_of(sizes, round_, turns):
            add(total, bulk(connection, verb, rows, first, PER_TRANSACTION, seed=sizes.seed + round_ + 1))
        connection.close()
        return total

    def fingerprint(self, server: Server, database: str, table: str) -> tuple[int, int]:
        """(rows, a sum of hashes over all rows without the markers): equal tables have equal ones."""
        without = f"cust NOT IN ({', '.join(map(str, MARKERS))})"
        statement = f"SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {table} t WHERE {without}"
        rows, hashes = run(server, database, statement)[0]
        return int(rows), int(hashes or 0)

    def close(self) -> None:
        """Stop the servers and remove their files."""
        for server in (self.source, self.sink):
            postgres.discard(server.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


def turns_of(sizes: Sizes, round_: int, turns: int) -> list[tuple[str, int, int]]:
    """(verb, first order, rows) of each transaction group of a round, in order."""
    starts = {
        "insert": BULK_FIRST + round_ * sizes.inserts,
        "update": 1,
        "delete": 1 + sizes.updates + round_ * sizes.deletes,
    }
    wanted = {"insert": sizes.inserts, "update": sizes.updates, "delete": sizes.deletes}
    found = []
    for turn in range(turns):
        for verb, rows in wanted.items():
            low, high = rows * turn // turns, rows * (turn + 1) // turns
            if high > low:
                found.append((verb, starts[verb] + low, high - low))
    return found


def create_plain(server: Server, database: str, table: str, columns: str, key: Any) -> None:
    """A table with its schema and primary key."""
    schema = table.split(".", 1)[0]
    run(server, database, f"CREATE SCHEMA IF NOT EXISTS {schema}")
    run(server, database, f"CREATE TABLE {table} ({columns}, PRIMARY KEY ({', '.join(key)}))")


def run(server: Server, database: str, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement as the superuser in a session of its own; its rows, where it has any."""
    connection = server.connect(database)
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()
