"""The options of a query's writer: the accepted ones, and errors of one line that name the rejected ones."""

from __future__ import annotations

import pickle
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from slotkeeper.core.dataframe import changelog
from slotkeeper.core.dataframe.apply import apply_changes
from slotkeeper.core.dataframe.writer import source
from slotkeeper.core.dataframe.writer.spec import Field, WriterSpec, spec_of
from slotkeeper.core.errors import Busy, ConfigError, Refused, SlotkeeperError

CONFIG = """
[sinks.mart]
kind = "postgres"
host = "127.0.0.1"
port = 5432
database = "mart"
user = "etl"
password_env = "MART_PASSWORD"

[sinks.lake]
kind = "hologres"
host = "127.0.0.1"
port = 80
database = "lake"
user = "etl"
progress_store = "mart"
"""
OURS = [Field(name, type_, {}) for name, type_ in changelog.COLUMNS]
OWN = [
    Field("id", "int", changelog.marks(["id"], "t")["id"]),
    Field("amount", "decimal(12,2)", {}),
    Field("note", "string", {}),
]


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "slotkeeper.toml"
    file.write_text(CONFIG, "utf-8")
    file.chmod(0o600)
    return str(file)


def made(config: str, columns: list[Field] | None = None, **options: str) -> WriterSpec:
    given = {"config": config, "sink": "mart", "table": "dwd.orders", **options}
    return spec_of({k: v for k, v in given.items() if v}, [*OURS, *OWN] if columns is None else columns)


def test_a_spec_has_the_columns_of_the_rows_and_the_key_that_the_reader_says(config: str) -> None:
    spec = made(config, checkpointLocation="/somewhere", write_mode="copy_merge", ignore_delete="true")
    assert spec.columns == ("id", "amount", "note")
    assert [column.type for column in spec.target.columns] == ["integer", "numeric(12,2)", "text"]
    assert (spec.target.key, spec.target.ordered) == (("id",), True)
    assert (spec.target.options.write_mode, spec.target.options.ignore_delete) == ("copy_merge", True)


def test_a_named_key_holds_over_the_readers(config: str) -> None:
    assert made(config, key="note, id").target.key == ("note", "id")


def test_rows_without_a_change_are_upserts(config: str) -> None:
    assert made(config, OWN).target.ordered is False


