"""`slotkeeper doctor --probe` of a real MariaDB: each answer agrees with the server's settings, and nothing is left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.probing import Found, Questionnaire
from slotkeeper.core.sources.mysql import probe
from slotkeeper.core.sources.mysql.tables import shown
from slotkeeper.demo import mariadb
from tests.support.maria import Maria, log_in
from tests.support.waiting import until

LOGIN = "prober"
EXPECTED = {
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "plain_events": "yes",
    "databases_hidden": "none",
    "has_gtids": "yes",
    "same_server": "yes",
    "reader_exact": "yes",
    "full_old_images": "yes",
    "rollback_hidden": "yes",
    "uncommitted_hidden": "yes",
    "writers_listed": "yes",
    "snapshot_position": "yes",
    "commit_order": "yes",
    "alter_recorded": "yes",
    "truncate_recorded": "yes",
    "cascades_recorded": "no",
}
"""The answers of a MariaDB with its default settings; the others follow the settings below."""


@pytest.fixture
def config(maria: Maria, tmp_path: Path) -> Path:
    """A configuration with the server as its only source, whose login has the privileges that the manual names."""
    maria.run(
        f"CREATE OR REPLACE USER {LOGIN}@'%'",
        f"GRANT REPLICATION SLAVE, BINLOG MONITOR, PROCESS ON *.* TO {LOGIN}@'%'",
        f"GRANT CREATE, DROP, ALTER, REFERENCES, SELECT, INSERT, UPDATE, DELETE ON {maria.database}.* TO {LOGIN}@'%'",
    )
    path = tmp_path / "slotkeeper.toml"
    lines = ["[sources.shop]", 'dialect = "mysql"', f'host = "{mariadb.HOST}"', f"port = {maria.server.port}"]
    lines += [f'user = "{LOGIN}"', 'sslmode = "disable"', "[state]", f'dir = "{tmp_path / "state"}"']
    path.write_text("\n".join(lines), "utf-8")
    return path


def asked(config: Path, capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    assert main(["doctor", "--probe", "shop", "--json", "--config", str(config)]) == code
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert report["left"] == [] and [one["name"] for one in report["answers"]] == list(probe.QUESTIONS)
    assert all(one["page"] for one in report["answers"])
    assert all(one["because"] for one in report["answers"] if one["answer"] is None)
    return report


def answers(report: dict[str, Any]) -> dict[str, str | None]:
    return {one["name"]: one["answer"] for one in report["answers"] if one["topic"] != "not asked"}


def tables(maria: Maria) -> list[tuple[Any, ...]]:
    return maria.rows("SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'slotkeeper%%'")


def test_each_answer_agrees_with_the_settings_of_the_server(
    config: Path, maria: Maria, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = dict(maria.rows("SHOW GLOBAL VARIABLES"))
    report = asked(config, capsys)
    assert [one["name"] for one in report["answers"] if one["because"] and one["answer"] is not None] == []
    found = answers(report)
    assert found == EXPECTED | {
        "column_names": "yes" if settings["binlog_row_metadata"] == "FULL" else "no",
        "synced": "no",  # the tests' server does not flush
        "purged_after": str(round(float(settings["expire_logs_days"]) * 86_400) or "never"),
    }
    assert (report["kind"], report["stand_in"], report["reader_right"]) == ("mysql", False, True)
    assert report["schema"] == maria.database and tables(maria) == []
    kept = Path(report["file"]).read_text("utf-8")
    assert json.loads(kept)["answers"] == report["answers"] and Path(report["file"]).name == "shop.json"
    main(["doctor", "--config", str(config)])
    assert "Slotkeeper is correct for all answers" in capsys.readouterr().out


def test_settings_under_which_a_job_would_stop_are_wrong_answers(
    config: Path, maria: Maria, capsys: pytest.CaptureFixture[str]
) -> None:
    maria.run("SET GLOBAL binlog_row_image = 'MINIMAL'", "SET GLOBAL log_bin_compress = ON")
    try:
        report = asked(config, capsys, 1)
    finally:
        maria.run("SET GLOBAL binlog_row_image = 'FULL'", "SET GLOBAL log_bin_compress = OFF")
    wrong = {one["name"]: one["because"] for one in report["answers"] if one["reader"] == "WRONG"}
    assert wrong.keys() >= {"binlog_row_image", "plain_events", "reader_exact"}
    assert "the reader stops" in wrong["reader_exact"]
    assert {**answers(report), "full_old_images": None}["alter_recorded"] == "yes" and tables(maria) == []


def test_a_login_that_lacks_a_privilege_gets_the_grant(
    config: Path, maria: Maria, capsys: pytest.CaptureFixture[str]
) -> None:
    maria.run(f"REVOKE PROCESS ON *.* FROM {LOGIN}@'%'", f"REVOKE ALTER ON {maria.database}.* FROM {LOGIN}@'%'")
    report = asked(config, capsys)
    found = {one["name"]: one for one in report["answers"]}
    assert "GRANT PROCESS ON *.* TO" in found["writers_listed"]["because"]
    assert "denied" in found["alter_recorded"]["because"] and tables(maria) == []
    lost = ["writers_listed", "alter_recorded", "truncate_recorded"]
    assert answers(report) == dict.fromkeys(lost) | {k: v for k, v in answers(report).items() if k not in lost and v}
    maria.run(f"REVOKE CREATE ON {maria.database}.* FROM {LOGIN}@'%'")
    assert main(["doctor", "--probe", "shop", "--config", str(config)]) == 3
    said = capsys.readouterr().err
    assert "cannot create a table in any schema" in said and "CREATE DATABASE probe; GRANT CREATE" in said


def test_a_table_that_cannot_be_dropped_is_named_with_its_statement(
    config: Path, maria: Maria, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(log_in(maria.server)) as holder:

        def locked(ctx: probe.MysqlProbing) -> Iterator[Found]:
            monkeypatch.setattr(probe, "_SECONDS", 0.5)
            holder.rows("START TRANSACTION")
            holder.rows(f"SELECT count(*) FROM {ctx.table}")
            yield from ()

        monkeypatch.setattr(probe, "ASKS", Questionnaire(probe.QUESTIONS, {}, [("locked", (), locked)]))
        assert main(["doctor", "--probe", "shop", "--json", "--config", str(config)]) == 1
        said = capsys.readouterr()
        (left,) = json.loads(said.out)["left"]
        assert left["cure"] == f"DROP TABLE IF EXISTS {shown(left['table'])}" and left["cure"] in said.err
    until(lambda: tables(maria) == [], 30, "the server to carry out the DROP that waited")
