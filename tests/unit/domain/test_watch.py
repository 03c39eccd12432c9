"""Judging one poll while a job runs: which problem is named, which takes precedence, and when there is none."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.start import SAFE
from slotkeeper.core.domain.watch import Expected, ahead_of_row, exactly, judge, purged
from slotkeeper.core.engine.driver.failure import of_several
from slotkeeper.core.errors import TroubleName
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints

SHARD = Shard("dn_1", -1)
MISSING: list[tuple[int | None, int | None]] = [(None, None), (0, 0), (None, 7), (7, None), (0, 7), (7, 0)]


def status(live: int | None, durable: int | None, fingerprint: str = "same") -> SlotStatus:
    return SlotStatus(SHARD, SyncPoints(live, durable), DwsPosition(100, None, 3), fingerprint)


def expecting(live: int, durable: int) -> Expected:
    return exactly(SyncPoints(live, durable), "same")


@pytest.mark.parametrize("points", MISSING)
@pytest.mark.parametrize("fingerprint", ["same", "other"])
def test_a_missing_point_is_a_lost_slot_and_ddl_is_its_cause(
    points: tuple[int | None, int | None], fingerprint: str
) -> None:
    found = judge(status(*points, fingerprint), expecting(7, 7))
    assert found is not None
    assert found.name is TroubleName.SLOT_LOST
    assert found.hint == SAFE[TroubleName.SLOT_LOST]
    assert ("cause: the table was changed" in found.message) == (fingerprint == "other")


def test_a_slot_that_several_lanes_have_lost_is_told_with_their_number() -> None:
    lost, moved = judge(status(0, 0), expecting(7, 7)), judge(status(8, 8), expecting(7, 7))
    assert lost is not None and moved is not None
    assert of_several(lost, [lost, None, lost, moved]).message.startswith("dn_1 and 1 other lane: the slot holds 0/0")
    assert of_several(lost, [lost, None]) is lost and of_several(moved, [lost, lost, moved]) is moved


def test_a_point_of_0_is_a_lost_slot_even_where_0_was_expected() -> None:
    found = judge(status(0, 0), expecting(0, 0))
    assert found is not None
    assert found.name is TroubleName.SLOT_LOST


@pytest.mark.parametrize(("live", "durable"), [(8, 7), (7, 8), (6, 7), (7, 6), (8, 8)])
def test_other_points_than_ours_are_a_moved_slot(live: int, durable: int) -> None:
    found = judge(status(live, durable), expecting(7, 7))
    assert found is not None
    assert found.name is TroubleName.SLOT_MOVED
    assert f"the slot holds {live}/{durable}, but the job registered 7/7" in found.message


def test_a_binlog_that_begins_behind_our_position_is_a_lost_slot() -> None:
    for begins, lost in ((11, True), (10, False), (9, False)):
        found = purged(replace(status(7, 7), oldest=DwsPosition(begins, None)), DwsPosition(10, 4))
        assert (found.name if found else None) is (TroubleName.SLOT_LOST if lost else None)
    assert purged(status(7, 7), DwsPosition(10, 4)) is None, "a server that does not report it"


def test_a_changed_table_outranks_a_moved_slot() -> None:
    for live in (7, 8):
        found = judge(status(live, 7, "other"), expecting(7, 7))
        assert found is not None
        assert found.name is TroubleName.SCHEMA_CHANGED


def test_while_an_answer_is_outstanding_the_old_and_the_new_point_pass_and_nothing_else() -> None:
    waiting = expecting(7, 7).widened(SyncPoints(9, 9))
    for live, durable in product((6, 7, 8, 9, 10), repeat=2):
        passes = (live, durable) in ((7, 7), (9, 7), (9, 9))
        assert (judge(status(live, durable), waiting) is None) == passes


def test_a_second_answer_that_is_outstanding_may_have_landed_upon_any_part_of_the_first() -> None:
    waiting = expecting(7, 7).widened(SyncPoints(9, 9)).widened(SyncPoints(11, 11))
    assert waiting.shown == "11/11 or 11/7 or 11/9 or 7/7 or 9/7 or 9/9"
    assert waiting.fingerprint == "same"


def test_a_slot_beyond_the_row_means_that_the_sink_fell_back() -> None:
    assert ahead_of_row(status(7, 7), DwsPosition(7)) is None
    assert ahead_of_row(status(None, None), DwsPosition(0)) is None
    for live, durable in ((8, 7), (7, 8)):
        found = ahead_of_row(status(live, durable), DwsPosition(7, 3))
        assert found is not None
        assert found.name is TroubleName.SINK_OLDER
        assert found.message == "dn_1: the slot is registered at 8, but the sink's progress row is back at 7/3"
