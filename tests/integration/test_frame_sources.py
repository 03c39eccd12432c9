"""One program over DataFrames reads DWS, MySQL and Hologres, and each change reaches PostgreSQL once.

`Program` makes Spark's calls, and ends at random places; the writer's functions and the fence are those of Spark.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from slotkeeper.core.dataframe.reader.read import read
from slotkeeper.core.dataframe.writer.source import admit, commit, fields_of, stage
from slotkeeper.core.dataframe.writer.spec import spec_of
from slotkeeper.core.engine.worker.step import nothing
from slotkeeper.core.ports.sink import QueryBatch
from tests.support import frames
from tests.support.sides import TARGET, Side, texts


class Killed(Exception):
    """The program ends here."""


class Query(frames.Program):
    """A query of one checkpoint into the target; `stop` raises Killed at a named place."""

    def __init__(self, path: Path, stop: Callable[[str], None], **options: str) -> None:
        super().__init__(path, nothing, **options)
        self.stop, self.number = stop, 0
        given = {"config": str(path), "sink": "mart", "table": TARGET, "create_target": "true"}
        self.spec = spec_of(given, fields_of(self.layout.spark))
        self.place = admit(self.spec)

    def trigger(self) -> bool:
        """Run a batch; return whether there was one."""
        start = self.offset(self.commits) if self.commits else self.query.initial()
        self.stop("started")
        if self.offsets == self.commits:
            end = self.query.latest(start, self.asked.points_per_trigger)
            self.stop("asked")
            if end.json == start.json:
                return False
            self.offsets = end.json
        assert self.offsets is not None
        got: list[pa.RecordBatch] = []
        for part in self.query.parts(start, self.offset(self.offsets)):
            got += read(part)
            self.stop("read")
        staged = [stage(self.spec, self.place, "query", got)]
        self.stop("staged")
        if commit(self.spec, QueryBatch("query", self.number), staged):
            self.rows += [row for batch in got for row in batch.to_pylist()]
        self.stop("committed")
        self.commits, self.number = self.offsets, self.number + 1
        return True


def survived(side: Side, folder: Path, seed: int, form: str, most: int) -> None:
    """Write and read in turns, with a program that ends `most` times at random places."""
    chance, kills = random.Random(seed), 0

    def stop(place: str) -> None:
        nonlocal kills
        if kills < most and chance.random() < 0.15:
            kills += 1
            raise Killed(place)

    side.write(*((key, key) for key in range(5)))
    path = side.configured(folder, frames.JOB)
    query = Query(path, stop, start="initial", changelog=form, points_per_trigger="4", poll_interval="0ms")
    deadline = time.monotonic() + 60
    try:
        while kills < most or query.number < 3 or texts(side.source()) != texts(side.target()):
            assert time.monotonic() < deadline + 5 * most, (texts(side.source()), texts(side.target()))
            try:
                if kills < most or query.number < 3:
                    side.write(*((chance.randrange(30), chance.choice((None, chance.randrange(99)))) for _ in "1234"))
                query.trigger()
            except Killed:
                query.crash()
        assert query.events and query.doubled() == 0, "no change is doubled"
    finally:
        query.query.close()


@pytest.mark.parametrize("form", ["raw"])
def test_a_query_killed_at_random_places_delivers_each_change_once(
    side: Side, tmp_path: Path, seed: int, form: str
) -> None:
    survived(side, tmp_path / "frames", seed, form, 3)


@pytest.mark.chaos
@pytest.mark.parametrize("form", ["raw", "net"])
def test_a_query_killed_thirty_times_delivers_each_change_once(
    side: Side, tmp_path: Path, seed: int, form: str
) -> None:
    survived(side, tmp_path / "frames", seed, form, 30)
