"""DNs that differ from those of the progress rows: which changes are adopted, which are errors, and the messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.start import SAFE, NodeChange, StartDecision, left_unread, node_change
from slotkeeper.core.errors import TroubleName
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints, place

ONE, TWO, NEW = Shard("dn_1", -1), Shard("dn_2", 2), Shard("dn_3", 3)
OURS = (ONE, TWO)


def rows(state: LaneState = LaneState.RUNNING, shards: Sequence[Shard] = OURS) -> list[ProgressRow]:
    return [
        ProgressRow(
            LaneKey("dws1", "ods.t", "s", shard.name),
            shard.node_id,
            "mart.t",
            DwsPosition(100),
            1,
            0,
            state,
            place(1),
            place(1),
            "c",
            "i",
            SyncPoints(90, 90, 5),
        )
        for shard in shards
    ]


def status(shard: Shard, live: int | None = 120, durable: int | None = 120) -> SlotStatus:
    return SlotStatus(shard, SyncPoints(live, durable), DwsPosition(200, None, 7), "i")


def decided(
    there: Sequence[Shard],
    statuses: Sequence[SlotStatus] | None = None,
    state: LaneState = LaneState.RUNNING,
    adopts: bool = True,
) -> NodeChange | StartDecision | None:
    return node_change(rows(state), statuses if statuses is not None else [status(one) for one in there], there, adopts)


def named(found: NodeChange | StartDecision | None) -> str:
    assert isinstance(found, StartDecision)
    assert found.trouble is TroubleName.TOPOLOGY_CHANGED and found.safe == SAFE[TroubleName.TOPOLOGY_CHANGED]
    return found.sentence


@pytest.mark.parametrize("state", LaneState)
@pytest.mark.parametrize("adopts", [True, False])
def test_the_same_set_makes_no_change(state: LaneState, adopts: bool) -> None:
    assert decided(OURS, state=state, adopts=adopts) is None
    assert decided(tuple(reversed(OURS)), state=state, adopts=adopts) is None


def test_a_dn_counts_as_there_by_either_answer() -> None:
    assert node_change(rows(), [status(ONE), status(TWO)], [], True) is None
    assert node_change(rows(), [], OURS, True) is None


def test_new_dns_with_points_are_adopted_and_the_last_of_them_says_how_far_nothing_may_be_unread() -> None:
    other = Shard("dn_4", 4)
    statuses = [status(ONE), status(TWO), status(NEW, 120, 120), status(other, 150, 150)]
    found = decided((*OURS, NEW, other), statuses)
    assert isinstance(found, NodeChange)
    assert (found.come, found.renamed, found.begins) == (tuple(statuses[2:]), (), place(150))
    assert found.sentence == "the DN set changed: new dn_3, dn_4"
    assert named(left_unread(found, [TWO, ONE])) == (
        "the DN set changed: new dn_3, dn_4; changes before 150 are unread on dn_1, dn_2"
    )


@pytest.mark.parametrize(
    ("points", "held"),
    [(None, "none"), ((0, 0), "0/0"), ((120, None), "120/-"), ((0, 120), "0/120"), ((120, 119), "120/119")],
)
def test_a_new_dn_without_one_known_point_is_named(points: tuple[int | None, int | None] | None, held: str) -> None:
    statuses = [status(ONE), status(TWO), *([status(NEW, *points)] if points else [])]
    assert named(decided((*OURS, NEW), statuses)).endswith(
        f"the start of recording on dn_3 is unknown (its points: {held})"
    )


def test_a_dn_that_is_gone_is_named_whatever_else_changed() -> None:
    assert named(decided((ONE,))) == ("the DN set changed: gone dn_2; unread changes on a removed DN are unknown")
    assert named(decided((ONE, NEW))).startswith("the DN set changed: gone dn_2; new dn_3; unread changes")
    assert named(decided((ONE, replace(TWO, node_id=9)))).startswith("the DN set changed: gone dn_2; new dn_2;")


@pytest.mark.parametrize("state", [LaneState.COPYING, LaneState.CATCHING_UP, LaneState.RUNNING])
def test_a_new_name_under_an_old_id_is_adopted_in_every_state(state: LaneState) -> None:
    found = decided((replace(ONE, name="dn_2"), replace(TWO, name="dn_1")), state=state)
    assert isinstance(found, NodeChange)
    assert [(row.key.shard, shard.name) for row, shard in found.renamed] == [("dn_1", "dn_2"), ("dn_2", "dn_1")]
    assert found.begins is None
    assert found.sentence == "the DN set changed: renamed dn_1 to dn_2, dn_2 to dn_1"


def test_a_new_dn_discards_a_copy() -> None:
    assert named(decided((*OURS, NEW), state=LaneState.COPYING)) == (
        "the DN set changed: new dn_3; the copy was in progress and is discarded"
    )


@pytest.mark.parametrize("there", [(*OURS, NEW), (ONE,), (ONE, replace(TWO, name="x"))])
def test_without_need_redistribution_nothing_is_adopted(there: Sequence[Shard]) -> None:
    assert named(decided(there, adopts=False)).endswith("need_redistribution = false does not adopt DNs")
