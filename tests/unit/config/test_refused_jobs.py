"""A job with an error of its own tables is rejected alone: the other jobs of the file, and requests to them,
continue."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.monitor.health import complete
from slotkeeper.console.views.jobs import what_is_safe
from slotkeeper.core.config.load import load, load_usable
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.services import reset
from slotkeeper.core.state.sqlite import Store
from tests.unit.config.samples import VALID

NAME = 'ods."lines"'
BAD = f"""
[jobs.bad]
source = "dws1"
sink = "mart"
[[jobs.bad.channels]]
from = '{NAME}'
into = "mart.lines"

[jobs.worse]
source = "dws1"
sink = "elsewhere"
[[jobs.worse.channels]]
from = "ods.other"
into = "mart.other"
"""
SAID = "jobs.bad.channels[0].from must be schema.table without double quotes"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(VALID.replace("[state]\n", f'[state]\ndir = "{tmp_path / "state"}"\n') + BAD)
    return file


def test_a_table_name_that_is_refused_refuses_its_job_alone(config: Path) -> None:
    loaded = load_usable(config, {})
    assert list(loaded.jobs) == ["orders_rt"] and list(loaded.refused) == ["bad", "worse"]
    assert SAID in str(loaded.refused["bad"]) and "is not the name of a [sinks.X]" in str(loaded.refused["worse"])
    assert not any(one.key.startswith(("jobs.bad", "jobs.worse")) for one in loaded.settings())
    with pytest.raises(ConfigError, match="without double quotes"):
        load(config, {})


def test_a_job_in_the_way_of_another_is_the_one_that_is_refused(config: Path) -> None:
    config.write_text(VALID + BAD.replace(NAME, "ods.lines").replace("mart.lines", "mart.orders"))
    loaded = load_usable(config, {})
    assert list(loaded.jobs) == ["orders_rt"]
    assert "writes to mart.orders, which job orders_rt already writes to" in str(loaded.refused["bad"])


def test_config_check_says_every_refused_job_and_ends_with_2(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "--config", str(config)]) == 2
    told = capsys.readouterr()
    assert SAID in told.err and "is not the name of a [sinks.X]" in told.err and told.out == ""
    assert main(["config", "check", "--json", "--config", str(config)]) == 2
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["jobs"], list(found["refused"])) == (False, ["orders_rt"], ["bad", "worse"])


def test_jobs_list_and_status_show_refused_jobs_beside_the_others(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["jobs", "list", "--config", str(config)]) == 0
    told = capsys.readouterr()
    assert "orders_rt" in told.out and told.out.count("rejected by the configuration") == 2
    assert f"job bad is rejected: {config}" in told.err and SAID in told.err
    assert main(["jobs", "list", "--json", "--config", str(config)]) == 0
    rows = {one["job"]: one["refused"] for one in json.loads(capsys.readouterr().out)}
    assert rows["orders_rt"] is None and SAID in rows["bad"]
    with Store.open(load_usable(config, {}).state_dir):
        assert main(["status", "--exit-code", "--config", str(config)]) == 3
    assert SAID in capsys.readouterr().err


def test_the_console_shows_a_refused_job_with_its_sentence(config: Path) -> None:
    shown = {job.name: job.wrong for job in complete([], load_usable(config, {}), {})}
    assert shown["orders_rt"].startswith("never started here") and "refused: " in shown["bad"] and SAID in shown["bad"]


@pytest.mark.parametrize("words", [["jobs", "start"], ["run"], ["verify"]])
def test_a_command_on_a_refused_job_says_its_error(
    config: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main([*words, "bad", "--config", str(config)]) == 2
    assert SAID in capsys.readouterr().err


def test_a_slot_without_a_job_is_not_changed_while_a_job_is_rejected(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be a slot of the rejected job."""
    assert main(["slots", "drop", "ods.lines", "bad", "--config", str(config), "--source", "dws1"]) == 2
    assert SAID in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["show", "stop", "watch"])
def test_a_refused_job_that_never_ran_is_answered_with_its_error(
    verb: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*([] if verb == "watch" else ["jobs"]), verb, "bad", "--config", str(config)]) == 2
    assert SAID in capsys.readouterr().err


def test_a_reset_of_a_refused_jobs_slot_says_why_it_is_refused(config: Path) -> None:
    with pytest.raises(ConfigError, match="without double quotes"):
        reset.job_of(load_usable(config, {}), "ods.elsewhere", "bad")


def test_what_is_safe_for_a_refused_job_is_to_correct_the_configuration(config: Path) -> None:
    jobs = complete([], load_usable(config, {}), {})
    said = {job.name: what_is_safe(job) for job in jobs}
    assert "config check` lists the errors" in said["bad"] and "jobs start" in said["orders_rt"]
