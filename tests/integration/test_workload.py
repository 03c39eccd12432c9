"""The workload against the stand-in: its ledger must equal the binlog, whatever happens to its sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.drivers import pg
from slotkeeper.demo import ledger, postgres, workload
from slotkeeper.demo.ledger import ledger_totals
from slotkeeper.demo.markers import Marker, MarkerReader
from slotkeeper.demo.orders import TABLE, load
from slotkeeper.demo.plans import Mix, Planner, Verb
from slotkeeper.demo.warehouse import Warehouse
from slotkeeper.demo.workload import Workload
from slotkeeper.demo.writers import Writer
from tests.support.standin import MakeWarehouse, Surface
from tests.support.waiting import until

ROWS = 2_000
QUICK = Mix(rows=ROWS, longest_delay_s=0.005)


@pytest.fixture
def recording(warehouse: Warehouse, seed: int) -> Iterator[Surface]:
    """Orders loaded, and the slot registered afterwards; a client to read the binlog."""
    print(f"seed {seed}")
    prepare(warehouse, seed)
    surface = Surface(warehouse)
    surface.start(TABLE)
    yield surface
    surface.close()


def prepare(warehouse: Warehouse, seed: int) -> None:
    workload.create(warehouse)
    connection = warehouse.connect()
    load(connection, ROWS, seed)
    connection.close()


def recorded(surface: Surface, warehouse: Warehouse) -> dict[str, dict[str, int]]:
    """Events per DN name and type, read by the documented call."""
    surface.read_status(TABLE, "slot1")
    found: dict[str, dict[str, int]] = {}
    for name, node in warehouse.nodes():
        kinds: dict[str, int] = {}
        for row in surface.changes(TABLE, node):
            kinds[row[2]] = kinds.get(row[2], 0) + 1
        found[name] = kinds
    return found


def booked(warehouse: Warehouse) -> dict[str, dict[str, int]]:
    connection = warehouse.connect()
    totals = ledger_totals(connection)
    connection.close()
    return {
        name: {
            kind: count
            for kind, count in (
                ("I", e.inserted),
                ("d", e.deleted),
                ("B", e.updated + e.key_changed),
                ("U", e.updated + e.key_changed),
            )
            if count
        }
        for name, e in totals.items()
    }


def rows(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    connection = warehouse.connect()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT o.*::text FROM {TABLE} o ORDER BY cust, order_no")
        found = cursor.fetchall()
    connection.close()
    return found


def test_the_ledger_equals_the_binlog_per_dn_and_kind_under_contention(
    recording: Surface, warehouse: Warehouse, seed: int
) -> None:
    running = Workload(warehouse.connect, writers=4, rate=0, seed=seed, mix=QUICK)
    running.start()
    until(lambda: running.failed or running.changes > 4_000, 30, "4,000 changes")
    stats = running.stop()
    assert recorded(recording, warehouse) == booked(warehouse)
    connection = warehouse.connect()
    totals = ledger_totals(connection)
    connection.close()
    assert sum(events.total for events in totals.values()) == sum(one.events for one in stats)
    assert len(totals) == 4
    for events in totals.values():
        assert min(events.inserted, events.updated, events.deleted, events.key_changed) > 0
    assert all(one.rolled_back for one in stats)


def test_bulk_changes_and_one_huge_transaction_are_booked(recording: Surface, warehouse: Warehouse) -> None:
    connection = warehouse.connect()
    assert sum(e.total for e in workload.bulk(connection, "insert", 3_000, per_statement=700).values()) == 3_000
    assert sum(e.total for e in workload.bulk(connection, "update", 1_500, per_transaction=10_000).values()) == 3_000
    assert sum(e.total for e in workload.bulk(connection, "delete", 1_000).values()) == 1_000
    assert sum(e.total for e in workload.one_huge_transaction(connection, 4_000).values()) == 4_000
    with pytest.raises(ValueError, match="known: insert, update, delete"):
        workload.bulk(connection, "upsert", 1)
    connection.close()
    assert recorded(recording, warehouse) == booked(warehouse)
    points = {row[0] for row in recording.changes(TABLE)}
    assert len(points) == 5 + 1 + 1 + 1, "one sync point per transaction"


def test_one_writer_with_one_seed_does_the_same_twice(make_warehouse: MakeWarehouse, seed: int) -> None:
    def once() -> tuple[list[tuple[Any, ...]], dict[str, dict[str, int]]]:
        warehouse = make_warehouse()
        prepare(warehouse, seed)
        writer = Writer(warehouse.connect, seed, mix=QUICK, transactions=60)
        writer.start()
        writer.finish()
        return rows(warehouse), booked(warehouse)

    assert once() == once()


def test_plans_repeat_by_seed_and_differ_by_writer(seed: int) -> None:
    def plans(of: int, writer: int) -> list[Any]:
        planner = Planner(of, writer, QUICK)
        return [planner.plan() for _ in range(200)]

    assert plans(seed, 0) == plans(seed, 0)
    assert plans(seed, 0) != plans(seed, 1)
    made = plans(seed, 0)
    assert {step.verb for plan in made for step in plan.steps} == set(Verb)
    assert any(plan.rolled_back for plan in made)
    assert any(step.undone for plan in made for step in plan.steps)


def test_the_rate_is_kept(recording: Surface, warehouse: Warehouse, seed: int) -> None:
    """Two writers share one bucket: a thousand changes at 2,000 per second take nearly half a second."""
    running = Workload(warehouse.connect, writers=2, rate=2_000, seed=seed, mix=QUICK)
    started = time.monotonic()
    running.start()
    until(lambda: running.failed or running.changes >= 1_000, 30, "1,000 changes")
    took = time.monotonic() - started
    running.stop()
    assert took >= 0.35  # half a second minus the bucket's burst and the last transactions, however fast the host is


class CutAtCommit:
    """A connection that is lost at a COMMIT: before it is executed, or after it and before its answer."""

    def __init__(self, warehouse: Warehouse, cut: Callable[[pg.Connection], bool]) -> None:
        self._real = warehouse.connect()
        self._dead = warehouse.connect()
        self._dead.close()
        self._cut = cut

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            setattr(self._real, name, value)

    def commit(self) -> None:
        if self._cut(self._real):
            self._dead.cursor()  # raises the driver's own error for a lost connection
        self._real.commit()

    def close(self) -> None:
        """A client that lost its connection cannot end its session: it stays at the server, holding its locks."""


@pytest.mark.parametrize("done", [True, False], ids=["after the commit", "before the commit"])
def test_a_commit_without_an_answer_is_looked_up_in_the_ledger(
    recording: Surface, warehouse: Warehouse, seed: int, done: bool
) -> None:
    cuts: list[bool] = []
    commits = [0]

    def cut(real: pg.Connection) -> bool:
        with real.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'RowExclusiveLock'")
            writing = cursor.fetchall()[0][0] > 0
        commits[0] += writing
        if not writing or commits[0] % 5:
            return False
        if done:
            real.commit()
        cuts.append(True)
        return True

    mix = Mix(rows=ROWS, rollback=0.0, delay=0.0)
    writer = Writer(lambda: CutAtCommit(warehouse, cut), seed, mix=mix, transactions=40)  # type: ignore[arg-type, return-value]
    writer.start()
    writer.finish()
    stats = writer.stats
    assert len(cuts) == 8
    assert (stats.recovered, stats.lost) == ((8, 0) if done else (0, 8))
    assert stats.reconnects == 8
    assert recorded(recording, warehouse) == booked(warehouse)
    connection = warehouse.connect()
    assert sum(e.total for e in ledger_totals(connection).values()) == stats.events
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT tx) FROM ledger.events")
        assert cursor.fetchall()[0][0] == stats.committed
    connection.close()


def more_changes(running: Workload) -> None:
    """Wait until the writers have changed 300 more rows."""
    enough = running.changes + 300
    until(lambda: running.failed or running.changes > enough, 20, "300 more changes")


def test_writers_go_on_after_the_source_crashed_and_the_ledger_still_agrees(tmp_path: Path, seed: int) -> None:
    server = postgres.start(tmp_path / "crash", "crash")
    try:
        warehouse = Warehouse.install(server, dns=2)
        prepare(warehouse, seed)
        surface = Surface(warehouse)
        surface.start(TABLE)
        surface.close()
        running = Workload(warehouse.connect, writers=3, rate=0, seed=seed, mix=QUICK)
        running.start()
        for _ in range(2):
            more_changes(running)
            server.restart("immediate")
        more_changes(running)
        stats = running.stop()
        assert all(one.reconnects >= 2 for one in stats)
        surface = Surface(warehouse)
        assert recorded(surface, warehouse) == booked(warehouse)
        surface.close()
        connection = warehouse.connect()
        assert sum(e.total for e in ledger_totals(connection).values()) == sum(one.events for one in stats)
        connection.close()
    finally:
        postgres.discard(tmp_path / "crash")


def _lives(cursor: pg.Cursor, pid: int) -> bool:
    cursor.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,))
    return bool(cursor.fetchall())


def test_a_server_that_goes_away_after_it_rejected_a_statement_is_a_lost_transaction(
    warehouse: Warehouse, seed: int
) -> None:
    prepare(warehouse, seed)
    writer = Writer(warehouse.connect, seed, mix=QUICK)
    connection = warehouse.connect(autocommit=False)
    with connection.cursor() as cursor, pytest.raises(pg.DriverError) as rejected:
        cursor.execute("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")
    other = warehouse.connect()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
        until(lambda: not _lives(cursor, connection.info.backend_pid), 20, "its session to end")
    other.close()
    writer._failed(rejected.value, connection, {}, False)
    connection.close()
    assert (writer.stats.lost, writer.stats.contended) == (1, 0)


def test_an_error_of_the_statement_itself_ends_the_writer_and_is_raised(warehouse: Warehouse, seed: int) -> None:
    prepare(warehouse, seed)
    connection = warehouse.connect()
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE ledger.events")
    connection.close()
    writer = Writer(warehouse.connect, seed, mix=QUICK, transactions=5)
    writer.start()
    with pytest.raises(pg.DriverError, match=r"ledger\.events"):
        writer.finish()


def test_markers_are_timed_from_commit_to_the_first_read_that_sees_them(
    recording: Surface, warehouse: Warehouse
) -> None:
    marker = Marker(warehouse.connect, rate=200, limit=60)
    reader = MarkerReader(warehouse.connect, TABLE, marker, every_s=0.001)
    marker.start()
    reader.start()
    until(lambda: marker.error or reader.error or marker.latency().seen == 60, 20, "60 markers seen")
    reader.stop()
    for thread in (marker, reader):
        thread.finish()
    latency = marker.latency()
    assert (latency.seen, latency.waiting) == (60, 0)
    assert latency.p50 is not None
    assert latency.p99 is not None
    assert 0 <= latency.p50 <= latency.p99
    assert recorded(recording, warehouse) == booked(warehouse)
    connection = warehouse.connect()
    assert ledger.last_tx(connection, "markers") == 60
    connection.close()
