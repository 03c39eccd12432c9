"""Slots computed from a server's lists: sums, minima, and unknown values."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from slotkeeper.core.domain.slot import RegisteredPoint, UnreadRows
from slotkeeper.core.errors import Refused
from slotkeeper.core.slots.status import SlotOnShard, SlotView, inspect
from slotkeeper.core.sources.dws.position import place

EARLY, LATE = (datetime(2026, 11, 21, hour, tzinfo=timezone.utc) for hour in (1, 2))


POINTS = [
    RegisteredPoint("dn_2", "ours", False, place(120), LATE, 11),
    RegisteredPoint("dn_1", "ours", True, place(90), EARLY, 10),
    RegisteredPoint("dn_1", "ours", False, place(100), LATE, 12),
    RegisteredPoint("dn_2", "ours", True, place(120), LATE, 11),
    RegisteredPoint("dn_1", "theirs", False, place(5), EARLY, 1),
]
COUNTS = [
    UnreadRows("dn_1", "ours", False, 3),
    UnreadRows("dn_1", "ours", True, 7),
    UnreadRows("dn_2", "ours", False, 1),
]


def test_both_points_of_each_dn_are_put_together() -> None:
    found = inspect("dws1", "t", {"ours": "orders"}, POINTS, COUNTS)
    ours = found.slot("ours")
    assert ours.shards == (
        SlotOnShard("dn_1", place(100), place(90), LATE, 10, 7),
        SlotOnShard("dn_2", place(120), place(120), LATE, 11, 1),
    )
    assert (ours.job, ours.oldest_point, ours.unread, ours.registered_at) == ("orders", place(90), 8, LATE)


def test_a_slot_without_a_job_is_external_and_half_known() -> None:
    theirs = inspect("dws1", "t", {}, POINTS, COUNTS).slot("theirs")
    assert (theirs.job, theirs.exists, theirs.oldest_point, theirs.unread) == (None, True, None, None)


def test_a_configured_slot_that_is_not_listed_does_not_exist() -> None:
    assert inspect("dws1", "t", {"ours": "orders"}, [], []).slots == (SlotView("ours", "orders", False),)


def test_where_nothing_can_be_listed_nothing_is_claimed() -> None:
    found = inspect("dws1", "t", {"ours": "orders"}, None, None)
    assert (found.slots, len(found.untold)) == ((SlotView("ours", "orders", None),), 2)


def test_an_unknown_slot_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(Refused) as refused:
        inspect("dws1", "t", {}, POINTS, None).slot("nobody")
    assert "ours, theirs" in refused.value.hint
