"""Stepping through history: decisions without input or output."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from slotkeeper.console.monitor.history import LONGEST_STEP, STEP, Playback, parse_moment

NOW = datetime(2026, 11, 21, 2, 31, 7, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("02:28", datetime(2026, 11, 21, 2, 28)),
        ("02:31:08", datetime(2026, 11, 20, 2, 31, 8)),
        ("23:59", datetime(2026, 11, 20, 23, 59)),
        ("2026-11-21T02:28Z", datetime(2026, 11, 21, 2, 28)),
        (" 2026-11-20 02:28 UTC", datetime(2026, 11, 20, 2, 28)),
        ("-15m", datetime(2026, 11, 21, 2, 16, 7)),
        ("-1d", datetime(2026, 11, 20, 2, 31, 7)),
    ],
)
def test_a_moment_is_understood(said: str, meant: datetime) -> None:
    assert parse_moment(said, NOW) == meant.replace(tzinfo=timezone.utc)


@pytest.mark.parametrize("said", ["", "yesterday", "25:00", "2026-13-01 00:00", "2027-01-01 00:00", "-m", "-99999999d"])
def test_an_invalid_moment_of_the_past_is_reported_in_a_sentence(said: str) -> None:
    with pytest.raises(ValueError, match=r"enter a time as|is in the future"):
        parse_moment(said, NOW)


def test_a_key_that_is_held_doubles_the_step_up_to_five_minutes() -> None:
    playback, now, steps = Playback(NOW), 100.0, []
    for _ in range(9):
        playback = playback.toward(-1, now)
        steps.append(playback.step)
        now += 0.1
    assert steps[:4] == [STEP, 2 * STEP, 4 * STEP, 8 * STEP]
    assert steps[-1] == LONGEST_STEP
    assert playback.toward(-1, now + 1).step == STEP
    assert playback.toward(1, now).step == STEP


def test_a_step_lands_on_what_was_recorded_and_goes_across_gaps() -> None:
    here, hour = NOW.timestamp(), 3_600.0
    back, on = Playback(NOW).toward(-1, 0.0), Playback(NOW).toward(1, 0.0)
    assert back.landed(here - hour, here).at == NOW - timedelta(hours=1)
    assert on.landed(here, here + hour).at == NOW + timedelta(hours=1)
    assert on.landed(here + 4, here + hour).at == NOW + timedelta(seconds=4)


def test_at_either_end_one_stays() -> None:
    here = NOW.timestamp()
    assert Playback(NOW).toward(1, 0.0).landed(here, None).at == NOW
    assert Playback(NOW).toward(-1, 0.0).landed(None, here).at == NOW
    assert not Playback(NOW).play().landed(here, None).playing


def test_playing_ends_with_a_step() -> None:
    playing = Playback(NOW).play()
    assert playing.playing
    assert playing.wanted == NOW + timedelta(seconds=STEP)
    assert not playing.toward(-1, 0.0).playing
    assert not playing.play().playing
