"""The second pair under kills: no change is lost, and every row that its sink gets again is counted."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from slotkeeper.core.domain.traits import Delivery
from slotkeeper.core.services.doctor import promise_of
from tests.support.sqlite_pair import sink
from tests.support.sqlite_pair.binlog import Origin
from tests.support.sqlite_pair.kills import LOADED, Case, Kills, refuse_loss, refuse_uncounted
from tests.support.sqlite_pair.pair import MakePair
from tests.support.sqlite_pair.sink import ADDS_UP, BY_KEY

TABLE = "ods.t"
PROMISES = [(ADDS_UP, Delivery.AT_LEAST_ONCE), (BY_KEY, Delivery.EQUAL_IN_THE_END)]
ROTATED = 0.05
"""The share of transactions after which the next binlog file begins."""


@dataclass
class Table:
    """A table of a SQLite source, and another one whose events are in the same stream."""

    origin: Origin
    chance: random.Random
    rows: dict[int, int] = field(default_factory=dict)

    @property
    def events(self) -> int:
        """Return the events, without those of the rows that existed before."""
        return self.origin.events[TABLE] - LOADED

    def write(self) -> None:
        with self.origin.transaction() as writing:
            for _ in range(self.chance.randint(1, 12)):
                key, value = self.chance.randint(1, 80), self.chance.randrange(1_000)
                if key in self.rows and self.chance.random() < 0.3:
                    del self.rows[key]
                    writing.delete(TABLE, id=key)
                else:
                    self.rows[key] = value
                    writing.put(TABLE, id=key, v=value)
            if self.chance.random() < 0.3:
                writing.put("ods.other", id=self.chance.randint(1, 9), v=0)
        if self.chance.random() < ROTATED:
            self.origin.rotate()


@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.chaos)])
@pytest.mark.parametrize(("kind", "promised"), PROMISES, ids=[kind for kind, _ in PROMISES])
def test_killed_workers_lose_nothing_and_every_repeat_is_counted(
    make_pair: MakePair, monkeypatch: pytest.MonkeyPatch, kind: str, promised: Delivery, count: int, seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    pair, kills = make_pair(TABLE, sink_kind=kind), Kills(chance)
    pair.origin.create_table("ods.other", "id INTEGER PRIMARY KEY, v INTEGER")
    table = Table(pair.origin, chance)
    with pair.origin.transaction() as writing:
        for key in range(1, LOADED + 1):
            writing.put(TABLE, id=key, v=key)
            table.rows[key] = key
    mirror = pair.mirror
    mirror.job = replace(
        mirror.job, binlog=replace(mirror.job.binlog, binlog_parallel_num=1, full_sync_binlog_batch_read_size=9)
    )
    assert promise_of(mirror.job) == promised.value
    mirror.make_runner = lambda: kills.runner(mirror.capacity)
    monkeypatch.setattr(sink, "hook", kills.here)
    case = Case(mirror, table, kills, pair.file)
    case.start()
    mirror.wait_running()
    case.kill(count)
    found, counted = case.end()
    refuse_loss(case, found)
    refuse_uncounted(found, counted)
    assert pair.compare().equal
