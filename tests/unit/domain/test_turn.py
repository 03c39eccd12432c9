"""The meaning of a round over a slot's lanes that did not update all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.watch import Turn, explain_chunks, explain_turn
from slotkeeper.core.errors import SlotkeeperError, Superseded, Trouble, TroubleName
from slotkeeper.core.sources.dws.position import DwsPosition

ROW = ProgressRow(
    LaneKey("dws1", "ods.t", "s", "dn_1"),
    1,
    "mart.t",
    DwsPosition(5),
    7,
    0,
    LaneState.COPYING,
    DwsPosition(5, None),
    None,
    "c",
    "i",
    None,
)
END = Turn(7, 2, (LaneState.COPYING,), LaneState.CATCHING_UP)


def named(found: SlotkeeperError) -> TroubleName:
    assert isinstance(found, Trouble)
    return found.name


@pytest.mark.parametrize("state", LaneState)
def test_a_higher_epoch_has_taken_over_whatever_the_state(state: LaneState) -> None:
    assert isinstance(explain_turn([ROW, replace(ROW, epoch=8, state=state)], END), Superseded)


@pytest.mark.parametrize("rows", [[], [ROW]])
def test_fewer_rows_than_lanes_are_progress_lost(rows: list[ProgressRow]) -> None:
    assert named(explain_turn(rows, END)) is TroubleName.PROGRESS_LOST


@pytest.mark.parametrize("epoch", [6, 7])
@pytest.mark.parametrize("state", LaneState)
def test_any_other_row_is_that_of_an_older_sink(state: LaneState, epoch: int) -> None:
    found = explain_turn([ROW, replace(ROW, state=state, epoch=epoch)], END)
    assert named(found) is TroubleName.SINK_OLDER
    assert f"{state.value} (epoch {epoch})" in found.message


@pytest.mark.parametrize(("done", "there", "planned"), [(1, 2, 2), (0, 0, 2), (2, 2, 3), (2, 2, None)])
def test_chunks_that_are_missing_are_those_of_an_older_sink(done: int, there: int, planned: int | None) -> None:
    found = explain_chunks(done, there, planned)
    assert named(found) is TroubleName.SINK_OLDER
    assert f"{there} chunks, {done} of them done" in found.message
