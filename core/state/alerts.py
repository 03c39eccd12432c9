"""Stored alerts and users' acknowledgements: two small files in the state folder, each protected by a lock.

Supervisors share the first file, consoles share the second. The holder of the first lock writes its identity into the
lock's file, so that messages can name a holder that was stopped by a signal. A damaged file is treated as empty: a
superfluous alert is better than a missing one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

from slotkeeper.core import codec
from slotkeeper.core.alerts.rules import AlertState, Failure, Firing, Notification, Waiting
from slotkeeper.core.domain.fault import Ack
from slotkeeper.core.domain.report import Identity
from slotkeeper.core.errors import Busy
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.files import ResetFiles
from slotkeeper.core.state.folder import Holder, SignedLock, StateFolder, holder_of

KIND, NAME = "alerts", "state"
BESIDE = "stuck"
"""Name of a second file with its own lock, used for alerts while the process that holds the first lock hangs."""
DAMAGED = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Errors raised when invalid text is read, including text with too many nested brackets or an infinite number."""
LOCK, SENDER_LOCK = "evaluation", "sender"
_LOCK_SECONDS = 5.0
ACKS_KIND, ACKS_NAME = "console", "acks"
ACKS_KEPT = timedelta(days=7)
_ACKS_LOCK_SECONDS = 2.0

Acks = dict[str, Ack]


class AlertFile:
    """The stored alerts of one state folder; `by` identifies this process to others while it holds the lock."""

    def __init__(self, folder: StateFolder, name: str = NAME, by: Identity | None = None) -> None:
        self._folder = folder
        self._files = ResetFiles(folder)
        self._name, self._by = name, by
        self._lock = LOCK if name == NAME else f"{LOCK}-{name}"

    def read(self) -> AlertState:
        """Return the stored alerts; an empty state if the file cannot be read."""
        try:
            return state_of(self._files.load(KIND, self._name) or "{}")
        except StateError:
            return AlertState()

    def save(self, state: AlertState) -> None:
        """Replace the stored alerts, under the lock; raises StateError if the file cannot be written."""
        self._files.save(KIND, self._name, text_of(state))

    def try_lock(self, seconds: float = 0.0) -> SignedLock | None:
        """Return the lock for reading and saving; None if another process still holds it after `seconds`."""
        end = time.monotonic() + seconds
        while (lock := self._folder.try_lock(KIND, self._lock)) is None and time.monotonic() < end:
            time.sleep(0.02)
        return None if lock is None else SignedLock.of(lock, self._by, datetime.now(timezone.utc))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait for the lock and hold it; work under the lock takes only milliseconds. Raises Busy."""
        lock = self.try_lock(_LOCK_SECONDS)
        if lock is None:
            raise Busy(
                "another process holds the lock of the alert file", "`slotkeeper status` shows a process that hangs"
            )
        try:
            yield
        finally:
            lock.release()

    def holder(self) -> Holder | None:
        """Return the current holder of the lock, if it has written its identity."""
        return holder_of(self._folder, KIND, self._lock)

    def try_sender(self) -> SignedLock | None:
        """Return the lock for sending notifications through the command; None while another process holds it."""
        lock = self._folder.try_lock(KIND, SENDER_LOCK)
        return None if lock is None else SignedLock.of(lock, self._by, datetime.now(timezone.utc))

    def sender(self) -> Holder | None:
        """Return the process that currently passes notifications to the command, if it has written its identity."""
        return holder_of(self._folder, KIND, SENDER_LOCK)

    def is_sending(self) -> bool:
        """Return whether a process currently passes notifications to the command."""
        return self._folder.is_locked(KIND, SENDER_LOCK)


def text_of(state: AlertState) -> str:
    outbox = [{"begun": one.begun} | notification_values(one.notification) for one in state.outbox]
    return codec.text_of({"firing": list(state.firing.values()), "outbox": outbox, "failure": state.failure})


def state_of(text: str) -> AlertState:
    try:
        found = json.loads(text)
        firing = [codec.record_of(Firing, one) for one in found.get("firing", ())]
        outbox = tuple(Waiting(notification_of(one), bool(one["begun"])) for one in found.get("outbox", ()))
        kept = found.get("failure")
        failure = None if kept is None else codec.record_of(Failure, kept)
        codec.aware(*(moment for one in firing for moment in (one.began, one.sent_at, one.fault.since)))
        codec.aware(*((failure.since, failure.at) if failure is not None else ()))
        return AlertState({one.fault.key: one for one in firing}, outbox, failure)
    except DAMAGED:
        return AlertState()


def notification_values(one: Notification) -> dict[str, Any]:
    return codec.values_of(one)


def notification_of(found: dict[str, Any]) -> Notification:
    """Parse a notification; raises ValueError if the values are not a notification."""
    made = codec.record_of(Notification, found)
    codec.aware(made.began, made.at, made.fault.since)
    return made


class AckFile:
    """The acknowledgements of one state folder."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._files = ResetFiles(folder)

    def read(self) -> Acks:
        """Return all acknowledgements by the key of their alert; raises StateError if the file cannot be read."""
        text = self._files.load(ACKS_KIND, ACKS_NAME)
        try:
            found = json.loads(text or "{}")
            return {str(key): _ack(value) for key, value in found.items()}
        except DAMAGED:
            return {}

    def put(self, key: str, ack: Ack) -> Acks:
        """Add an acknowledgement and return all of them; deletes entries older than a week."""
        return self._change(lambda found: found | {key: ack}, ack.at)

    def remove(self, key: str, now: datetime) -> Acks:
        """Remove an acknowledgement and return the remaining ones."""
        return self._change(lambda found: {name: ack for name, ack in found.items() if name != key}, now)

    def end(self, keys: Collection[str], now: datetime) -> Acks:
        """Remove the acknowledgements of alerts that have ended; silences remain until their end."""
        return self._change(lambda found: without(found, keys), now)

    def _change(self, change: Callable[[Acks], Acks], now: datetime) -> Acks:
        with self._folder.locked(ACKS_KIND, ACKS_NAME, _ACKS_LOCK_SECONDS):
            found = {key: ack for key, ack in change(self.read()).items() if (ack.until or ack.at) > now - ACKS_KEPT}
            self._files.save(ACKS_KIND, ACKS_NAME, codec.text_of(found))
            return found


def left_behind(acks: Mapping[str, Ack], over: Mapping[str, datetime]) -> frozenset[str]:
    """Return the keys of the alerts in `over` that were acknowledged before they ended."""
    old = [(name, ack.at) for name, ack in acks.items() if ack.until is None]
    return frozenset(key for key, at in over.items() if any(_is_of(name, (key,)) and said <= at for name, said in old))


def without(acks: Mapping[str, Ack], keys: Collection[str]) -> Acks:
    """Return the acknowledgements except those of the given alerts; silences are always included."""
    return {key: ack for key, ack in acks.items() if ack.until is not None or not _is_of(key, keys)}


def ended(acks: Acks, keys: Collection[str]) -> bool:
    """Return whether `acks` contains an acknowledgement of an alert in `keys`, the alerts that have ended."""
    return len(without(acks, keys)) < len(acks)


def _is_of(key: str, keys: Collection[str]) -> bool:
    """Return whether an acknowledgement's key belongs to one of these alert keys (`Fault.ack_keys`)."""
    return key.rsplit("\x1f", 2)[0] in keys


def _ack(value: object) -> Ack:
    made = codec.record_of(Ack, value)
    codec.aware(made.at, made.until)
    return made
