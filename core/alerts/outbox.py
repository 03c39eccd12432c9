"""What waits for the command that is told, and what becomes of it where the command fails. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from slotkeeper.core.alerts.rules import Kind, Notification, Remembered
from slotkeeper.core.domain.elapsed import elapsed

MOST = 500
"""So many wait at most; the oldest go first, which newer ones about the same things may have overtaken."""
FIRST_WAIT, LONGEST_WAIT = 10.0, 300.0
OF_THE_COMMAND = "alert_command_fails"
"""The rule of a command that fails: what it could not be told it is not told."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A notification that the command has not taken; `begun`: it was started with it, and may have told it."""

    notification: Notification
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """The command fails since then, in so many tries, the last at `at` with these words."""

    since: datetime
    at: datetime
    tries: int
    cause: str


@dataclass(frozen=True, slots=True)
class AlertState:
    """All that is remembered of alerts in one state folder."""

    firing: Remembered = field(default_factory=dict)
    outbox: tuple[Waiting, ...] = ()
    failure: Failure | None = None


def queued(outbox: Iterable[Waiting], notifications: Iterable[Notification]) -> tuple[Waiting, ...]:
    """The outbox with further notifications: of what nobody was told yet, only the newest is kept.

    A fault that ended before anybody was told that it began is not told at all.
    """
    found = list(outbox)
    for one in notifications:
        if one.fault.rule == OF_THE_COMMAND:
            continue
        before = next((each for each in found if _may_go(each, one)), None)
        if before is not None:
            found.remove(before)
            if before.notification.new and one.kind is Kind.CLEARED:
                continue
        as_new = before is not None and before.notification.new
        found.append(Waiting(replace(one, kind=Kind.FIRED, new=True) if as_new else one))
    return tuple(found[-MOST:])


def _may_go(waiting: Waiting, later: Notification) -> bool:
    return not waiting.begun and waiting.notification.fault.key == later.fault.key


def begun(outbox: tuple[Waiting, ...]) -> tuple[Waiting, ...]:
    """The outbox while the command is started with its first."""
    return tuple(replace(one, begun=True) if place == 0 else one for place, one in enumerate(outbox))


def failed(before: Failure | None, cause: str, now: datetime) -> Failure:
    """What is known of a command that has failed just now."""
    if before is None:
        return Failure(now, now, 1, cause)
    return Failure(before.since, now, before.tries + 1, cause)


def may_try(failure: Failure | None, now: datetime) -> bool:
    """Whether the command may be started: after a failure only once its wait is over."""
    if failure is None:
        return True
    wait = timedelta(seconds=min(FIRST_WAIT * 2.0 ** min(failure.tries - 1, 10), LONGEST_WAIT))
    return now >= failure.at + wait or elapsed(failure.at, now) is None
