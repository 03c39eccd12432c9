"""Many tables in one job: it is RUNNING soon, every new row arrives as in a small job, and its sessions stay few."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec, SparkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.engine.driver import idle_lanes
from slotkeeper.core.engine.driver.poll_schedule import LINES
from slotkeeper.core.engine.driver.threads import SHARED_FROM
from slotkeeper.core.spark.runner import open_runner
from slotkeeper.core.wiring.worker import session_name
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.report import Page
from tests.support.standin import MakeWarehouse, run
from tests.support.waiting import until

STARTING = 3
"""Sessions of a start: one to read, one to register, one for the catalog."""


@dataclass(frozen=True, slots=True)
class SessionCount:
    """Sessions at the source and at the sink."""

    source: int
    sink: int


def most_sessions(tables: int, dns: int, pool: int) -> SessionCount:
    """The maximum that a job of this number of tables holds; `pool` is its `connection_pool_size`.

    At the source: the start's, one that watches the set of DNs, those that check all DNs of a table, one that checks
    many tables, one per DN that checks if one does not answer, one per DN that registers, and those of the tasks. At
    the sink: the lease, one per DN that registers, three (keeping slots alive during a copy, progress, quarantine), and
    those of the tasks.

    >>> most_sessions(1, 4, 5), most_sessions(200, 4, 5), most_sessions(200, 64, 5)
    (SessionCount(source=18, sink=13), SessionCount(source=22, sink=13), SessionCount(source=46, sink=25))
    """
    lines = min(dns, SHARED_FROM)
    return SessionCount(STARTING + 1 + min(tables, LINES) + (tables > 1) + 2 * lines + pool, 1 + lines + 3 + pool)


ROWS = 40
SOON = 3.0
"""Seconds; a job of few tables finds a change in less than a second (ADR 89)."""


def named(count: int, prefix: str = "t") -> tuple[str, ...]:
    return tuple(f"ods.{prefix}{n}" for n in range(count))


def mirror_of(warehouse: Warehouse, make_mirror: MakeMirror, tables: tuple[str, ...], options: BinlogOptions) -> Mirror:
    """A job over this number of new tables, each with a few rows."""
    for table in tables:
        warehouse.create_table(table, "id bigint, v integer", ("id",))
    run(warehouse, *(f"INSERT INTO {table} SELECT n, 0 FROM generate_series(1, {ROWS}) n" for table in tables))
    mirror = make_mirror(warehouse, tables[0])
    channels = tuple(ChannelSpec(table, target_of(table), create_target=True) for table in tables)
    mirror.job = replace(mirror.job, channels=channels, binlog=options, wait_ms=120_000)
    mirror.capacity, mirror.keepalive = 2, 30.0
    return mirror


def changes(mirror: Mirror) -> dict[str, int]:
    return {name: lane.changes for name, lane in mirror.heard.now.items()}


def target_of(table: str) -> str:
    return table.replace("ods.", "mart.")


def sessions(mirror: Mirror, connect: Callable[[], pg.Connection]) -> int:
    """Sessions that the job holds in a database now."""
    ours = f"application_name LIKE '{session_name(mirror.job.name, '%')}' AND datname = current_database()"
    return int(mirror.query(connect, f"SELECT count(*) FROM pg_stat_activity WHERE {ours}")[0][0])


def refuse_more_than_told(mirror: Mirror, dns: int) -> str:
    """AssertionError if the job holds more sessions than documented; returns a text of those that it holds."""
    at_source, at_sink = sessions(mirror, mirror.warehouse.connect), sessions(mirror, mirror.sink)
    pool = mirror.job.binlog.connection_pool_size
    told = most_sessions(len(mirror.job.channels), dns, pool)
    left = getattr(mirror.runner, "left_behind", 0) * pool  # Spark ends the workers of cancelled tasks
    quarantined = (at_source <= told.source + left, at_sink <= told.sink + left)
    assert quarantined == (True, True), (at_source, at_sink, told, left)
    return f"{at_source} at the source, {at_sink} at the sink"


@contextmanager
def written_beside(mirror: Mirror, tables: tuple[str, ...]) -> Iterator[None]:
    """Commit some transactions per second during the block, to advance the cluster's newest point for all tables."""
    over = threading.Event()

    def write() -> None:
        with closing(mirror.warehouse.connect()) as connection, connection.cursor() as cursor:
            turn = 0
            while not over.wait(0.05):
                turn += 1
                cursor.execute(f"UPDATE {tables[turn % len(tables)]} SET v = v + 1 WHERE id <= 3")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


