"""Texts for Hologres, which has LSNs instead of points and slots, and the time at which unread records expire."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from slotkeeper.console.monitor.snapshot import Level, TableSeen
from slotkeeper.console.views.binlog import binlog_columns, binlog_rows, image_title
from slotkeeper.console.views.slots import SlotFacts, shard_columns, shard_rows, slot_lines, slot_rows
from slotkeeper.core.domain.inspection import ChangeRow, Page
from slotkeeper.core.domain.slot import Column, RegisteredPoint, TableIdentity
from slotkeeper.core.domain.ttl import Ttl
from slotkeeper.core.slots.status import OwnLane, SlotView, TableSlots, inspect, put_together, sights
from slotkeeper.core.sources.hologres.position import HoloPosition
from slotkeeper.core.sources.hologres.words import SLOT_WORDS, WORDS

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
US = int(NOON.timestamp() * 1_000_000)


def test_a_binlog_is_shown_by_its_lsns_with_its_events_in_words() -> None:
    rows = (
        ChangeRow(HoloPosition(121, US, US, image=0), "B", US, ("1", "2")),
        ChangeRow(HoloPosition(121, US, US), "U", US, ("1", "3")),
    )
    identity = TableIdentity(1, (Column("id", "bigint"), Column("v", "bigint")), ("id",), "s")
    page = Page("holo1", "ods.t", "shard_0", ("shard_0",), identity, rows, None, None, rows[1].position, None, True)
    shown = binlog_rows(page, False)
    columns = binlog_columns(page, shown, 80)
    assert [column.label for column in columns][:4] == ["", "LSN", "SEQ", "T"]
    assert shown[0].cells["point"] == "121"
    assert image_title(page, shown[1].key) == "LSN 121 U after update, paired with B   11-21 12:00:00.000000 UTC"


def seen(age_s: int) -> TableSeen:
    """A slot of one shard whose lane was up to date `age_s` seconds ago, with a TTL of an hour."""
    at = NOON - timedelta(seconds=age_s)
    place = HoloPosition(165, 5, int(at.timestamp() * 1_000_000))
    lanes = {"s": [OwnLane("shard_0", place, place, at)]}
    found = put_together(Ttl(3_600, False, True), None, NOON, None, None, lanes, WORDS)
    return TableSeen("holo1", "ods.t", NOON, TableSlots("holo1", "ods.t", (SlotView("s", "j", None),)), found)


def test_a_job_that_does_not_advance_shows_the_time_until_unread_records_expire() -> None:
    for age_s, level, left in (
        (60, Level.FINE, "59m00s"),
        (2_000, Level.WARNING, "26m40s"),
        (3_300, Level.CRITICAL, "5m00s"),
    ):
        table = seen(age_s)
        (row,) = slot_rows([table], NOON)
        assert (row.cells["left"], row.cells["oldest"], row.level) == (left, "-", level)
        assert table.slots is not None and table.retained is not None
        (seen_so,) = sights("holo1", "ods.t", NOON, table.slots, table.retained)
        assert seen_so.expires_at == NOON + timedelta(seconds=3_600 - age_s)


def test_a_slot_that_the_server_keeps_has_one_mark_and_the_clock_of_its_records() -> None:
    at, place = NOON - timedelta(seconds=3_300), HoloPosition(165)
    points = [RegisteredPoint("shard_0", "s", flag, place, None, None) for flag in (False, True)]
    lanes = {"s": [OwnLane("shard_0", place, place, at)]}
    found = put_together(Ttl(3_600, False, True), None, NOON, points, None, lanes, SLOT_WORDS)
    slots = inspect("holo1", "ods.t", {"s": "j"}, points, None, SLOT_WORDS)
    facts = SlotFacts(TableSeen("holo1", "ods.t", NOON, slots, found), slots.slot("s"), found.slot("s"))
    labels = [column.label for column in shard_columns(facts)]
    assert labels == ["", "SHARD", "CONFIRMED", "UNREAD", "TTL LEFT", "OF TTL", "RECORDS EXPIRE"]
    (row,) = shard_rows(facts, NOON)
    assert (row.cells["live"], row.cells["left"], row.level) == ("165", "5m00s", Level.CRITICAL)
    said = [text for _, text in slot_lines(facts, NOON)]
    assert any("the source retains nothing for it; it is at 165 on shard_0" in text for text in said)
    assert any("read or not, unless it advances" in text for text in said)
    assert not any("oldest reader" in text or "retains binlog" in text for text in said)
