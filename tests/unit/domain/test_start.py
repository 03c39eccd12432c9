"""The start comparison, over every state of row, slot and source: the whole decision is asserted each time.

The expectation is an independent list of rules in order of rank, not derived from the function.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.start import (
    LAPSED,
    READINGS,
    SAFE,
    StartAction,
    StartDecision,
    compare,
    is_first,
    owes_copy,
)
from slotkeeper.core.errors import TroubleName
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints, place

SAME, TABLE, COLUMNS, DATABASE = "db1:77:aaaa", "db1:78:aaaa", "db1:77:bbbb", "db2:77:aaaa"
SHARD = Shard("dn_1", -1)
AT, REGISTERED = 200, 100
POINTS: dict[str, tuple[int | None, int | None]] = {
    "no rows": (None, None),
    "never registered": (0, 0),
    "live missing": (None, 100),
    "durable missing": (100, None),
    "live is 0": (0, 100),
    "durable is 0": (100, 0),
    "both behind what was registered": (50, 50),
    "live behind": (50, 100),
    "durable behind": (100, 50),
    "as registered": (100, 100),
    "between": (150, 150),
    "one answer lost": (150, 100),
    "at the position": (200, 200),
    "one at the position": (200, 100),
    "ahead": (201, 201),
    "live ahead": (201, 100),
    "durable ahead": (100, 201),
}
LATEST = {"below": 199, "equal": 200, "above": 300}
LOST = ("no rows", "never registered", "live missing", "durable missing", "live is 0", "durable is 0")
AHEAD = ("ahead", "live ahead", "durable ahead")
BEHIND = ("both behind what was registered", "live behind", "durable behind")


def row(state: LaneState, fingerprint: str = SAME, registered: SyncPoints | None = None) -> ProgressRow:
    return ProgressRow(
        key=LaneKey("dws1", "ods.t", "s", "dn_1"),
        node_id=-1,
        target="mart.t",
        position=None if state is LaneState.CREATING else DwsPosition(AT, 4),
        epoch=7,
        changes=3,
        state=state,
        noted_start=place(50),
        noted_end=None,
        channel="c",
        fingerprint=fingerprint,
        registered=registered or SyncPoints(REGISTERED, REGISTERED, 9),
    )


def status(points: str, latest: str = "above", fingerprint: str = SAME) -> SlotStatus:
    return SlotStatus(SHARD, SyncPoints(*POINTS[points]), DwsPosition(LATEST[latest], None, 9), fingerprint)


def shown(points: str) -> str:
    return "/".join("-" if point is None else str(point) for point in POINTS[points])


def expected(state: LaneState | None, points: str, latest: str, fingerprint: str) -> StartDecision:
    there = shown(points)
    what = {TABLE: "the table was dropped and created again", COLUMNS: "the table's columns changed"}
    changed = what.get(fingerprint, "another database answers at this address")
    if state is None:
        if not any(POINTS[points]):
            return StartDecision(StartAction.CREATE)
        said = f"dn_1: the slot holds points {there}, but the sink has no progress row for it"
        return StartDecision(StartAction.REFUSE, TroubleName.PROGRESS_LOST, said)
    if state is LaneState.CREATING:
        return StartDecision(StartAction.CREATE)
    if points in LOST:
        cause = LAPSED if fingerprint == SAME else f"; cause: {changed}"
        said = f"dn_1: the job's position is 200/4, the slot holds {there}{cause}"
        return StartDecision(StartAction.REFUSE, TroubleName.SLOT_LOST, said)
    if points in AHEAD:
        said = f"dn_1: the slot ({there}) is ahead of the job's position 200: {READINGS}"
        return StartDecision(StartAction.REFUSE, TroubleName.SLOT_MOVED, said)
    if points in BEHIND:
        said = f"dn_1: the slot ({there}) is behind the job's last registration (100/100)"
        return StartDecision(StartAction.REFUSE, TroubleName.SLOT_MOVED, said)
    if fingerprint != SAME:
        return StartDecision(StartAction.REFUSE, TroubleName.SCHEMA_CHANGED, f"dn_1: {changed}")
    if latest == "below":
        said = "dn_1: the source's newest point 199 is before the job's position 200"
        return StartDecision(StartAction.REFUSE, TroubleName.SOURCE_OLDER, said)
    return StartDecision(StartAction.COPY if state is LaneState.COPYING else StartAction.STREAM)


@pytest.mark.parametrize("state", [None, *LaneState], ids=lambda state: state.value if state else "no row")
@pytest.mark.parametrize("points", POINTS)
def test_every_state_has_the_decision_of_the_design(state: LaneState | None, points: str) -> None:
    for latest, fingerprint in product(LATEST, (SAME, TABLE, COLUMNS, DATABASE)):
        found = compare(row(state) if state else None, status(points, latest, fingerprint))
        assert found == expected(state, points, latest, fingerprint), (latest, fingerprint)


BEGUN: dict[str, tuple[DwsPosition | None, SyncPoints | None]] = {
    "first rows": (None, None),
    "the server chooses the point": (None, SyncPoints(0, 0, 0)),
    "emptied by a reset": (None, SyncPoints(100, 100, 9)),
    "about to register": (DwsPosition(AT), SyncPoints(0, 0, 9)),
    "about to register again": (DwsPosition(AT), SyncPoints(100, 100, 9)),
    "registered": (DwsPosition(AT), SyncPoints(AT, AT, 9)),
    "an earlier point was wanted the second time": (DwsPosition(50), SyncPoints(AT, 100, 9)),
}
"""Every row in state creating that a start or a reset writes."""


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("begun", BEGUN)
def test_what_counts_as_our_own_start_that_was_broken_off(begun: str, points: str) -> None:
    position, registered = BEGUN[begun]
    made = replace(row(LaneState.CREATING), position=position, registered=registered)
    found = compare(made, status(points))
    assert is_first(made) == (begun == "first rows")
    if begun == "first rows" and any(POINTS[points]):
        assert found.trouble is TroubleName.PROGRESS_LOST
    elif position is not None and points in AHEAD:
        assert found.trouble is TroubleName.SLOT_MOVED
        said = f"dn_1: the slot ({shown(points)}) is ahead of 200, which the job's start was about to register"
        said += f": {READINGS}"
        assert found.sentence == said
    else:
        assert found == StartDecision(StartAction.CREATE)


def test_only_rows_in_creating_are_those_of_a_first_start() -> None:
    for state in LaneState:
        assert is_first(replace(row(state), registered=None)) == (state is LaneState.CREATING)


def test_a_lost_slot_is_never_resumed_whatever_else_is_true() -> None:
    states = [state for state in LaneState if state is not LaneState.CREATING]
    for state, points, latest, fingerprint in product(states, LOST, LATEST, (SAME, TABLE, COLUMNS, DATABASE)):
        found = compare(row(state), status(points, latest, fingerprint))
        assert (found.action, found.trouble) == (StartAction.REFUSE, TroubleName.SLOT_LOST)


def test_a_row_without_a_known_registration_is_compared_by_its_position_alone() -> None:
    bare = replace(row(LaneState.RUNNING), registered=None)
    assert compare(bare, status("both behind what was registered")) == StartDecision(StartAction.STREAM)
    assert compare(bare, status("ahead")).trouble is TroubleName.SLOT_MOVED


def test_a_binlog_that_begins_beyond_the_position_has_lost_what_lies_between() -> None:
    kept = status("as registered")
    assert compare(row(LaneState.RUNNING), replace(kept, oldest=place(AT))) == StartDecision(StartAction.STREAM)
    found = compare(row(LaneState.RUNNING), replace(kept, oldest=place(AT + 1)))
    assert found.trouble is TroubleName.SLOT_LOST
    assert found.sentence == "dn_1: the job's position is 200/4, but the binlog starts at 201"


def test_every_trouble_says_what_is_safe_and_nothing_else_does() -> None:
    assert set(SAFE) == set(TroubleName)
    assert compare(row(LaneState.RUNNING), status("no rows")).safe == SAFE[TroubleName.SLOT_LOST]
    assert compare(row(LaneState.RUNNING), status("as registered")).safe == ""


def test_a_row_owes_a_copy_where_its_job_applied_changes_or_a_reset_emptied_it() -> None:
    first, points = replace(row(LaneState.CREATING), changes=0), SyncPoints(100, 100, 1)
    begun = replace(first, position=None, registered=SyncPoints(0, 0, 0))
    emptied = replace(first, position=None, registered=points)
    broken_off = replace(first, position=DwsPosition(AT), registered=points)
    unbegun = replace(first, position=None, registered=None)
    assert not any(owes_copy(one, True) for one in (unbegun, begun, broken_off))
    assert owes_copy(emptied, True)
    assert all(owes_copy(replace(one, changes=1), True) for one in (begun, broken_off, emptied))


def test_where_nothing_is_kept_a_row_owes_a_copy_if_it_has_no_position_but_a_registration() -> None:
    first, nothing = replace(row(LaneState.CREATING), changes=0), SyncPoints(0, 0, 0)
    assert owes_copy(replace(first, position=None, registered=nothing), False)
    assert not owes_copy(replace(first, position=None, registered=None), False)
    assert not owes_copy(replace(first, position=DwsPosition(AT), registered=nothing), False)
