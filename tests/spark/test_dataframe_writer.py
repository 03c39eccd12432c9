"""Spark streams that write a changelog into a table: each batch once and complete, and rows that no longer match
deleted.

The changelog comes from files that stand in for the reader (see `tests/support/dataframes.py` for the parts that
they replace). `tests/fault/test_query_kills.py` kills the sink's side at each statement.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.dataframe import changelog
from slotkeeper.demo.postgres import Server
from tests.support.dataframes import StreamRig, configuration, spark_session
from tests.support.oracle import Event, Image
from tests.support.standin import drop_database, new_database

Rows = dict[int, tuple[Any, ...]]


class Orders:
    """A table of orders that changes at random, with its changelog in files; `rows` is its content."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.rows: Rows = {}
        self._draw = random.Random(seed)
        self._point = self._files = 0
        folder.mkdir()

    def change(self, times: int) -> None:
        self._files += 1
        lines: list[dict[str, Any]] = []
        for _ in range(times):
            lines += self._one()
        half = self.folder / ".half"
        half.write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
        os.utime(half, (1_700_000_000 + self._files,) * 2)
        half.rename(self.folder / f"{self._files:04d}.json")

    def _one(self) -> list[dict[str, Any]]:
        self._point += 1
        id_ = self._draw.randrange(40)
        image = (id_, str(Decimal(self._draw.randrange(-300, 900)) / 100), self._draw.choice(["a", None, "ü"]))
        before = self.rows.get(id_)
        if before is None:
            self.rows[id_] = image
            return [self._row("I", 0, image)]
        if self._draw.random() < 0.3:
            del self.rows[id_]
            return [self._row("d", 0, (id_, None, None))]
        self.rows[id_] = image
        return [self._row("B", 0, (id_, None, None)), self._row("U", 1, image)]

    def _row(self, kind: str, sequence: int, image: tuple[Any, ...]) -> dict[str, Any]:
        ours = (kind, f"dn_{image[0] % 3}", self._point, sequence)
        return dict(zip([name for name, _ in changelog.COLUMNS], ours, strict=True)) | dict(
            zip(("id", "amount", "note"), image, strict=True)
        )

    def changes(self, spark: Any) -> Any:
        from pyspark.sql import functions as f

        ours = ", ".join(f"{name} {type_}" for name, type_ in changelog.COLUMNS)
        read = spark.readStream.schema(f"{ours}, id int, amount decimal(12, 2), note string")
        found = read.option("maxFilesPerTrigger", 1).json(str(self.folder))
        return found.withColumn("id", f.col("id").alias("id", metadata=changelog.marks(["id"], "t")["id"]))


pytestmark = [pytest.mark.spark, pytest.mark.slow]
DATABASE = "dataframe_writer"
PAGE = Path(__file__).parents[2] / "docs" / "dataframes.md"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with spark_session(tmp_path_factory.mktemp("spark")) as made:
        from slotkeeper.core.dataframe.writer.source import register

        register(made)
        yield made


@pytest.fixture(scope="module")
def database(pg_server: Server) -> Iterator[str]:
    new_database(pg_server, DATABASE)
    yield DATABASE
    drop_database(pg_server, DATABASE)


@pytest.fixture
def rig(
    pg_server: Server, database: str, tmp_path: Path, seed: int, request: pytest.FixtureRequest
) -> Iterator[StreamRig]:
    made = StreamRig(pg_server, database, tmp_path, f"t{abs(hash(request.node.name)) % 10**9}", seed)
    yield made
    made.watch.close()


def even(image: Image) -> bool:
    return image["a"] is not None and int(image["a"]) % 2 == 0


