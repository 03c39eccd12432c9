"""Every type of the mirror's zoo arrives as docs/dataframes.md states: copied, and as changes, on real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.dataframe import register, start
from slotkeeper.core.dataframe.reader.faults import ReadFailed
from slotkeeper.core.sqltext import dotted
from slotkeeper.demo.warehouse import Warehouse
from tests.support import zoo
from tests.support.frame_session import spark_session
from tests.support.frames import JOB, configured, slot_places
from tests.support.mirror import MakeMirror, Mirror
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.chaos]
BEYOND = ("fixed", "day", "stamp", "stamp_zone", "stamp_short")
"""Columns with values that their type in Spark does not have."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with spark_session(tmp_path_factory.mktemp("spark")) as opened:
        register(opened)
        yield opened


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    made = make_mirror(warehouse, zoo.TABLE, zoo.TARGET)
    zoo.make(made)
    return made


@pytest.fixture
def path(mirror: Mirror, tmp_path: Path) -> Path:
    return configured(mirror, tmp_path)


def spelled(name: str) -> str:
    """Return a column as its type's output function formats it; the cast of inet to text adds the netmask length."""
    column = '"' + name.replace('"', '""') + '"'
    if zoo.ZOO[name].type == "inet":
        return f"CASE WHEN {column} IS NOT NULL THEN format('%s', {column}) END"
    return f"{column}::text"


def texts(mirror: Mirror, names: list[str]) -> dict[Any, dict[str, str | None]]:
    """Return every value of the source as its own text, by key."""
    listed = ", ".join(map(spelled, names)).replace("%", "%%")
    statement = f"SET timezone = 'UTC'; SELECT k, {listed} FROM {dotted(zoo.TABLE)}"
    rows = mirror.query(mirror.warehouse.connect, statement.replace("%%", "%"))
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows}


def as_text(value: Any) -> str | None:
    """Return a value of Spark as PostgreSQL formats it, if both formats are the same."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray):
        return "\\x" + bytes(value).hex()
    return None if value is None else str(value)


def same(name: str, ours: Any, theirs: str | None) -> bool:
    if isinstance(ours, float) and theirs is not None:
        import struct

        there = float(theirs)
        single = zoo.ZOO.get(name) is not None and zoo.ZOO[name].type == "real"
        return struct.pack("f" if single else "d", ours) == struct.pack("f" if single else "d", there) or ours != ours
    if isinstance(ours, Decimal) and theirs is not None:
        return ours == Decimal(theirs)
    return as_text(ours) == theirs


def differing(rows: list[Any], there: dict[Any, dict[str, str | None]], names: list[str]) -> list[tuple[Any, ...]]:
    found = []
    for row in rows:
        for name in names:
            ours, theirs = row[name], there[row["k"]][name]
            if not same(name, ours, theirs):
                found.append((row["k"], name, str(ours)[:60], str(theirs)[:60]))
    return found


@pytest.mark.chaos
def test_every_type_arrives_copied_and_changed(spark: Any, mirror: Mirror, path: Path, tmp_path: Path) -> None:
    options = {"config": str(path), "job": JOB, "start": "initial", "changelog": "raw", "as_text": ",".join(BEYOND)}
    names = [name for name in zoo.ZOO if name not in ("fixed_char", "any_char")]
    got: list[Any] = []
    frame = spark.readStream.format("slotkeeper").options(**options).load()
    query = start(
        frame.writeStream.foreachBatch(lambda rows, number: got.extend(rows.collect())).option(
            "checkpointLocation", str(tmp_path / "ck")
        )
    )
    until(lambda: slot_places(mirror) and got, 120, "the copy")
    zoo.insert(mirror, 1000)
    until(lambda: any(row["slotkeeper_change"] == "I" for row in got) or query.exception(), 120, "changes")
    query.processAllAvailable()
    query.stop()
    there = texts(mirror, names)
    assert {row["slotkeeper_change"] for row in got} == {"S", "I"}
    assert {row["k"] for row in got} == set(there)
    assert not differing(got, there, names)


def test_a_value_that_spark_has_not_is_named(spark: Any, mirror: Mirror, path: Path) -> None:
    frame = spark.read.format("slotkeeper").options(config=str(path), job=JOB, read="rows", columns="k,fixed").load()
    with pytest.raises(Exception, match="ReadFailed: column 'fixed' holds a value") as raised:
        frame.collect()
    assert not isinstance(raised.value, ReadFailed)
