"""Idle tables are polled early if the source shows commits on other tables, and always after their longest pause."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec
from slotkeeper.core.engine.driver import idle_lanes, poll_schedule
from slotkeeper.core.engine.driver.gate import Gate
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.standin import run
from tests.support.waiting import until

TABLES = tuple(f"ods.t{n}" for n in range(6))
ROWS = 8


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Gate]]:
    """The gates of the jobs of a test, in which each pause of a table is its longest."""
    made: list[Gate] = []

    class Kept(Gate):
        def __init__(self, *given: object) -> None:
            super().__init__(*given)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(idle_lanes, "Gate", Kept)
    monkeypatch.setattr(poll_schedule, "poll_pause", lambda rounds, sleep, longest: longest / 1000)
    yield made


def mirror_of(warehouse: Warehouse, make_mirror: MakeMirror, longest_ms: int) -> Mirror:
    for table in TABLES:
        warehouse.create_table(table, "id bigint, v integer", ("id",))
    run(warehouse, *(f"INSERT INTO {table} SELECT n, 0 FROM generate_series(1, {ROWS}) n" for table in TABLES))
    mirror = make_mirror(warehouse, TABLES[0])
    channels = tuple(ChannelSpec(table, table.replace("ods.", "mart."), create_target=True) for table in TABLES)
    options = BinlogOptions(binlog=True, binlog_sleep_time=100, binlog_max_sleep_time=longest_ms)
    mirror.job = replace(mirror.job, channels=channels, binlog=options, wait_ms=120_000)
    mirror.keepalive = 30.0
    return mirror


def change(mirror: Mirror, table: str) -> float:
    """Change each row of a table, and return the seconds until the target has the new rows."""
    channel = mirror.job.of(table).channel
    run(mirror.warehouse, f"UPDATE {table} SET v = v + 1")
    began, wanted = time.monotonic(), sorted(mirror.source_rows(channel))
    until(lambda: sorted(mirror.target_rows(channel)) == wanted, 60, f"the change of {table}")
    return time.monotonic() - began


def trusted(mirror: Mirror, gates: list[Gate]) -> None:
    """Change a table until its poll and that of another table have shown how the source's newest position moves."""

    def is_trusted() -> bool:
        change(mirror, TABLES[0])  # a change before the first poll of each table shows nothing
        return gates[-1].trusted(time.monotonic())

    until(is_trusted, 60, "the gate to be trusted")


def test_a_change_of_an_idle_table_arrives_long_before_its_longest_pause(
    warehouse: Warehouse, make_mirror: MakeMirror, gates: list[Gate], seed: int
) -> None:
    print(f"seed {seed}")
    mirror, chance = mirror_of(warehouse, make_mirror, 10_000), random.Random(seed)
    mirror.start().wait_running()
    trusted(mirror, gates)
    took = [change(mirror, chance.choice(TABLES)) for _ in range(8)]
    assert max(took) < 5.0, took
    mirror.wait_equal()


def test_where_a_position_moves_only_with_its_own_table_nothing_is_lost_and_no_pause_is_longer(
    warehouse: Warehouse, make_mirror: MakeMirror, gates: list[Gate], seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    warehouse.newest_by_table()
    mirror = mirror_of(warehouse, make_mirror, 3_000)
    mirror.start().wait_running()
    took = []
    for _ in range(8):
        took.append(change(mirror, chance.choice(TABLES)))
        assert not gates[-1].trusted(time.monotonic())
    assert max(took) < 3.0 + 5.0, took
    mirror.wait_equal()


def test_a_source_that_stops_to_show_other_tables_commits_delays_changes_to_the_longest_pause_at_most(
    warehouse: Warehouse, make_mirror: MakeMirror, gates: list[Gate], seed: int
) -> None:
    mirror = mirror_of(warehouse, make_mirror, 3_000)
    mirror.start().wait_running()
    trusted(mirror, gates)
    warehouse.newest_by_table()
    took = [change(mirror, table) for table in TABLES]
    assert max(took) < 3.0 + 5.0, took
    mirror.wait_equal()


def test_a_dropped_table_and_a_silent_dn_leave_the_others_in_time(
    warehouse: Warehouse, make_mirror: MakeMirror, gates: list[Gate]
) -> None:
    mirror = mirror_of(warehouse, make_mirror, 8_000)
    mirror.start().wait_running()
    trusted(mirror, gates)
    run(warehouse, f"DROP TABLE {TABLES[1]}")
    mirror.wait_table(TABLES[1], JobState.FAILED)
    assert change(mirror, TABLES[2]) < 5.0
    hangs = warehouse.nodes()[0][0]
    before = {name: lane.changes for name, lane in mirror.heard.now.items()}
    warehouse.dn_hanging(hangs)
    run(warehouse, f"UPDATE {TABLES[3]} SET v = v + 1")
    names = [name for name in before if name.startswith(f"{TABLES[3]} ") and not name.endswith(hangs)]

    def others_arrived() -> bool:
        now = mirror.heard.now
        ids = mirror.source_rows(mirror.job.of(TABLES[3]).channel)
        return bool(ids) and any(now[name].changes > before[name] for name in names)

    until(others_arrived, 8.0 + 20.0, "the rows of the DNs that answer")
    warehouse.dn_hanging(None)
    channel = mirror.job.of(TABLES[3]).channel
    until(lambda: sorted(mirror.target_rows(channel)) == sorted(mirror.source_rows(channel)), 60, "all rows")
