"""A console changes nothing until a person gives a reason, and only for a short time after that."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from slotkeeper.console.tui.write_mode import FORBIDDEN, Instant, armed, refusal

NOW = datetime(2026, 11, 21, 2, 31, tzinfo=timezone.utc)


@pytest.mark.parametrize(("reason", "allowed"), [("", False), ("  ab  ", False), ("abc", True), ("INC-2304", True)])
def test_a_reason_is_needed(reason: str, allowed: bool) -> None:
    assert (refusal(reason, read_only=False) == "") is allowed


def test_a_read_only_console_is_never_armed() -> None:
    assert refusal("INC-2304", read_only=True) == FORBIDDEN


def later(utc: float, monotonic: float | None = None) -> Instant:
    """A later instant, in seconds on each of the two clocks."""
    return Instant(NOW + timedelta(seconds=utc), 50.0 + (utc if monotonic is None else monotonic))


@pytest.mark.parametrize(
    ("now", "touched", "ended"),
    [
        (later(0), later(0), ""),
        (later(599), later(599), ""),
        (later(600), later(600), "ten minutes"),
        (later(360), later(60), "no key"),
        (later(360), later(61), ""),
        (later(-3_600 + 599, 599), later(-3_600 + 599, 599), ""),
        (later(-3_600 + 600, 600), later(-3_600 + 600, 600), "ten minutes"),
        (later(-3_600 + 301, 301), later(0, 0), "no key"),
        (later(3_600, 1), later(3_600, 1), "ten minutes"),
    ],
)
def test_it_ends_by_either_clock_whichever_was_set(now: Instant, touched: Instant, ended: str) -> None:
    said = armed(" INC-2304 ", later(0)).ended(now, touched)
    assert (ended in said) if ended else said == ""


def test_what_is_left_is_counted_down_and_never_below_nothing() -> None:
    one = armed("INC-2304", later(0))
    assert one.reason == "INC-2304"
    assert [one.countdown(later(n)) for n in (0, 19, 599, 700)] == ["10:00", "9:41", "0:01", "0:00"]
    assert one.countdown(later(-3_600, 19)) == "9:41"
