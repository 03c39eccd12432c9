"""When a position may move, what a missed fence means, and which xmin may be handed back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.advance import XminChoice, choose_xmin, explain_miss, position_after, range_end
from core.domain.position import Position
from core.domain.progress import Decided, LaneKey, LaneState, ProgressRow
from core.errors import Busy, Defect, Superseded, Trouble, TroubleName

ROW = ProgressRow(
    LaneKey("dws1", "ods.t", "s", "dn_1"),
    -1,
    "mart.t",
    Position(100, 4),
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
    decided = replace(ROW, decided=Decided(Position(120), "", 3))
    assert isinstance(explain_miss(decided, 7, Position(100, 4)), Busy)


def test_a_row_that_is_gone_is_progress_lost() -> None:
    assert named(explain_miss(None, 7, Position(100, 4))) is TroubleName.PROGRESS_LOST


@pytest.mark.parametrize("position", [Position(50), Position(100, 4), Position(200)])
def test_a_higher_epoch_supersedes_wherever_the_row_stands(position: Position) -> None:
    assert isinstance(explain_miss(replace(ROW, epoch=8, position=position), 7, Position(100, 4)), Superseded)


@pytest.mark.parametrize("position", [Position(50), Position(100, 4), Position(200), None])
def test_a_lower_epoch_is_an_older_sink_wherever_the_row_stands(position: Position | None) -> None:
    found = explain_miss(replace(ROW, epoch=6, position=position), 7, Position(100, 4))
    assert named(found) is TroubleName.SINK_OLDER


@pytest.mark.parametrize("position", [None, Position(99, 9), Position(100, 3), Position(9, 0)])
def test_a_lower_position_is_an_older_sink_compared_as_positions(position: Position | None) -> None:
    assert named(explain_miss(replace(ROW, position=position), 7, Position(100, 4))) is TroubleName.SINK_OLDER


@pytest.mark.parametrize("position", [Position(100, 5), Position(101), Position(1000)])
def test_a_position_beyond_is_one_of_our_own_commits_and_the_one_to_go_on_from(position: Position) -> None:
    assert explain_miss(replace(ROW, position=position), 7, Position(100, 4)) == position


def test_positions_are_never_compared_as_text() -> None:
    assert explain_miss(replace(ROW, position=Position(1000)), 7, Position(999)) == Position(1000)


@pytest.mark.parametrize("state", [LaneState.CREATING, LaneState.COPYING])
@pytest.mark.parametrize("position", [Position(100, 4), Position(1000)])
def test_a_row_whose_copy_has_not_ended_is_an_older_sink_wherever_it_stands(
    state: LaneState, position: Position
) -> None:
    found = explain_miss(replace(ROW, state=state, position=position), 7, Position(100, 4))
    assert named(found) is TroubleName.SINK_OLDER


def test_a_fence_missed_although_the_row_is_as_expected_is_our_own_defect() -> None:
    assert isinstance(explain_miss(ROW, 7, Position(100, 4)), Defect)


@given(point=st.integers(0, 10**12), latest=st.integers(0, 10**12), width=st.integers(0, 10**6))
def test_a_range_never_passes_latest_and_moves_on_where_it_can(point: int, latest: int, width: int) -> None:
    end = range_end(Position(point), latest, width)
    assert end <= latest
    assert end <= point + max(1, width)
    if latest > point:
        assert end > point


@given(
    point=st.integers(0, 100), sequence=st.integers(-1, 9), up_to=st.integers(0, 200), top=st.integers(0, 9) | st.none()
)
def test_a_position_never_goes_back(point: int, sequence: int, up_to: int, top: int | None) -> None:
    after = Position(point, sequence)
    if up_to < point or (up_to == point and top is not None and top <= sequence):
        return  # what a read that honours its bounds cannot give
    assert position_after(after, up_to, top) >= after


def test_the_boundary_keeps_the_sequence_that_was_applied_at_it() -> None:
    assert position_after(Position(100, 4), 100, None) == Position(100, 4)
    assert position_after(Position(100, 4), 100, 6) == Position(100, 6)
    assert position_after(Position(100, 4), 120, None) == Position(120, -1)


def test_the_looks_own_xmin_is_handed_back_only_for_its_own_latest() -> None:
    assert choose_xmin(120, 120, 55, 118, 50) == XminChoice(55, None, 50)
    assert choose_xmin(120, 120, 40, 118, 50) == XminChoice(50, None, 50), "it never goes back"
    assert choose_xmin(119, 120, 55, 118, 50) == XminChoice(None, 118, 50)
    assert choose_xmin(119, 120, 55, None, 50) == XminChoice(None, None, 50)