def test_what_travels_to_the_workers_has_no_secret(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MART_PASSWORD", "canary-in-the-mine")
    spec = made(config)
    assert b"canary" not in pickle.dumps(spec)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert "canary" not in repr(spec)


REFUSED = [
    ({"table": ""}, "lacks table"),
    ({"sink": "nowhere"}, r"has no \[sinks.nowhere\]"),
    ({"sink": "lake"}, "sinks.lake is of kind hologres, which cannot write a batch exactly once"),
    ({"tabel": "a.b"}, "did you mean table"),
    ({"key": "id,nothing"}, "unknown column nothing"),
    ({"key": "id,id"}, "names a column twice"),
    ({"write_mode": "sideways"}, "write_mode"),
    ({"write_mode": "copy_upsert", "copy_write_batch_size": "10"}, "copy_write_batch_size has no effect"),
    ({"write_mode": "update", "conflict_strategy": "ignore"}, "write nothing"),
    ({"write_mode": "update", "create_target": "true"}, "a new target has none"),
    ({"conflict_strategy": "replace", "ignore_null_when_update": "true"}, "ignore_null_when_update needs"),
    ({"on_bad_row": "quarantine"}, "unknown key on_bad_row"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_a_wrong_option_is_one_line_that_names_it(config: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(SlotkeeperError, match=said) as caught:
        made(config, None, **options)
    assert "\n" not in f"{caught.value} {caught.value.hint}"


def test_changes_without_their_order_are_refused(config: str) -> None:
    columns = [one for one in OURS if one.name != changelog.POINT]
    with pytest.raises(Refused, match="have no slotkeeper_point"):
        made(config, [*columns, *OWN])


@pytest.mark.parametrize("kept", [changelog.POINT, changelog.SEQUENCE])
def test_changes_that_lost_their_kind_are_no_upserts(config: str, kept: str) -> None:
    with pytest.raises(Refused, match="have no slotkeeper_change"):
        made(config, [Field(kept, "bigint", {}), *OWN])


def test_a_changelog_column_in_another_case_is_rejected_and_no_column_of_the_table(config: str) -> None:
    for name in (one.name for one in OURS):
        with pytest.raises(Refused, match=f"{name.upper()} has a name reserved") as caught:
            made(config, [Field(name.upper(), "string", {}), *OWN])
        assert "lower case" in caught.value.hint


def test_rows_without_a_key_are_refused(config: str) -> None:
    with pytest.raises(ConfigError, match="option key is missing"):
        made(config, [*OURS, Field("id", "int", {})])


KEY = changelog.marks(["cust", "order_no"], "orders")


@pytest.mark.parametrize(
    "marked",
    [
        {"order_no": KEY["order_no"], "cust": {}},
        {"cust": KEY["cust"], "count": {}},
        {**KEY, "id": changelog.marks(["id"], "customers")["id"]},
        {"cust": KEY["cust"], "order_no": changelog.marks(["a", "b"], "others")["b"]},
        {**KEY, "again": KEY["cust"]},
    ],
    ids=["a computed column", "a lost column", "a join", "columns of two tables", "a column twice"],
)
def test_a_key_that_is_not_the_whole_key_of_one_table_is_not_guessed(
    config: str, marked: dict[str, dict[str, object]]
) -> None:
    rows = [Field(name, "int", mark) for name, mark in marked.items()]
    for columns in (rows, [*OURS, *rows]):
        with pytest.raises(ConfigError, match="not the whole key of one table") as caught:
            made(config, columns)
        assert "name the key columns" in caught.value.hint
        assert made(config, columns, key="cust").target.key == ("cust",)


@pytest.mark.parametrize(
    ("type_", "cure"), [("array<int>", "to_json"), ("struct<a:int>", "to_json"), ("interval day to second", "cast")]
)
def test_a_type_that_no_column_has_is_refused_by_the_columns_name(config: str, type_: str, cure: str) -> None:
    with pytest.raises(Refused, match="column tags has type") as caught:
        made(config, [*OURS, *OWN, Field("tags", type_, {})])
    assert cure in caught.value.hint


def test_two_columns_of_one_name_are_refused(config: str) -> None:
    with pytest.raises(Refused, match="several columns named note"):
        made(config, [*OURS, *OWN, Field("note", "int", {})])


def test_a_secret_that_a_worker_lacks_is_one_line_with_its_host(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MART_PASSWORD", raising=False)
    batch = pa.RecordBatch.from_pydict({"id": [1]})
    with (
        pytest.raises(source.QueryError, match=f"on {socket.gethostname()}, as .*MART_PASSWORD") as caught,
        source.spoken(),
    ):
        source.stage(made(config, OWN[:1]), "nowhere", "a query", [batch])
    assert "\n" not in str(caught.value) and caught.value.__cause__ is None


def test_an_unknown_column_of_slotkeeper_is_rejected(config: str) -> None:
    with pytest.raises(Refused, match="slotkeeper_mine"):
        made(config, [*OURS, *OWN, Field("slotkeeper_mine", "int", {})])


def test_a_second_call_for_a_batch_is_rejected_even_if_the_batch_was_written_before_a_restart(
    config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {"sql.streaming.queryId": "q", "spark.jobGroup.id": "run"}
    session = SimpleNamespace(sparkContext=SimpleNamespace(getLocalProperty=properties.get))
    column = SimpleNamespace(name="id", dataType=SimpleNamespace(simpleString=lambda: "int"), metadata={})
    rows = SimpleNamespace(collect=list)
    df: Any = SimpleNamespace(sparkSession=session, schema=SimpleNamespace(fields=[column]), mapInArrow=lambda *_: rows)
    written: list[bool | BaseException] = [Busy("the sink is busy", where="sink"), False, True]
    second: list[bool] = []

    def commit(*_: object) -> bool:
        if len(written) == 2:  # another thread calls while the first call runs
            with pytest.raises(source.QueryError, match="already called apply_changes for batch 7"):
                apply_changes(df, 7, config=config, sink="mart", table="dwd.orders", key="id")
            second.append(True)
        answer = written.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(source, "admit", lambda spec: "place")
    monkeypatch.setattr(source, "commit", commit)

    def call(batch: int) -> bool:
        return apply_changes(df, batch, config=config, sink="mart", table="dwd.orders", key="id")

    with pytest.raises(source.QueryError, match="busy"):
        call(7)
    assert call(7) is False, "a call that failed is repeated"
    with pytest.raises(source.QueryError, match="union the DataFrames of a batch"):
        call(7)
    assert call(8) is True and second == [True]
