"""Rules for sending, repeating and clearing alerts; the queue of the alert command; the JSON passed to it. Pure.

docs/alerts.md describes the JSON schema.
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
    """The kind of a notification; the values appear in its JSON."""

    FIRED = "fired"
    AGAIN = "again"
    CLEARED = "cleared"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Firing:
    """The stored record of a fault."""

    fault: Fault
    """The fault as of the latest evaluation."""
    began: datetime
    """Time of the evaluation that first found the fault."""
    sent_at: datetime | None = None
    """Time of the last notification; None if none was sent."""
    sent_as: Severity | None = None
    """The severity in the last notification; None if none was sent."""
    over: bool = False
    """True if the fault has ended; the record is kept until the gap has passed, in case the fault returns."""


Remembered = Mapping[str, Firing]
"""Records by `Fault.key`."""


@dataclass(frozen=True, slots=True)
class Notification:
    """The content of one notification about one fault."""

    kind: Kind
    fault: Fault
    began: datetime
    at: datetime
    new: bool = False
    """True if no notification about the fault was sent before, or if the fault has ended since."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The new records, the notifications to send, and the keys of the faults that have ended."""

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
    """Evaluate the current faults once, with `gap` in seconds.

    An alert is sent when a fault starts, immediately when it becomes worse, and again after each gap, unless the fault
    is acknowledged or silenced. When a fault with a sent alert is no longer found, its end is sent once. If a fault
    returns within the gap after its last alert, the next alert is sent when the gap has passed. `judged` returns
    whether this evaluation could have found a fault: other faults are neither sent nor ended.
    """
    found = {one.key: one for one in reversed(ranked(faults)) if judged(one)}  # keep only the worst fault per key
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
    """Return the new record of a current fault, and the kind of notification to send, or None."""
    if before is None or before.over:
        kept = Firing(fault, fault.since or now, None if before is None else before.sent_at)
    else:
        kept = replace(before, fault=fault)
    if kept.sent_at is not None and elapsed(kept.sent_at, now) is None:
        kept = replace(kept, sent_at=now)  # the clock was set back: the gap starts over
    worse = kept.sent_as is not None and is_worse(fault.severity, kept.sent_as)
    if is_quiet(ack, now, fault.since) or (not worse and _recent(kept, gap, now)):
        return kept, None
    new = kept.sent_as is None or worse
    return replace(kept, sent_at=now, sent_as=fault.severity), Kind.FIRED if new else Kind.AGAIN


def _recent(one: Firing, gap: float, now: datetime) -> bool:
    past = None if one.sent_at is None else elapsed(one.sent_at, now)
    return past is not None and past < gap


def standing(firing: Remembered) -> Iterator[Firing]:
    """Yield the records of faults that have not ended."""
    return (one for one in firing.values() if not one.over)


def a_test(now: datetime) -> Notification:
    """Return a test notification, which is labeled as such and reports no real fault."""
    fault = Fault(
        "test", Party.PERSON, "a test", Severity.WARNING, "a user requested a test notification", "no problem",
        "No action needed: this is a TEST",
    )  # fmt: skip
    return Notification(Kind.TEST, fault, now, now.astimezone(timezone.utc))


MOST = 500
"""Maximum number of queued notifications; the oldest are dropped first, because newer ones may supersede them."""
FIRST_WAIT, LONGEST_WAIT = 10.0, 300.0
OF_THE_COMMAND = "alert_command_fails"
"""The rule for a failing alert command: no notification is sent about that failure."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A notification that the command has not accepted; if `begun`, the command was started and may have sent it."""

    notification: Notification
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A failing alert command: it has failed `tries` times since `since`, last at `at` with the error `cause`."""

    since: datetime
    at: datetime
    tries: int
    cause: str


@dataclass(frozen=True, slots=True)
class AlertState:
    """The stored state of alerts in one state folder."""

    firing: Remembered = field(default_factory=dict)
    outbox: tuple[Waiting, ...] = ()
    failure: Failure | None = None


def queued(outbox: Iterable[Waiting], notifications: Iterable[Notification]) -> tuple[Waiting, ...]:
    """Return the outbox with further notifications; only the newest unsent notification of a fault is kept.

    A fault that ends before its start was sent is not sent at all.
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
    """Return the outbox with its first notification marked as passed to the command."""
    return tuple(replace(one, begun=True) if place == 0 else one for place, one in enumerate(outbox))


def failed(before: Failure | None, cause: str, now: datetime) -> Failure:
    """Return the updated record of a command that has just failed."""
    if before is None:
        return Failure(now, now, 1, cause)
    return Failure(before.since, now, before.tries + 1, cause)


def may_try(failure: Failure | None, now: datetime) -> bool:
    """Return whether the command can be started; after a failure, only once the waiting time has passed."""
    if failure is None:
        return True
    wait = timedelta(seconds=min(FIRST_WAIT * 2.0 ** min(failure.tries - 1, 10), LONGEST_WAIT))
    return now >= failure.at + wait or elapsed(failure.at, now) is None


SCHEMA = 1
"""Schema version: incremented when a key is renamed or removed; a new key does not change it."""


@dataclass(frozen=True, slots=True)
class Place:
    """The origin of faults: the host name and the path of the state folder."""

    host: str
    folder: str


def message(one: Notification, place: Place) -> dict[str, object]:
    """Return a notification's values with known secrets masked. Missing fields of the fault are null; times are UTC."""
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
    """Return the values of `message` as one line of ASCII JSON."""
    return json.dumps(message(one, place), ensure_ascii=True).replace("\x7f", "\\u007f") + "\n"


def fault_values(one: Fault) -> dict[str, object]:
    """Return all fields of a fault; missing ones are null."""
    since = None if one.since is None else moment(one.since)
    return codec.shown(one) | {"party": one.party.value, "severity": one.severity.value, "since": since}


def moment(at: datetime) -> str:
    """Return a time in RFC 3339 format, in UTC, with milliseconds.

    >>> moment(datetime(2026, 1, 31, 8, 30, tzinfo=timezone.utc))
    '2026-01-31T08:30:00.000Z'
    """
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
