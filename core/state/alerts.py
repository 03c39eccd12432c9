"""What is remembered of alerts, and what people acknowledged: two small files of the state folder, each under a lock.

Supervisors share the first, consoles the second. Who holds the lock of the first says so in it, so that one that is
stopped by a signal meanwhile can be named. A damaged file counts as none: an alert too many is better than one too few.
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
"""A second file with a lock of its own, for what is sent while the process that holds the lock of the first hangs."""
DAMAGED = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What reading a foreign text raises: also one of many brackets, or of an endless number."""
LOCK, SENDER_LOCK = "evaluation", "sender"
_LOCK_SECONDS = 5.0
ACKS_KIND, ACKS_NAME = "console", "acks"
ACKS_KEPT = timedelta(days=7)
_ACKS_LOCK_SECONDS = 2.0

Acks = dict[str, Ack]


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
            raise Busy("another process holds the lock of the alert file", "`slotkeeper status` names one that hangs")
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
        """Whether a process gives notifications to the command now."""
        return self._folder.is_locked(KIND, SENDER_LOCK)


def text_of(state: AlertState) -> str:
    """The state as text."""
    outbox = [{"begun": one.begun} | notification_values(one.notification) for one in state.outbox]
    return codec.text_of({"firing": list(state.firing.values()), "outbox": outbox, "failure": state.failure})


def state_of(text: str) -> AlertState:
    """Parse the state; an empty one where the text is foreign."""
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
    """A notification as JSON values that `notification_of` reads."""
    return codec.values_of(one)


def notification_of(found: dict[str, Any]) -> Notification:
    """It again; raises ValueError for anything else."""
    made = codec.record_of(Notification, found)
    codec.aware(made.began, made.at, made.fault.since)
    return made


class AckFile:
    """The acknowledgements of one state folder."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._files = ResetFiles(folder)

    def read(self) -> Acks:
        """All of them by the key of what they are about; StateError where the file cannot be read."""
        text = self._files.load(ACKS_KIND, ACKS_NAME)
        try:
            found = json.loads(text or "{}")
            return {str(key): _ack(value) for key, value in found.items()}
        except DAMAGED:
            return {}

    def put(self, key: str, ack: Ack) -> Acks:
        """Add one; what there is afterwards. Entries older than a week go."""
        return self._change(lambda found: found | {key: ack}, ack.at)

    def remove(self, key: str, now: datetime) -> Acks:
        """Take one away; what there is afterwards."""
        return self._change(lambda found: {name: ack for name, ack in found.items() if name != key}, now)

    def end(self, keys: Collection[str], now: datetime) -> Acks:
        """Take away the acknowledgements of what has ended; a silence stays until its time."""
        return self._change(lambda found: without(found, keys), now)

    def _change(self, change: Callable[[Acks], Acks], now: datetime) -> Acks:
        with self._folder.locked(ACKS_KIND, ACKS_NAME, _ACKS_LOCK_SECONDS):
            found = {key: ack for key, ack in change(self.read()).items() if (ack.until or ack.at) > now - ACKS_KEPT}
            self._files.save(ACKS_KIND, ACKS_NAME, codec.text_of(found))
            return found


def left_behind(acks: Mapping[str, Ack], over: Mapping[str, datetime]) -> frozenset[str]:
    """The keys of alerts that were over at these moments, and of which an earlier acknowledgement still says so."""
    old = [(name, ack.at) for name, ack in acks.items() if ack.until is None]
    return frozenset(key for key, at in over.items() if any(_is_of(name, (key,)) and said <= at for name, said in old))


def without(acks: Mapping[str, Ack], keys: Collection[str]) -> Acks:
    """What was said of other alerts than these, and the silences of all."""
    return {key: ack for key, ack in acks.items() if ack.until is not None or not _is_of(key, keys)}


def ended(acks: Acks, keys: Collection[str]) -> bool:
    """Whether there is an acknowledgement among these whose alert, one of `keys`, has ended."""
    return len(without(acks, keys)) < len(acks)


def _is_of(key: str, keys: Collection[str]) -> bool:
    """Whether an acknowledgement's key begins with one of these faults' (`Fault.ack_keys`)."""
    return key.rsplit("\x1f", 2)[0] in keys


def _ack(value: object) -> Ack:
    made = codec.record_of(Ack, value)
    codec.aware(made.at, made.until)
    return made
