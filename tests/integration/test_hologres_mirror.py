"""A job from the stand-in for Hologres into PostgreSQL: the copy, the stream, its starts, its refusals."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.errors import Refused, Trouble, TroubleName
from slotkeeper.core.sources.hologres.catalog import shard_of
from slotkeeper.core.sources.hologres.position import POSITIONS
from slotkeeper.demo import ledger, orders, workload
from slotkeeper.demo.hologres.instance import Hologres
from slotkeeper.demo.writers import Writer
from tests.support.hologres import TABLE, TARGET, HoloPair, MakeHologres, job_over
from tests.support.mirror import MakeMirror
from tests.support.waiting import until


def some_changes(chance: random.Random, count: int = 12) -> list[tuple[int, int | None]]:
    keys = chance.sample(range(1, 260), count)
    return [(key, None if chance.random() < 0.3 else chance.randrange(1_000)) for key in keys]


def test_a_copy_and_the_changes_behind_it_make_the_target_equal(holo_pair: HoloPair, seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    mirror, hologres = holo_pair.mirror, holo_pair.hologres
    holo_pair.write(*((key, key) for key in range(1, 201)))
    before = len(hologres.log(TABLE))
    mirror.start().wait_running()
    assert JobEvent.COPY_BEGAN in mirror.heard.events
    for way in ("3+7", "2+5"):
        hologres.updates_as(way)
        for _ in range(8):
            holo_pair.write(*some_changes(chance))
    records = len(hologres.log(TABLE)) - before
    until(lambda: sum(mirror.changes().values()) >= records, 60, f"{records} records to be applied")
    assert sum(mirror.changes().values()) == records
    assert mirror.difference() == (0, 0)
    mirror.stop()
    assert {row.key.shard for row in mirror.rows()} == {"shard_0", "shard_1", "shard_2", "shard_3"}


def test_a_job_resumes_from_its_rows(holo_pair: HoloPair) -> None:
    mirror = holo_pair.mirror
    holo_pair.write((1, 1), (2, 2))
    mirror.start().wait_running()
    mirror.stop()
    stood = {row.key.shard: row.position for row in mirror.rows()}
    holo_pair.write((1, 10), (2, None), (3, 3))
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    assert JobEvent.COPY_BEGAN not in mirror.heard.events
    moved = [row for row in mirror.rows() if stood[row.key.shard] != row.position]
    assert moved and sum(mirror.changes().values()) == 4


def test_orders_of_the_workload_arrive_once_each(
    make_hologres: MakeHologres, make_mirror: MakeMirror, seed: int
) -> None:
    hologres = make_hologres()
    workload.create(hologres)
    mirror = job_over(hologres, make_mirror, orders.TABLE, "mart.orders")
    with hologres.connect(False) as connection:
        orders.load(connection, 300, seed)
    mirror.start().wait_running()
    writers = [Writer(lambda: hologres.connect(False), seed, number, transactions=12) for number in (0, 1)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.finish(60)
    with hologres.connect(False) as connection:
        booked = {name: events.total for name, events in ledger.ledger_totals(connection).items()}
    mirror.wait_applied(booked)
    mirror.stop()


def begun(pair: HoloPair, start: str) -> list[int]:
    """A job without a copy over a table that has had three changes; returns the keys that reach its target."""
    pair.mirror.job = replace(pair.mirror.job, start=start)
    pair.mirror.start().wait_running()
    pair.write((99, 99))
    until(lambda: 99 in keys(pair), 60, "the change behind the start")
    pair.mirror.stop()
    return keys(pair)


def keys(pair: HoloPair) -> list[int]:
    if not pair.mirror.query(pair.mirror.sink, f"SELECT to_regclass('{TARGET}')")[0][0]:
        return []
    return sorted(int(row[0]) for row in pair.mirror.query(pair.mirror.sink, f"SELECT id FROM {TARGET}"))


def target(pair: HoloPair) -> None:
    pair.mirror.at_sink("CREATE SCHEMA mart", f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v bigint)")


def test_it_starts_at_the_earliest_record_or_at_the_newest(holo_pair: HoloPair, make_mirror: MakeMirror) -> None:
    target(holo_pair)
    holo_pair.write((1, 1), (2, 2), (3, 3))
    assert begun(holo_pair, "earliest") == [1, 2, 3, 99]
    other = HoloPair(holo_pair.hologres, job_over(holo_pair.hologres, make_mirror))
    target(other)
    holo_pair.write((99, None))
    assert begun(other, "latest") == [99]


def test_it_starts_behind_an_lsn_of_each_shard_or_at_a_time(holo_pair: HoloPair, make_mirror: MakeMirror) -> None:
    hologres = holo_pair.hologres
    target(holo_pair)
    holo_pair.write(*((key, key) for key in range(1, 41)))
    log = f'hg_log."{TABLE}"'
    newest = dict(hologres.rows(f"SELECT hg_shard_id, max(hg_binlog_lsn) FROM {log} GROUP BY 1"))
    first, second = holo_pair.keys_on(shard_of(1), 2)
    shown = f"SELECT hg_binlog_lsn, hg_binlog_timestamp_us FROM {log} WHERE hg_shard_id = 1 AND id = "
    ((newest[1], _),) = hologres.rows(f"{shown}{first}")
    behind = [key for key in holo_pair.keys_on(shard_of(1), 50) if first < key <= 40]
    assert begun(holo_pair, ", ".join(f"shard_{n}={lsn}" for n, lsn in newest.items())) == [*behind, 99]
    holo_pair.write((99, None))
    other = HoloPair(hologres, job_over(hologres, make_mirror))
    target(other)
    ((_, us),) = hologres.rows(f"{shown}{second}")
    at = datetime.fromtimestamp(int(us) / 1_000_000, timezone.utc).isoformat()
    statement = f"SELECT id FROM {log} WHERE hg_binlog_timestamp_us >= {us} AND hg_binlog_event_type = 5 AND id <> 99"
    assert begun(other, at) == sorted([int(row[0]) for row in hologres.rows(statement)] + [99])


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ("2100-01-01 00:00:00+00:00", "is in the future"),
        ("2001-01-01 00:00:00+00:00", "is older than binlog.ttl"),
        ("shard_0=1", "start and the cluster have different DNs"),
        ("all=999999999", "is after the newest one"),
    ],
)
def test_a_start_that_cannot_be_is_refused(holo_pair: HoloPair, start: str, says: str) -> None:
    holo_pair.write(*((key, key) for key in range(1, 60)))
    target(holo_pair)
    holo_pair.mirror.job = replace(holo_pair.mirror.job, start=start)
    error = holo_pair.mirror.start().wait_error()
    assert isinstance(error, Refused) and says in str(error)


def test_a_table_without_a_binlog_is_refused_with_the_statement_that_cures_it(
    hologres: Hologres, make_mirror: MakeMirror
) -> None:
    hologres.create_table(TABLE, "id bigint, v bigint", ("id",), binlog=False)
    mirror = job_over(hologres, make_mirror)
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert "records no binlog: its binlog.level is not set" in error.message
    assert "set_table_property('ods.t', 'binlog.level', 'replica')" in error.hint
    hologres.set_property(TABLE, "binlog.level", "replica")
    mirror.start().wait_running().stop()


def test_a_binlog_that_is_turned_off_ends_the_job(holo_pair: HoloPair) -> None:
    holo_pair.mirror.start().wait_running()
    holo_pair.hologres.set_property(TABLE, "binlog.level", "none")
    error = holo_pair.mirror.wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SLOT_LOST
    assert "binlog.level is none" in error.message


@pytest.mark.chaos
def test_an_idle_lane_says_up_to_when_nothing_came(holo_pair: HoloPair) -> None:
    holo_pair.options(binlog_heart_beat_interval_ms=200)
    holo_pair.hologres.set_property(TABLE, "binlog.ttl", "20")
    mirror = holo_pair.mirror
    holo_pair.write((1, 1))
    mirror.start().wait_running()
    first = {row.key.shard: row.position for row in mirror.rows() if row.position is not None}

    def moved() -> bool:
        return all(row.position is not None and row.position > first[row.key.shard] for row in mirror.rows())

    until(moved, 60, "every idle lane to say so")
    assert [lane.state for lane in mirror.heard.now.values()] == [LaneState.RUNNING] * 4
    lsns = {row.key.shard: POSITIONS.position(row.position.text).lsn for row in mirror.rows() if row.position}
    assert lsns == {shard: POSITIONS.position(one.text).lsn for shard, one in first.items()}
    mirror.stop()
