"""Notifications that wait while the command fails: which are still sent, and that each reported fault is reported as
ended."""

from __future__ import annotations

import pytest

from slotkeeper.core.alerts.rules import (
    MOST,
    AlertState,
    Failure,
    Firing,
    Kind,
    Notification,
    Waiting,
    begun,
    failed,
    may_try,
    queued,
)
from slotkeeper.core.domain.fault import Severity
from slotkeeper.core.state.alerts import state_of, text_of
from tests.unit.alerts.made import T0, a_fault, at


def note(kind: Kind, seconds: float = 0, new: bool = False, rule: str = "lag") -> Notification:
    return Notification(kind, a_fault(rule), T0, at(seconds), new)


FIRED = note(Kind.FIRED, new=True)


def kinds(outbox: tuple[Waiting, ...]) -> list[str]:
    return [one.notification.kind.value for one in outbox]


def test_what_ended_before_anybody_was_told_of_it_is_not_told() -> None:
    assert queued(queued((), [FIRED]), [note(Kind.CLEARED, 60)]) == ()


def test_of_waiting_notifications_only_the_newest_is_sent_and_as_new() -> None:
    (one,) = queued(queued((), [FIRED]), [note(Kind.AGAIN, 900)])
    assert (one.notification.kind, one.notification.at, one.notification.new) == (Kind.FIRED, at(900), True)


def test_a_fault_that_may_have_been_reported_is_reported_as_ended() -> None:
    outbox = queued(begun(queued((), [FIRED])), [note(Kind.CLEARED, 60)])
    assert kinds(outbox) == ["fired", "cleared"]


def test_the_end_of_what_was_told_before_waits_too() -> None:
    outbox = queued(queued((), [note(Kind.AGAIN, 900)]), [note(Kind.CLEARED, 960)])
    assert kinds(outbox) == ["cleared"]


def test_that_the_command_fails_is_not_told_by_it() -> None:
    assert queued((), [note(Kind.FIRED, new=True, rule="alert_command_fails")]) == ()


def test_it_is_bounded_and_the_oldest_go() -> None:
    outbox = queued((), [note(Kind.FIRED, n, True, f"rule_{n}") for n in range(MOST + 3)])
    assert len(outbox) == MOST and outbox[0].notification.fault.rule == "rule_3"


def test_after_a_failure_it_is_tried_again_later_and_later() -> None:
    waits, failure = [], None
    for _ in range(8):
        failure = failed(failure, "refused", T0)
        waits.append(next(n for n in range(0, 400, 5) if may_try(failure, at(n))))
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]
    assert may_try(None, T0) and may_try(failure, at(-3_600)), "a clock that was set back must not delay it"


STATE = AlertState(
    {
        a_fault().key: Firing(a_fault(since=T0), T0, at(5), Severity.CRITICAL),
        a_fault("slot_ttl").key: Firing(a_fault("slot_ttl"), T0, at(5), None, True),
    },
    (Waiting(FIRED, True), Waiting(note(Kind.CLEARED, 60))),
    Failure(T0, at(20), 3, "refused"),
)


def test_what_is_remembered_is_read_as_it_was_written() -> None:
    assert state_of(text_of(STATE)) == STATE
    assert state_of(text_of(AlertState())) == AlertState() == state_of("{}")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"firing": [{}]}', '{"outbox": [1]}', '{"failure": {"since": 1}}', "5"]
)
def test_a_damaged_file_is_none(text: str) -> None:
    assert state_of(text) == AlertState()
