"""One program over DataFrames reads DWS, MySQL and Hologres, and each change reaches PostgreSQL once.

`Program` makes Spark's calls, and ends at random places; the writer's functions and the fence are those of Spark.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slotkeeper.core.dataframe.reader.faults import ReadFailed
from slotkeeper.core.dataframe.reader.read import read
from slotkeeper.core.dataframe.writer.source import admit, commit, fields_of, stage
from slotkeeper.core.dataframe.writer.spec import spec_of
from slotkeeper.core.engine.worker.step import nothing
from slotkeeper.core.errors import ConfigError, Refused
from slotkeeper.core.ports.sink import QueryBatch
from slotkeeper.core.state.files import PROBES, ResetFiles
from slotkeeper.core.state.folder import StateFolder
from tests.support import frames
from tests.support.pairs import MysqlPair
from tests.support.sides import TARGET, Side, side_of, texts
from tests.support.waiting import until


class Killed(Exception):
    """The exception that ends the program here."""


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


def shares(side: Side, query: Query) -> bool:
    """Run a batch; return whether the server then has one binlog reader."""
    side.write((1, query.number))
    query.trigger()
    dumps = "SELECT count(*) FROM information_schema.processlist WHERE command = 'Binlog Dump'"
    return bool(side.ask(dumps)[0][0] == 1)


def survived(side: Side, folder: Path, seed: int, form: str, most: int) -> None:
    """Write and read in turns, with a program that ends at most `most` times, at random places."""
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
        if side.job.source_kind == "mysql":
            until(lambda: shares(side, query), 60, "planning and reading to share a binlog reader again")
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


SUMS = "SELECT v, count(*), sum(id) FROM ods.t GROUP BY v"
Sums = dict[object, tuple[int, int]]


def proven(path: Path, side: Side, answer: str) -> None:
    """Record the probe's answer that old images are complete."""
    answers = [{"name": "full_old_images", "answer": answer}]
    record = {"format": 1, "place": side.job.source.place, "answers": answers}
    ResetFiles(StateFolder.open(path.parent / "state")).save(PROBES, "dws1", json.dumps(record))


def weighed(side: Side, folder: Path, seed: int, rounds: int) -> None:
    """Sum a changelog by a column that updates change, and compare with the source's own sums after each round."""
    chance = random.Random(seed)
    path = side.configured(folder, frames.JOB)
    proven(path, side, "yes")
    side.write(*((key, key % 3) for key in range(10)))
    program = frames.Program(path, start="latest", changelog="weighted", poll_interval="0ms")

    def sums(rows: Sequence[tuple[Any, ...]]) -> Sums:
        return {value: (int(count), int(total)) for value, count, total in rows}

    try:
        program.query.initial()
        now = sums(side.ask(SUMS))
        for number in range(rounds):
            keys = chance.sample(range(12), chance.randrange(1, 6))
            side.write(*((key, chance.choice((None, 0, 1, 2))) for key in keys))
            if chance.random() < 0.5:
                side.write((keys[0], chance.randrange(3)))
            del program.rows[:]
            program.until_idle()
            for row in program.rows:
                weight, (count, total) = row["slotkeeper_weight"], now.get(row["v"], (0, 0))
                now[row["v"]] = count + weight, total + weight * row["id"]
            now = {value: both for value, both in now.items() if both != (0, 0)}
            assert now == sums(side.ask(SUMS)), f"round {number}"
    finally:
        program.query.close()


@pytest.mark.parametrize("side", ["dws", "mysql"], indirect=True)
def test_weighted_sums_equal_those_of_the_source(side: Side, tmp_path: Path, seed: int) -> None:
    weighed(side, tmp_path / "frames", seed, 15)


@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("side", ["dws", "mysql"], indirect=True)
def test_weighted_sums_equal_those_of_the_source_in_200_rounds(side: Side, tmp_path: Path, seed: int) -> None:
    weighed(side, tmp_path / "frames", seed, 200)


@pytest.mark.parametrize("side", ["dws", "hologres"], indirect=True)
def test_weights_without_known_old_images_are_refused_with_a_way_out(side: Side, tmp_path: Path) -> None:
    path = side.configured(tmp_path / "frames", frames.JOB)
    proven(path, side, "no")
    with pytest.raises(Refused, match="so a weighted sum can be wrong") as refused:
        frames.Program(path, changelog="weighted", start="latest")
    assert '"net"' in refused.value.hint and "a view of the job" in refused.value.hint


def test_an_event_whose_old_image_is_not_whole_ends_a_weighted_read(
    mysql_pair: MysqlPair, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    side = side_of(request, "mysql")
    side.write((1, 1))
    program = frames.Program(side.configured(tmp_path / "frames", frames.JOB), changelog="weighted", start="latest")
    try:
        program.query.initial()
        mysql_pair.run("SET SESSION binlog_row_image = MINIMAL", "UPDATE ods.t SET v = 2 WHERE id = 1")
        with pytest.raises(ReadFailed, match="incomplete rows: binlog_row_image was not FULL"):
            program.until_idle()
    finally:
        program.query.close()


@pytest.mark.parametrize("side", ["mysql"], indirect=True)
def test_a_changelog_without_a_form_explains_the_three(side: Side, tmp_path: Path) -> None:
    path = side.configured(tmp_path / "frames", frames.JOB)
    with pytest.raises(ConfigError, match="choose its form") as refused:
        frames.Program(path, changelog="")
    assert [line.split('"')[3] for line in refused.value.hint.splitlines()[1:]] == ["raw", "net", "weighted", "rows"]
