"""Tables and changelogs as DataFrames on real Spark, and the programs of docs/dataframes.md as printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from slotkeeper.core.config.load import load_usable
from slotkeeper.core.dataframe import changelog, register, start
from slotkeeper.core.dataframe.reader.faults import ReadFailed
from slotkeeper.core.domain.query_report import QuerySeen
from slotkeeper.core.services.slot_commands import query_of
from slotkeeper.demo.orders import TABLE
from slotkeeper.demo.warehouse import Warehouse
from tests.support.frame_session import spark_session
from tests.support.frames import JOB, configured, slot_places, wait_begun
from tests.support.mirror import MakeMirror, Mirror, orders, written
from tests.support.standin import run
from tests.support.waiting import until

pytestmark = pytest.mark.spark
PAGE = Path(__file__).parents[2] / "docs" / "dataframes.md"
COLUMNS = ("cust", "order_no", "status", "amount", "note", "created", "paid", "attrs")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with spark_session(tmp_path_factory.mktemp("spark")) as opened:
        register(opened)
        yield opened


@pytest.fixture
def mirror(make_mirror: MakeMirror, warehouse: Warehouse, seed: int) -> Mirror:
    return orders(make_mirror, warehouse, seed)


@pytest.fixture
def path(mirror: Mirror, tmp_path: Path) -> Path:
    return configured(mirror, tmp_path)


def made(mirror: Mirror, slot: str = "frames_slot") -> None:
    run(mirror.warehouse, f"SELECT * FROM pgxc_register_full_sync_point('{mirror.table}', '{slot}')")


def there(mirror: Mirror) -> set[tuple[Any, ...]]:
    names = ", ".join(name if name != "attrs" else "attrs::text" for name in COLUMNS)
    return set(mirror.query(mirror.warehouse.connect, f"SELECT {names} FROM {mirror.table}"))


def values(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Return rows as the source's driver returns them: times with their zone."""
    import datetime

    found = []
    for row in rows:
        plain = row.asDict()
        plain["created"] = plain["created"].replace(tzinfo=datetime.timezone.utc)
        found.append(tuple(plain[name] for name in COLUMNS))
    return found


def committed(checkpoint: Path) -> dict[str, Any]:
    """Return the end of the newest batch in the commit log."""
    newest = max(int(one.name) for one in (checkpoint / "commits").iterdir() if one.name.isdigit())
    return json.loads((checkpoint / "offsets" / str(newest)).read_text().splitlines()[-1])  # type: ignore[no-any-return]


def points(offset: dict[str, Any]) -> dict[str, set[int]]:
    return {name: {int(text.split("/")[0])} for name, text in offset["positions"].items()}


def test_a_table_is_read_by_chunks_as_it_is_now(spark: Any, mirror: Mirror, path: Path) -> None:
    reads = spark.read.format("slotkeeper").options(config=str(path), job=JOB, read="rows", partition_rows="90")
    frame = reads.load()
    assert [(one.name, one.dataType.simpleString()) for one in frame.schema] == [
        ("cust", "bigint"), ("order_no", "bigint"), ("status", "string"), ("amount", "decimal(12,2)"),
        ("note", "string"), ("created", "timestamp"), ("paid", "boolean"), ("attrs", "string"),
    ]  # fmt: skip
    rows = values(frame.collect())
    assert len(rows) == len(set(rows)) == 400
    assert set(rows) == there(mirror)
    some = values(frame.where("order_no >= 5 AND order_no < 9 AND status IS NOT NULL").collect())
    assert set(some) == {row for row in there(mirror) if 5 <= row[1] < 9}
    assert slot_places(mirror) == {}


@pytest.mark.chaos
def test_a_range_of_changes_is_read_once(spark: Any, mirror: Mirror, path: Path, seed: int) -> None:
    made(mirror)
    with written(mirror, seed, changes=60):
        pass
    frame = spark.read.format("slotkeeper").options(config=str(path), job=JOB, read="changes", changelog="raw").load()
    before = slot_places(mirror)
    counted = {row["slotkeeper_dn"]: row["count"] for row in frame.groupBy("slotkeeper_dn").count().collect()}
    assert counted == mirror.booked()
    assert slot_places(mirror) == before


