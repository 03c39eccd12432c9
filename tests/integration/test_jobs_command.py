"""`slotkeeper jobs` on real supervisors with FAKE drivers: its output, its exit codes, its imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import jobs as command
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.judgement.facts import Limits
from slotkeeper.core.launch import view
from slotkeeper.core.state.audit import FILE, Audit
from tests.support.jobs import Jobs
from tests.unit.config.samples import VALID


def call(jobs: Jobs, *words: str) -> int:
    return main(["jobs", *words, "--state-dir", str(jobs.folder / "state")])


def test_a_job_is_listed_paused_resumed_shown_and_stopped(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    started = jobs.start("orders")
    assert call(jobs, "list", "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["job"], listed["state"], listed["driver_alive"]) == ("orders", "RUNNING", True)
    assert started.driver is not None and listed["driver"]["pid"] == started.driver.pid
    assert listed["started_at"].endswith("Z")
    assert call(jobs, "pause", "orders", "--wait", "10s") == 0
    assert capsys.readouterr().out == "orders: PAUSED\n"
    assert call(jobs, "resume", "orders", "--json") == 0
    assert json.loads(capsys.readouterr().out)["state"] == "RUNNING"
    assert call(jobs, "show", "orders") == 0
    assert f"pid {started.driver.pid} on" in capsys.readouterr().out
    assert call(jobs, "stop", "orders") == 0
    assert capsys.readouterr().out == "orders: STOPPED (stopped as requested)\n"
    assert call(jobs, "logs", "orders", "--lines", "50") == 0
    assert "fake driver is here" in capsys.readouterr().out
    assert call(jobs, "list") == 0
    assert "STOPPED" in capsys.readouterr().out


def test_a_resumed_job_that_is_still_starting_is_not_a_success(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    pends = jobs.folder / "pends"
    jobs.start("orders", pends=str(pends))
    assert call(jobs, "pause", "orders") == 0
    pends.touch()
    assert call(jobs, "resume", "orders", "--wait", "300ms") == 1
    assert "resume was requested, but after 0.3 s it is P" in capsys.readouterr().err
    pends.unlink()
    assert call(jobs, "resume", "orders") == 0
    assert capsys.readouterr().out == "orders: RUNNING\n"


def test_exit_codes_tell_refused_from_late_and_from_misuse(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(jobs, "stop", "absent") == 3
    assert "'absent'" in capsys.readouterr().err
    jobs.start("orders", "deaf")
    assert call(jobs, "stop", "orders", "--wait", "100ms") == 1
    assert "the request remains" in capsys.readouterr().err
    assert call(jobs, "stop", "orders", "--wait", "soon") == 2
    assert call(jobs, "stop", "orders", "--wait", "20s") == 0
    assert call(jobs, "pause", "orders") == 3


def test_a_start_of_a_job_that_is_not_configured_is_refused_with_the_names_that_are(
    jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    example = Path(__file__).parents[2] / "config.example.toml"
    assert main(["jobs", "start", "no_such_job", "--config", str(example)]) == 2
    assert "no_such_job" in capsys.readouterr().err


def test_a_start_whose_password_cannot_be_read_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DWS1_PASSWORD", raising=False)
    file = tmp_path / "c.toml"
    for spelled, said in (
        (f'password_file = "{tmp_path}/gone"', f"password_file {tmp_path}/gone cannot be read: No such file"),
        ('password_env = "DWS1_PASSWORD"', "the variable DWS1_PASSWORD (password_env) is not set"),
    ):
        text = VALID.replace('password_env = "DWS1_PASSWORD"', spelled)
        file.write_text(text.replace("[state]", f'[state]\ndir = "{tmp_path / "state"}"'), "utf-8")
        for verb in ("start", "restart"):
            assert main(["jobs", verb, "orders_rt", "--config", str(file)]) == 2
            assert said in capsys.readouterr().err
    assert not list((tmp_path / "state").glob("*.log")), "nothing was started"


def test_what_goes_into_a_pipe_is_not_cut(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.store.register_job("orders", "c")
    jobs.store.record_error("orders", "sink", "22P02", "word " * 60 + "end")
    assert call(jobs, "show", "orders") == 0
    assert "word end" in capsys.readouterr().out


def test_a_dead_job_says_so(jobs: Jobs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "STARTING_SECONDS", 0.0)
    jobs.store.register_job("orders", "c")
    jobs.store.begin_run("orders", "r1")
    assert call(jobs, "list") == 0
    assert "no process found; possibly killed" in capsys.readouterr().out
    assert call(jobs, "stop", "orders") == 0
    assert jobs.view_of_job("orders").state is JobState.STOPPED


def test_listing_jobs_loads_no_spark_no_screens_and_no_database_driver(jobs: Jobs) -> None:
    code = (
        "import sys; from slotkeeper.console.__main__ import main;"
        f"code = main(['jobs', 'list', '--json', '--state-dir', {str(jobs.folder / 'state')!r}]);"
        "loaded = {'pyspark', 'py4j', 'textual', 'psycopg2'} & set(sys.modules);"
        "sys.exit(code or (9 if loaded else 0))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout.strip(), ended.stderr) == (0, "[]", "")


def test_who_steered_a_job_and_why_is_in_the_audit_also_where_it_was_refused(jobs: Jobs) -> None:
    jobs.start("orders")
    assert call(jobs, "pause", "orders", "--reason", "INC-7") == 0
    assert call(jobs, "stop", "orders") == 0
    assert call(jobs, "pause", "orders") == 3
    lines = reversed(Audit(jobs.store.folder).read().lines)
    assert [(one.action, one.phase.value, one.reason, one.outcome.partition(":")[0]) for one in lines] == [
        ("jobs pause", "intent", "INC-7", ""),
        ("jobs pause", "outcome", "INC-7", "PAUSED"),
        ("jobs stop", "intent", "", ""),
        ("jobs stop", "outcome", "", "STOPPED"),
        ("jobs pause", "intent", "", ""),
        ("jobs pause", "outcome", "", "failed"),
    ]


def test_a_job_is_stopped_even_where_the_audit_cannot_be_written(
    jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.start("orders")
    (jobs.folder / "state" / FILE).mkdir()
    assert call(jobs, "stop", "orders") == 0
    assert "not in the audit" in capsys.readouterr().err


def test_a_driver_that_lives_and_no_longer_reports_is_shown_as_that(
    jobs: Jobs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.start("orders")
    assert call(jobs, "show", "orders") == 0
    assert "has not reported" not in capsys.readouterr().out
    monkeypatch.setattr(command, "LIMITS", Limits(silent_warning=-60.0))
    assert call(jobs, "show", "orders") == 0
    assert "its driver is running but has not reported for" in capsys.readouterr().out
