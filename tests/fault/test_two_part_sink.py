"""A sink beside its progress rows: workers that are killed anywhere lose nothing, and every repeat is counted."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from core.domain.spec import RetryOptions
from core.drivers import pg
from core.embedded.warehouse import Warehouse
from core.ports.progress import Repeats
from core.wiring import worker
from tests.support.mirror import MakeMirror, Mirror
from tests.support.sqlite_pair import sink as sqlite
from tests.support.sqlite_pair.kills import Kills
from tests.support.sqlite_pair.sink import ADDS_UP, BY_KEY, TOKENS, Contents, contents, repeats
from tests.support.waiting import until

TABLE = "ods.t"
LOADED = 60
KINDS = (ADDS_UP, BY_KEY, TOKENS)


@dataclass
class Table:
    """The source's rows, and the number of its events since the job follows it, by our own account."""

    connection: pg.Connection
    chance: random.Random
    rows: dict[int, int] = field(default_factory=dict)
    events: int = 0

    def write(self) -> None:
        """A transaction of a few changes."""
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


@dataclass
class Case:
    """A job from the stand-in into a SQLite file, its table, and who kills its workers."""

    mirror: Mirror
    table: Table
    kills: Kills
    file: Path

    def start(self) -> None:
        """Another start, whoever of an earlier one still stands."""
        self.mirror.start(self.kills.here)

    def kill(self, count: int) -> None:
        """So many kills, each while changes come."""
        for _ in range(count):
            self.kills.arm()
            until(self._hit, 60, "a worker to be killed")

    def _hit(self) -> bool:
        if self.mirror.error is not None:
            raise self.mirror.error
        if not self.kills.hit.is_set():
            self.table.write()
        return self.kills.hit.wait(0.05)

    def end(self) -> tuple[Contents, Repeats]:
        """Let all go on until everything is applied and nobody is under way; what the sink has, what is counted."""
        self.kills.disarm()
        wanted = self.table.events
        until(lambda: self._settled() >= wanted, 60, f"{wanted} events to be settled")
        self.mirror.stop()
        self.kills.wait_for_all()
        assert self._settled() == wanted
        assert [row.decided for row in self.mirror.rows() if row.decided is not None] == []
        print(f"{self.mirror.job.sink_kind}: {sum(self.kills.at.values())} kills, {self.kills.lived_on} lived on")
        print(dict(self.kills.at))
        with closing(worker.open_progress(self.mirror.job, "test", worker.who(self.mirror.job, "test"))) as store:
            return contents(self.file), store.repeats()

    def _settled(self) -> int:
        if self.mirror.error is not None:
            raise self.mirror.error
        return sum(self.mirror.changes().values())


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


def refuse_loss(case: Case, found: Contents) -> None:
    """Every event is there, every row of the copy is, and nothing else is."""
    assert len(found.read) == case.table.events
    assert len(found.copied) == LOADED
    assert {int(key or ""): int(v or 0) for key, v in found.rows.values()} == case.table.rows


def test_without_kills_each_event_is_there_once(case: Case, seed: int) -> None:
    seeded(case, ADDS_UP, seed)
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
    print(f"{repeats(found.read)} repeats of {len(found.read)} events, {counted.ranges} counted")
    print(f"{sqlite.unwritten.ranges} rows were left out by kills")
    # what was decided or counted was written as often, but for what a kill left out of it
    assert repeats(found.read) == counted.ranges - sqlite.unwritten.ranges
    if kind == TOKENS:
        assert (repeats(found.read), counted.ranges) == (0, 0)


@pytest.mark.parametrize("starts", [2, pytest.param(25, marks=pytest.mark.chaos)])
def test_a_worker_of_an_earlier_start_that_lives_on_may_repeat_what_it_had_decided(
    case: Case, starts: int, seed: int
) -> None:
    """No fence of the store reaches into the sink: its rows land late, are counted, and stand over no newer ones."""
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
    # a start ends the earlier one's sessions at the store, so that an answer may be lost: then less is written
    assert repeats(found.read) <= counted.ranges - sqlite.unwritten.ranges


@pytest.mark.parametrize("count", [4, pytest.param(25, marks=pytest.mark.chaos)])
def test_chunks_whose_worker_was_killed_are_written_again_and_counted(case: Case, count: int, seed: int) -> None:
    seeded(case, ADDS_UP, seed)
    left = iter(range(count))

    def again(point: str) -> None:
        """A kill in one of the next chunks, as long as there are any left."""
        if case.kills.hit.is_set() and next(left, None) is not None:
            case.kills.arm()
        case.kills.here(point)

    case.kills.hit.set()
    sqlite.hook = again
    case.start()
    case.mirror.wait_running()
    case.table.write()
    found, counted = case.end()
    refuse_loss(case, found)
    print(f"{repeats(found.copied)} repeats of {len(found.copied)} rows, {counted.chunks} counted")
    assert 0 < repeats(found.copied) <= counted.chunks
