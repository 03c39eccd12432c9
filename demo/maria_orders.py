"""The workload's table `ods.orders` in a MariaDB: its rows, its writers, and their record of their changes.

Each change is counted by the row count that the server returns, and recorded in the same transaction in a table that
no job follows.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from slotkeeper.core.drivers import my
from slotkeeper.demo.ledger import Events
from slotkeeper.demo.markers import Sightings, marker_key
from slotkeeper.demo.orders import CUSTS, TABLE
from slotkeeper.demo.plans import NEW_NUMBERS, NOTES, STATUSES
from slotkeeper.demo.writers import RECONNECT_S, TokenBucket

SHARD = "binlog"
"""The only lane."""
LOGIN = "etl"
GRANTS = ("REPLICATION SLAVE, REPLICATION CLIENT ON *.*", f"SELECT ON {TABLE}")
"""The job's login and its rights, as docs/mysql.md requires."""
_DDL = (
    "CREATE DATABASE ods",
    f"""CREATE TABLE {TABLE} (
        cust BIGINT NOT NULL, order_no BIGINT NOT NULL, status VARCHAR(20) NOT NULL, amount DECIMAL(14,2) NOT NULL,
        note TEXT, created DATETIME(6) NOT NULL, weight DOUBLE, tags SET('gift','bulk','late'),
        PRIMARY KEY (cust, order_no))""",
    "CREATE DATABASE ledger",
    """CREATE TABLE ledger.events (
        writer VARCHAR(40) NOT NULL, tx BIGINT NOT NULL, inserted BIGINT NOT NULL, updated BIGINT NOT NULL,
        deleted BIGINT NOT NULL, key_changed BIGINT NOT NULL, PRIMARY KEY (writer, tx))""",
)
_LOAD = f"""INSERT INTO {TABLE}
    SELECT seq % {CUSTS} + 1, seq, ELT(1 + h % 4, 'new', 'paid', 'sent', 'returned'), (h % 10000000) / 100,
           CASE h % 8 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'NULL' ELSE CONCAT('note ', h) END,
           TIMESTAMPADD(SECOND, seq % 20000000, '2026-01-01 00:00:00.125'), IF(h % 5, h / 7, NULL),
           ELT(1 + h % 3, 'gift', '', 'bulk,late')
      FROM (SELECT seq, CRC32(CONCAT(seq, '/', %s)) AS h FROM {{numbers}}) g"""
_TOTALS = "SELECT sum(inserted), sum(updated), sum(deleted), sum(key_changed) FROM ledger.events"
PER_STATEMENT = 20_000
Connect = Callable[[], my.Session]


def create(session: my.Session) -> None:
    """Create the orders table and the ledger."""
    for statement in _DDL:
        session.rows(statement)


def load(session: my.Session, rows: int, seed: int) -> None:
    """Fill the table with the given number of orders, outside the ledger."""
    session.rows("USE ods")
    for first in range(1, rows + 1, PER_STATEMENT):
        numbers = f"seq_{first}_to_{min(rows, first + PER_STATEMENT - 1)}"
        session.rows(_LOAD.format(numbers=numbers).replace(" % ", " %% "), (seed,))


def totals(session: my.Session) -> Events:
    """Return the sum of all recorded events."""
    row = session.row(_TOTALS)
    return Events(*(int(number or 0) for number in row)) if row else Events()


