"""Databases of DWS: in Oracle mode they would store empty texts as NULL, and in Teradata mode truncate long texts."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.errors import Refused
from slotkeeper.core.sinks.postgres.check.viewer import PostgresViewer
from slotkeeper.core.sinks.postgres.session import SinkSession, dialect_of
from slotkeeper.demo import facts
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.standin import MakeWarehouse, run

TABLE = "ods.t"


@pytest.fixture
def sink(make_warehouse: MakeWarehouse) -> Warehouse:
    return make_warehouse()


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, sink: Warehouse) -> Mirror:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    run(warehouse, f"INSERT INTO {TABLE} VALUES (1, '')")
    made = make_mirror(warehouse, TABLE)
    made.job = replace(made.job, sink_kind="dws", sink=replace(sink.endpoint("postgres"), name="mart"))
    return made


@pytest.mark.parametrize("mode", ["ORA", "ora"])
def test_a_sink_that_keeps_empty_texts_as_null_is_refused_by_name(mirror: Mirror, sink: Warehouse, mode: str) -> None:
    facts.say(sink, "sql_compatibility", mode)
    error = mirror.start().wait_error()
    assert isinstance(error, Refused) and error.where == "sink", error
    assert "ORA-compatible" in error.message and "empty strings as NULL" in error.message
    assert "DBCOMPATIBILITY 'TD'" in error.hint


def test_doctor_says_so_too(
    mirror: Mirror, sink: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts.say(sink, "sql_compatibility", "ORA")
    file = config(tmp_path, mirror.job.source, mirror.job.sink, job("j", "s", TABLE, "mart.t"))
    file.write_text(file.read_text("utf-8").replace('kind = "postgres"', 'kind = "dws"'), "utf-8")
    assert main(["doctor", "--config", str(file)])
    said = capsys.readouterr().out
    assert "sink mart: its database is ORA-compatible" in " ".join(said.split())


@pytest.mark.parametrize(("kind", "mode"), [("dws", "TD"), ("dws", "MYSQL"), ("dws", None), ("postgres", "ORA")])
def test_other_modes_are_not_and_a_postgresql_has_none(sink: Warehouse, kind: str, mode: str | None) -> None:
    facts.say(sink, "sql_compatibility", mode)
    endpoint = sink.endpoint("postgres")
    with closing(SinkSession(endpoint, resolve(endpoint.password), "test", kind=kind)) as session:
        assert PostgresViewer(session).objections() == []


def test_a_session_of_dws_has_no_text_cut() -> None:
    assert dialect_of("dws").settings["td_compatible_truncation"] == "off"
    assert "td_compatible_truncation" not in dialect_of("postgres").settings