def test_a_stream_equals_the_ledger_and_its_slot_the_commit_log(
    spark: Any, mirror: Mirror, path: Path, tmp_path: Path, seed: int
) -> None:
    checkpoint, out = tmp_path / "checkpoint", str(tmp_path / "out")
    options = {"config": str(path), "job": JOB, "start": "initial", "changelog": "raw", "points_per_trigger": "50"}

    def life(begin: Any = start, **trigger: Any) -> Any:
        frame = spark.readStream.format("slotkeeper").options(**options).load()
        writer = frame.writeStream.format("parquet").option("path", out).option("checkpointLocation", str(checkpoint))
        return begin(writer.trigger(**trigger) if trigger else writer)

    def seen() -> QuerySeen:
        found = query_of(load_usable(path, {}).jobs[JOB])
        assert found is not None
        return found

    query = life(lambda writer: writer.queryName("to files").start())  # its public part needs no helper
    wait_begun(query, mirror)
    with written(mirror, seed, changes=150):
        until(lambda: (seen().batch or 0) >= 3, 60, "some batches to be seen from elsewhere")
        found = seen()
        assert (found.lives, found.id, found.name) == (True, query.id, "to files")
        assert found.checkpoint == f"file:{checkpoint}" and found.worst is not None
        query.stop()
    query = life(availableNow=True)
    until(lambda: not query.isActive, 120, "the query to end")
    assert query.exception() is None
    last = (query.lastProgress or {}).get("batchId", seen().batch)
    until(lambda: seen().batch == last, 30, "the last batch of a query that has ended to be seen")
    query = life()
    until(lambda: slot_places(mirror) == points(committed(checkpoint)), 60, "the slot to be at the end of the log")
    until(lambda: seen().lives, 60, "the query to have begun")
    found = seen()  # it is idle, so Spark reports nothing yet, and the earlier report is still valid
    assert (found.id, found.checkpoint) == (query.id, f"file:{checkpoint}")
    assert found.positions == committed(checkpoint)["positions"]
    query.stop()
    until(lambda: not seen().lives, 60, "the query to be gone")
    assert seen().checkpoint == found.checkpoint
    rows = spark.read.parquet(out)
    changes = rows.where("slotkeeper_change <> 'S'")
    counted = {row["slotkeeper_dn"]: row["count"] for row in changes.groupBy("slotkeeper_dn").count().collect()}
    assert counted == mirror.booked()
    places = changes.select("slotkeeper_dn", "slotkeeper_point", "slotkeeper_sequence")
    assert places.distinct().count() == places.count()
    by_key = Window.partitionBy("cust", "order_no").orderBy(F.desc("slotkeeper_point"), F.desc("slotkeeper_sequence"))
    last = rows.withColumn("nth", F.row_number().over(by_key)).where("nth = 1 AND slotkeeper_change IN ('S', 'I', 'U')")
    assert set(values(last.select(*COLUMNS).collect())) == there(mirror)


@pytest.mark.chaos
def test_trouble_is_one_line_of_the_query_s_exception(spark: Any, mirror: Mirror, path: Path, tmp_path: Path) -> None:
    reads = {"config": str(path), "job": JOB, "start": "latest", "changelog": "raw"}
    frame = spark.readStream.format("slotkeeper").options(**reads).load()
    query = start(frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck")))
    wait_begun(query, mirror)
    mirror.source(f"TRUNCATE {TABLE}")
    until(lambda: query.exception() is not None, 60, "the query to end")
    said = str(query.exception())
    assert re.search(r"ReadFailed: SLOT LOST: dn_\d: .*; action: .*start = \"initial\"", said), said
    assert "Traceback" not in said.partition("ReadFailed")[2]


@pytest.mark.chaos
def test_asynchronous_progress_is_refused(spark: Any, mirror: Mirror, path: Path, tmp_path: Path) -> None:
    reads = {"config": str(path), "job": JOB, "start": "latest", "changelog": "raw"}
    frame = spark.readStream.format("slotkeeper").options(**reads).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck"))
    with pytest.raises(ReadFailed, match="asyncProgressTrackingEnabled"):
        start(writer.option("asyncProgressTrackingEnabled", "true"))
    assert slot_places(mirror) == {}


# -- the programs of the page -------------------------------------------------------------------------------------


def program(name: str) -> Any:
    text = PAGE.read_text(encoding="utf-8")
    (found,) = [one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if f"def {name}(" in one]
    names: dict[str, Any] = {"F": F, "Window": Window, "start": start, "register": register}
    exec(compile(found, "dataframes.md", "exec"), names)
    return names[name]


def renamed(path: Path) -> str:
    path.write_text(path.read_text().replace(f"jobs.{JOB}", "jobs.orders_df"))
    return str(path)


@pytest.mark.chaos
def test_program_backfill(spark: Any, mirror: Mirror, path: Path, tmp_path: Path, seed: int) -> None:
    made(mirror)
    before = {row[:2] for row in there(mirror)}
    begin = ",".join(f"{name}={point}/-1" for name, (point,) in ((n, tuple(p)) for n, p in slot_places(mirror).items()))
    mirror.source(f"UPDATE {TABLE} SET status = 'filled', amount = 7 WHERE order_no <= 40")
    program("backfill")(spark, renamed(path), begin, "latest", str(tmp_path / "out"))
    rows = {
        tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).select("cust", "order_no", "status").collect()
    }
    assert rows == {(*key, "filled") for key in before if key[1] <= 40}


