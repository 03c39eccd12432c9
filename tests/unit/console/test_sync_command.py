"""`slotkeeper sync show`: the columns of SHOW SYNC JOB in Slotkeeper's terms, from the store and the configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import sync
from slotkeeper.console.views.sync_jobs import sync_job
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.job import JobEvent, JobState, WantedState
from slotkeeper.core.domain.report import JobReport, JobStatus, LaneReport
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.state.sqlite import Store

CONFIG = """\
[state]
dir = "state"

[sources.shop]
dialect = "mysql"
host = "db1"
user = "etl"
password_env = "SHOP_PASSWORD"

[sources.dws1]
dialect = "dws"
host = "nowhere.invalid"
port = 8000
database = "d"
user = "u"
password_env = "SHOP_PASSWORD"
sslmode = "require"

[sinks.mart]
kind = "postgres"
host = "127.0.0.1"
port = 5432
database = "mart"
user = "etl"
"""
JOB = """
[jobs.{name}]
source = "{source}"
sink = "mart"
slot = "{name}"
[[jobs.{name}.channels]]
from = "shop.orders"
into = "mart.{name}"
[jobs.{name}.binlog]
binlog = true
"""
PASSWORD = "hunter2-secret"
GTIDS = ",".join(f"3e11fa47-71ca-11e1-9e33-c80aa94295{n:02d}:1-{n}" for n in range(4))
COLUMNS = (
    "JobId", "JobName", "Type", "State", "Channel", "Status", "JobConfig", "CreateTime", "LastStartTime",
    "LastStopTime", "FinishTime", "Msg",
)  # fmt: skip
NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
LANE = LaneReport(
    "binlog", 1, "running", "applying", f"mysql-bin.000003/1234/{GTIDS}", "3:9999", None, 10, 1.0, polled_age=0.5,
    source_table="shop.orders", target="mart.orders_rt", label="shop.orders", at=(3 << 40) + 1234,
    latest_at=(3 << 40) + 9999, behind=8765, shown="3:1234", gtids=GTIDS, delay=12.0, applied_at=NOON.timestamp(),
)  # fmt: skip
AHEAD = replace(
    LANE, source_table="shop.items", target="mart.items", label="shop.items", at=(3 << 40) + 9999, behind=0, delay=0.0,
    shown="3:9999",
)  # fmt: skip
REPORT = JobReport(
    "orders_rt", "run-1", "RUNNING", lanes=(AHEAD, LANE), unit="bytes", place="binlog position", part="stream"
)
STATUS = JobStatus(
    "orders_rt", JobState.RUNNING, WantedState.RUN, run="run-1", driver_alive=True, supervisor_alive=True,
    report=REPORT, reported_at=NOON, reported=True, started_at=NOON - timedelta(hours=1),
)  # fmt: skip


class Steps(SystemClock):
    """A clock that advances by a millisecond each time it is read."""

    at = NOON

    def utc(self) -> datetime:
        self.at += timedelta(milliseconds=1)
        return self.at


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """One running job of two tables, one that never started, and one with another kind of source."""
    monkeypatch.setenv("SLOTKEEPER_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    jobs = [JOB.format(name="orders_rt", source="shop"), JOB.format(name="idle_rt", source="shop")]
    (tmp_path / "config.toml").write_text(CONFIG + "".join(jobs) + JOB.format(name="dws_rt", source="dws1"))
    steps = Steps()
    monkeypatch.setattr(sync, "SystemClock", lambda: steps)
    with Store.open(tmp_path / "state", clock=steps) as made:
        made.register_job("orders_rt", str(tmp_path / "config.toml"))
        made.begin_run("orders_rt", "run-1")
        made.set_supervisor("run-1", processes.of(os.getpid(), "run-1"))
        made.set_driver("run-1", processes.of(os.getpid(), "run-1"))
        made.put_report(REPORT)
        yield made


def shown(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert main(["sync", "show", *words]) == code
    said = capsys.readouterr()
    return said.out, said.err


def row(capsys: pytest.CaptureFixture[str], job: str, *words: str) -> dict[str, Any]:
    (found,) = json.loads(shown(capsys, job, *words, "--json")[0])
    return dict(found)


def block(text: str) -> dict[str, str]:
    """The fields of one block, by label, without line breaks."""
    found: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        label, value = line[:13].strip(), line[13:].strip()
        last = label or last
        found[last] = f"{found.get(last, '')} {value}".strip()
    return found


def test_each_job_is_a_block_with_the_old_columns_in_their_order_within_80_columns(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = shown(capsys)
    blocks = [block(one) for one in out.split("\n\n")]
    assert [tuple(one) for one in blocks] == [COLUMNS, COLUMNS]
    assert [one["JobName"] for one in blocks] == ["idle_rt", "orders_rt"]
    assert max(map(len, out.splitlines())) <= 80
    assert "left out 1 job with another or an unknown source: dws_rt" in err


def test_a_running_job_is_shown_with_its_lowest_position_bytes_behind_delay_and_gtids(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    found = block(shown(capsys, "orders_rt")[0])
    assert found["JobId"] == "run-1"
    assert found["Type"] == "MySQL (Binlog Load: CANAL)"
    assert found["State"] == "RUNNING"
    assert found["Channel"] == "shop.items->mart.items, shop.orders->mart.orders_rt"
    assert found["Status"].startswith("position 3:1234; latest 3:9999; behind 8,765 bytes; executeTime 2026-11-21T12:")
    assert "delay 12s; GTIDs 3e11fa47-" in found["Status"]
    assert found["Status"].endswith("of shop.orders, the last of 2 lanes")
    assert found["LastStopTime"] == found["FinishTime"] == found["Msg"] == "-"
    assert found["CreateTime"] == found["LastStartTime"] != "-"


def test_json_has_the_same_fields_under_names_of_programs(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    found = row(capsys, "orders_rt")
    assert list(found) == [
        "job_id", "job_name", "type", "state", "binlog_load_state", "last_known", "channel", "status", "job_config",
        "create_time", "last_start_time", "last_stop_time", "finish_time", "msg",
    ]  # fmt: skip
    status = found["status"]
    assert (status["position"], status["latest"], status["behind_bytes"]) == (LANE.position, "3:9999", 8765)
    assert status["gtid"] == GTIDS and status["execute_time"] == "2026-11-21T12:00:00Z" and status["current"] is True
    assert 12.0 <= status["delay_seconds"] < 13.0
    assert found["channel"][1] == {"source_table": "shop.orders", "target": "mart.orders_rt"}
    assert found["job_config"] | {"slot": ""} == {
        "address": "db1:3306", "destination": "shop", "slot": "", "sync_commit_interval_second": 10,
        "min_sync_commit_size": 10_000, "min_bytes_sync_commit": 15 << 20, "max_bytes_sync_commit": 64 << 20,
    }  # fmt: skip
    assert found["msg"] is None


def test_no_output_contains_a_secret_or_its_reference(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ((), ("--json",)):
        said = "".join(shown(capsys, *words))
        assert PASSWORD not in said and "SHOP_PASSWORD" not in said


def test_a_job_that_never_started_has_its_tables_and_no_state(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    found = row(capsys, "idle_rt")
    assert (found["job_id"], found["state"], found["status"]) == (None, None, None)
    assert found["channel"] == [{"source_table": "shop.orders", "target": "mart.idle_rt"}]
    assert found["msg"] == "never started on this host"
    assert block(shown(capsys, "idle_rt")[0])["State"] == "-"


def test_a_job_of_another_kind_of_source_is_refused_by_name_with_the_command_that_shows_it(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "slotkeeper jobs show dws_rt" in shown(capsys, "dws_rt", code=3)[1]
    assert "unknown job 'none'" in shown(capsys, "none", code=3)[1]


def test_without_a_configuration_the_last_report_tells_the_kind_of_source(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ("--state-dir", str(tmp_path / "state"))
    store.register_job("unknown_rt", "elsewhere.toml")
    out, err = shown(capsys, *folder)
    assert block(out)["JobName"] == "orders_rt" and block(out)["JobConfig"] == "not read"
    assert "unknown source: unknown_rt" in err


def test_a_pause_is_the_last_stop_a_resume_the_last_start_and_a_cancellation_the_finish(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    store.record_event("orders_rt", JobEvent.PAUSED.value)
    paused = row(capsys, "orders_rt")
    assert paused["last_stop_time"] > paused["last_start_time"] and paused["finish_time"] is None
    store.record_event("orders_rt", JobEvent.RESUMED.value)
    resumed = row(capsys, "orders_rt")
    assert resumed["last_start_time"] > resumed["last_stop_time"] == paused["last_stop_time"]
    assert resumed["create_time"] == paused["create_time"]
    store.end_run("run-1", 0, "ended")
    store.set_state("orders_rt", JobState.CANCELLED, "no longer needed")
    ended = row(capsys, "orders_rt")
    assert ended["finish_time"] is not None and ended["last_stop_time"] > resumed["last_start_time"]
    assert (ended["state"], ended["binlog_load_state"], ended["msg"]) == ("CANCELLED", "CANCELLED", "no longer needed")


@pytest.mark.parametrize(
    ("state", "old"),
    [
        (JobState.PENDING, "PENDING"),
        (JobState.SNAPSHOT, "RUNNING"),
        (JobState.CATCHING_UP, "RUNNING"),
        (JobState.RUNNING, "RUNNING"),
        (JobState.PAUSED, "PAUSED"),
        (JobState.STOPPED, "PAUSED"),
        (JobState.FAILED, "PAUSED"),
        (JobState.AWAITS_COPY, "PAUSED"),
        (JobState.DEAD, "PAUSED"),
        (JobState.FINISHED, None),
        (JobState.CANCELLED, "CANCELLED"),
    ],
)
def test_a_state_has_the_old_name_beside_it(state: JobState, old: str | None) -> None:
    found = sync_job("orders_rt", "MySQL", replace(STATUS, state=state), None, (), (), NOON)
    assert (found.state, found.binlog_load_state) == (state, old)


def test_a_delay_grows_while_no_report_comes_and_is_unknown_if_no_change_was_pending() -> None:
    """In Binlog Load, the delay was computed when changes were acknowledged, and did not grow while a job was stuck."""
    later = NOON + timedelta(minutes=10)
    pending = sync_job("orders_rt", "MySQL", STATUS, None, (), (), later).status
    assert pending is not None and pending.delay_seconds == 612.0 and not pending.current
    assert pending.behind_bytes == 8765
    idle = replace(STATUS, report=replace(REPORT, lanes=(AHEAD,)))
    at_once = sync_job("orders_rt", "MySQL", idle, None, (), (), NOON).status
    assert at_once is not None and (at_once.delay_seconds, at_once.behind_bytes, at_once.current) == (0.0, 0, True)
    unknown = sync_job("orders_rt", "MySQL", idle, None, (), (), later).status
    assert unknown is not None and (unknown.delay_seconds, unknown.behind_bytes) == (None, None)
    silent = replace(idle, report=replace(REPORT, lanes=(replace(AHEAD, polled_age=60.0),)))
    unanswered = sync_job("orders_rt", "MySQL", silent, None, (), (), NOON).status
    assert unanswered is not None and (unanswered.delay_seconds, unanswered.behind_bytes) == (None, None)


def test_positions_in_two_files_have_no_distance_in_bytes(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.put_report(replace(REPORT, lanes=(replace(LANE, latest="4:120", behind=None),)))
    assert "behind: not in bytes, because latest is in another file" in block(shown(capsys, "orders_rt")[0])["Status"]
    assert row(capsys, "orders_rt")["status"]["behind_bytes"] is None


def test_the_message_is_the_current_problem_and_ends_with_it(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.put_report(replace(REPORT, reason="source shop: does not answer"))
    assert "source shop: does not answer" in row(capsys, "orders_rt")["msg"]
    store.put_report(REPORT)
    assert "does not answer" not in (row(capsys, "orders_rt")["msg"] or "")


def test_a_job_without_a_position_says_so(store: Store, tmp_path: Path) -> None:
    creating = replace(STATUS, report=replace(REPORT, lanes=(replace(LANE, at=None, position=None, shown=None),)))
    spec = load(tmp_path / "config.toml", {"SHOP_PASSWORD": PASSWORD}).jobs["orders_rt"]
    assert sync_job("orders_rt", "MySQL", creating, spec, (), (), NOON).status is None