class MariaLoop(threading.Thread):
    """A thread with one session, which it reopens if it is lost, until the thread is stopped."""

    def __init__(self, connect: Connect, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._connect = connect
        self._ended = threading.Event()
        self._session: my.Session | None = None
        self._tx = 0
        self.error: BaseException | None = None

    def stop(self) -> None:
        """Ask the thread to end after its current turn; safe to call twice, and before start."""
        self._ended.set()

    def finish(self, seconds: float = 30.0) -> None:
        """Wait for the thread to end; raises the error that ended it, or TimeoutError."""
        self.join(seconds)
        if self.is_alive():
            raise TimeoutError(f"thread {self.name} did not finish within {seconds} s")
        if self.error is not None:
            raise self.error

    def run(self) -> None:
        """Work in turns until the thread is stopped."""
        try:
            while not self._ended.is_set():
                if self._session is None:
                    self._session = self._connect()
                self._turn(self._session)
        except BaseException as error:  # raised in `finish`: a thread has no caller
            self.error = error
        finally:
            self._drop()

    def _turn(self, session: my.Session) -> None:
        try:
            self.work(session)
        except my.DriverError as error:
            # codes of a lost server: the ledger row shows whether the last transaction was committed; a deadlock rolls
            # the transaction back with its row
            self._drop()
            if my.code_of(error) not in (0, 1053, 1205, 1213, 2003, 2006, 2013, 2014):
                raise
            self._ended.wait(RECONNECT_S)

    def work(self, session: my.Session) -> None:
        """Do the work of one turn."""
        raise NotImplementedError

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def book(self, session: my.Session, events: Events) -> None:
        """Record the changes of a transaction, inside the transaction."""
        self._tx += 1
        session.rows(
            "INSERT INTO ledger.events SELECT %s, coalesce(max(tx), 0) + 1, %s, %s, %s, %s FROM ledger.events"
            " WHERE writer = %s",
            (self.name, events.inserted, events.updated, events.deleted, events.key_changed, self.name),
        )


class MariaWriter(MariaLoop):
    """One writer: seeded; its new orders have their own number range, separate from the loaded ones."""

    def __init__(self, connect: Connect, seed: int, number: int, rows: int, bucket: TokenBucket) -> None:
        super().__init__(connect, f"writer-{number}")
        self._chance = random.Random(f"{seed}/{number}")  # noqa: S311  repeatable, not secret
        self._rows, self._bucket = rows, bucket
        self._next = NEW_NUMBERS * (number + 1)
        self.changes = 0

    def work(self, session: my.Session) -> None:
        """Run a transaction of a few statements; one in ten is rolled back."""
        session.rows("BEGIN")
        events = Events()
        for _ in range(self._chance.randint(1, 6)):
            events += self._change(session)
        if self._chance.random() < 0.1:
            session.rows("ROLLBACK")
            return
        self.book(session, events)
        session.rows("COMMIT")
        self.changes += events.rows
        self._ended.wait(self._bucket.spend(max(1, events.rows), time.monotonic()))

    def _change(self, session: my.Session) -> Events:
        kind = self._chance.choices(("insert", "update", "delete", "key"), (30, 45, 15, 10))[0]
        if kind == "insert":
            return Events(inserted=self._insert(session))
        cust, order_no = self._some()
        here = (cust, order_no)
        if kind == "update":
            status, note = self._chance.choice(STATUSES), self._chance.choice(NOTES)
            statement = (
                f"UPDATE {TABLE} SET status = %s, note = %s, amount = amount + 1 WHERE cust = %s AND order_no = %s"
            )
            return Events(updated=self._did(session, statement, (status, note, *here)))
        if kind == "delete":
            return Events(deleted=self._did(session, f"DELETE FROM {TABLE} WHERE cust = %s AND order_no = %s", here))
        self._next += 1
        statement = f"UPDATE {TABLE} SET order_no = %s WHERE cust = %s AND order_no = %s"
        return Events(key_changed=self._did(session, statement, (self._next, *here)))

    def _insert(self, session: my.Session) -> int:
        self._next += 1
        values = (self._chance.randint(1, CUSTS), self._next, self._chance.choice(NOTES), self._chance.random())
        return self._did(
            session,
            f"INSERT INTO {TABLE} VALUES (%s, %s, 'new', 1.50, %s, UTC_TIMESTAMP(6), %s, 'gift')",
            values,
        )

    def _some(self) -> tuple[int, int]:
        """Return the key of a loaded order, which may have been deleted."""
        order_no = self._chance.randint(1, max(1, self._rows))
        return order_no % CUSTS + 1, order_no

    def _did(self, session: my.Session, statement: str, values: tuple[object, ...]) -> int:
        session.rows(statement, values)
        row = session.row("SELECT ROW_COUNT()")
        return max(0, int(row[0])) if row else 0


class MariaMarker(MariaLoop, Sightings):
    """Writes marker rows, one transaction each, recorded in the ledger as writer `markers`."""

    def __init__(self, connect: Connect, rate: float = 20.0) -> None:
        MariaLoop.__init__(self, connect, "markers")
        Sightings.__init__(self)
        self._every = 1.0 / rate
        self._number = 0

    def work(self, session: my.Session) -> None:
        """Write a marker, then pause."""
        self._number += 1
        cust, order_no = marker_key(self._number)
        session.rows("BEGIN")
        session.rows(
            f"INSERT INTO {TABLE} VALUES (%s, %s, 'marker', 0, NULL, UTC_TIMESTAMP(6), 0, '')", (cust, order_no)
        )
        self.book(session, Events(inserted=1))
        session.rows("COMMIT")
        self.committed(self._number, time.monotonic())
        self._ended.wait(self._every)


class MariaWorkload:
    """Writers that share one rate (`rate` changes per second in total) and one seed."""

    def __init__(self, connect: Connect, writers: int, rate: float, seed: int, rows: int) -> None:
        bucket = TokenBucket(rate)
        self.writers = [MariaWriter(connect, seed, number, rows, bucket) for number in range(writers)]

    def start(self) -> None:
        """Start every writer; call it once."""
        for writer in self.writers:
            writer.start()

    def stop(self, seconds: float = 30.0) -> None:
        """Stop all writers and wait for them; raises the error of a writer that ended early."""
        for writer in self.writers:
            writer.stop()
        for writer in self.writers:
            writer.finish(seconds)

    @property
    def changes(self) -> int:
        """Rows changed and committed so far, by all writers."""
        return sum(writer.changes for writer in self.writers)


def quiet(threads: list[MariaLoop]) -> None:
    """Stop the threads and ignore their errors."""
    for thread in threads:
        thread.stop()
    for thread in threads:
        with suppress(Exception):
            thread.finish(5.0)
