"""The new position of each lane after a reset, the effect on all lanes, the preconditions, and that texts
round-trip."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.reset import (
    Backup,
    Check,
    Count,
    Goal,
    LaneSeen,
    Move,
    ResetPlan,
    SavedLane,
    TargetKind,
    backup_from,
    backup_text,
    named,
    plan_from,
    plan_text,
)
from slotkeeper.core.domain.reset_checks import (
    emptied,
    moved_rows,
    nodes_check,
    restored,
    retained_check,
    same_state,
    slot_check,
    time_check,
    untouched_check,
    wanted,
    what_moved,
)
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.start import is_first
from slotkeeper.core.errors import Refused
from slotkeeper.core.slots.reset_apply import no_undo
from slotkeeper.core.slots.reset_plan import _notes
from slotkeeper.core.sources.dws.position import POSITIONS, DwsPosition, SyncPoints, place

ROW = ProgressRow(
    LaneKey("dws1", "ods.t", "s", "dn_1"),
    7,
    "mart.t",
    DwsPosition(100, 3),
    5,
    40,
    LaneState.RUNNING,
    place(10),
    place(20),
    "c",
    "db1:2:x",
    SyncPoints(100, 100, 9),
)
BLANK = SyncPoints(0, 0)
SEEN = LaneSeen(ROW, SyncPoints(100, 100, 9), place(40), place(90), place(120))
OTHER = replace(SEEN, row=replace(ROW, key=replace(ROW.key, shard="dn_2"), node_id=8))


def goal(kind: str, *points: tuple[str, str], dns: tuple[str, ...] = ()) -> Goal:
    return Goal(TargetKind(kind), points, dns=dns)


@pytest.mark.parametrize(
    ("asked", "seen", "position"),
    [
        (goal("earliest"), SEEN, DwsPosition(40)),
        (goal("earliest"), replace(SEEN, first=None), DwsPosition(100, 3)),
        (goal("earliest"), replace(SEEN, first=place(110)), DwsPosition(100, 3)),
        (goal("earliest"), replace(SEEN, first=place(100)), DwsPosition(100)),
        (goal("earliest", dns=("dn_2",)), SEEN, DwsPosition(100, 3)),
        (goal("latest"), SEEN, DwsPosition(120)),
        (goal("latest"), replace(SEEN, latest=place(100)), DwsPosition(100, 3)),
        (goal("latest"), replace(SEEN, latest=None), DwsPosition(100, 3)),
        (goal("point", ("*", "70")), SEEN, DwsPosition(70)),
        (goal("point", ("*", "70"), ("dn_1", "80")), SEEN, DwsPosition(80)),
        (goal("point", ("*", "70/2")), SEEN, DwsPosition(70, 2)),
        (goal("point", ("dn_2", "70")), SEEN, DwsPosition(100, 3)),
    ],
)
def test_where_a_goal_takes_a_lane(asked: Goal, seen: LaneSeen, position: DwsPosition) -> None:
    assert wanted(asked, seen, POSITIONS.place) == position


def test_a_time_takes_every_lane_to_its_point() -> None:
    assert wanted(Goal(TargetKind.TIME, at="x"), SEEN, POSITIONS.place, place(55)) == DwsPosition(55)


def test_no_lane_counts_as_caught_up_while_one_goes_back() -> None:
    rows = moved_rows([SEEN, OTHER], {"dn_1": DwsPosition(100, 3), "dn_2": DwsPosition(50)})
    assert {row.state for row in rows} == {LaneState.CATCHING_UP}
    assert {row.noted_end for row in rows} == {place(100)}
    forward = moved_rows([SEEN, OTHER], {"dn_1": DwsPosition(110), "dn_2": DwsPosition(110)})
    assert {row.state for row in forward} == {LaneState.RUNNING}


def test_an_emptied_row_holds_nothing_of_the_old_copy() -> None:
    row = emptied(ROW, BLANK)
    assert (row.position, row.state, row.noted_end) == (None, LaneState.CREATING, None)
    assert (row.epoch, row.changes, row.target) == (ROW.epoch, ROW.changes, ROW.target)


def test_an_emptied_row_is_not_that_of_a_first_start() -> None:
    for row in (ROW, replace(ROW, registered=None)):
        assert not is_first(emptied(row, BLANK)), "the slot's points belong to this job, so they are not lost progress"


def test_what_was_read_since_a_backup_is_not_called_equal() -> None:
    now = replace(ROW, position=DwsPosition(60), epoch=9)
    assert restored(now, ROW, None) == replace(ROW, epoch=9)
    ran = restored(replace(ROW, position=DwsPosition(300), changes=90, epoch=9), ROW, DwsPosition(300))
    assert (ran.state, ran.noted_end, ran.changes, ran.position) == (
        LaneState.CATCHING_UP,
        place(300),
        90,
        ROW.position,
    )
    assert {row.state for row in same_state([ran, ROW])} == {LaneState.CATCHING_UP}


def moved(position: DwsPosition | None, seen: LaneSeen = SEEN) -> Move:
    row = replace(ROW, position=position) if position else emptied(ROW, BLANK)
    return Move(seen, row, SyncPoints(position.point, position.point, 3) if position else None)


@pytest.mark.parametrize(
    ("kind", "move", "ok"),
    [
        ("point", moved(DwsPosition(40)), True),
        ("point", moved(DwsPosition(39)), False),
        ("point", moved(DwsPosition(121)), False),
        ("point", moved(DwsPosition(95), replace(SEEN, first=None)), True),
        ("point", moved(DwsPosition(80), replace(SEEN, first=None)), False),
        ("point", moved(DwsPosition(80), replace(SEEN, first=None, retained=None)), None),
        ("point", moved(DwsPosition(110), replace(SEEN, latest=None)), None),
        ("time", moved(DwsPosition(39)), None),
        ("snapshot", moved(None), True),
        ("backup", moved(DwsPosition(95), replace(SEEN, kept=SyncPoints(None, 100, 9), retained=None)), False),
        ("backup", moved(DwsPosition(95), replace(SEEN, kept=SyncPoints(None, 100, 9), retained=place(90))), True),
    ],
)
def test_what_is_retained(kind: str, move: Move, ok: bool | None) -> None:
    assert retained_check(goal(kind), [move]).ok is ok


def test_a_snapshot_does_not_say_that_an_old_position_is_retained() -> None:
    lost = replace(SEEN, kept=SyncPoints(0, 0), retained=None)
    check = retained_check(goal("snapshot"), [moved(None, lost)])
    assert (check.ok, check.sentence) == (True, "not needed: the copy reads no old position")


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (SEEN, ""),
        (replace(SEEN, kept=SyncPoints(0, 0), retained=place(90)), ""),
        (
            replace(SEEN, kept=SyncPoints(0, 0), retained=None),
            "the slot was lost on 1 of 2 lanes: no binlog holds the old positions",
        ),
        (replace(SEEN, row=replace(ROW, fingerprint="db1:3:x")), "the table has changed"),
        (replace(SEEN, row=emptied(ROW, BLANK), kept=SyncPoints(0, 0), retained=None), ""),
    ],
)
def test_an_undo_is_not_promised_where_its_checks_fail(seen: LaneSeen, why: str) -> None:
    moves = (Move(seen, emptied(seen.row, BLANK)), Move(OTHER, emptied(OTHER.row, BLANK)))
    plan = replace(plan_of(moves[0]), goal=goal("snapshot"), fingerprint=ROW.fingerprint, moves=moves)
    assert no_undo(plan) == why


def test_a_lost_slot_keeps_no_points_until_the_next_start() -> None:
    lost = Move(replace(SEEN, kept=SyncPoints(0, 0)), emptied(ROW, BLANK))
    for move, keeps in ((moved(None), True), (lost, False)):
        notes = _notes(cast(Any, None), goal("snapshot"), [move], {})
        end = "; the slot keeps its points until then" if keeps else ""
        assert notes == [f"the next start registers and copies the whole table{end}"]


def test_a_time_within_the_ttl_is_retained() -> None:
    assert retained_check(goal("time"), [moved(DwsPosition(39))], kept_by_time=True).ok is True


def test_a_lost_slot_leaves_a_snapshot_only() -> None:
    lost = [replace(SEEN, kept=SyncPoints(100, 0, 9))]
    answers = {kind: slot_check(goal(kind), lost, "it is").ok for kind in ("earliest", "latest", "snapshot", "backup")}
    assert answers == {"earliest": False, "latest": False, "snapshot": True, "backup": None}
    assert slot_check(goal("latest"), [SEEN], "it is").ok is True


def test_other_dns_leave_a_snapshot_only() -> None:
    shards = [Shard("dn_1", 7), Shard("dn_3", 9)]
    assert nodes_check(goal("latest"), [ROW], shards).ok is False
    assert nodes_check(goal("snapshot"), [ROW], shards).ok is True
    assert nodes_check(goal("latest"), [ROW], shards[:1]).ok is True


def test_the_ttl_is_unknown_or_enough_or_not() -> None:
    assert [time_check(left).ok for left in (None, 599.0, 600.0)] == [None, False, True]


def plan_of(move: Move) -> ResetPlan:
    checks = (Check("lease", None, "not told"),)
    fields = ("dws", "dws1", "ods.t", "s", "job", goal("point", ("dn_1", "40"), dns=("dn_1",)), "db1:2:x", 5)
    return named(ResetPlan("", *fields, (move,), checks, ("sql",), ("note",), 1.0, 601.0))


def test_a_plan_round_trips_and_a_changed_one_is_refused() -> None:
    counts = Count((("I", 3), ("d", 1)), True, "40", 1_000)
    plan = plan_of(replace(moved(DwsPosition(40)), read_again=counts, skipped=Count((("", 2),), False)))
    assert plan_from(plan_text(plan), POSITIONS) == plan
    assert plan.skipped == 2
    for text in (plan_text(plan).replace("601.0", "9999.0"), "{}", "nonsense", "[]"):
        with pytest.raises(Refused):
            plan_from(text, POSITIONS)


def test_a_backup_round_trips_and_a_damaged_one_is_refused() -> None:
    lanes = (SavedLane(ROW, SyncPoints(100, 90, 3)), SavedLane(emptied(ROW, BLANK), SyncPoints(None, None)))
    backup = Backup("b1", "dws", "dws1", "ods.t", "s", "job", "x", (("id", "bigint"),), lanes, "me", "now", "why", "p1")
    assert backup_from(backup_text(backup), POSITIONS) == backup
    with pytest.raises(Refused, match="damaged"):
        backup_from(backup_text(backup).replace("100/3", "100"), POSITIONS)


def test_what_moved_since_is_named_and_the_newest_point_is_not() -> None:
    plan, here = plan_of(moved(DwsPosition(40))), [Shard("dn_1", 7)]

    def said(seen: LaneSeen, fingerprint: str = "db1:2:x", shards: list[Shard] = here) -> str:
        return "; ".join(what_moved(plan, fingerprint, [seen], shards))

    assert said(replace(SEEN, latest=place(999), retained=place(80), kept=SyncPoints(100, 100, 1))) == ""
    assert said(replace(SEEN, row=replace(ROW, epoch=6))) == "dn_1: epoch 5 -> 6"
    assert said(replace(SEEN, row=replace(ROW, position=DwsPosition(101)))).startswith(
        "dn_1: position 100/3 running -> 101"
    )
    assert said(replace(SEEN, kept=SyncPoints(100, None, 9))) == "dn_1: points 100/100 -> 100/-"
    assert said(replace(SEEN, first=place(41))) == "dn_1: first retained 40 -> 41"
    assert said(SEEN, "db1:3:x") == "the table (fingerprint)"
    assert said(OTHER) == "the DN set" == said(SEEN, shards=[])


def test_effects_in_words() -> None:
    assert moved(DwsPosition(100, 3)).effect == "does not move"
    assert moved(DwsPosition(110)).effect == "skips a range without changes"
    assert "applies 0 changes again" in moved(DwsPosition(90)).effect
    assert "copied again" in moved(None).effect
    assert "WITHOUT" in replace(moved(DwsPosition(110)), skipped=Count((("I", 4),))).effect


def test_an_undo_into_a_stream_is_offered_only_while_no_start_can_have_exchanged_the_rows() -> None:
    move = cast(Any, Move)(SEEN, replace(ROW, position=DwsPosition(90, -1)), SEEN.kept, Count(), Count())
    cleared = replace(move, seen=replace(SEEN, row=replace(ROW, state=LaneState.CREATING, position=None)), to=ROW)
    reset = SimpleNamespace(moves=[move], epoch=5)
    snapshot = SimpleNamespace(moves=[cleared], epoch=6)
    for moves, epoch, ended, ok in (
        ([cleared], 6, [(reset, 6)], True),
        ([cleared], 7, [(snapshot, 7), (reset, 6)], True),
        ([cleared], 9, [(reset, 6)], False),
        ([cleared], 7, [(snapshot, 7), (reset, 4)], False),
        ([cleared], 6, [], False),
        ([move], 9, [], True),
    ):
        assert untouched_check(moves, epoch, cast(Any, ended)).ok is ok, (epoch, ended)
