"""`slotkeeper doctor --probe` of the stand-in for Hologres: each answer agrees with its settings; nothing is left."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.sources.hologres import probe
from slotkeeper.demo.hologres.instance import USER, Hologres
from tests.support.polling import server

SCHEMA = "probe"
DOCUMENTED = {name: one.documented for name, one in probe.QUESTIONS.items() if one.documented}


@pytest.fixture
def config(hologres: Hologres, tmp_path: Path) -> Path:
    """A configuration whose only source is the stand-in; its login can create tables in one schema."""
    with hologres.control() as cursor:
        cursor.execute(f"CREATE SCHEMA {SCHEMA}")
        cursor.execute(f"GRANT USAGE, CREATE ON SCHEMA {SCHEMA} TO {USER}")
    text = server("sources", replace(hologres.endpoint(), name="holo1")).replace('"dws"', '"hologres"')
    path = tmp_path / "slotkeeper.toml"
    path.write_text(f'{text}[state]\ndir = "{tmp_path / "state"}"\n', "utf-8")
    return path


def asked(config: Path, capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    assert main(["doctor", "--probe", "holo1", "--json", "--config", str(config)]) == code
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert report["left"] == [] and [one["name"] for one in report["answers"]] == list(probe.QUESTIONS)
    assert all(one["because"] for one in report["answers"] if one["answer"] is None)
    return report


def answers(report: dict[str, Any]) -> dict[str, str | None]:
    return {one["name"]: one["answer"] for one in report["answers"] if one["topic"] != "not asked"}


def left(hologres: Hologres) -> list[Any]:
    found = hologres.rows("SELECT relname FROM pg_class WHERE relname LIKE '%slotkeeper_probe%'")
    return found + hologres.rows("SELECT name FROM hg_standin.tab WHERE name LIKE 'slotkeeper%'")


def test_each_answer_agrees_with_the_settings_of_the_server(
    config: Path, hologres: Hologres, capsys: pytest.CaptureFixture[str]
) -> None:
    report = asked(config, capsys)
    assert [one["name"] for one in report["answers"] if one["because"] and one["answer"] is not None] == []
    rest = {"oldest_of_empty": "0", "newest_of_empty": "0"}
    assert answers(report) == DOCUMENTED | rest
    assert (report["kind"], report["stand_in"], report["reader_right"]) == ("hologres", True, True)
    assert report["schema"] == SCHEMA and left(hologres) == []
    hologres.updates_as("2+5")
    hologres.version("Hologres 1.3.41 (stand-in, not Hologres)")
    report = asked(config, capsys)
    found = {one["name"]: one for one in report["answers"]}
    assert (found["event_types"]["answer"], found["update_pairs"]["answer"]) == ("2 5", None)
    assert found["stream_equal"]["answer"] is None and "from 2.1 on" in found["stream_equal"]["because"]
    assert found["reader_exact"]["answer"] == "yes" and report["reader_right"] and left(hologres) == []


def truncate_unseen(hologres: Hologres) -> str:
    return (
        "CREATE OR REPLACE FUNCTION hg_standin.truncated() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
    )


def lsn_falls(hologres: Hologres) -> str:
    return (
        "CREATE OR REPLACE FUNCTION hg_standin.next_lsn(shard int) RETURNS bigint LANGUAGE sql AS"
        " $$ SELECT 1000000 - 2 * nextval(format('hg_standin.lsn_%s', shard)::regclass) $$"
    )


def table_id_hidden(hologres: Hologres) -> str:
    view = str(hologres.rows("SELECT pg_get_viewdef('hologres.hg_table_properties'::regclass)")[0][0]).rstrip(";")
    return (
        "CREATE OR REPLACE VIEW hologres.hg_table_properties AS SELECT * FROM"
        f" ({view}) v WHERE property_key <> 'table_id'"
    )


WRONG: dict[str, tuple[Callable[[Hologres], str], set[str]]] = {
    "truncate is not seen": (truncate_unseen, {"truncate_seen"}),
    "LSNs fall": (lsn_falls, {"lsn_grows", "reader_exact"}),
    "table_id is hidden": (table_id_hidden, {"table_id_known"}),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_server_on_which_changes_could_be_lost_is_recognized(
    config: Path, hologres: Hologres, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    spoil, wrong = WRONG[case]
    with hologres.control() as cursor:
        cursor.execute(spoil(hologres))
    report = asked(config, capsys, 1)
    assert {one["name"] for one in report["answers"] if one["reader"] == "WRONG"} >= wrong
    assert left(hologres) == []


def test_a_login_that_cannot_create_a_table_gets_the_grant(
    config: Path, hologres: Hologres, capsys: pytest.CaptureFixture[str]
) -> None:
    with hologres.control() as cursor:
        cursor.execute(f"REVOKE CREATE ON SCHEMA {SCHEMA} FROM {USER}")
        cursor.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    assert main(["doctor", "--probe", "holo1", "--config", str(config)]) == 3
    assert "CREATE SCHEMA probe; GRANT USAGE, CREATE ON SCHEMA probe TO etl;" in capsys.readouterr().err