def test_a_stream_mirrors_once_through_a_restart_that_takes_its_last_batch_again(spark: Any, rig: StreamRig) -> None:
    rig.files.add(rig.batches[0])
    rig.files.add(rig.batches[1])
    query = rig.write(rig.files.stream(spark))
    assert rig.rows() == rig.oracle(2)
    before = rig.versions()
    rig.forget_commit(1)
    again = rig.write(rig.files.stream(spark))
    assert (again.id, rig.versions()) == (query.id, before), "the same batch, and nothing was written"
    rig.files.add(rig.batches[2])
    rig.write(rig.files.stream(spark))
    assert rig.rows() == rig.oracle(3)
    rows = sum(map(len, rig.batches))
    assert rig.fence() == (str(query.id), 2, rows)


def test_spark_calls_a_writer_as_ours_needs_it(spark: Any, rig: StreamRig, tmp_path: Path) -> None:
    """The query's id is in each task; after a commit whose answer was lost, the batch is aborted and written again."""
    from tests.support.recording_writer import Recording, lines

    spark.dataSource.register(Recording)
    log = tmp_path / "log"
    rig.files.add(rig.batches[0])
    rig.files.add(rig.batches[1])

    def run() -> Any:
        writer = rig.files.stream(spark).writeStream.format("recording").option("log", str(log))
        return writer.option("checkpointLocation", str(rig.checkpoint)).trigger(availableNow=True).start()

    query = run()
    with pytest.raises(Exception, match="the answer of a COMMIT was lost"):
        query.awaitTermination()
    run().awaitTermination()
    said = lines(log)
    calls = [(one["call"], one["batch"], one["rows"]) for one in said if "batch" in one]
    first, second = len(rig.batches[0]), len(rig.batches[1])
    assert calls == [("commit", 0, first), ("commit", 1, second), ("abort", 1, second), ("commit", 1, second)]
    assert {one["query"] for one in said if one["call"] == "write"} == {str(query.id)}
    writes = {one["process"] for one in said if one["call"] == "write"}
    commits = {one["process"] for one in said if one["call"] in ("commit", "abort")}
    assert not writes & commits, "no process knows both"
    made = {one["process"]: one["commits"] for one in said if one["call"] == "made"}
    assert {process for process, told in made.items() if told} == commits, (
        "as the code that Spark runs in a process reports"
    )
    assert len(commits) < len(made), "other threads begin the batches"


@pytest.mark.chaos
def test_a_plain_filter_leaves_stale_rows_and_the_net_effect_none(spark: Any, rig: StreamRig, tmp_path: Path) -> None:
    from slotkeeper.core.dataframe.net import net

    for batch in rig.batches:
        rig.files.add(batch)
    condition, wanted = "a % 2 = 0", rig.oracle(3, even)
    rig.write(rig.files.stream(spark).where(condition))
    stale = {key: row for key, row in rig.rows().items() if wanted.get(key) != row}
    assert stale, "a filter over changes does not filter rows"
    rig.asked(f"TRUNCATE {rig.table}; DELETE FROM slotkeeper_streams; SELECT 1")
    rig.write(net(rig.files.stream(spark), where=condition), tmp_path / "second")
    assert rig.rows() == wanted


def test_a_second_checkpoint_is_refused_by_name(spark: Any, rig: StreamRig, tmp_path: Path) -> None:
    rig.files.add(rig.batches[0])
    query = rig.write(rig.files.stream(spark))
    before = rig.versions()
    with pytest.raises(Exception, match=f"query {query.id} writes.*this checkpoint belongs to another") as caught:
        rig.write(rig.files.stream(spark), tmp_path / "second")
    assert "psycopg2" not in str(caught.value)
    assert rig.versions() == before


