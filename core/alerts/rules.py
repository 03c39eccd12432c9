"""When an alert is sent, repeated and cleared; the queue of the alert command; the JSON that it gets. Pure.

docs/alerts.md has the schema of the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from enum import Enum

from slotkeeper.core import codec
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.fault import Ack, Fault, Party, Severity, ack_in, is_quiet, is_worse, ranked
from slotkeeper.core.redaction import masked_values


class Kind(Enum):
    """What a notification says of its fault; the values are those of its JSON."""

    FIRED = "fired"
    AGAIN = "again"
    CLEARED = "cleared"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Firing:
    """A fault that is remembered."""

    fault: Fault
    """As it was judged last."""
    began: datetime
    """When it was judged first."""
    sent_at: datetime | None = None
    """When it was sent last; None where it never was."""
    sent_as: Severity | None = None
    """The severity with which it was sent last; None where it never was."""
    over: bool = False
    """It has ended; it is remembered until the gap has passed, so that one which comes back is not sent sooner."""


Remembered = Mapping[str, Firing]
"""By `Fault.key`."""


@dataclass(frozen=True, slots=True)
class Notification:
    """What is sent about one fault at one moment."""

    kind: Kind
    fault: Fault
    began: datetime
    at: datetime
    new: bool = False
    """Nothing was sent about it before, or it was over since."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The new records, the notifications to send, and the keys of ended faults."""

    firing: Remembered
    notifications: tuple[Notification, ...] = ()
    ended: frozenset[str] = frozenset()


def evaluate(
    faults: Iterable[Fault],
    before: Remembered,
    acks: Mapping[str, Ack],
    gap: float,
    now: datetime,
    judged: Callable[[Fault], bool] = lambda fault: True,
) -> Evaluation:
    """One evaluation, `gap` in seconds.

    An alert is sent when a fault begins, at once when it becomes worse, and again after each gap; an acknowledged or
    silenced one is not. Once a judgement lacks a sent fault, its end is sent once. A fault that returns within the gap
    after its last alert is sent when the gap has passed. `judged` says which
    faults this judgement could have found: others are neither sent nor ended.
    """
    found = {one.key: one for one in reversed(ranked(faults)) if judged(one)}  # of one key the worst stays
    firing = dict(before)
    notes: list[Notification] = []
    for key, fault in found.items():
        firing[key], kind = _seen(fault, before.get(key), ack_in(acks, fault.ack_keys), gap, now)
        if kind is not None:
            new = key not in before or before[key].sent_as is None
            notes.append(Notification(kind, fault, firing[key].began, now, new))
    gone = {key: one for key, one in before.items() if key not in found and judged(one.fault)}
    for key, one in gone.items():
        firing[key] = replace(one, sent_as=None, over=True)
    notes += [Notification(Kind.CLEARED, one.fault, one.began, now) for one in gone.values() if one.sent_as is not None]
    firing = {key: one for key, one in firing.items() if not one.over or _recent(one, gap, now)}
    return Evaluation(firing, tuple(notes), frozenset(key for key, one in gone.items() if not one.over))


def _seen(
    fault: Fault, before: Firing | None, ack: Ack | None, gap: float, now: datetime
) -> tuple[Firing, Kind | None]:
    """A current fault: its record, and whether it is sent."""
    if before is None or before.over:
        kept = Firing(fault, fault.since or now, None if before is None else before.sent_at)
    else:
        kept = replace(before, fault=fault)
    if kept.sent_at is not None and elapsed(kept.sent_at, now) is None:
        kept = replace(kept, sent_at=now)  # a clock that was set back: the gap starts over
    worse = kept.sent_as is not None and is_worse(fault.severity, kept.sent_as)
    if is_quiet(ack, now, fault.since) or (not worse and _recent(kept, gap, now)):
        return kept, None
    new = kept.sent_as is None or worse
    return replace(kept, sent_at=now, sent_as=fault.severity), Kind.FIRED if new else Kind.AGAIN


def _recent(one: Firing, gap: float, now: datetime) -> bool:
    past = None if one.sent_at is None else elapsed(one.sent_at, now)
    return past is not None and past < gap


def standing(firing: Remembered) -> Iterator[Firing]:
    """Those that hold."""
    return (one for one in firing.values() if not one.over)


def a_test(now: datetime) -> Notification:
    """A notification that is labelled as a test, of no fault."""
    fault = Fault(
        "test", Party.PERSON, "a test", Severity.WARNING, "a user requested a test notification", "no problem",
        "No action needed: this is a TEST",
    )  # fmt: skip
    return Notification(Kind.TEST, fault, now, now.astimezone(timezone.utc))


MOST = 500
"""The most waiting notifications; the oldest are dropped first, which newer ones may supersede."""
FIRST_WAIT, LONGEST_WAIT = 10.0, 300.0
OF_THE_COMMAND = "alert_command_fails"
"""The rule of a failing command: it gets no notification of its own failure."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A notification that the command has not accepted; `begun`: it was started with it, and may have sent it."""

    notification: Notification
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """The command has failed since `since`, `tries` times, the last at `at` with this error."""

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
    """The outbox with further notifications: of what was not sent yet, only the newest is kept.

    A fault that ended before its start was sent is not sent at all.
    """
    found = list(outbox)
    for one in notifications:
        if one.fault.rule == OF_THE_COMMAND:
            continue
        before = next((each for each in found if not each.begun and each.notification.fault.key == one.fault.key), None)
        if before is not None:
            found.remove(before)
            if before.notification.new and one.kind is Kind.CLEARED:
                continue
        as_new = before is not None and before.notification.new
        found.append(Waiting(replace(one, kind=Kind.FIRED, new=True) if as_new else one))
    return tuple(found[-MOST:])


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


SCHEMA = 1
"""Raised where a key is renamed or removed; a further key does not change the schema."""


@dataclass(frozen=True, slots=True)
class Place:
    """Whose faults these are: the host's name, and the path of the state folder."""

    host: str
    folder: str


def message(one: Notification, place: Place) -> dict[str, object]:
    """The values of a notification, without known secrets; what a fault does not say is null, times are UTC."""
    found = {
        "schema": SCHEMA,
        "kind": one.kind.value,
        "at": moment(one.at),
        "began": moment(one.began),
        "id": one.fault.id,
        "host": place.host,
        "state_folder": place.folder,
        "text": one.fault.said(one.at),
        "fault": fault_values(one.fault),
    }
    return {key: masked_values(value) for key, value in found.items()}


def text_of(one: Notification, place: Place) -> str:
    """The same as one line of ASCII."""
    return json.dumps(message(one, place), ensure_ascii=True).replace("\x7f", "\\u007f") + "\n"


def fault_values(one: Fault) -> dict[str, object]:
    """All that a fault says; what it does not say is null."""
    since = None if one.since is None else moment(one.since)
    return codec.shown(one) | {"party": one.party.value, "severity": one.severity.value, "since": since}


def moment(at: datetime) -> str:
    """A moment as RFC 3339 in UTC, to the millisecond.

    >>> moment(datetime(2026, 1, 31, 8, 30, tzinfo=timezone.utc))
    '2026-01-31T08:30:00.000Z'
    """
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
