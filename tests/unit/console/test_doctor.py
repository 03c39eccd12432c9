"""The report of `doctor` about this host; servers are covered by tests/integration/test_looking_commands.py."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import doctor
from slotkeeper.core.config.load import load
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.services.doctor import grants
from tests.unit.config.samples import SECOND_JOB, VALID


@pytest.fixture
def loaded(tmp_path: Path) -> Loaded:
    path = tmp_path / "c.toml"
    path.write_text(VALID + SECOND_JOB.replace("[jobs.second]", '[jobs.second]\non_existing = "replace"'), "utf-8")
    return load(path, {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        ({}, False),
        ({"etc/systemd/logind.conf": "[Login]\n#KillUserProcesses=yes\n"}, False),
        ({"etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\n"}, True),
        (
            {
                "usr/lib/systemd/logind.conf.d/10.conf": "[Login]\nKillUserProcesses=yes\n",
                "etc/systemd/logind.conf.d/20.conf": "[Login]\nKillUserProcesses=no\n",
            },
            False,
        ),
        ({"etc/systemd/logind.conf": "no file of this form"}, False),
    ],
)
def test_logind_is_read_as_systemd_reads_it(tmp_path: Path, files: dict[str, str], kills: bool) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert doctor.kills_left_processes(tmp_path) is kills


def test_the_way_out_of_logind_is_named() -> None:
    assert "enable-linger" in doctor.logind_text() and "KillUserProcesses" in doctor.logind_text()


def test_memory_is_shown_per_job_and_in_total(loaded: Loaded) -> None:
    job = replace(loaded.jobs["orders_rt"], spark=SparkOptions(master="local[4]", driver_memory="1g"))
    assert doctor.needed_bytes(job) == (1024 + 300 + 4 * 80) << 20
    few, many = (list(doctor.memory({"a": job, "b": job}, free)) for free in (1 << 30, 1 << 40))
    assert [one.level for one in few] == [Level.OK, Level.OK, Level.WARN]
    assert many[-1].level is Level.OK


def test_a_local_cluster_takes_the_memory_of_its_workers_too(loaded: Loaded) -> None:
    spark = SparkOptions(master="local-cluster[2,1,1024]", driver_memory="1g")
    job = replace(loaded.jobs["orders_rt"], spark=spark)
    assert doctor.needed_bytes(job) == (1024 + 300 + 2 * 80 + 2 * (512 + 300)) << 20


def test_a_standalone_master_is_asked_whether_it_answers(loaded: Loaded) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        there = replace(loaded.jobs["orders_rt"], spark=SparkOptions(master=f"spark://127.0.0.1:{port}"))
        (found,) = doctor.masters({"a": there, "b": there})
        assert found.level is Level.OK
        assert "for a, b: it answers" in found.text
        assert "psycopg2" in found.text
    (found,) = doctor.masters({"a": there})
    assert found.level is Level.FAIL
    assert found.unreachable
    assert f"127.0.0.1:{port} does not answer" in found.text
    assert list(doctor.masters({"a": loaded.jobs["orders_rt"]})) == []


def test_an_open_password_file_and_a_wide_state_folder_are_named(tmp_path: Path) -> None:
    secret = tmp_path / "p"
    secret.write_text("x", "utf-8")
    secret.chmod(0o644)
    wide = tmp_path / "wide"
    wide.mkdir()
    wide.chmod(0o777)
    path = tmp_path / "c.toml"
    spoiled = VALID.replace('password_env = "DWS1_PASSWORD"', 'password_file = "p"')
    path.write_text(spoiled.replace("[state]\n", f'[state]\ndir = "{wide}"\n'), "utf-8")
    found = {one.place: one for one in doctor.here(load(path, {}), tmp_path)}
    assert "accessible to other users" in found["configuration"].text
    assert found["state folder"].level is Level.FAIL and "0777" in found["state folder"].text
    assert found["spark"].level is Level.OK


def test_java_is_asked_in_a_process_of_its_own() -> None:
    found = doctor.java_finding(doctor._ask_java())
    assert found.place == "java" and found.level in (Level.OK, Level.FAIL)
    assert doctor.java_finding({"error": "none"}).level is Level.FAIL


@pytest.mark.parametrize(
    ("kept", "level", "words"),
    [
        (
            {"reader_right": True, "at": "2026-01-02T03:04:05Z", "server": "GaussDB 9"},
            Level.OK,
            "2026-01-02T03:04:05Z on Gau",
        ),
        ({"reader_right": False}, Level.FAIL, "WRONG for an answer"),
        ({}, Level.FAIL, "WRONG"),
    ],
)
def test_the_last_probe_is_shown(kept: dict[str, object], level: Level, words: str) -> None:
    (found,) = doctor.last_probe("source dws1", kept)
    assert found.level is level and words in found.text
    assert list(doctor.last_probe("source dws1", None)) == []


@pytest.mark.parametrize("option", ["--probe-schema", "--reason", "--confirm"])
def test_what_belongs_to_a_probe_is_refused_without_one(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.toml"
    path.write_text(VALID, "utf-8")
    assert main(["doctor", option, "x", "--config", str(path)]) == 2
    assert "belong to --probe NAME" in capsys.readouterr().err


def test_the_script_grants_what_each_job_needs_and_no_more(loaded: Loaded) -> None:
    scripts = dict(grants(loaded))
    assert scripts["source dws1"] == [
        "GRANT CONNECT ON DATABASE gaussdb TO etl;",
        "GRANT USAGE ON SCHEMA ods TO etl;",
        "GRANT SELECT ON ods.orders TO etl;",
    ]
    (made,) = (one for one in scripts["sink mart"] if one.startswith("CREATE TABLE"))
    assert made.startswith("CREATE TABLE IF NOT EXISTS public.slotkeeper_audit ( action_id text NOT NULL,")
    assert made.endswith("; -- with another owner, so that the login can only append lines")
    assert scripts["sink mart"] == [
        "GRANT CONNECT, TEMPORARY ON DATABASE mart TO etl;",
        "GRANT USAGE, CREATE ON SCHEMA public TO etl; -- an upgrade that adds a column needs the table's owner",
        "GRANT USAGE, CREATE ON SCHEMA mart TO etl;",
        made,
        "GRANT SELECT, INSERT ON public.slotkeeper_audit TO etl;",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON mart.orders TO etl;",
        "GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON mart.second TO etl;",
    ]
