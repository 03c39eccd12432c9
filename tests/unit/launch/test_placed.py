"""A job that several hosts share, as a host shows it: ELSEWHERE, UNKNOWN, or its own state; and its faults."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.placement import Known, Placement
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.errors import Refused
from slotkeeper.core.launch.control import refuse_elsewhere
from slotkeeper.core.launch.view import placed

LEFT = JobStatus("orders", JobState.STOPPED, WantedState.RUN, trouble="SUPERSEDED", run="r")
ROW = Placement("orders", owner="b", host="etl2", state="RUNNING", read_at=SystemClock().utc().timestamp())


def shown(row: Placement, view: JobStatus = LEFT) -> JobStatus:
    return placed(view, Known("a", "etl1", (row,), stale_after=3_600.0))


def test_a_job_of_another_host_is_elsewhere_with_the_state_that_its_owner_reported() -> None:
    view = shown(ROW)
    assert (view.state, view.runs_on, view.trouble) == (JobState.ELSEWHERE, "etl2", "")
    assert view.reason.startswith("RUNNING on etl2 as of ")
    with pytest.raises(Refused, match="RUNNING on etl2"):
        refuse_elsewhere(view)


@pytest.mark.parametrize(
    "row", [replace(ROW, away="no answer"), replace(ROW, age=61.0), replace(ROW, read_at=ROW.read_at - 7_200)]
)
def test_without_news_of_its_owner_a_job_is_unknown(row: Placement) -> None:
    view = shown(row)
    assert (view.state, view.runs_on) == (JobState.UNKNOWN, "")
    assert "last known: RUNNING on etl2" in view.reason


def test_a_process_here_counts_for_more_than_the_row_and_an_owner_sees_its_own_state() -> None:
    here = replace(LEFT, state=JobState.RUNNING, driver_alive=True)
    assert shown(ROW, here).state is JobState.RUNNING
    mine = shown(replace(ROW, owner="a", host="etl1", state="STOPPED"))
    assert (mine.state, mine.runs_on, mine.trouble) == (JobState.STOPPED, "etl1", "SUPERSEDED")
    assert placed(LEFT, None) is LEFT, "without [hosts], nothing changes"
