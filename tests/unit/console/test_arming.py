"""A console changes nothing until a person says why, and not for long after that."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from console.tui.write_mode import FORBIDDEN, IDLE, LASTS, armed, refusal

NOW = datetime(2026, 11, 21, 2, 31, tzinfo=timezone.utc)


@pytest.mark.parametrize(("reason", "allowed"), [("", False), ("  ab  ", False), ("abc", True), ("INC-2304", True)])
def test_a_reason_is_needed(reason: str, allowed: bool) -> None:
    assert (refusal(reason, read_only=False) == "") is allowed


def test_a_read_only_console_is_never_armed() -> None:
    assert refusal("INC-2304", read_only=True) == FORBIDDEN


@pytest.mark.parametrize(
    ("later", "idle", "ended"),
    [
        (timedelta(0), timedelta(0), ""),
        (timedelta(minutes=9, seconds=59), timedelta(0), ""),
        (LASTS, timedelta(0), "ten minutes"),
        (timedelta(minutes=6), IDLE, "no key"),
        (timedelta(minutes=6), IDLE - timedelta(seconds=1), ""),
        (timedelta(seconds=-1), timedelta(0), "set back"),
    ],
)
def test_it_ends_by_time_by_nobody_being_there_and_by_a_clock_that_goes_back(
    later: timedelta, idle: timedelta, ended: str
) -> None:
    now = NOW + later
    said = armed(" INC-2304 ", NOW).ended(now, now - idle)
    assert (ended in said) if ended else said == ""


def test_what_is_left_is_counted_down_and_never_below_nothing() -> None:
    one = armed("INC-2304", NOW)
    assert one.reason == "INC-2304"
    assert [one.countdown(NOW + timedelta(seconds=n)) for n in (0, 19, 599, 700)] == ["10:00", "9:41", "0:01", "0:00"]
