"""Commands about a job of several tables: each table has its own result, and the job has one exit code."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.spec import ChannelSpec
from tests.support.jobs import Jobs
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.standin import MakeWarehouse, run

TABLES = {"ods.orders": "mart.orders", "ods.Lines": "mart.lines"}
JOB = "orders_rt"


@dataclass
class Place:
    """A mirror of two tables, its configuration, and a state store."""

    mirror: Mirror
    config: Path
    jobs: Jobs

    def call(self, *words: str) -> int:
        return main([*words, "--config", str(self.config)])


@pytest.fixture
def place(make_warehouse: MakeWarehouse, make_mirror: MakeMirror, tmp_path: Path, jobs: Jobs) -> Place:
    warehouse = make_warehouse()
    for name in ("ods.orders", 'ods."Lines"'):
        warehouse.create_table(name, "id bigint, note text", ("id",))
        run(warehouse, f"INSERT INTO {name} SELECT n, 'x' FROM generate_series(1, 50) n")
    mirror = make_mirror(warehouse, "ods.orders")
    channels = tuple(ChannelSpec(table, target, create_target=True) for table, target in TABLES.items())
    mirror.job = replace(mirror.job, channels=channels)
    (table, target), *others = TABLES.items()
    text = job(JOB, mirror.job.slot, table, target, others=others)
    path = config(tmp_path, mirror.job.source, mirror.job.sink, text)
    return Place(mirror, path, jobs)


def test_verify_answers_for_every_table_and_differs_where_one_does(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.mirror.start().wait_running().wait_equal()
    place.mirror.stop()
    assert place.call("verify", JOB) == 0
    assert "orders_rt: equal: 0 of 2 tables differ; 100 rows in the source, 100 in the sink" in capsys.readouterr().out
    place.mirror.at_sink("DELETE FROM mart.lines WHERE id = 7")
    assert place.call("verify", JOB, "--json") == 4
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["equal"]) == ("different", False)
    assert [(one["from"], one["into"], one["verdict"]) for one in told["channels"]] == [
        ("ods.orders", "mart.orders", "equal"),
        ("ods.Lines", "mart.lines", "different"),
    ]
    assert told["channels"][1]["missing"]["keys"] == [["7"]]
    assert place.call("status", "--json") == 0
    assert place.call("verify", JOB) == 4
    assert "1 of 2 tables differ; 100 rows in the source, 99 in the sink" in capsys.readouterr().out


def test_a_job_is_drained_once_all_its_tables_are(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.jobs.start(JOB)
    place.mirror.start().wait_running()
    place.mirror.source("INSERT INTO ods.orders VALUES (91, 'y')", 'DELETE FROM ods."Lines" WHERE id <= 9')
    assert place.call("jobs", "drain", JOB, "--wait", "30s", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["table"], told["drained"], told["left"]) == ("ods.orders, ods.Lines", True, {})
    place.mirror.stop()
    place.mirror.source('DELETE FROM ods."Lines" WHERE id = 20')
    assert place.call("jobs", "drain", JOB, "--wait", "1s", "--json") == 1
    left = json.loads(capsys.readouterr().out)["left"]
    assert left
    assert all(name.startswith("ods.Lines dn_") for name in left), left


def test_doctor_speaks_of_every_table_and_grants_for_each(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    run(place.mirror.warehouse, 'ALTER TABLE ods."Lines" DROP CONSTRAINT "Lines_pkey"')
    assert place.call("doctor") != 0
    said = capsys.readouterr().out
    assert "source dws1 ods.orders" in said
    assert "source dws1 ods.Lines" in said
    assert 'GRANT SELECT ON ods."Lines" TO etl;' in said
    assert "sink mart mart.orders" in said
    assert "sink mart mart.lines" in said


def test_doctor_names_a_table_that_a_job_follows_no_more(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.mirror.start().wait_running()
    place.mirror.stop()
    words = "no longer follows"
    slot = place.mirror.job.slot
    name, text = place.mirror.job.name, place.config.read_text(encoding="utf-8")
    place.config.write_text(text.replace(JOB, name), encoding="utf-8")
    place.call("doctor")
    assert words not in capsys.readouterr().out
    channel = f'[[jobs.{name}.channels]]\nfrom = "ods.Lines"\ninto = "mart.lines"\ncreate_target = true\n'
    assert channel in place.config.read_text(encoding="utf-8")
    place.config.write_text(text.replace(JOB, name).replace(channel, ""), encoding="utf-8")
    place.call("doctor")
    said = " ".join(capsys.readouterr().out.split())
    assert f"job {name} no longer follows ods.Lines of dws1: no job confirms slot {slot}" in said


def test_a_slot_command_is_about_one_table_and_its_plan_about_no_other(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.mirror.start().wait_running().wait_equal()
    place.mirror.stop()
    place.mirror.source("DELETE FROM ods.orders WHERE id <= 9", 'DELETE FROM ods."Lines" WHERE id = 20')
    slot = place.mirror.job.slot
    assert place.call("slots", "reset", "ods.Lines", slot, "--to", "latest", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert "ods.Lines" in json.dumps(plan)
    assert "ods.orders" not in json.dumps(plan)
    assert place.call("slots", "show", "ods.Lines", slot, "--json") == 0
    assert JOB in capsys.readouterr().out
    assert place.call("slots", "reset", "ods.none", slot, "--to", "latest") == 2
    assert f"known slots: ods.orders {slot}, ods.Lines {slot}" in capsys.readouterr().err
