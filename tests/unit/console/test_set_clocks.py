"""If the host's clock is set back, earlier records are no longer fresh, and no duration is computed across the
change."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from slotkeeper.console.actions.record import Stage, stage_of
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.views.rows import age
from slotkeeper.console.views.slots import remaining
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.elapsed import AHEAD_SECONDS, elapsed
from slotkeeper.core.domain.fault import Ack, is_quiet
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.row_counts import Verified, in_a_phrase
from slotkeeper.core.domain.ttl import Severity, TimeLeft
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store
from tests.unit.console.judged import stands
from tests.unit.console.test_act_records import NOW as BEGUN
from tests.unit.console.test_act_records import RECORD
from tests.unit.console.test_status import NOW, RUNNING

HOUR = timedelta(hours=1)


def test_what_lies_ahead_has_no_age() -> None:
    assert elapsed(NOW, NOW + HOUR) == 3_600
    assert elapsed(NOW, NOW - timedelta(seconds=AHEAD_SECONDS)) == 0.0
    assert elapsed(NOW, NOW - HOUR) is None
    assert age(NOW, NOW - HOUR) == "?"


@pytest.mark.parametrize(
    ("ahead", "level", "words"),
    [
        (timedelta(0), Level.FINE, "2 lanes"),
        (HOUR, Level.WARNING, "has not reported since this host's clock was set back"),
        (
            -HOUR,
            Level.CRITICAL,
            "the driver is running but does not report, 60 min, it hangs or gets too little CPU",
        ),
    ],
)
def test_a_driver_that_hangs_is_not_fresh(ahead: timedelta, level: Level, words: str) -> None:
    found = stands(replace(RUNNING, reported_at=NOW + ahead), NOW)
    assert found.level is level and words in found.wrong


def test_a_ttl_does_not_stand_still_until_the_clock_is_there_again() -> None:
    left = TimeLeft(NOW + HOUR, 3_600, Severity.FINE)
    assert remaining(left, NOW, NOW + timedelta(minutes=10)) == 3_000
    assert remaining(left, NOW, NOW + 2 * HOUR) == 0
    assert remaining(left, NOW, NOW - HOUR) is None


def test_a_silence_does_not_grow() -> None:
    ack = Ack("li.wei", NOW, NOW + HOUR)
    assert is_quiet(ack, NOW + timedelta(minutes=59)) and not is_quiet(ack, NOW + HOUR)
    assert not is_quiet(ack, NOW - HOUR)
    assert is_quiet(Ack("li.wei", NOW), NOW - HOUR), "seen is seen"


def test_an_action_that_never_began_blocks_nothing_for_an_hour() -> None:
    assert stage_of(RECORD, lambda one: False, BEGUN) is Stage.BEGINNING
    assert stage_of(RECORD, lambda one: False, BEGUN - HOUR) is Stage.GONE


def test_a_proof_from_ahead_is_not_called_new() -> None:
    found = Verified("orders", NOW, "equal", 0, 0, 0, 5, 5, 0.1, "li.wei")
    assert in_a_phrase(found, NOW + HOUR) == "verified equal 1h00m ago"
    assert in_a_phrase(found, NOW - HOUR) == "verified equal at 2026-11-21T12:00:00Z, ahead of this host's clock"


class Told(SystemClock):
    """A clock that a test sets."""

    at = NOW

    def utc(self) -> datetime:
        return self.at


def test_events_and_errors_stay_in_the_order_in_which_they_were_recorded(tmp_path: Path) -> None:
    clock = Told()
    with Store.open(StateFolder.open(tmp_path / "state").path, clock=clock) as store:
        store.register_job("orders", "c")
        for number, at in enumerate((NOW, NOW - HOUR, NOW + HOUR)):
            clock.at = at
            store.record_event("orders", f"event {number}")
        assert [one.event for one in store.events("orders")] == ["event 2", "event 1", "event 0"]
        assert store.jobs()[0].state is JobState.STOPPED
