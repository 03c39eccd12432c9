"""What is remembered of alerts, in one small file of the state folder that its supervisors share under a lock.

Who holds the lock says so in it, so that one that is stopped by a signal meanwhile can be named. A damaged file counts
as none: an alert too many is better than one too few.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from slotkeeper.core.alerts.rules import AlertState, Failure, Firing, Kind, Notification, Waiting
from slotkeeper.core.domain.fault import Fault, Party, Severity
from slotkeeper.core.domain.report import Identity
from slotkeeper.core.errors import Busy
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.lock_holder import Holder, SignedLock, holder_of
from slotkeeper.core.state.resets import ResetFiles

KIND, NAME = "alerts", "state"
BESIDE = "stuck"
"""A second file with a lock of its own, for what is told while who holds the lock of the first does not go on."""
DAMAGED = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What a text that is none of ours raises where it is read: also one of many brackets, or of a number without end."""
LOCK, SENDER_LOCK = "evaluation", "sender"
_LOCK_SECONDS = 5.0


class AlertFile:
    """The remembered alerts of one state folder; `by` is who we are, for others while we hold its lock."""

    def __init__(self, folder: StateFolder, name: str = NAME, by: Identity | None = None) -> None:
        self._folder = folder
        self._files = ResetFiles(folder)
        self._name, self._by = name, by
        self._lock = LOCK if name == NAME else f"{LOCK}-{name}"

    def read(self) -> AlertState:
        """What is remembered; nothing where the file cannot be read."""
        try:
            return state_of(self._files.load(KIND, self._name) or "{}")
        except StateError:
            return AlertState()

    def save(self, state: AlertState) -> None:
        """Put it in the place of what was remembered, under the lock; StateError where it cannot be written."""
        self._files.save(KIND, self._name, text_of(state))

    def try_lock(self, seconds: float = 0.0) -> SignedLock | None:
        """The lock under which it is read and saved; None where another has it for so long."""
        end = time.monotonic() + seconds
        while (lock := self._folder.try_lock(KIND, self._lock)) is None and time.monotonic() < end:
            time.sleep(0.02)
        return None if lock is None else SignedLock.of(lock, self._by, datetime.now(timezone.utc))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The same, waited for: what is done under it takes milliseconds. Raises Busy."""
        lock = self.try_lock(_LOCK_SECONDS)
        if lock is None:
            raise Busy("another process holds the lock of what was told", "`slotkeeper status` names one that hangs")
        try:
            yield
        finally:
            lock.release()

    def holder(self) -> Holder | None:
        """Who holds its lock now, as far as that one says so."""
        return holder_of(self._folder, KIND, self._lock)

    def try_sender(self) -> SignedLock | None:
        """The lock of who gives notifications to the command; None while another does."""
        lock = self._folder.try_lock(KIND, SENDER_LOCK)
        return None if lock is None else SignedLock.of(lock, self._by, datetime.now(timezone.utc))

    def sender(self) -> Holder | None:
        """Who gives notifications to the command now, as far as that one says so."""
        return holder_of(self._folder, KIND, SENDER_LOCK)

    def is_sending(self) -> bool:
        """Whether somebody gives notifications to the command now."""
        return self._folder.is_locked(KIND, SENDER_LOCK)


def text_of(state: AlertState) -> str:
    """The state as text."""
    firing = [_values(asdict(one) | {"fault": _fault_values(one.fault)}) for one in state.firing.values()]
    outbox = [{"begun": one.begun} | notification_values(one.notification) for one in state.outbox]
    failure = None if state.failure is None else _values(asdict(state.failure))
    return json.dumps({"firing": firing, "outbox": outbox, "failure": failure})


def state_of(text: str) -> AlertState:
    """The state again; an empty one where the text is none of ours."""
    try:
        found = json.loads(text)
        firing = [_firing(one) for one in found.get("firing", ())]
        outbox = tuple(Waiting(notification_of(one), bool(one["begun"])) for one in found.get("outbox", ()))
        failure = found.get("failure")
        return AlertState(
            {one.fault.key: one for one in firing},
            outbox,
            None
            if failure is None
            else Failure(
                moment_of(failure["since"]), moment_of(failure["at"]), int(failure["tries"]), str(failure["cause"])
            ),
        )
    except DAMAGED:
        return AlertState()


def notification_values(one: Notification) -> dict[str, Any]:
    """A notification as JSON values that `notification_of` reads."""
    return _values(asdict(one) | {"fault": _fault_values(one.fault)})


def notification_of(found: dict[str, Any]) -> Notification:
    """It again; raises ValueError, KeyError or TypeError for anything else."""
    kind, began, at = Kind(found["kind"]), moment_of(found["began"]), moment_of(found["at"])
    return Notification(kind, _fault(found["fault"]), began, at, bool(found["new"]))


def _firing(found: dict[str, Any]) -> Firing:
    sent_as = found["sent_as"]
    return Firing(
        _fault(found["fault"]),
        moment_of(found["began"]),
        None if found["sent_at"] is None else moment_of(found["sent_at"]),
        None if sent_as is None else Severity(sent_as),
        bool(found["over"]),
    )


def _fault_values(fault: Fault) -> dict[str, Any]:
    return _values({name: getattr(fault, name) for name in Fault.__dataclass_fields__})


def _fault(found: dict[str, Any]) -> Fault:
    """A fault again; what another version says of it beside is left out."""
    since = None if found["since"] is None else moment_of(found["since"])
    values: dict[str, Any] = {name: str(found[name]) for name in Fault.__dataclass_fields__ if name in found}
    return Fault(**{**values, "party": Party(found["party"]), "severity": Severity(found["severity"]), "since": since})


def _values(found: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in found.items()}


def _value(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    return value.value if isinstance(value, Party | Severity | Kind) else value


def moment_of(text: str) -> datetime:
    """A moment again; raises ValueError where its text does not say its offset from UTC."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("a moment has its offset from UTC")
    return found
