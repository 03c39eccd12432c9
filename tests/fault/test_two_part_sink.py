"""A sink with a separate store: workers that are killed at any point lose nothing, and every repeat is counted."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.spec import RetryOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.ports.driver import Repeats
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror
from tests.support.sqlite_pair import sink as sqlite
from tests.support.sqlite_pair.kills import LOADED, Case, Kills, refuse_loss, refuse_uncounted
from tests.support.sqlite_pair.sink import ADDS_UP, BY_KEY, TOKENS, repeats

TABLE = "ods.t"
KINDS = (ADDS_UP, BY_KEY, TOKENS)


@dataclass
class Table:
    """The source's rows, and the number of its events since the job started to follow it, counted by the test."""

    connection: pg.Connection
    chance: random.Random
    rows: dict[int, int] = field(default_factory=dict)
    events: int = 0

    def write(self) -> None:
        with pg.transaction(self.connection) as cursor:
            for _ in range(self.chance.randint(1, 12)):
                cursor.execute(*self._change())

    def _change(self) -> tuple[str, tuple[int, ...]]:
        key, value, kind = self.chance.randint(1, 80), self.chance.randrange(1_000), self.chance.random()
        if key in self.rows and kind < 0.3:
            del self.rows[key]
            self.events += 1
            return f"DELETE FROM {TABLE} WHERE id = %s", (key,)
        self.events += 2 if key in self.rows else 1
        self.rows[key] = value
        return f"INSERT INTO {TABLE} VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = excluded.v", (key, value)


@pytest.fixture
def case(warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    """A table with some rows, and a job that has not been started."""
    warehouse.create_table(TABLE, "id bigint, v bigint", ("id",), ("id",))
    chance = random.Random()
    table, kills, file = Table(warehouse.connect(False), chance), Kills(chance), tmp_path / "sink.db"
    mirror = make_mirror(warehouse, TABLE, "t")
    with pg.transaction(table.connection) as cursor:
        for key in range(1, LOADED + 1):
            cursor.execute(f"INSERT INTO {TABLE} VALUES (%s, %s)", (key, key))
            table.rows[key] = key
    mirror.job = replace(
        mirror.job,
        sink=sqlite.endpoint(file),
        sink_kind=ADDS_UP,
        store=mirror.job.sink,
        store_kind=mirror.job.sink_kind,
        retry=RetryOptions(wait_initial=1, wait_max=50, wait_jitter=1),
        binlog=replace(mirror.job.binlog, binlog_parallel_num=1, full_sync_binlog_batch_read_size=9),
    )
    mirror.make_runner = lambda: kills.runner(mirror.capacity)
    sqlite.register(monkeypatch)
    monkeypatch.setattr(sqlite, "hook", kills.here)
    return Case(mirror, table, kills, file)


def seeded(case: Case, kind: str, seed: int) -> None:
    print(f"seed {seed}")
    case.table.chance.seed(seed)
    case.mirror.job = replace(case.mirror.job, sink_kind=kind)


@pytest.mark.parametrize("kind", KINDS)
def test_without_kills_each_event_is_there_once(case: Case, kind: str, seed: int) -> None:
    seeded(case, kind, seed)
    case.start()
    case.mirror.wait_running()
    for _ in range(5):
        case.table.write()
    found, counted = case.end()
    refuse_loss(case, found)
    assert set(found.events.values()) == {1}
    assert counted == Repeats(0, 0)


@pytest.mark.parametrize("count", [4, pytest.param(200, marks=pytest.mark.chaos)])
@pytest.mark.parametrize("kind", KINDS)
def test_killed_workers_lose_nothing_and_every_repeat_is_counted(case: Case, kind: str, count: int, seed: int) -> None:
    seeded(case, kind, seed)
    case.start()
    case.mirror.wait_running()
    case.kill(count)
    found, counted = case.end()
    refuse_loss(case, found)
    refuse_uncounted(found, counted)
    if kind == TOKENS:
        assert (repeats(found.read), counted.ranges) == (0, 0)


@pytest.mark.parametrize("starts", [2, pytest.param(25, marks=pytest.mark.chaos)])
def test_a_worker_of_an_earlier_start_that_lives_on_may_repeat_what_it_had_decided(
    case: Case, starts: int, seed: int
) -> None:
    """No fence of the store protects the sink: late rows arrive, are counted, and replace no newer ones."""
    seeded(case, BY_KEY, seed)
    case.kills.lives_on, case.kills.only = 1.0, frozenset({"before_write", "in_write"})
    case.start()
    case.mirror.wait_running()
    for _ in range(starts):
        case.kill(1)
        case.mirror.stop()
        case.start()
    found, counted = case.end()
    refuse_loss(case, found)
    print(f"{repeats(found.read)} repeats of {len(found.read)} events, {counted.ranges} counted")
    # a start ends the earlier start's sessions at the store, so an answer may be lost: then less is written
    assert repeats(found.read) <= counted.ranges - sqlite.unwritten.ranges


@pytest.mark.parametrize("count", [4, pytest.param(25, marks=pytest.mark.chaos)])
def test_chunks_whose_worker_was_killed_are_written_again_and_counted(case: Case, count: int, seed: int) -> None:
    """The first kill is after a whole chunk, because a worker that lives on may yet commit its chunk: no repeat."""
    seeded(case, ADDS_UP, seed)
    left, usual = iter(range(count - 1)), case.kills.lives_on

    def again(point: str) -> None:
        """Kill in one of the next chunks, as long as there are any left."""
        if case.kills.hit.is_set() and next(left, None) is not None:
            case.kills.only, case.kills.lives_on = frozenset(), usual
            case.kills.arm()
        case.kills.here(point)

    case.kills.only, case.kills.lives_on = frozenset({"after_chunk"}), 0.0
    case.kills.arm(1)
    sqlite.hook = again
    case.start()
    case.mirror.wait_running()
    case.table.write()
    found, counted = case.end()
    refuse_loss(case, found)
    print(f"{repeats(found.copied)} repeats of {len(found.copied)} rows, {counted.chunks} counted")
    assert 0 < repeats(found.copied) <= counted.chunks
