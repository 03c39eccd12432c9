"""How `status` classifies a job from one read, and which modules the command loads."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands.overall import worst
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.job import JobState, TableReport, WantedState
from slotkeeper.core.domain.report import Condition, JobReport, JobStatus, LaneReport, why_of
from slotkeeper.core.state.sqlite import Store
from tests.unit.config.samples import VALID
from tests.unit.console.judged import stands

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
LANE = LaneReport("dn_1", 1, "running", "idle", "100/3", "140", "100", 9, 1.0, at=100, latest_at=140, behind=40)
REPORT = JobReport(
    "orders", "r1", "RUNNING", lanes=(LANE, replace(LANE, shard="dn_2", position="139/-1", at=139, behind=1)), changes=9
)
RUNNING = JobStatus(
    "orders", JobState.RUNNING, WantedState.RUN, config="c", run="r1", supervisor_alive=True, driver_alive=True,
    started_at=NOW, report=REPORT, reported_at=NOW, reported=True,
)  # fmt: skip
CATCHING_UP = replace(REPORT, lanes=(LANE, replace(LANE, shard="dn_2", state="catching up")))
TABLES = tuple(TableReport(f"ods.{one}", f"m.{one}", "RUNNING") for one in "abcd")
FAILED_ONE = replace(
    REPORT,
    reason="1 of 4 tables FAILED: ods.a: SLOT LOST: gone",
    tables=(
        replace(TABLES[0], state="FAILED", reason="ods.a: SLOT LOST: gone", trouble="SLOT LOST", safe="reset it"),
        *TABLES[1:],
    ),
)
STOPPED_ONE = replace(REPORT, tables=(replace(TABLES[0], state="STOPPED"), *TABLES[1:]))
PAUSED_ALL = replace(REPORT, tables=tuple(replace(one, state="PAUSED") for one in TABLES))
DOWN = Condition("dn", "dn_1", "Connection refused", NOW.timestamp() - 40, ("dn_1",), 2, 2)
RETRYING = replace(REPORT, lanes=(replace(LANE, retry="retrying 2, next in 4 s"),), conditions=(DOWN,))


@pytest.mark.parametrize(
    ("view", "level", "words"),
    [
        (RUNNING, Level.FINE, "2 lanes"),
        (
            replace(RUNNING, state=JobState.CATCHING_UP, report=CATCHING_UP),
            Level.BUSY,
            "catching up: 1 of them (first: dn_2)",
        ),
        (replace(RUNNING, report=RETRYING), Level.WARNING, "dn_1: Connection refused, 40 s, 1 of 2 DNs waits"),
        (replace(RUNNING, report=FAILED_ONE), Level.CRITICAL, "1 of 4 tables FAILED: ods.a: SLOT LOST: gone"),
        (
            replace(RUNNING, report=replace(FAILED_ONE, conditions=(DOWN,))),
            Level.CRITICAL,
            "; dn_1: Connection refused, 40 s, 1 of 2 DNs waits",
        ),
        (replace(RUNNING, state=JobState.CATCHING_UP, report=FAILED_ONE), Level.CRITICAL, "1 of 4 tables FAILED"),
        (replace(RUNNING, state=JobState.PAUSED, report=FAILED_ONE), Level.CRITICAL, "lost until the slot expires"),
        (replace(RUNNING, report=STOPPED_ONE), Level.WARNING, "1 of 4 tables STOPPED: ods.a"),
        (replace(RUNNING, state=JobState.PAUSED, report=PAUSED_ALL), Level.WARNING, "nothing is applied"),
        (
            replace(RUNNING, state=JobState.STOPPED, report=FAILED_ONE, reason="as requested"),
            Level.WARNING,
            "as requested",
        ),
        (replace(RUNNING, state=JobState.PAUSED), Level.WARNING, "lost until the slot expires"),
        (replace(RUNNING, state=JobState.FAILED, trouble="SLOT LOST"), Level.CRITICAL, "SLOT LOST"),
        (
            replace(RUNNING, state=JobState.STOPPED, reason="stopped as requested"),
            Level.WARNING,
            "lost until the slot expires",
        ),
        (replace(RUNNING, state=JobState.STOPPED, run="", reason="never started"), Level.REST, "never"),
        (replace(RUNNING, state=JobState.STOPPED, trouble="SUPERSEDED"), Level.WARNING, "SUPERSEDED"),
        (replace(RUNNING, state=JobState.FINISHED), Level.REST, ""),
        (replace(RUNNING, state=JobState.CANCELLED), Level.REST, ""),
        (
            replace(RUNNING, supervisor_alive=False, driver_alive=False, reason="no process found; possibly killed"),
            Level.CRITICAL,
            "possibly killed",
        ),
        (
            replace(RUNNING, supervisor_alive=False, driver_alive=False, elsewhere=True, reason="started elsewhere"),
            Level.UNKNOWN,
            "elsewhere",
        ),
        (replace(RUNNING, reported_at=NOW - timedelta(seconds=60)), Level.WARNING, "does not report, 60 s"),
        (replace(RUNNING, reported_at=NOW - timedelta(seconds=600)), Level.CRITICAL, "does not report, 10 min"),
        (replace(RUNNING, report=JobReport("orders", "r1", "PENDING")), Level.FINE, "its lanes are not known yet"),
        (replace(RUNNING, report=None, reported=False, reported_at=None), Level.FINE, "not reported yet"),
    ],
)
def test_a_job_counts_as(view: JobStatus, level: Level, words: str) -> None:
    found = stands(view, NOW)
    said = "; ".join([found.wrong, *(one.effect for one in found.faults)])
    assert (found.level, words in said) == (level, True), found


def test_a_failed_table_is_reported_once_with_its_error_and_the_command_that_restarts_it_alone() -> None:
    view = replace(RUNNING, report=FAILED_ONE, reason=FAILED_ONE.reason)
    found = stands(view, NOW)
    assert why_of(view) == "1 of 4 tables FAILED: ods.a: SLOT LOST: gone"
    assert found.wrong.startswith(why_of(view))
    assert (found.trouble, found.only_tables) == ("SLOT LOST", True)
    assert found.safe == "reset it; then `slotkeeper jobs start orders --table ods.a`"
    assert not stands(replace(view, report=replace(FAILED_ONE, conditions=(DOWN,))), NOW).only_tables
    assert "ods.a" not in stands(replace(view, supervisor_alive=False, driver_alive=False), NOW).safe


def test_behind_is_the_furthest_lane_or_unknown() -> None:
    assert stands(RUNNING, NOW).behind == 40
    unknown = replace(REPORT, lanes=(LANE, replace(LANE, latest=None, latest_at=None, behind=None)))
    assert stands(replace(RUNNING, report=unknown), NOW).behind is None


def test_nothing_is_fine_and_critical_outranks_unknown() -> None:
    assert worst([]) is Level.FINE
    assert worst([Level.UNKNOWN, Level.CRITICAL]) is Level.CRITICAL


class AMinuteAgo(SystemClock):
    """A start recorded with this clock is no longer recent."""

    seconds = 60.0

    def utc(self) -> datetime:
        return super().utc() - timedelta(seconds=self.seconds)


class HalfAMinuteAgo(AMinuteAgo):
    """On a busy host, a start may take that long before its supervisor has recorded its identity."""

    seconds = 30.0


@pytest.mark.parametrize("clock", [SystemClock(), HalfAMinuteAgo()])
def test_a_start_of_this_moment_is_not_told_as_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], clock: SystemClock
) -> None:
    folder = tmp_path / "state"
    with Store.open(folder, clock=clock) as store:
        store.register_job("new", "c")
        store.begin_run("new", "r1")
    assert main(["status", "--exit-code", "--state-dir", str(folder)]) == 0
    assert capsys.readouterr().out.startswith("OK        new  PENDING: its supervisor is starting")


def test_the_code_is_given_only_when_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "state"
    with Store.open(folder, clock=AMinuteAgo()) as store:
        store.register_job("dead", "c")
        store.begin_run("dead", "r1")
    assert main(["status", "--state-dir", str(folder)]) == 0
    said = "CRITICAL  dead  was PENDING (no process here): no process found; possibly killed"
    assert capsys.readouterr().out.startswith(said)
    assert main(["status", "--exit-code", "--state-dir", str(folder)]) == 2
    capsys.readouterr()
    assert main(["status", "--json", "--state-dir", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out)["severity"] == "critical"


def test_a_job_that_this_host_knows_nothing_of_is_unknown_and_never_ok(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.toml"
    path.write_text(VALID.replace("[state]\n", f'[state]\ndir = "{tmp_path / "s"}"\n'), "utf-8")
    Store.open(tmp_path / "s").close()
    words = ["status", "--exit-code", "--config", str(path)]
    assert main(words) == 3
    unseen = "never started here; possibly started on another host"
    assert capsys.readouterr().out == f"UNKNOWN   orders_rt  -: {unseen}\n"
    assert main([*words, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["severity"] == "unknown"
    assert [(one["state"], one["severity"], one["text"]) for one in found["jobs"]] == [(None, "unknown", unseen)]


def test_it_loads_no_spark_no_screens_and_no_database_driver(tmp_path: Path) -> None:
    Store.open(tmp_path / "state").close()
    code = (
        "import sys; from slotkeeper.console.__main__ import main;"
        f"code = main(['status', '--json', '--state-dir', {str(tmp_path / 'state')!r}]);"
        "loaded = {'pyspark', 'py4j', 'textual', 'psycopg2', 'rich'} & set(sys.modules);"
        "sys.exit(code or (9 if loaded else 0))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout) == {"severity": "ok", "jobs": [], "faults": []}


@pytest.mark.parametrize(
    ("trouble", "reason", "said"),
    [
        ("SLOT LOST", "SLOT LOST: dn_1: gone", "SLOT LOST: dn_1: gone"),
        ("SLOT LOST", "dn_1: gone", "SLOT LOST: dn_1: gone"),
        ("SLOT LOST", "", "SLOT LOST"),
        ("", "stopped", "stopped"),
        ("", "", ""),
    ],
)
def test_a_trouble_is_named_once(trouble: str, reason: str, said: str) -> None:
    assert why_of(replace(RUNNING, trouble=trouble, reason=reason)) == said
