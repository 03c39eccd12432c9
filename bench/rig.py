"""Two servers with the same settings, and the four databases of a round in them.

Source server: `warehouse` (the stand-in for DWS, which records changes with triggers) and `publisher` (the same table
and the same changes, without triggers). Sink server: `ours_<n>` and `base_<n>`, new in every round; each peer works in
a copy of the latter, created just before its turn.
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
"""Settings for both servers, added to `slotkeeper.demo.postgres.SETTINGS`; fsync and synchronous_commit stay on."""
WAREHOUSE, PUBLISHER = "warehouse", "publisher"
TARGET = "mart.orders"
MARKERS = (-7, -8)
"""The customers of the rows that end a round's changes in the publisher, one in each half of the filtered publications:
once these rows have arrived, all earlier changes have arrived, too."""
PUBLICATIONS = ("bench", "bench_even", "bench_odd")
"""The whole table, and its halves as selected by a filter on the key."""
RESERVED = "bench_peers"
"""The slot for which the stand-in retains a round's changes for the peers, which read them after Slotkeeper."""
PER_TRANSACTION = 4_000

_PLACEMENT = """
CREATE SCHEMA dws;
CREATE TABLE dws.node (ord smallint, node_name text);
INSERT INTO dws.node VALUES (0, 'one');
CREATE FUNCTION dws.dn_expression(regclass, text) RETURNS text LANGUAGE sql AS $$ SELECT '0::smallint' $$
"""
"""The objects that the workload expects, for a database that is not a warehouse: all rows are on one node."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The number of rows in the table before the first round, and the number of changes per round."""

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
        """The number of rows to load: every round updates and deletes only rows that it has not inserted itself."""
        return max(self.rows, self.updates + (self.rounds + 1) * self.deletes)


@dataclass(frozen=True, slots=True)
class Span:
    """The changes of a round on one DN: sync points from `after` up to `latest`, both included.

    The stand-in's newest point is the first unused one, so the round's first point is `after`.
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
        """Create the table, its key, and its publications."""
        create_plain(self.server, PUBLISHER, sql_name, ddl_columns, primary_key)
        for name, where in zip(PUBLICATIONS, ("", " WHERE ((cust & 1) = 0)", " WHERE ((cust & 1) = 1)"), strict=True):
            run(self.server, PUBLISHER, f"CREATE PUBLICATION {name} FOR TABLE {sql_name}{where}")

    def connect(self) -> pg.Connection:
        """Open a superuser session."""
        return self.server.connect(PUBLISHER)


class Rig:
    """The servers and their databases; `close` removes everything."""

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
        """Create the databases of a round: an empty one for Slotkeeper (which creates its own table), and the peers'
        base, with the table and its key.
        """
        ours, base = f"ours_{round_}", f"base_{round_}"
        for name in (ours, base):
            run(self.sink, "postgres", f"CREATE DATABASE {name}")
        create_plain(self.sink, base, TABLE, DDL_COLUMNS, KEY)
        return ours, base

    def copy_of(self, base: str, name: str) -> str:
        """Create a database with the same files as another, which must have no open sessions."""
        run(self.sink, "postgres", f"CREATE DATABASE {name} TEMPLATE {base} STRATEGY file_copy")
        return name

    def drop(self, *names: str) -> None:
        """Drop databases of the sink."""
        for name in names:
            run(self.sink, "postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def settle(self, *sinks: str) -> None:
        """Vacuum, analyze and checkpoint, so that no timing includes the cost of earlier work, and each starts
        with warm pages.
        """
        for database in (WAREHOUSE, PUBLISHER):
            run(self.source, database, "VACUUM ANALYZE")
        for database in sinks:
            run(self.sink, database, "VACUUM ANALYZE")
        self.checkpoint()

    def reserve(self) -> None:
        """Confirm the current position for the peers' slot; the stand-in retains changes from then to the next call."""
        run(self.source, WAREHOUSE, f"SELECT pgxc_register_full_sync_point('{TABLE}', '{RESERVED}')")

    def spans(self) -> list[Span]:
        """Return the ranges of changes since `reserve`, per DN."""
        statement = "SELECT node_name::text, node_id, last_sync_point, latest_sync_point FROM"
        found = run(self.source, WAREHOUSE, f"{statement} pgxc_get_binlog_sync_point('{TABLE}', '{RESERVED}', true, 0)")
        return [Span(*row) for row in found]

    def checkpoint(self) -> None:
        """Write out both servers' dirty pages."""
        for server in (self.source, self.sink):
            run(server, "postgres", "CHECKPOINT")

    def change_warehouse(self, round_: int) -> int:
        """Make one round's changes in the stand-in; return the number of events that the generator counted."""
        return sum(events.total for events in self._change(self.warehouse.connect, round_).values())

    def change_publisher(self, round_: int) -> None:
        """Make the same changes in the publisher, and insert the markers."""
        self._change(self.publisher.connect, round_)
        rows = ", ".join(f"({cust}, {round_})" for cust in MARKERS)
        run(self.source, PUBLISHER, f"INSERT INTO {TABLE} (cust, order_no) VALUES {rows}")

    def _change(self, connect: Callable[[], pg.Connection], round_: int) -> Tally:
        """Alternate inserts, updates and deletes, up to `PER_TRANSACTION` rows each; no row changes twice
        within a round.
        """
        sizes, total = self.sizes, Tally()
        connection = connect()
        turns = max(1, -(-sizes.inserts // PER_TRANSACTION))
        for verb, first, rows in turns_of(sizes, round_, turns):
            add(total, bulk(connection, verb, rows, first, PER_TRANSACTION, seed=sizes.seed + round_ + 1))
        connection.close()
        return total

    def fingerprint(self, server: Server, database: str, table: str) -> tuple[int, int]:
        """Return (rows, a sum of hashes over all rows without the markers); equal tables have equal fingerprints."""
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
    """Return (verb, first order, rows) of each transaction group of a round, in order."""
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
    """Create a table with its schema and primary key."""
    schema = table.split(".", 1)[0]
    run(server, database, f"CREATE SCHEMA IF NOT EXISTS {schema}")
    run(server, database, f"CREATE TABLE {table} ({columns}, PRIMARY KEY ({', '.join(key)}))")


def run(server: Server, database: str, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement as the superuser in a separate session; return its rows, if it has any."""
    connection = server.connect(database)
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()
