"""No loss and no wrong order under concurrent writers; and a deliberately wrong stand-in is detected."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from slotkeeper.core.drivers import pg
from slotkeeper.demo.warehouse import Warehouse
from tests.support.standin import MakeWarehouse, Surface

TABLE = "ods.stress"
CUSTOMERS = 60
ORDERS = 5

Key = tuple[int, int]
Row = tuple[int, int, int, str]


@dataclass(slots=True)
class Verdict:
    """The reader's findings; all are zero except `applied` and `transactions` if the stand-in is correct."""

    applied: int = 0
    lost: int = 0
    anomalies: int = 0
    differing: int = 0
    transactions: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.anomalies or self.differing or self.faults)


class Replica:
    """Rows by key, built only from records; an old image that differs from the stored row is an order anomaly."""

    def __init__(self) -> None:
        self.rows: dict[Key, Row] = {}
        self.anomalies = 0
        self.applied = 0

    def apply(self, kind: str, row: Row) -> None:
        key, quarantined = row[:2], self.rows.get(row[:2])
        self.applied += 1
        if kind in ("I", "U"):
            self.anomalies += quarantined is not None
            self.rows[key] = row
        else:
            self.anomalies += quarantined != row
            self.rows.pop(key, None)


class Writer(threading.Thread):
    """One session that changes a few hot keys at random, sometimes rolls back, and sleeps inside transactions."""

    def __init__(self, warehouse: Warehouse, seed: str, stop: threading.Event, hold_s: float = 0.0) -> None:
        super().__init__(daemon=True)
        self.warehouse, self.stop, self.hold_s = warehouse, stop, hold_s
        self.random = random.Random(seed)
        self.transactions = 0
        self.fault = ""

    def run(self) -> None:
        connection = self.warehouse.connect(autocommit=False)
        try:
            while not self.stop.is_set():
                self._attempt(connection)
        except Exception as error:  # a thread's exception would be lost otherwise
            self.fault = repr(error)
        finally:
            connection.close()

    def _attempt(self, connection: pg.Connection) -> None:
        choose = self.random
        try:
            with connection.cursor() as cursor:
                if choose.random() < 0.2:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                for _ in range(choose.randint(1, 4)):
                    self._step(cursor)
                if self.hold_s:
                    self.stop.wait(self.hold_s)
                    self._step(cursor)
            if choose.random() < 0.08:
                connection.rollback()
            else:
                connection.commit()
                self.transactions += 1
        except pg.DriverError as error:
            connection.rollback()
            if pg.failure(error)[0] not in ("40001", "40P01", "23505"):  # serialization, deadlock, duplicate key
                raise

    def _step(self, cursor: pg.Cursor) -> None:
        if self.random.random() < 0.2:
            cursor.execute("SAVEPOINT s")
            self._change(cursor)
            cursor.execute("ROLLBACK TO SAVEPOINT s")
        self._change(cursor)
        if self.random.random() < 0.5:
            time.sleep(self.random.random() * 0.01)

    def _change(self, cursor: pg.Cursor) -> None:
        choose = self.random
        cust, order, value = choose.randint(1, CUSTOMERS), choose.randint(1, ORDERS), choose.randint(0, 999)
        statement = choose.choice(
            (
                "INSERT INTO {t} VALUES (%(c)s, %(o)s, %(v)s, 'in') ON CONFLICT DO NOTHING",
                "INSERT INTO {t} VALUES (%(c)s, %(o)s, %(v)s, 'up') ON CONFLICT (cust, order_no) "
                "DO UPDATE SET val = excluded.val, note = excluded.note",
                "INSERT INTO {t} SELECT c, %(o)s, %(v)s, 'many' FROM generate_series(%(c)s, %(c)s + 2) c "
                "ON CONFLICT (cust, order_no) DO UPDATE SET val = {t}.val + 1",
                "UPDATE {t} SET val = val + %(v)s WHERE cust = %(c)s",
                "UPDATE {t} SET order_no = order_no + 100 WHERE cust = %(c)s AND order_no = %(o)s",
                "UPDATE {t} SET order_no = order_no - 100, note = 'back' WHERE cust = %(c)s AND order_no > 100",
                "DELETE FROM {t} WHERE cust = %(c)s AND order_no = %(o)s",
                "DELETE FROM {t} WHERE cust BETWEEN %(c)s AND %(c)s + 1 AND order_no > 3",
            )
        )
        cursor.execute(statement.format(t="stress"), {"c": cust, "o": order, "v": value})


