"""The programs of docs/dataframes.md run as they stand there, over a changelog of files.

What stands in for a binlog's reader is a source of Spark's own (`tests/support/dataframes.py`): slots, DNs and types
of a warehouse are not shown here.
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

from core.dataframe import changelog
from core.embedded.postgres import Server
from tests.support.dataframes import configuration, spark_session
from tests.support.standin import drop_database, new_database

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PAGE = Path(__file__).parents[2] / "docs" / "dataframes.md"
DATABASE = "dataframe_programs"
Rows = dict[int, tuple[Any, ...]]


def program(name: str) -> Callable[..., Any]:
    """The function `name` of the page, with what stands beside it."""
    for text in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        if f"def {name}(" in text:
            names: dict[str, Any] = {}
            exec(compile(text, PAGE.name, "exec"), names)
            found: Callable[..., Any] = names[name]
            return found
    raise AssertionError(f"{PAGE.name} has no program {name}")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with spark_session(tmp_path_factory.mktemp("spark")) as made:
        yield made


@pytest.fixture
def server(pg_server: Server) -> Iterator[Server]:
    new_database(pg_server, DATABASE)
    yield pg_server
    drop_database(pg_server, DATABASE)


class Orders:
    """A table of orders that changes at random, as a changelog in files; `rows` are what it has."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.rows: Rows = {}
        self._draw = random.Random(seed)
        self._point = self._files = 0
        folder.mkdir()

    def change(self, times: int) -> None:
        """One more file of so many changes."""
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
        return found.withColumn("id", f.col("id").alias("id", metadata={changelog.KEY_PLACE: 1}))


@pytest.fixture
def orders(tmp_path: Path, seed: int) -> Orders:
    return Orders(tmp_path / "changes", seed)


def ended(query: Any) -> None:
    query.processAllAvailable()
    query.stop()


def test_a_mirror_with_a_computed_column(spark: Any, server: Server, orders: Orders, tmp_path: Path) -> None:
    config = configuration(tmp_path / "slotkeeper.toml", server, DATABASE)
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
        watch = server.connect(DATABASE)
        with watch.cursor() as cursor:
            cursor.execute("SELECT id, amount, note, round(eur, 2) FROM dwd.orders")
            found = set(cursor.fetchall())
        watch.close()
        assert {row[:3] for row in found} == {row[:3] for row in wanted}
        assert all(abs(row[3] - row[1] * Decimal("1.1")) <= cents for row in found)


def test_the_net_effect_as_files(spark: Any, orders: Orders, tmp_path: Path) -> None:
    folder = str(tmp_path / "lake")
    for _ in range(2):
        orders.change(80)
        ended(program("to_files")(orders.changes(spark), folder, str(tmp_path / "checkpoint")))
        found = program("table_of")(spark, folder).collect()
        rows = {(one["id"], one["amount"], one["note"]) for one in found}
        assert rows == {(id_, Decimal(amount), note) for id_, amount, note in orders.rows.values()}
