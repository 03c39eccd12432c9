"""The cause of a fenced UPDATE that matches no row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.progress import Decided, LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.watch import explain_miss
from slotkeeper.core.errors import Busy, Defect, Superseded, Trouble, TroubleName
from slotkeeper.core.sources.dws.position import DwsPosition

ROW = ProgressRow(
    LaneKey("dws1", "ods.t", "s", "dn_1"),
    -1,
    "mart.t",
    DwsPosition(100, 4),
    7,
    0,
    LaneState.RUNNING,
    None,
    None,
    "c",
    "i",
    None,
)


def named(found: object) -> TroubleName:
    assert isinstance(found, Trouble)
    return found.name


def test_a_range_that_is_decided_is_waited_for() -> None:
    decided = replace(ROW, decided=Decided(DwsPosition(120), "", 3))
    assert isinstance(explain_miss(decided, 7, DwsPosition(100, 4)), Busy)


def test_a_row_that_is_gone_is_progress_lost() -> None:
    assert named(explain_miss(None, 7, DwsPosition(100, 4))) is TroubleName.PROGRESS_LOST


@pytest.mark.parametrize("position", [DwsPosition(50), DwsPosition(100, 4), DwsPosition(200)])
def test_a_higher_epoch_supersedes_wherever_the_row_stands(position: DwsPosition) -> None:
    assert isinstance(explain_miss(replace(ROW, epoch=8, position=position), 7, DwsPosition(100, 4)), Superseded)


@pytest.mark.parametrize("position", [DwsPosition(50), DwsPosition(100, 4), DwsPosition(200), None])
def test_a_lower_epoch_is_an_older_sink_wherever_the_row_stands(position: DwsPosition | None) -> None:
    found = explain_miss(replace(ROW, epoch=6, position=position), 7, DwsPosition(100, 4))
    assert named(found) is TroubleName.SINK_OLDER


@pytest.mark.parametrize("position", [None, DwsPosition(99, 9), DwsPosition(100, 3), DwsPosition(9, 0)])
def test_a_lower_position_is_an_older_sink_compared_as_positions(position: DwsPosition | None) -> None:
    assert named(explain_miss(replace(ROW, position=position), 7, DwsPosition(100, 4))) is TroubleName.SINK_OLDER


@pytest.mark.parametrize("position", [DwsPosition(100, 5), DwsPosition(101), DwsPosition(1000)])
def test_a_position_beyond_is_one_of_our_own_commits_and_the_one_to_go_on_from(position: DwsPosition) -> None:
    assert explain_miss(replace(ROW, position=position), 7, DwsPosition(100, 4)) == position


def test_positions_are_never_compared_as_text() -> None:
    assert explain_miss(replace(ROW, position=DwsPosition(1000)), 7, DwsPosition(999)) == DwsPosition(1000)


@pytest.mark.parametrize("state", [LaneState.CREATING, LaneState.COPYING])
@pytest.mark.parametrize("position", [DwsPosition(100, 4), DwsPosition(1000)])
def test_a_row_whose_copy_has_not_ended_is_an_older_sink_wherever_it_stands(
    state: LaneState, position: DwsPosition
) -> None:
    found = explain_miss(replace(ROW, state=state, position=position), 7, DwsPosition(100, 4))
    assert named(found) is TroubleName.SINK_OLDER


def test_a_fence_missed_although_the_row_is_as_expected_is_our_own_defect() -> None:
    assert isinstance(explain_miss(ROW, 7, DwsPosition(100, 4)), Defect)


@pytest.mark.parametrize("position", [None, DwsPosition(0), DwsPosition(100, 4)])
def test_a_lane_that_is_only_beginning_has_no_position_to_lie_behind(position: DwsPosition | None) -> None:
    found = explain_miss(replace(ROW, position=position), 7)
    if position is None:
        assert named(found) is TroubleName.SINK_OLDER
        assert "the job was at no position" in str(found)
    else:
        assert found == position
