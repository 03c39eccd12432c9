"""Workers that read Hologres by SQL, by stream or by a slot are killed: no change is lost or applied twice."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from slotkeeper.demo.hologres.faults import FOREIGN_LSN
from tests.support.hologres import SLOT, TABLE, HoloPair
from tests.support.sqlite_pair.kills import Kills
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("way", "count"),
    [("sql", 4), *(pytest.param(way, 50, marks=pytest.mark.chaos) for way in ("sql", "stream", "slot"))],
)
def test_killed_workers_lose_nothing_and_double_nothing(
    request: pytest.FixtureRequest, way: str, count: int, seed: int
) -> None:
    print(f"seed {seed}")
    holo_pair: HoloPair = request.getfixturevalue("slot_pair" if way == "slot" else "holo_pair")
    holo_pair.options(read_by="sql" if way == "sql" else "stream", binlog_read_batch_size=7)
    holo_pair.hologres.faults.keepalive_seconds = 0.0
    chance = random.Random(seed)
    kills = Kills(chance)
    mirror, hologres = holo_pair.mirror, holo_pair.hologres
    mirror.job = replace(
        mirror.job, binlog=replace(mirror.job.binlog, binlog_parallel_num=1, full_sync_binlog_batch_read_size=9)
    )
    holo_pair.write(*((key, key) for key in range(1, 61)))
    before = len(hologres.log(TABLE))
    mirror.make_runner = lambda: kills.runner(mirror.capacity)
    # a worker may die at any point of a step, including those before anything is prepared
    mirror.start(lambda point: kills.here(f"at {point}")).wait_running()

    def hit() -> bool:
        if mirror.error is not None:
            raise mirror.error
        if not kills.hit.is_set():
            some = chance.sample(range(1, 90), chance.randint(1, 12))
            holo_pair.write(*((key, None if chance.random() < 0.3 else chance.randrange(1_000)) for key in some))
        return kills.hit.wait(0.05)

    for turn in range(count):
        if turn % 7 == 3:
            hologres.updates_as("2+5" if turn % 2 else "3+7")
        kills.arm()
        until(hit, 60, "a worker to be killed")
    kills.disarm()
    records = len(hologres.log(TABLE)) - before
    until(lambda: sum(mirror.changes().values()) >= records, 90, f"{records} records to be applied")
    mirror.stop()
    kills.wait_for_all()
    print(f"{sum(kills.at.values())} kills, {kills.lived_on} lived on, {records} records: {dict(kills.at)}")
    assert sum(mirror.changes().values()) == records, "0 missing, 0 doubled"
    assert mirror.difference() == (0, 0)
    if way == "slot":
        newest = {shard: lsn for shard, lsn, _ in hologres.log(TABLE)}
        assert all(lsn <= newest[shard] for shard, lsn in hologres.confirmed(SLOT).items())
        assert FOREIGN_LSN not in hologres.faults.flushed
