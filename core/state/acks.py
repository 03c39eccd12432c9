"""Acknowledgements of alerts and errors, in one small file of the state folder, shared by its consoles.

A damaged file counts as none: an alert too many is better than one too few.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta, timezone

from slotkeeper.core.domain.fault import Ack
from slotkeeper.core.state.alerts import DAMAGED, moment_of
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.resets import ResetFiles

KIND, NAME = "console", "acks"
KEPT = timedelta(days=7)
_LOCK_SECONDS = 2.0

Acks = dict[str, Ack]


class AckFile:
    """The acknowledgements of one state folder."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._files = ResetFiles(folder)

    def read(self) -> Acks:
        """All of them by the key of what they are about; StateError where the file cannot be read."""
        text = self._files.load(KIND, NAME)
        try:
            found = json.loads(text or "{}")
            return {str(key): _parsed(value) for key, value in found.items()}
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
        with self._folder.locked(KIND, NAME, _LOCK_SECONDS):
            found = {key: ack for key, ack in change(self.read()).items() if (ack.until or ack.at) > now - KEPT}
            text = json.dumps({key: _values(ack) for key, ack in found.items()})
            self._files.save(KIND, NAME, text)
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


def _values(ack: Ack) -> dict[str, str | None]:
    until = _text(ack.until) if ack.until else None
    return {"by": ack.by, "at": _text(ack.at), "until": until, "reason": ack.reason}


def _text(at: datetime) -> str:
    return at.astimezone(timezone.utc).isoformat()


def _parsed(value: dict[str, str | None]) -> Ack:
    until = value["until"]
    reason = str(value.get("reason") or "")
    return Ack(str(value["by"]), moment_of(str(value["at"])), moment_of(until) if until else None, reason)
