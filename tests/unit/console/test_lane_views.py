"""A job's lanes as rows and sentences, in any dialect of positions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from slotkeeper.console.monitor.rates import JobTracks
from slotkeeper.console.monitor.snapshot import JobFacts, LanePace, Level
from slotkeeper.console.views.jobs import in_sync
from slotkeeper.console.views.lanes import lane_rows, lane_trouble, next_risk
from slotkeeper.core.domain.job import JobState, TableReport
from slotkeeper.core.domain.report import JobReport, LaneReport

NOW = datetime(2026, 11, 21, 2, 31, tzinfo=timezone.utc)
LANE = LaneReport("dn_1", 1, "running", "idle", "a/b/7", "c", "b", 9, 1.0, at=7, latest_at=8, behind=1, shown="b")
REPORT = JobReport("orders", "r1", "RUNNING", lanes=(LANE,))
STOPPED = JobFacts("orders", Level.WARNING, JobState.STOPPED, alive=False, report=REPORT)


@pytest.mark.parametrize(("shown", "cell"), [("b", "b"), ("a/b", "a/b"), (None, "?")])
def test_a_position_is_shown_as_its_dialect_says(shown: str | None, cell: str) -> None:
    facts = replace(STOPPED, report=replace(REPORT, lanes=(replace(LANE, shown=shown),)))
    assert [row.cells["position"] for row in lane_rows(facts)] == [cell]


@pytest.mark.parametrize(("error", "level"), [("SLOT LOST: gone", Level.CRITICAL), ("", Level.WARNING)])
def test_a_lane_whose_table_has_ended_alone_is_in_trouble_and_never_in_sync(error: str, level: Level) -> None:
    ended = replace(LANE, activity="stopped", error=error, behind=0, source_table="ods.b", label="ods.b dn_1")
    state = "FAILED" if error else "STOPPED"
    tables = (TableReport("ods.a", "m.a", "RUNNING"), TableReport("ods.b", "m.b", state, error, safe="reset it"))
    facts = replace(
        STOPPED,
        state=JobState.RUNNING,
        alive=True,
        current=True,
        report=replace(REPORT, lanes=(LANE, ended), tables=tables),
        throughput={LANE.name: LanePace(0.5), ended.name: LanePace(0.5)},
    )
    assert [(row.key, row.level, row.cells["doing"]) for row in lane_rows(facts)] == [
        ("ods.b dn_1", level, "stopped"),
        ("dn_1", Level.FINE, "idle"),
    ]
    assert in_sync(facts) == 0.5
    said = lane_trouble(facts, "ods.b dn_1")
    assert said.startswith(f"ods.b {state}: ") and "jobs start orders --table ods.b" in said and error in said


@pytest.mark.parametrize(
    ("keeps", "said"),
    [
        (True, "no unread change is lost until the slot expires -> [3] Slots"),
        (False, "the source may purge unread changes"),
    ],
)
def test_a_slot_has_a_time_to_live_where_its_source_keeps_positions(keeps: bool, said: str) -> None:
    facts = replace(STOPPED, report=replace(REPORT, keeps_positions=keeps))
    assert next_risk(facts, NOW) == f"next risk: no job reads its binlog; {said}"


def test_what_was_told_too_long_ago_is_unknown_and_nothing_arrives_there() -> None:
    there = replace(LANE, at=8, behind=0, polled_age=600.0)
    (row,) = lane_rows(replace(STOPPED, report=replace(REPORT, lanes=(there,))))
    assert (row.cells["behind"], row.level) == ("?", Level.UNKNOWN)
    fresh, old = JobTracks(), JobTracks()
    for at in (0.0, 5.0):
        fresh.see(at, replace(REPORT, lanes=(replace(there, polled_age=1.0),)))
        old.see(at, replace(REPORT, lanes=(there,)))
    assert fresh.lanes["dn_1"].eta(6.0) == 0.0
    assert old.lanes["dn_1"].eta(6.0) is None, "an old answer has no estimated arrival"
