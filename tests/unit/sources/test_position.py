"""Positions of DWS: their order, the ends of ranges, when a position may advance, and which xmin is registered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.errors import Busy, Trouble, TroubleName
from slotkeeper.core.ports.sink import Top
from slotkeeper.core.ports.source import Confirmation
from slotkeeper.core.sources.dws.position import POSITIONS, DwsPosition, SyncPoints
from slotkeeper.core.sources.dws.source import DwsSource, confirm

DN = Shard("dn_1", 1)
SOURCE = DwsSource(cast(Any, None), "ods.t", "s", BinlogOptions())
NONE_READ = Top(None, None)


def status(latest: int, xmin: int = 55, live: int | None = 100, durable: int | None = 100) -> SlotStatus:
    return SlotStatus(DN, SyncPoints(live, durable, xmin), DwsPosition(latest, None, xmin), "i")


positions = st.builds(DwsPosition, st.integers(0, 4), st.integers(-1, 4) | st.none())


@given(one=positions, two=positions)
def test_a_point_that_names_nothing_inside_it_is_neither_before_nor_after_what_lies_there(
    one: DwsPosition, two: DwsPosition
) -> None:
    if one.point != two.point:
        lower = one.point < two.point
    else:
        lower = one.sequence is not None and two.sequence is not None and one.sequence < two.sequence
    assert (one < two, two > one, two <= one, one >= two) == (lower, lower, not lower, not lower)


@given(one=positions)
def test_a_position_round_trips_as_text_without_what_it_carries(one: DwsPosition) -> None:
    assert POSITIONS.place(one.text) == one == DwsPosition(one.point, one.sequence, 7, 3)


@given(live=st.integers(0, 10**12) | st.none(), durable=st.integers(0, 10**12) | st.none(), xmin=st.integers(0, 10**12))
def test_what_is_kept_round_trips_as_text_with_its_xmin(live: int | None, durable: int | None, xmin: int) -> None:
    kept = SyncPoints(live, durable, xmin)
    found = POSITIONS.kept(kept.text)
    assert (found, found.xmin) == (kept, xmin)


@pytest.mark.parametrize("text", ["", "x", "1/", "/1", "1/2/3", "1/-2", "-1", "01", "1/ 2", "+1", "1.0", "1_0", "1/x"])
def test_a_damaged_position_is_never_guessed_at(text: str) -> None:
    with pytest.raises(ValueError, match="invalid position"):
        POSITIONS.place(text)


def test_a_lanes_position_that_has_lost_its_sequence_is_damaged() -> None:
    """With only the point, the remaining events at that point would be skipped silently."""
    with pytest.raises(ValueError, match="invalid position"):
        POSITIONS.position("10516")


@pytest.mark.parametrize("text", ["", "1/2", "1/2/", "1/2/-", "1/2/3/4", "01/2/3", "x/2/3", "1/--/3"])
def test_damaged_points_are_never_guessed_at(text: str) -> None:
    with pytest.raises(ValueError, match="invalid "):
        POSITIONS.kept(text)


@given(point=st.integers(0, 10**12), latest=st.integers(0, 10**12), width=st.integers(0, 10**6))
def test_a_range_never_passes_latest_and_moves_on_where_it_can(point: int, latest: int, width: int) -> None:
    end = SOURCE.next_range(DwsPosition(point), status(latest), width)
    assert end.sequence is None
    assert end.point <= latest
    assert end.point <= point + max(1, width)
    if latest > point:
        assert end.point > point


@given(
    point=st.integers(0, 100), sequence=st.integers(-1, 9), up_to=st.integers(0, 200), top=st.integers(0, 9) | st.none()
)
def test_a_position_never_goes_back(point: int, sequence: int, up_to: int, top: int | None) -> None:
    after = DwsPosition(point, sequence)
    if up_to < point or (up_to == point and top is not None and top <= sequence):
        return  # impossible for a read that honours its bounds
    assert SOURCE.reached(after, DwsPosition(up_to, None), Top(up_to, top), status(200)) >= after


def test_the_boundary_keeps_the_sequence_that_was_applied_at_it() -> None:
    def reached(up_to: int, top: int | None) -> DwsPosition:
        return SOURCE.reached(DwsPosition(100, 4), DwsPosition(up_to, None), Top(up_to, top), status(200))

    assert reached(100, None) == DwsPosition(100, 4)
    assert reached(100, 6) == DwsPosition(100, 6)
    assert reached(120, None) == DwsPosition(120, -1)


def test_a_lane_with_nothing_to_read_stands_at_the_newest_point_or_where_it_stood_there_already() -> None:
    here = DwsPosition(100, 4, 3, 90)

    def standing(latest: int) -> DwsPosition:
        return SOURCE.reached(here, None, None, status(latest))

    assert standing(120) == DwsPosition(120)
    assert standing(100) == here
    assert [standing(latest).xmin for latest in (120, 100)] == [55, 55]


@dataclass
class Calls:
    """A server that records the requested xmin and the registration, and answers as the test sets."""

    xmins: dict[int, int] = field(default_factory=dict)
    between: tuple[int | None, int | None] = (120, 100)
    reached: int = 1
    asked: list[int] = field(default_factory=list)
    registered: list[tuple[int, bool, int]] = field(default_factory=list)

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        return [status(200, 5, *self.between)]

    def xmin_at(self, shard: Shard, point: int) -> int | None:
        self.asked.append(point)
        return self.xmins.get(point)

    def register(self, shard: Shard, point: int, checkpoint: bool, xmin: int) -> int:
        self.registered.append((point, checkpoint, xmin))
        return self.reached


def confirmed(calls: Calls, position: DwsPosition, before: int = 50) -> int:
    """The xmin that is registered for a position."""
    asked = Confirmation(position, SyncPoints(100, 100, before), "i", lambda: None, lambda _point: None)
    kept = confirm(calls, status(200), asked)
    assert calls.registered == [(position.point, flag, kept.xmin) for flag in (False, True)]
    return kept.xmin


def at_120(latest: int, xmin: int, top: int | None) -> DwsPosition:
    """A lane that was at 100 and has read up to 120, with its last record at `top`."""
    return SOURCE.reached(DwsPosition(100), DwsPosition(120, None), Top(top, None), status(latest, xmin))


def test_the_looks_own_xmin_is_handed_back_only_for_its_own_latest() -> None:
    calls = Calls({118: 53})
    assert confirmed(calls, at_120(120, 55, 118)) == 55
    assert calls.asked == []
    assert confirmed(Calls(), at_120(120, 40, 118)) == 50, "it never goes back"
    behind = Calls({118: 53})
    assert confirmed(behind, at_120(121, 55, 118)) == 53
    assert behind.asked == [118]


def test_an_xmin_that_the_last_record_does_not_tell_is_the_one_before() -> None:
    assert confirmed(Calls({118: 40}), at_120(121, 55, 118)) == 50, "it never goes back"
    assert confirmed(Calls(), at_120(121, 55, 118)) == 50
    nothing_read = Calls()
    assert confirmed(nothing_read, at_120(121, 55, None)) == 50
    assert nothing_read.asked == []


def test_the_record_of_an_earlier_range_is_asked_for_where_the_last_one_held_nothing() -> None:
    first = at_120(200, 55, 118)
    second = SOURCE.reached(first, DwsPosition(140, None), NONE_READ, status(200))
    assert (second.top, second.xmin) == (118, None)


def test_a_wipe_between_the_two_points_is_seen_and_the_second_is_not_sent() -> None:
    for between, name in (((120, None), TroubleName.SLOT_LOST), ((0, 0), TroubleName.SLOT_LOST)):
        calls = Calls(between=between)
        with pytest.raises(Trouble) as raised:
            confirmed(calls, DwsPosition(120, -1, 55))
        assert raised.value.name is name
        assert [flag for _, flag, _ in calls.registered] == [False]


def test_a_registration_that_reached_no_node_passes() -> None:
    with pytest.raises(Busy, match="reached 0 of 1 nodes"):
        confirmed(Calls(reached=0), DwsPosition(120, -1, 55))
