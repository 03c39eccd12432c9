"""A sink restored from a backup is distinguished from a slot that somebody moved, by Slotkeeper's own record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.start import StartAction, by_record, compare
from slotkeeper.core.errors import TroubleName
from slotkeeper.core.sources.dws.position import POSITIONS, SyncPoints
from tests.unit.domain.test_start import row, status


@pytest.mark.parametrize(
    ("recorded", "trouble"),
    [
        (None, TroubleName.SLOT_MOVED),
        ("180/-1", TroubleName.SLOT_MOVED),
        ("200/-1", TroubleName.SINK_OLDER),
        ("240/3", TroubleName.SINK_OLDER),
    ],
)
def test_a_slot_ahead_of_its_row_is_ours_where_we_had_come_so_far(recorded: str | None, trouble: TroubleName) -> None:
    mine = replace(row(LaneState.RUNNING), position=POSITIONS.position("150/-1"), registered=SyncPoints(150, 150, 1))
    there = replace(status("ahead"), kept=SyncPoints(200, 200, 1), latest=POSITIONS.place("300"))
    decision = compare(mine, there)
    assert decision.trouble is TroubleName.SLOT_MOVED
    known = None if recorded is None else POSITIONS.position(recorded)
    found = by_record(decision, mine, there, known)
    assert (found.action, found.trouble) == (StartAction.REFUSE, trouble)
    if trouble is TroubleName.SINK_OLDER:
        assert "back at 150" in found.sentence and "the last report" in found.sentence
