"""Simulated histories of a job: the real driver and workers in virtual time, thousands from one seed.

A history is two to four starts of a job. In each, connections are lost, answers come late, workers are lost or hang,
the driver is killed while its tasks continue, the clock steps, and the job is paused. Between two starts its slot is
reset, or its source is replaced by an older copy or by one of another life, or its log is purged. The history ends
equal to what was written, or with a named error and an unchanged target.

`make simulate` runs them. `SLOTKEEPER_HISTORIES` is the number of histories of all kinds together. `SLOTKEEPER_FIRST`
is the number of the first history of each kind: with the seed, it repeats the one that failed.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.reset import Goal, TargetKind
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.demo.warehouse import Warehouse
from tests.contract.pairs import FIRST, KEEPS, MADE, SECOND, TABLE, Pair, by_sql, in_file
from tests.support.histories import EVERY_FAULT, History
from tests.support.mirror import MakeMirror, Mirror
from tests.support.resetting import Resetting
from tests.support.sqlite_pair.binlog import Origin, connect
from tests.support.sqlite_pair.kind import endpoint
from tests.support.sqlite_pair.pair import MakePair
from tests.support.sqlite_pair.sink import ADDS_UP, TOKENS, contents
from tests.support.virtual import Scene, World

pytestmark = pytest.mark.chaos
HISTORIES = int(os.environ.get("SLOTKEEPER_HISTORIES", "60"))
BEGIN = int(os.environ.get("SLOTKEEPER_FIRST", "0"))
PARTS = 4
"""Blocks of each kind of pair, for several processes."""
KINDS = (FIRST, SECOND, KEEPS, ADDS_UP, TOKENS)


@dataclass
class Stage:
    """A kind of pair, made once; each history has its own job, tables and progress rows in it."""

    kind: str
    mirror: Mirror
    folder: Path

    def pair(self, number: int) -> Pair:
        name = f"h{number}"
        if self.kind == FIRST:
            table, target, warehouse = f"ods.{name}", f"mart.{name}", self.mirror.warehouse
            warehouse.create_table(table, "id bigint, v bigint", ("id",), ("id",))
            self.mirror.table, channels = table, (ChannelSpec(table, target, create_target=True),)
            self.mirror.job = replace(self.mirror.job, name=name, slot=name, channels=channels)
            return Pair(self.mirror, by_sql(warehouse, table))
        for path in self.folder.glob("*.db*"):
            path.unlink()
        origin, job = Origin(self.folder / f"{name}.db"), self.mirror.job
        sink = replace(job.sink, database=str(self.folder / f"{name}.sink.db"))
        self.mirror.job = replace(job, name=name, slot=name, source=endpoint(origin), sink=sink)
        origin.create_table(TABLE, "id INTEGER PRIMARY KEY, v INTEGER")
        return Pair(self.mirror, in_file(origin))


@pytest.fixture
def stage(
    request: pytest.FixtureRequest, warehouse: Warehouse, make_mirror: MakeMirror, make_pair: MakePair, tmp_path: Path
) -> Stage:
    kind: str = request.param
    made = MADE[kind](make_mirror, warehouse, make_pair)
    return Stage(kind, made.mirror, tmp_path)


def a_minute() -> Scene:
    """Long enough for a start to be refused."""
    yield 60


@dataclass
class Simulated:
    """One history: its starts, and what happens between them."""

    stage: Stage
    pair: Pair
    world: World
    chance: random.Random
    seen: Counter[str]

    def run(self) -> None:
        history = History(self.pair, self.world, self.chance, EVERY_FAULT)
        for start in range(self.chance.randint(2, 4)):
            if start and not self.between(history):
                return
            while not history.run(self.chance.randint(1, 3)):
                self.seen["driver killed"] += 1
        self.seen["equal"] += 1

    def between(self, history: History) -> bool:
        """What happens while the job is stopped; returns whether it is started again."""
        kinds = ["reset", "undone", "", ""]
        if self.stage.kind != FIRST:
            kinds += ["older", "another life", "purged"]
        match self.chance.choice(kinds):
            case "reset":
                self.reset(history, undone=False)
            case "undone":
                self.reset(history, undone=True)
            case "":
                history.write(self.chance.randrange(1, 8))
            case damage:
                self.refused(history, damage)
                return False
        return True

    def reset(self, history: History, undone: bool) -> None:
        history.write(self.chance.randrange(1, 8))
        resetting = Resetting(self.pair.mirror, self.stage.folder / "state")
        made = resetting.plan(Goal(TargetKind.EARLIEST))
        if made.failed:
            self.seen["reset refused"] += 1
            return
        result = resetting.execute(made)
        self.seen["reset"] += 1
        if undone:
            resetting.undo(result.reset)
            self.seen["undone"] += 1

    def refused(self, history: History, damage: str) -> None:
        """The source is not the one that was read: the start is refused with a name and writes nothing."""
        path = Path(self.pair.job.source.database)
        origin, copy = Origin(path), path.with_suffix(".older")
        match damage:
            case "older":
                with closing(connect(str(path))) as connection:
                    connection.execute("VACUUM INTO ?", (str(copy),))
                history.write(self.chance.randrange(1, 8))
                while not history.run(1):
                    self.seen["driver killed"] += 1
                for one in self.stage.folder.glob(f"{path.name}*"):
                    one.unlink()
                copy.replace(path)
            case "another life":
                origin.rebuild()
            case "purged":
                history.write(self.chance.randrange(1, 8))
                origin.rotate()
                history.write(self.chance.randrange(1, 8))
                origin.purge()
        before = self.contents()
        failed = self.world.fails(self.pair.mirror, a_minute(), history.probe, history.probe)
        assert isinstance(failed, SlotkeeperError) and failed.message, failed
        assert self.contents() == before, "a refused start wrote"
        self.seen[f"{damage}: {str(failed).partition(':')[0]}"] += 1

    def contents(self) -> object:
        return contents(Path(self.pair.job.sink.database))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("stage", KINDS, indirect=True)
def test_simulated_histories_end_equal_or_with_a_named_error(stage: Stage, part: int, world: World, seed: int) -> None:
    seen = Counter[str]()
    numbers = range(BEGIN + part, BEGIN + HISTORIES // len(KINDS), PARTS)
    for number in numbers:
        chance = random.Random(f"{seed} {stage.kind} {number}")
        world.begin(chance.random())
        try:
            Simulated(stage, stage.pair(number), world, chance, seen).run()
        except BaseException:
            print(f"{stage.kind}: history {number} of seed {seed}")
            raise
    print(f"{stage.kind}: {len(numbers)} histories: {dict(seen)}")