@pytest.mark.chaos
def test_sums_are_right_by_net_effect_and_by_sign_and_wrong_by_the_rows_of_a_changelog(spark: Any) -> None:
    """Order 1 changes its amount twice and its status, order 2 is deleted, order 3 is new."""
    marked = changelog.marks(["cust", "order_no"], "t")
    table = StructType(
        [
            StructField("cust", LongType(), metadata=marked["cust"]),
            StructField("order_no", LongType(), metadata=marked["order_no"]),
            StructField("status", StringType()),
            StructField("amount", LongType()),
        ]
    )
    before = spark.createDataFrame([(7, 1, "new", 10), (7, 2, "new", 20), (7, 4, "new", 40)], table)
    rows = [
        ("B", 1, 1, "new", 10), ("U", 1, 1, "new", 12), ("B", 2, 1, "new", 12), ("U", 2, 1, "paid", 13),
        ("d", 3, 2, "new", 20), ("I", 4, 3, "paid", 30),
    ]  # fmt: skip
    head = StructType([StructField(changelog.CHANGE, StringType()), StructField(changelog.DN, StringType())])
    head = head.add(changelog.POINT, LongType()).add(changelog.SEQUENCE, LongType())
    drawn = [(kind, "dn_1", point, n, 7, order, *more) for n, (kind, point, order, *more) in enumerate(rows)]
    changes = spark.createDataFrame(drawn, StructType([*head, *table]))

    def sums(found: Any) -> dict[str, int]:
        return {row["status"]: row["amount"] for row in found.collect()}

    right = {"new": 40, "paid": 43}
    assert sums(program("sums_by_net_effect")(before, changes)) == right
    assert sums(program("sums_by_sign")(before, changes)) == right
    plain = before.select("status", "amount").unionByName(changes.select("status", "amount"))
    assert sums(plain.groupBy("status").agg(F.sum("amount").alias("amount"))) == {"new": 124, "paid": 43}


@pytest.mark.chaos
def test_program_counts(spark: Any, mirror: Mirror, path: Path, tmp_path: Path) -> None:
    query = program("counts")(spark, renamed(path), str(tmp_path / "ck"), str(tmp_path / "out"))
    wait_begun(query, mirror)
    add = f"INSERT INTO {TABLE} (cust, order_no, status, created) SELECT 1, %s + n, 'new', '%s'"
    add += " FROM generate_series(1, %s) n"
    for number, (at, rows) in enumerate((("2030-01-01 00:10+00", 5), ("2030-01-01 00:50+00", 7), ("2030-01-02+00", 1))):
        mirror.source(add % (90_000 + 1_000 * number, at, rows))
        query.processAllAvailable()
    query.processAllAvailable()
    query.stop()
    counted = spark.read.parquet(str(tmp_path / "out")).select("hour.start", "status", "count").collect()
    assert [(str(row["start"]), row["status"], row["count"]) for row in counted] == [("2030-01-01 00:00:00", "new", 12)]


@pytest.mark.chaos
def test_program_enriched(spark: Any, mirror: Mirror, path: Path, tmp_path: Path) -> None:
    mirror.warehouse.create_table("ods.customers", "id bigint, name text", ("id",), ("id",))
    run(mirror.warehouse, "INSERT INTO ods.customers VALUES (1, 'Ann')")
    text = path.read_text().replace(
        "[[jobs.frames.channels]]",
        '[[jobs.frames.channels]]\nfrom = "ods.customers"\ninto = "mart.c"\n[[jobs.frames.channels]]',
    )
    path.write_text(text)
    query = program("enriched")(spark, renamed(path), str(tmp_path / "ck"), str(tmp_path / "out"))
    wait_begun(query, mirror)
    mirror.source(f"INSERT INTO {TABLE} (cust, order_no, amount) VALUES (1, 90001, 5), (2, 90002, 6)")
    query.processAllAvailable()
    run(mirror.warehouse, "INSERT INTO ods.customers VALUES (2, 'Bob')")
    mirror.source(f"INSERT INTO {TABLE} (cust, order_no, amount) VALUES (2, 90003, 7)")
    query.processAllAvailable()
    query.stop()
    rows = spark.read.json(str(tmp_path / "out")).select("order_no", "customer").collect()
    assert {tuple(row) for row in rows} == {(90001, "Ann"), (90002, None), (90003, "Bob")}


@pytest.mark.chaos
def test_the_slot_is_never_beyond_the_commit_log(
    spark: Any, mirror: Mirror, path: Path, tmp_path: Path, seed: int
) -> None:
    """Checked in each of 200 batches while it runs: the slot is at the end of the batch before it."""
    checkpoint, seen, ahead = tmp_path / "ck", [], []
    frame = (
        spark.readStream.format("slotkeeper")
        .options(
            config=str(path), job=JOB, start="latest", changelog="raw", points_per_trigger="3", poll_interval="0ms"
        )
        .load()
    )

    def sink(rows: Any, number: int) -> None:
        seen.append(rows.count())
        if number:
            before = json.loads((checkpoint / "offsets" / str(number - 1)).read_text().splitlines()[-1])
            if slot_places(mirror) != points(before):
                ahead.append((number, slot_places(mirror), before))

    query = start(frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint)))
    wait_begun(query, mirror)
    with written(mirror, seed, changes=400):
        until(lambda: len(seen) >= 200 or query.exception(), 900, "200 batches")
    query.processAllAvailable()
    query.processAllAvailable()
    assert slot_places(mirror) == points(committed(checkpoint))
    query.stop()
    assert len(seen) >= 200
    assert not ahead
    assert sum(seen) == sum(mirror.booked().values())