class Reader:
    """Reads DN after DN from its own position to `latest`, as a consumer does, and registers."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.surface = Surface(warehouse)
        self.replicas: dict[int, Replica] = {}
        self.positions: dict[int, int] = {}
        for point in self.surface.start(TABLE).values():
            self.replicas[point.node] = Replica()
            self.positions[point.node] = point.last

    def round(self) -> bool:
        """Read every DN once; return whether there was nothing to read."""
        quiet = True
        for node, position in self.positions.items():
            (point,) = self.surface.read_status(TABLE, "slot1", False, node).values()
            latest = max(position, point.latest)
            if latest == position:
                continue
            rows = self.surface.changes(TABLE, node, position, latest)
            for row in rows:
                self.replicas[node].apply(row[2], row[4:])
            quiet = quiet and not rows
            self.positions[node] = latest
            self.surface.register(TABLE, "slot1", node, latest, False, point.xmin)
        return quiet


@contextmanager
def _writing(warehouse: Warehouse, seed: int, count: int) -> Iterator[list[Writer]]:
    stop = threading.Event()
    writers = [Writer(warehouse, f"{seed}/{number}", stop) for number in range(count)]
    writers.append(Writer(warehouse, f"{seed}/long", stop, hold_s=1.5))
    for writer in writers:
        writer.start()
    try:
        yield writers
    finally:
        stop.set()
        for writer in writers:
            writer.join(120)


def stress(warehouse: Warehouse, seed: int, seconds: float, writers: int = 8) -> Verdict:
    """Write at random for `seconds` while one reader follows; then read the rest and compare everything."""
    warehouse.create_table(TABLE, "cust bigint, order_no int, val int, note text", ["cust", "order_no"], ["cust"])
    owner = warehouse.connect()
    with owner.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {warehouse.database} SET search_path = ods, public")
    reader = Reader(warehouse)
    verdict = Verdict()
    deadline = time.monotonic() + seconds
    with _writing(warehouse, seed, writers) as running:
        while time.monotonic() < deadline:
            reader.round()
    verdict.transactions = sum(writer.transactions for writer in running)
    verdict.faults = [writer.fault for writer in running if writer.fault]
    reader.round()
    if not reader.round():
        verdict.faults.append("the last round was not quiet")
    _compare(owner, reader, verdict)
    reader.surface.close()
    owner.close()
    return verdict


def _compare(owner: pg.Connection, reader: Reader, verdict: Verdict) -> None:
    with owner.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {TABLE}")
        source: set[tuple[Any, ...]] = set(cursor.fetchall())
        cursor.execute("SELECT dws.table_of(%s)", (TABLE,))
        (oid,) = cursor.fetchall()[0]
        cursor.execute(f"SELECT count(*) FROM dws.b_{int(oid)}")
        (recorded,) = cursor.fetchall()[0]
    replica = {row for part in reader.replicas.values() for row in part.rows.values()}
    verdict.applied = sum(part.applied for part in reader.replicas.values())
    verdict.anomalies = sum(part.anomalies for part in reader.replicas.values())
    verdict.lost = recorded - verdict.applied
    verdict.differing = len(source ^ replica)


SECONDS = float(os.environ.get("SLOTKEEPER_STRESS_SECONDS") or 8)


@pytest.mark.slow
def test_concurrent_writers_lose_nothing(make_warehouse: MakeWarehouse, seed: int) -> None:
    verdict = stress(make_warehouse(), seed, SECONDS)
    print(f"seed {seed}, {SECONDS:g} s: {verdict}")
    assert verdict.clean, f"seed {seed}: {verdict}"
    assert verdict.applied > 50 * SECONDS and verdict.transactions > 10 * SECONDS


def test_points_in_the_order_of_writing_are_caught(make_warehouse: MakeWarehouse, seed: int) -> None:
    warehouse = make_warehouse()
    warehouse.seed_order_fault(naive=True)
    verdict = stress(warehouse, seed, 3)
    print(f"seed {seed}: {verdict}")
    assert not verdict.faults and verdict.lost > 0 and verdict.differing > 0, f"seed {seed}: {verdict}"
