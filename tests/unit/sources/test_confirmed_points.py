"""A lane's position is registered in two calls, each of which reaches its one node, with a status read in between."""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.errors import Busy, Trouble, TroubleName
from slotkeeper.core.ports.source import Confirmation
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints
from slotkeeper.core.sources.dws.source import confirm

DN = Shard("dn_1", 1)
BEFORE = SyncPoints(10, 10, 5)


class Calls:
    """A DN's two points; after the first registration, its status shows `between` if that is set."""

    def __init__(self, nodes: int = 1, between: SyncPoints | None = None) -> None:
        self.nodes, self.between, self.log = nodes, between, list[tuple[object, ...]]()
        self.points = BEFORE

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        self.log.append(("status",))
        return [SlotStatus(DN, self.between or self.points, DwsPosition(20), "one")]

    def xmin_at(self, shard: Shard, point: int) -> int | None:
        return 4

    def register(self, shard: Shard, point: int, checkpoint: bool, xmin: int) -> int:
        self.log.append((point, checkpoint, xmin))
        self.points = SyncPoints(15, 15 if checkpoint else 10, xmin)
        return self.nodes


def confirmed(calls: Calls, xmin: int | None = 7) -> SyncPoints:
    first = SlotStatus(DN, BEFORE, DwsPosition(20), "one")
    asked = Confirmation(DwsPosition(15, None, xmin), BEFORE, "one", lambda: None, lambda point: None)
    return confirm(calls, first, asked)


def test_both_points_are_registered_with_a_status_between_them_and_an_xmin_that_never_goes_back() -> None:
    calls = Calls()
    assert confirmed(calls) == SyncPoints(15, 15, 7)
    assert calls.log == [(15, False, 7), ("status",), (15, True, 7)]
    assert confirmed(Calls(), xmin=3).xmin == 5
    assert confirmed(Calls(), xmin=None).xmin == 5


@pytest.mark.parametrize("nodes", [0, 2])
def test_another_number_of_nodes_is_a_partial_registration(nodes: int) -> None:
    calls = Calls(nodes)
    with pytest.raises(Busy, match="partial registration"):
        confirmed(calls)
    assert len(calls.log) == 1


@pytest.mark.parametrize(
    ("between", "name"),
    [(SyncPoints(15, 0, 7), TroubleName.SLOT_LOST), (SyncPoints(15, 12, 7), TroubleName.SLOT_MOVED)],
)
def test_a_point_that_was_wiped_or_moved_between_the_two_calls_ends_the_registration(
    between: SyncPoints, name: TroubleName
) -> None:
    calls = Calls(between=between)
    with pytest.raises(Trouble) as caught:
        confirmed(calls)
    assert caught.value.name is name
    assert [one for one in calls.log if one[1:2] == (True,)] == []
