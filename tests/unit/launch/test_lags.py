"""The lag between two frames: it grows with the clock if a newer report has its lane at the same position."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from slotkeeper.core.domain.elapsed import Curve, Lags
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.report import JobReport, JobStatus, LaneReport
from slotkeeper.core.launch.seen import lags_of
from slotkeeper.core.launch.supervisor import lags_at
from slotkeeper.core.state.frames import Frame

AT = datetime(2026, 11, 23, 3, 0, tzinfo=timezone.utc)
STANDS = LaneReport("dn_1", 1, "running", "applying", "10/3", "12", None, 99, 0.25, at=10, behind=5)
MOVES = replace(STANDS, shard="dn_2")
IDLES = replace(STANDS, shard="dn_3", behind=0)
REPORT = JobReport("orders", "r1", "RUNNING", lanes=(STANDS, MOVES, IDLES))
FRAME = Frame(
    JobStatus("orders", JobState.RUNNING, WantedState.RUN, report=REPORT),
    AT,
    {"dn_1": 28.0, "dn_2": 28.0, "dn_3": 0.0, "dn_4": None},
    {"dn_4": 12.0},
)


def test_a_lane_that_stands_where_it_stood_lags_by_what_has_passed_since() -> None:
    newer = replace(REPORT, lanes=(STANDS, replace(MOVES, at=14), IDLES))
    found = lags_of(FRAME, AT + timedelta(seconds=4), newer)
    assert found.known == {"dn_1": 32.0, "dn_2": 28.0, "dn_3": 0.0, "dn_4": None}


def test_a_lane_that_was_found_empty_further_on_does_not_stand_though_its_row_does() -> None:
    newer = replace(REPORT, lanes=(replace(STANDS, empty_to=15), replace(MOVES, empty_to=9), IDLES))
    assert lags_of(FRAME, AT + timedelta(seconds=4), newer).known == {
        "dn_1": 28.0,
        "dn_2": 32.0,
        "dn_3": 0.0,
        "dn_4": None,
    }


def test_without_a_newer_report_it_is_what_was_recorded_as_long_as_that_is_young() -> None:
    assert lags_of(FRAME, AT + timedelta(seconds=4)).known == FRAME.lags
    assert lags_of(FRAME, AT + timedelta(seconds=20)).known["dn_2"] == 48.0


def test_what_a_lane_of_unknown_lag_lags_by_at_least_grows_like_any_lag() -> None:
    stands = replace(STANDS, shard="dn_4")
    frame = replace(FRAME, view=replace(FRAME.view, report=replace(REPORT, lanes=(stands,))))
    assert lags_of(frame, AT + timedelta(seconds=4), replace(REPORT, lanes=(stands,))).least == {"dn_4": 16.0}
    assert lags_of(frame, AT + timedelta(seconds=4)).least == {"dn_4": 12.0}
    assert lags_of(frame, AT + timedelta(seconds=20)).least == {"dn_4": 32.0}


def _watched() -> dict[str, Curve]:
    """The source was at 12 when it was first polled, 40 seconds ago, and is at 20 now."""
    curve = Curve()
    curve.see(0.0, 12)
    curve.see(39.0, 20)
    return {"dn_1": curve}


def test_a_lane_for_which_nothing_waits_does_not_lag_however_long_its_first_settling_takes() -> None:
    empty = replace(STANDS, behind=10, latest_at=20, empty_to=20)
    assert lags_at(_watched(), (empty,), 40.0) == Lags({"dn_1": 0.0})


def test_a_lane_that_was_found_empty_up_to_an_older_latest_lags_since_then() -> None:
    found = lags_at(_watched(), (replace(STANDS, behind=10, latest_at=20, empty_to=16),), 40.0)
    assert found == Lags({"dn_1": 20.5})


def test_a_lane_that_was_not_asked_yet_or_has_rows_lags_by_the_time_it_was_watched() -> None:
    waits = replace(STANDS, behind=10, latest_at=20)
    assert lags_at(_watched(), (waits,), 40.0) == Lags({"dn_1": None}, {"dn_1": 40.0})
    assert lags_at(_watched(), (replace(waits, empty_to=11),), 40.0) == Lags({"dn_1": None}, {"dn_1": 40.0})


def test_a_lane_with_an_unknown_latest_has_no_lag_and_no_bound() -> None:
    lanes = (replace(STANDS, at=None), replace(MOVES, behind=None))
    assert lags_at({}, lanes, 40.0) == Lags({"dn_1": None, "dn_2": None})


def test_a_job_that_has_ended_lags_by_what_has_passed_since_its_last_frame() -> None:
    found = lags_of(FRAME, AT + timedelta(seconds=4), ended=True)
    assert found.known == {"dn_1": 32.0, "dn_2": 32.0, "dn_3": 4.0, "dn_4": None}