@pytest.mark.chaos
def test_many_tables_are_looked_at_in_turns_through_few_sessions_also_while_a_dn_hangs(
    warehouse: Warehouse, make_mirror: MakeMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = named(24)
    options = BinlogOptions(binlog=True, binlog_sleep_time=50, binlog_max_sleep_time=200)
    mirror = mirror_of(warehouse, make_mirror, tables, options)
    mirror.job = replace(mirror.job, start="latest")
    mirror.at_sink("CREATE SCHEMA mart")
    polled: Counter[str] = Counter()

    def counted(source: Any, *more: Any) -> Any:
        polled[source.table] += 1
        return see_all(source, *more)

    see_all = idle_lanes.see_all
    monkeypatch.setattr(idle_lanes, "see_all", counted)
    mirror.start().wait_running()
    until(lambda: min(polled[table] for table in tables) >= 3, 60, "three looks at each table")
    print(refuse_more_than_told(mirror, 4), dict(polled))
    assert max(polled.values()) <= 3 * min(polled.values()), polled
    mirror.source(*(f"INSERT INTO {table} SELECT n, 0 FROM generate_series(1001, 1016) n" for table in tables))
    until(lambda: sum(changes(mirror).values()) == 16 * len(tables), 60, "new rows of every table to arrive")
    inserted = changes(mirror)
    warehouse.dn_hanging("dn_2")
    try:
        mirror.source(*(f"UPDATE {table} SET v = 1 WHERE id > 1000" for table in tables))
        sound = {name: 3 * count for name, count in inserted.items() if not name.endswith("dn_2")}
        until(lambda: sound.items() <= changes(mirror).items(), 60, "changes on all DNs but the one that hangs")
        print(refuse_more_than_told(mirror, 4))
    finally:
        warehouse.dn_hanging(None)
    until(lambda: sum(changes(mirror).values()) == 3 * 16 * len(tables), 60, "the rest to arrive")
    mirror.stop()


@dataclass
class Arrivals:
    """The new rows by table, and the seconds until each arrived in the sink."""

    mirror: Mirror
    sent: dict[str, float] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)

    def send(self, table: str) -> None:
        self.mirror.source(f"INSERT INTO {table} VALUES (1000, 1)")
        self.sent[table] = time.monotonic()

    def note_arrivals(self) -> None:
        left = [table for table in self.sent if table not in self.took]
        if left:
            there = " UNION ALL ".join(f"SELECT '{one}' FROM {target_of(one)} WHERE id = 1000" for one in left)
            for (table,) in self.mirror.query(self.mirror.sink, there):
                self.took[table] = time.monotonic() - self.sent[table]

    def told(self) -> str:
        took = sorted(self.took.values())
        return f"{len(took)} of {len(self.sent)}: mean {statistics.mean(took):.1f} s, longest {took[-1]:.1f} s"


def arrived(big: Arrivals, small: Arrivals, draw: random.Random, seconds: float) -> None:
    """One row for each table of both jobs at random moments within this number of seconds, and the wait for all of
    them.
    """
    began = time.monotonic()
    tables = [(job, channel.source_table) for job in (big, small) for channel in job.mirror.job.channels]
    left = sorted(((draw.uniform(0, seconds), n, *one) for n, one in enumerate(tables)), reverse=True)

    def all_there() -> bool:
        while left and time.monotonic() - began >= left[-1][0]:
            _, _, job, table = left.pop()
            job.send(table)
        big.note_arrivals()
        small.note_arrivals()
        return not left and all(len(job.took) == len(job.mirror.job.channels) for job in (big, small))

    until(all_there, seconds + 120, "all new rows to arrive")


@pytest.mark.chaos
@pytest.mark.spark
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("count", [200])
def test_a_job_of_200_tables_runs_within_two_minutes_and_brings_rows_as_a_small_job_does(
    count: int, make_warehouse: MakeWarehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path
) -> None:
    """On real Spark, beside a job of ten tables in the same run, over a source under continuous writes."""
    page = Page(
        "tables",
        f"{count} tables in one job, on Spark",
        f"{count} tables on 4 DNs, `local[2]`, every parameter at its default; beside it a job of ten tables. Rows: one"
        " for each table, from its commit until it is read at the sink.",
        ("figure", "value", "target", "met"),
    )
    warehouse = make_warehouse()
    small = mirror_of(warehouse, make_mirror, named(10, "s"), BinlogOptions(binlog=True))
    big = mirror_of(warehouse, make_mirror, named(count), BinlogOptions(binlog=True))
    big.make_runner = lambda: open_runner(SparkOptions(master="local[2]"), "many tables", tmp_path)
    small.start().wait_running()
    try:
        with written_beside(big, named(5)):
            began = time.monotonic()
            big.start()
            until(lambda: big.ended() or JobEvent.COPY_DONE in big.heard.events, 900, "the copies' end")
            copied = time.monotonic()
            big.wait_running(600)
            running = time.monotonic() - copied
            page.add("seconds until all is copied", copied - began, "", "")
            page.add("seconds from the copies' end to RUNNING", running, "within 120", running <= 120)
            rows = Arrivals(big), Arrivals(small)
            arrived(*rows, random.Random(seed), 60)
            quarantined = [refuse_more_than_told(mirror, 4) for mirror in (big, small)]
        ratio = statistics.mean(rows[0].took.values()) / statistics.mean(rows[1].took.values())
        page.add(f"new rows, {count} tables", rows[0].told(), "all", True)
        page.add("new rows, 10 tables", rows[1].told(), "all", True)
        many = statistics.mean(rows[0].took.values())
        page.add("ratio of the means", ratio, f"at most 2, or a mean of {SOON:g} s", ratio <= 2 or many <= SOON)
        page.add(f"sessions, {count} tables", quarantined[0], "", "")
        page.add("sessions, 10 tables", quarantined[1], "", "")
        big.wait_equal()
        assert big.heard.state is LaneState.RUNNING
        big.stop()
    finally:
        big.runner.close()
    assert running <= 120
    assert ratio <= 2 or many <= SOON
