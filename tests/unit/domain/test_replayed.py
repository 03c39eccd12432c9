"""The effect of past resets on a target: the range that a lane must read, and the undos that are rejected for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.position import NOTHING_KEPT
from slotkeeper.core.domain.progress import Decided, LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.reset import Count, LaneSeen, Move
from slotkeeper.core.domain.reset_checks import (
    COPIED,
    HALF,
    PASSED,
    STARTED,
    LanePast,
    ToRead,
    emptied,
    leaves_older,
    past,
    undo_check,
)
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints

RUNNING, CATCHING_UP = LaneState.RUNNING, LaneState.CATCHING_UP


def row(point: int, changes: int, state: LaneState = RUNNING, end: int | None = None, dn: str = "dn_1") -> ProgressRow:
    noted = DwsPosition(end, None) if end is not None else None
    fixed = ("mart.t", DwsPosition(point, 0), 1, changes, state, None, noted, "c", "f", NOTHING_KEPT)
    return ProgressRow(LaneKey("s", "ods.t", "slot", dn), 1, *fixed)


def move(seen: ProgressRow, to: ProgressRow, skipped: int = 0) -> Move:
    lane = LaneSeen(seen, NOTHING_KEPT, None, None, None)
    return Move(lane, to, None, Count(), Count((("I", skipped),)))


EQUAL = row(100, 40)
BACK = move(EQUAL, row(10, 40, CATCHING_UP, 100))
"""From 100 to 10; nothing is replayed yet."""


def test_a_lane_that_went_back_and_applied_nothing_holds_what_it_held() -> None:
    lane = LanePast().after(BACK)
    assert lane.at(BACK.to) == ToRead(EQUAL.position, EQUAL.position)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now", "since", "until"),
    [
        (row(50, 60, CATCHING_UP, 100), (50, 0), (100, 0)),
        (row(100, 80, CATCHING_UP, 100), (100, 0), (100, 0)),
        (row(130, 90), (130, 0), (130, 0)),
    ],
)
def test_what_is_left_of_a_replay(now: ProgressRow, since: tuple[int, int], until: tuple[int, int]) -> None:
    assert LanePast().after(BACK).at(now) == ToRead(DwsPosition(*since), DwsPosition(*until))


def test_a_reset_over_the_rest_of_a_replay_leaves_older_values_until_it_is_read_from_there_again() -> None:
    part = row(50, 60, CATCHING_UP, 100)
    skip = move(part, row(120, 60, CATCHING_UP, 100), 7)
    before = past([[BACK]])["dn_1"]
    assert leaves_older(before, skip)
    assert not leaves_older(before, move(part, row(20, 60, CATCHING_UP, 100)))
    now = row(150, 90)
    after = before.after(skip)
    assert after.at(now) == ToRead(DwsPosition(50, 0), DwsPosition(150, 0))
    assert leaves_older(after, move(now, row(110, 90, CATCHING_UP, 150))), "it begins after the older changes"
    assert not leaves_older(after, move(now, row(50, 90, CATCHING_UP, 150)))


def test_a_range_without_changes_may_be_passed() -> None:
    part = row(50, 60, CATCHING_UP, 100)
    empty = move(part, row(70, 60, CATCHING_UP, 100))
    assert not leaves_older(past([[BACK]])["dn_1"], empty)
    assert past([[BACK], [empty]])["dn_1"].at(empty.to) == ToRead(DwsPosition(70, 0), DwsPosition(100, 0))
    lost = replace(empty, seen=replace(empty.seen, kept=SyncPoints(None, None)))
    assert leaves_older(past([[BACK]])["dn_1"], lost), "the changes that a lost slot skipped were not counted"


def test_a_copy_makes_up_for_everything() -> None:
    part = row(50, 60, CATCHING_UP, 100)
    snapshot = move(part, emptied(part, NOTHING_KEPT))
    lane = past([[BACK], [snapshot]])["dn_1"]
    assert lane.at(snapshot.to) == ToRead(DwsPosition(50, 0), DwsPosition(100, 0)), "the copy has not begun"
    assert lane.at(row(200, 60)) == ToRead(DwsPosition(200, 0), DwsPosition(200, 0))
    assert lane.copied(row(200, 60)) == 1


def undone(now: ProgressRow, *resets: Move, saved: ProgressRow = EQUAL) -> str:
    """The reason for which an undo to a row is rejected; "" if it is allowed."""
    lane, shard = past([[one] for one in resets]), now.key.shard
    check = undo_check([move(now, saved)], {shard: saved}, lane, {})
    assert check.name == "replay not started"
    return "" if check.ok else check.sentence


def test_an_undo_is_refused_where_older_values_would_count_as_equal() -> None:
    part = row(50, 60, CATCHING_UP, 100)
    assert undone(part, BACK) == f"dn_1: {STARTED}"
    assert undone(part) == f"dn_1: {STARTED}", "a sink that has lost its record of resets still shows the rows"
    assert undone(BACK.to, BACK) == ""
    assert undone(row(130, 90), BACK) == "", "the replay is through"
    skip = move(part, row(120, 60, CATCHING_UP, 100), 7)
    assert undone(row(150, 90), BACK, skip) == f"dn_1: {PASSED}"
    assert undone(emptied(part, NOTHING_KEPT), BACK, move(part, emptied(part, NOTHING_KEPT))) == f"dn_1: {PASSED}"
    assert undone(row(150, 90), saved=row(90, 20, LaneState.COPYING)) == f"dn_1: {COPIED}"


def test_what_a_sink_beside_may_have_counts_as_replayed() -> None:
    decided = replace(BACK.to, decided=Decided(DwsPosition(50, 0), "t", 4))
    assert undone(decided, BACK) == f"dn_1: {STARTED}"
    assert undone(replace(BACK.to, repeats=4), BACK) == f"dn_1: {STARTED}"


def test_an_undo_never_leaves_some_dns_with_a_copy_and_others_without() -> None:
    other = row(100, 40, dn="dn_2")
    moves = [move(emptied(EQUAL, NOTHING_KEPT), EQUAL), move(other, emptied(other, NOTHING_KEPT))]
    check = undo_check(moves, {"dn_1": EQUAL}, {}, {})
    assert (check.ok, check.sentence) == (False, HALF)
