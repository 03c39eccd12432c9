"""Slots at a past moment: the slot table of that time, one row a minute, unknown where no process saw the slot."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from textual.pilot import Pilot

from slotkeeper.core.judgement.facts import SlotSeen
from slotkeeper.core.state import observed
from tests.tui.filled import NOW, Filled, driven, flowing, press, screen
from tests.tui.planted import until
from tests.tui.test_history_mode import recorded

MINUTE = timedelta(minutes=1)


def sight(at: datetime, **more: object) -> SlotSeen:
    given = {"exists": True, "expires_at": at + timedelta(hours=3), "ttl": 86_400.0, "unread": 7, "shard": "dn_1"}
    return SlotSeen("dws1", "ods.orders", "orders_slot", "orders_rt", at, **(given | more))  # type: ignore[arg-type]


def seen(folder: Path) -> Filled:
    """`recorded`; its slot was seen every five seconds for ten minutes, then it was dropped."""
    made = recorded(folder, "SCHEMA CHANGED")
    for number in range(120):
        observed.put(made.store, [sight(NOW + number * timedelta(seconds=5), unread=number)])
    gone = NOW + 10 * MINUTE
    observed.put(made.store, [sight(gone, exists=False, expires_at=None, unread=None)])
    return made


def test_a_row_a_minute_stays_and_one_when_the_slot_goes(tmp_path: Path) -> None:
    made = seen(tmp_path)
    rows = made.store.read("SELECT at, there, unread FROM slots_past ORDER BY at")
    gone = [round(row["at"] - NOW.timestamp()) for row in rows]
    assert gone == [60 * minute for minute in range(11)]
    assert [row["there"] for row in rows] == [1] * 10 + [0]
    (then,) = observed.seen_until(made.store, NOW + 5.5 * MINUTE)
    assert (then.at, then.unread) == (NOW + 5 * MINUTE, 60)
    assert observed.seen_until(made.store, NOW - MINUTE) == ()
    made.store.close()


def test_a_day_is_kept(tmp_path: Path) -> None:
    made = seen(tmp_path)
    observed.put(made.store, [sight(NOW + timedelta(days=1, minutes=5, seconds=30))])
    rows = made.store.read("SELECT at FROM slots_past ORDER BY at")
    assert round(rows[0]["at"] - NOW.timestamp()) == 360
    made.store.close()


@driven(seen)
async def test_history_shows_the_slots_as_they_were(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "colon", *"at", "space", *"02:36:37", "enter")
    shown = await until(pilot, made.app, "HISTORY 02:36:37Z")
    assert " 2 h 59 m " in shown, "the figure NEXT EXPIRY"
    await press(pilot, "3")
    row = next(line for line in screen(made.app).splitlines() if "ods.orders/orders" in line and "2h59m" in line)
    assert row[2] in "x\u2716" and "05:36:07Z" in row and " 60 " in row
    assert "without its DNs" in flowing(screen(made.app))
    await press(pilot, "colon", *"at", "space", *"02:41:07", "enter")
    await until(pilot, made.app, "HISTORY 02:41:07Z", "ABSENT")
    await press(pilot, "R")
    assert "HISTORY" not in screen(made.app)


@driven(seen)
async def test_a_slot_without_a_recent_sight_is_unknown(made: Filled, pilot: Pilot[int]) -> None:
    made.store.read("DELETE FROM slots_past WHERE there = 0")
    await press(pilot, "colon", *"at", "space", *"02:55", "enter")
    await until(pilot, made.app, "HISTORY 02:55:00Z")
    await press(pilot, "3")
    row = next(line for line in screen(made.app).splitlines() if "ods.orders/orders" in line)
    assert row[2] == "?"
