"""The figures are valid OpenMetrics for any names, and equal those of the judgement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser

from slotkeeper.core.alerts.metrics import MOST, exposition
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.report import JobReport, JobStatus, LaneReport
from slotkeeper.core.judgement.facts import Facts, JobSeen, Machine, SlotSeen
from tests.unit.alerts.made import T0, a_fault, at

parsed: Callable[[str], Iterable[Metric]] = parser.text_string_to_metric_families
LANE = LaneReport("dn_1", 1, "running", "idle", "5", "9", None, 0, 0.0, behind=4, at=5, latest_at=9)
VIEW = JobStatus(
    "orders", JobState.RUNNING, WantedState.RUN, supervisor_alive=True, driver_alive=True, reported=True,
    reported_at=at(-2), report=JobReport("orders", "r1", "RUNNING", quarantined=3, lanes=(LANE,)),
)  # fmt: skip
FACTS = Facts(
    T0,
    (JobSeen(VIEW, {"dn_1": 1.25, "dn_2": None}, crashes=(at(-5), at(-700))),),
    (SlotSeen("dws1", "ods.orders", "s1", "orders", T0, True, T0 + timedelta(hours=1), 86_400.0),),
    Machine("/state", free=1_024),
)


def figures(facts: Facts = FACTS, *faults: object) -> dict[tuple[str, ...], float]:
    text = exposition(facts, faults)  # type: ignore[arg-type]
    assert text.endswith("\n# EOF\n")
    return {
        (one.name.removeprefix("slotkeeper_"), *one.labels.values()): one.value
        for f in parsed(text)
        for one in f.samples
    }


def test_they_say_what_is_known() -> None:
    found = figures(FACTS, a_fault(), a_fault(), a_fault("disk_full", job=""))
    assert found["faults", "lag", "orders", "warning"] == 2 and found["faults", "disk_full", "", "warning"] == 1
    assert found["job_state", "orders", "RUNNING"] == 1 and found["job_state", "orders", "FAILED"] == 0
    assert {key: value for key, value in found.items() if key[0] not in ("faults", "job_state")} == {
        ("evaluation_timestamp_seconds",): T0.timestamp(),
        ("state_folder_free_bytes",): 1_024,
        ("job_up", "orders"): 1,
        ("report_age_seconds", "orders"): 2,
        ("driver_crashes", "orders"): 1,
        ("quarantined_rows", "orders"): 3,
        ("lane_lag_seconds", "orders", "dn_1"): 1.25,
        ("lane_behind_commits", "orders", "dn_1"): 4,
        ("slot_left_seconds", "dws1", "ods.orders", "s1", "orders"): 3_600,
    }


def test_an_unknown_value_has_no_sample() -> None:
    silent = JobSeen(replace(VIEW, report=None, reported_at=None))
    assert {key[0] for key in figures(Facts(T0, (silent,)))} == {
        "evaluation_timestamp_seconds", "job_state", "job_up", "driver_crashes",
    }  # fmt: skip


def test_an_older_reader_takes_them_too() -> None:
    """node_exporter reads the text format 0.0.4, which has fewer types and which we write without timestamps."""
    for line in exposition(FACTS, [a_fault()]).splitlines():
        assert re.fullmatch(r"# (EOF|TYPE \w+ gauge|HELP \w+ .+)|\w+(\{.*\})? [0-9.e+-]+", line), line


def test_a_job_of_very_many_lanes_is_bounded() -> None:
    seen = JobSeen(VIEW, {f"dn_{number}": 1.0 for number in range(MOST + 100)})
    assert sum(key[0] == "lane_lag_seconds" for key in figures(Facts(T0, (seen,)))) == MOST


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_name_is_escaped_and_bounded(job: str, lane: str) -> None:
    seen = JobSeen(replace(VIEW, name=job), {lane: 2.0})
    found = figures(Facts(T0, (seen,)), a_fault(job=job))
    assert [value for key, value in found.items() if key[0] == "lane_lag_seconds"] == [2.0]
    assert all(len(each) <= 700 for key in found for each in key)