def test_for_each_batch_writes_the_same_way_and_once_for_each_table(spark: Any, rig: StreamRig) -> None:
    from slotkeeper.core.dataframe.apply import apply_changes
    from slotkeeper.core.dataframe.writer.source import QueryError

    for batch in rig.batches:
        rig.files.add(batch)
    answers: list[bool] = []

    def apply(df: Any, batch: int) -> None:
        answers.append(apply_changes(df, batch, **rig.options(write_mode="copy_merge")))
        if batch == 1 and answers[-1]:
            with pytest.raises(QueryError, match=r"has already called apply_changes for batch 1: union the DataFrames"):
                apply_changes(df.limit(1), batch, **rig.options())

    def run() -> None:
        writer = rig.files.stream(spark).writeStream.foreachBatch(apply)
        writer.option("checkpointLocation", str(rig.checkpoint)).trigger(availableNow=True).start().awaitTermination()

    run()
    assert (rig.rows(), answers) == (rig.oracle(3), [True] * 3)
    before = rig.versions()
    rig.forget_commit(2)
    run()
    assert (answers, rig.versions()) == ([True] * 3 + [False], before)


def test_a_wrong_option_is_said_before_a_batch_and_without_a_secret(spark: Any, rig: StreamRig) -> None:
    rig.files.add(rig.batches[0])
    with pytest.raises(Exception, match="did you mean table"):
        rig.write(rig.files.stream(spark), tabel="x.y")
    assert rig.rows() == {}


def test_a_value_that_the_table_refuses_ends_the_query_and_is_not_shown(spark: Any, rig: StreamRig) -> None:
    image: Image = {"h": 900, "k": 1, "a": 1, "b": "x", "tags": "{canary", "j": None}
    rig.files.add([*rig.batches[0], Event(99, 1, "I", (900, 1), image)])
    with pytest.raises(Exception, match="Alter the target so that it accepts the row") as caught:
        rig.write(rig.files.stream(spark))
    assert "canary" not in str(caught.value)
    assert (rig.rows(), rig.fence()) == ({}, ("", -1, 0))


# -- the programs of docs/dataframes.md, exactly as printed there
# -----------------------------------------------------


def program(name: str) -> Callable[..., Any]:
    """The function `name` of the page, with the page's imports."""
    for text in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        if f"def {name}(" in text:
            names: dict[str, Any] = {}
            exec(compile(text, PAGE.name, "exec"), names)
            found: Callable[..., Any] = names[name]
            return found
    raise AssertionError(f"{PAGE.name} has no program {name}")


@pytest.fixture
def orders(tmp_path: Path, seed: int) -> Orders:
    return Orders(tmp_path / "orders", seed)


def ended(query: Any) -> None:
    query.processAllAvailable()
    query.stop()


def test_a_mirror_with_a_computed_column(
    spark: Any, pg_server: Server, database: str, orders: Orders, tmp_path: Path
) -> None:
    config = configuration(tmp_path / "slotkeeper.toml", pg_server, database)
    for _ in range(2):
        orders.change(60)
        orders.change(60)
        ended(program("mirror")(orders.changes(spark), str(config), str(tmp_path / "checkpoint")))
        cents = Decimal("0.01")
        wanted = {
            (id_, Decimal(amount), note, (Decimal(amount) * Decimal("1.1")).quantize(cents))
            for id_, amount, note in orders.rows.values()
            if Decimal(amount) > 0
        }
        watch = pg_server.connect(database)
        with watch.cursor() as cursor:
            cursor.execute("SELECT id, amount, note, round(eur, 2) FROM dwd.orders")
            found = set(cursor.fetchall())
        watch.close()
        assert {row[:3] for row in found} == {row[:3] for row in wanted}
        assert all(abs(row[3] - row[1] * Decimal("1.1")) <= cents for row in found)


@pytest.mark.chaos
def test_the_net_effect_as_files(spark: Any, orders: Orders, tmp_path: Path) -> None:
    folder = str(tmp_path / "lake")
    for _ in range(2):
        orders.change(80)
        ended(program("to_files")(orders.changes(spark), folder, str(tmp_path / "checkpoint")))
        found = program("table_of")(spark, folder).collect()
        rows = {(one["id"], one["amount"], one["note"]) for one in found}
        assert rows == {(id_, Decimal(amount), note) for id_, amount, note in orders.rows.values()}
