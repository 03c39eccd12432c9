"""A job of several tables whose small steps share transactions: each table is mirrored, and fails, independently."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.ports.sink import BufferedStep
from slotkeeper.core.sinks.postgres.write.sink import PostgresSink
from slotkeeper.demo.warehouse import Warehouse
from tests.fault.test_several_channels import applied
from tests.support.mirror import MakeMirror, Mirror
from tests.support.standin import run
from tests.support.waiting import until

TABLES = tuple(f"ods.s{n}" for n in range(6))
BAD = TABLES[2]
Swept = list[set[str]]


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> Swept:
    """Return the tables of each attempted sweep."""
    found: Swept = []
    sweep = PostgresSink.sweep

    def noted(sink: PostgresSink, steps: Sequence[BufferedStep]) -> object:
        found.append({step.key.source_table for step in steps})
        return sweep(sink, steps)

    monkeypatch.setattr(PostgresSink, "sweep", noted)
    return found


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    for table in TABLES:
        warehouse.create_table(table, "id bigint NOT NULL, v bigint", ("id",))
        run(warehouse, f"INSERT INTO {table} SELECT n, 0 FROM generate_series(1, 40) n")
    made = make_mirror(warehouse, TABLES[0])
    channels = tuple(ChannelSpec(table, target(table), create_target=True) for table in TABLES)
    options = replace(made.job.binlog, binlog_parallel_num=1)
    made.job, made.capacity = replace(made.job, channels=channels, binlog=options), 2
    return made


def target(table: str) -> str:
    return table.replace("ods.", "mart.")


def changed(mirror: Mirror, draw: random.Random, tables: Sequence[str]) -> dict[str, int]:
    """Change each table in a separate transaction; return the resulting events by table."""
    events = dict.fromkeys(TABLES, 0)
    for table in tables:
        low = draw.randrange(1, 30)
        mirror.source(f"UPDATE {table} SET v = v + 1 WHERE id BETWEEN {low} AND {low + 5}")
        events[table] = 12
    return events


def alike(mirror: Mirror, tables: Sequence[str]) -> Callable[[], bool]:
    def same() -> bool:
        rows = "SELECT coalesce(sum(id * 31 + v), 0), count(*) FROM {}"
        sides = (mirror.warehouse.connect, str), (mirror.sink, target)
        one, other = ([mirror.query(at, rows.format(name(table))) for table in tables] for at, name in sides)
        return one == other

    return same


def test_every_event_takes_effect_once_while_sessions_are_killed(mirror: Mirror, swept: Swept, seed: int) -> None:
    print(f"seed {seed}")
    draw, events = random.Random(seed), dict.fromkeys(TABLES, 0)
    mirror.start().wait_running().wait_equal()
    kill = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE datname = current_database() AND application_name LIKE 'slotkeeper/{mirror.job.name}/%'"
    )
    rounds = itertools.count(1)

    def disturbed() -> bool:
        for table, count in changed(mirror, draw, TABLES).items():
            events[table] += count
        if draw.random() < 0.4:
            with closing(mirror.sink()) as sink, sink.cursor() as cursor:
                cursor.execute(kill)
        return next(rounds) >= 12 and max(map(len, swept), default=0) > 1

    until(disturbed, 60, "twelve rounds, and a sweep of several tables")
    until(lambda: applied(mirror) == events, 60, f"{events} to be applied")
    assert alike(mirror, TABLES)()
    mirror.stop()


def test_a_table_whose_row_the_target_rejects_fails_alone(mirror: Mirror, swept: Swept, seed: int) -> None:
    mirror.start().wait_running().wait_equal()
    with closing(mirror.sink()) as sink, sink.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {target(BAD)} ADD CONSTRAINT few CHECK (v < 2) NOT VALID")
        sink.commit()
    others = [table for table in TABLES if table != BAD]
    draw, events = random.Random(seed), dict.fromkeys(TABLES, 0)
    both = [f"UPDATE {table} SET v = v + 1 WHERE id <= 5" for table in others]
    mirror.source("; ".join([f"UPDATE {BAD} SET v = 7 WHERE id <= 40", *both]))  # visible at once, so swept together
    events |= dict.fromkeys(others, 10)
    for _ in range(6):
        for table, count in changed(mirror, draw, others).items():
            events[table] += count

    def failed() -> bool:
        report = mirror.heard.tables.get(BAD)
        return report is not None and report.state == JobState.FAILED.value

    until(failed, 30, f"{BAD} to fail")
    until(lambda: applied(mirror) == events, 30, "the others to be applied")
    assert alike(mirror, others)()
    mirror.stop()
    assert any(BAD in tables for tables in swept)


def test_the_others_go_on_beside_a_locked_target(mirror: Mirror, swept: Swept, seed: int) -> None:
    mirror.start().wait_running().wait_equal()
    others = [table for table in TABLES if table != BAD]
    draw, events = random.Random(seed), dict.fromkeys(TABLES, 0)
    with closing(mirror.sink()) as sink, sink.cursor() as cursor:
        cursor.execute(f"BEGIN; LOCK TABLE {target(BAD)} IN ACCESS EXCLUSIVE MODE")
        for _ in range(6):
            for table, count in changed(mirror, draw, TABLES).items():
                events[table] += count
        rest = {table: events[table] for table in others}
        until(lambda: rest.items() <= applied(mirror).items(), 30, "the others to be applied")
        assert applied(mirror)[BAD] == 0
        sink.rollback()
    until(lambda: applied(mirror) == events, 60, "the table to follow")
    assert alike(mirror, TABLES)()
    mirror.stop()
    assert any(BAD in tables for tables in swept)
