"""A seeded workload over `ods.orders`: several writers at one rate, and bulk changes for benchmarks.

Order of use: `create`, `load`, create the slot, start `Workload`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Protocol

from slotkeeper.core.drivers import pg
from slotkeeper.demo import ledger
from slotkeeper.demo.ledger import Tally
from slotkeeper.demo.orders import DDL_COLUMNS, DISTRIBUTE_BY, KEY, TABLE, Statements
from slotkeeper.demo.plans import Mix
from slotkeeper.demo.writers import Connect, TokenBucket, Writer, WriterStats

BULK_FIRST = 500_000_000_000
"""Default first order number of bulk inserts: above the loaded orders, below the writers' own."""

HUGE_FIRST = 700_000_000_000
"""First order number of one huge transaction."""


class Tables(Protocol):
    """Creates tables; implemented by `slotkeeper.demo.warehouse.Warehouse`."""

    def create_table(
        self,
        sql_name: str,
        ddl_columns: str,
        primary_key: Sequence[str],
        distribute_by: Sequence[str] | None = None,
        ttl_s: int = 86_400,
    ) -> None:
        """Create a binlog table."""

    def connect(self) -> pg.Connection:
        """Open a session that is allowed to create tables."""


def create(warehouse: Tables, ttl_s: int = 86_400) -> None:
    """Create the orders table (with binlog) and the ledger (without)."""
    warehouse.create_table(TABLE, DDL_COLUMNS, KEY, DISTRIBUTE_BY, ttl_s)
    with closing(warehouse.connect()) as connection:
        ledger.create(connection)


class Workload:
    """Writers that share one rate (`rate` changes per second in total, 0: no limit) and one seed."""

    def __init__(self, connect: Connect, writers: int, rate: float, seed: int, mix: Mix | None = None) -> None:
        bucket = TokenBucket(rate)
        self.writers = [Writer(connect, seed, number, mix, bucket) for number in range(writers)]

    def start(self) -> None:
        """Start every writer; call it once."""
        for writer in self.writers:
            writer.start()

    def stop(self, seconds: float = 30.0) -> list[WriterStats]:
        """Stop all writers, wait for them, and return their statistics; raises the error of a writer that
        ended early.
        """
        for writer in self.writers:
            writer.stop()
        for writer in self.writers:
            writer.finish(seconds)
        return [writer.stats for writer in self.writers]

    @property
    def failed(self) -> BaseException | None:
        """The error of a writer that ended early, if there is one."""
        return next((writer.error for writer in self.writers if writer.error is not None), None)

    @property
    def changes(self) -> int:
        """Rows changed and committed so far, by all writers."""
        return sum(writer.stats.changes for writer in self.writers)


def bulk(
    connection: pg.Connection,
    verb: str,
    rows: int,
    first: int = BULK_FIRST,
    per_statement: int = 5_000,
    per_transaction: int | None = None,
    seed: int = 0,
    going_on: Callable[[], bool] = lambda: True,
) -> Tally:
    """Change orders `first` to `first + rows - 1` with large statements: `verb` is "insert", "update" or "delete".

    Commits every `per_transaction` rows (default: every statement); stops early once `going_on` returns False.
    """
    statements, total = Statements.of(connection), Tally()
    writer = f"bulk {verb}"
    size = per_transaction or per_statement
    for start in range(first, first + rows, size):
        if not going_on():
            break
        tally: Tally = {}
        end = min(start + size, first + rows)
        with _in_transaction(connection) as cursor:
            for at in range(start, end, per_statement):
                ledger.add(tally, _bulk_one(statements, cursor, verb, at, min(per_statement, end - at), seed))
            _book(cursor, writer, tally)
        ledger.add(total, tally)
    return total


def one_huge_transaction(connection: pg.Connection, rows: int, first: int = HUGE_FIRST, seed: int = 0) -> Tally:
    """Insert `rows` orders in one transaction, with one statement."""
    return bulk(connection, "insert", rows, first, per_statement=rows, seed=seed)


def _bulk_one(statements: Statements, cursor: pg.Cursor, verb: str, first: int, rows: int, seed: int) -> Tally:
    if verb == "insert":
        return statements.bulk_insert(cursor, first, rows, seed)
    if verb == "update":
        return statements.bulk_update(cursor, first, rows, seed)
    if verb == "delete":
        return statements.bulk_delete(cursor, first, rows)
    raise ValueError(f"unknown verb {verb!r} (known: insert, update, delete)")


def _book(cursor: pg.Cursor, writer: str, tally: Tally) -> None:
    """Record the changes under the transaction's own number, because bulk changes keep no counter between calls."""
    cursor.execute("SELECT txid_current()")
    ledger.write(cursor, writer, int(cursor.fetchall()[0][0]), tally)


@contextmanager
def _in_transaction(connection: pg.Connection) -> Iterator[pg.Cursor]:
    """Open one transaction, also on an autocommit session."""
    before = connection.autocommit
    connection.autocommit = False
    try:
        with pg.transaction(connection) as cursor:
            yield cursor
    finally:
        if not connection.closed:
            connection.autocommit = before
