"""Workers and drivers of a job into the stand-in for Doris are killed, or keep running unseen, and answers are lost.

Every event of the source is a separate row that is written once: a lost event is a missing row, and the stand-in
reports an event that two loads have applied.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from slotkeeper.core.sinks.doris.sink import DorisSink
from slotkeeper.core.sinks.postgres.progress.beside import PostgresDecisions
from slotkeeper.demo.doris.faults import Call, Fault
from slotkeeper.demo.doris.tables import Tables
from tests.support.pairs import TABLE, DorisPair
from tests.support.sqlite_pair.kills import Killed, Kills
from tests.support.waiting import until

POINTS = [
    (PostgresDecisions, "decide"),
    (DorisSink, "send"),
    (PostgresDecisions, "arm"),
    (DorisSink, "commit"),
    (PostgresDecisions, "settle"),
    (DorisSink, "abort"),
]
LOST = [(call, fault) for call in (Call.LOAD, Call.TWO_PHASE) for fault in (Fault.LOST_BEFORE, Fault.LOST_AFTER)]


def watched(monkeypatch: pytest.MonkeyPatch, here: Callable[[str], None]) -> None:
    """Call `here` before and after each operation of the protocol."""
    for owner, name in POINTS:
        real: Any = getattr(owner, name)

        def moved(*given: Any, real: Any = real, name: str = name) -> Any:
            here(f"before_{name}")
            answer = real(*given)
            here(f"after_{name}")
            return answer

        monkeypatch.setattr(owner, name, moved)


@dataclass
class Applied:
    """By key, the number of times that the stand-in made a row visible."""

    rows: Counter[int] = field(default_factory=Counter)

    def count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = Tables.apply

        def apply(tables: Tables, table: Any, staged: str, *rest: Any) -> None:
            self.rows.update(int(row[0]) for row in tables.query(f"SELECT id FROM {staged}")[1])
            real(tables, table, staged, *rest)

        monkeypatch.setattr(Tables, "apply", apply)


@dataclass
class Writing:
    """Inserts of increasing keys, a few at a time."""

    pair: DorisPair
    chance: random.Random
    last: int = 0

    def some(self) -> None:
        rows = [(self.last + number, number) for number in range(1, self.chance.randint(2, 9))]
        self.last = rows[-1][0]
        with closing(self.pair.warehouse.connect(True)) as line, line.cursor() as cursor:
            cursor.execute(f"INSERT INTO {TABLE} VALUES {', '.join(map(str, rows))}")


@pytest.mark.parametrize("count", [4, pytest.param(60, marks=[pytest.mark.chaos, pytest.mark.timeout(3600)])])
def test_killed_workers_and_drivers_and_lost_answers_lose_and_double_nothing(
    doris_pair: DorisPair, monkeypatch: pytest.MonkeyPatch, count: int, seed: int
) -> None:
    print(f"seed {seed}")
    pair, chance, applied = doris_pair, random.Random(seed), Applied()
    applied.count(monkeypatch)
    kills, writing, mirror = Kills(chance), Writing(pair, chance), pair.mirror
    mirror.make_runner = lambda: kills.runner(mirror.capacity)
    watched(monkeypatch, kills.here)
    mirror.start()
    mirror.wait_running()
    drivers = 0
    for _ in range(count):
        pair.doris.faults.plan(*chance.choice(LOST))
        kills.arm()
        until(lambda: _hit(pair, kills, writing), 60, "a worker to be killed")
        if chance.random() < 0.2:
            drivers += 1
            mirror.stop()
            mirror.start(driver_probe=_die)
            until(lambda: mirror.ended() or _wrote(writing), 60, "the driver to be killed")
            assert isinstance(mirror.wait_error(), Killed)
            mirror.start()
            mirror.wait_running()
    kills.disarm()
    pair.wait_equal(120)
    mirror.stop()
    kills.wait_for_all()
    print(f"{dict(kills.at)}, {kills.lived_on} lived on, {drivers} drivers killed, {writing.last} rows")
    assert len(applied.rows) == writing.last, "lost"
    assert set(applied.rows.values()) == {1}, "doubled"
    assert pair.repeats() == 0
    assert {row.decided for row in mirror.rows()} == {None}


def _hit(pair: DorisPair, kills: Kills, writing: Writing) -> bool:
    if pair.mirror.error is not None:
        raise pair.mirror.error
    return kills.hit.is_set() or _wrote(writing) or kills.hit.wait(0.05)


def _wrote(writing: Writing) -> bool:
    writing.some()
    return False


def _die(point: str) -> None:
    raise Killed(point)
