"""A poll of idle lanes after which the check of the table fails: DDL is named, any other error is reported
unchanged."""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import Activity, LaneKey
from slotkeeper.core.domain.slot import Shard, SlotStatus, TableIdentity
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.engine.driver import idle_lanes
from slotkeeper.core.errors import Refused, SlotkeeperError, Trouble, TroubleName, Unreachable
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints

DN = Shard("dn_1", 1)
LANE = Lane(
    LaneKey("dws1", "ods.t", "s", DN.name),
    DN,
    DwsPosition(10),
    SyncPoints(10, 10, 1),
    exactly(SyncPoints(10, 10), "then"),
    100,
    activity=Activity.IDLE,
)
MISSING = Refused("function does not exist", code="42883", where="source")


def status(fingerprint: str = "then", live: int = 10) -> SlotStatus:
    return SlotStatus(DN, SyncPoints(live, live, 5), DwsPosition(20, None, 5), fingerprint)


class Server:
    """Returns the statuses of a list one after another, and fails every other query."""

    def __init__(self, *statuses: SlotStatus | SlotkeeperError, error: SlotkeeperError = MISSING) -> None:
        self.statuses = list(statuses)
        self.error = error

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        found = self.statuses.pop(0)
        if isinstance(found, SlotkeeperError):
            raise found
        return [found]

    def has_changes(self, shard: Shard, after: Position, up_to: Position) -> bool:
        raise self.error

    def identify(self) -> TableIdentity:
        raise AssertionError("no slot is missing")


@pytest.mark.parametrize(
    ("behind", "name"),
    [
        (status("made again"), TroubleName.SCHEMA_CHANGED),
        (status(live=0), TroubleName.SLOT_LOST),
        (Trouble("the table is gone", name=TroubleName.SCHEMA_CHANGED), TroubleName.SCHEMA_CHANGED),
    ],
    ids=["made again", "wiped", "dropped"],
)
def test_a_question_that_ddl_makes_fail_is_named_by_the_look_behind_it(
    behind: SlotStatus | SlotkeeperError, name: TroubleName
) -> None:
    seen = idle_lanes.see_one(Server(status(), behind), LANE)  # type: ignore[arg-type]
    assert isinstance(seen.error, Trouble)
    assert seen.error.name is name


@pytest.mark.parametrize("behind", [status(), Unreachable("it is gone for now")], ids=["nothing changed", "no answer"])
def test_else_the_questions_own_error_stands(behind: SlotStatus | SlotkeeperError) -> None:
    assert idle_lanes.see_one(Server(status(), behind), LANE).error is MISSING  # type: ignore[arg-type]
