"""A job's lanes as rows and sentences, whatever dialect their positions are of."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from console.monitor.snapshot import JobFacts, Level
from console.views.lanes import lane_rows, next_risk
from core.domain.job import JobState
from core.domain.report import JobReport, LaneReport

NOW = datetime(2026, 11, 21, 2, 31, tzinfo=timezone.utc)
LANE = LaneReport("dn_1", 1, "running", "idle", "a/b/7", "c", "b", 9, 1.0, at=7, latest_at=8, behind=1, shown="b")
REPORT = JobReport("orders", "r1", "RUNNING", lanes=(LANE,))
STOPPED = JobFacts("orders", Level.WARNING, JobState.STOPPED, alive=False, report=REPORT)


@pytest.mark.parametrize(("shown", "cell"), [("b", "b"), ("a/b", "a/b"), (None, "?")])
def test_a_position_is_shown_as_its_dialect_says(shown: str | None, cell: str) -> None:
    facts = replace(STOPPED, report=replace(REPORT, lanes=(replace(LANE, shown=shown),)))
    assert [row.cells["position"] for row in lane_rows(facts)] == [cell]


@pytest.mark.parametrize(
    ("keeps", "said"),
    [(True, "the TTL of its slot runs on -> [3] Slots"), (False, "what it has not read may expire at the source")],
)
def test_a_slot_has_a_time_to_live_where_its_source_keeps_positions(keeps: bool, said: str) -> None:
    facts = replace(STOPPED, report=replace(REPORT, keeps_positions=keeps))
    assert next_risk(facts, NOW) == f"next risk: nobody reads its binlog; {said}"
