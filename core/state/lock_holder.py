"""Who holds a lock of the state folder and since when: written into the lock's own file for as long as it is held.

The kernel frees a lock when its holder dies, not when it is stopped by a signal: then others have to be able to say
who it is. What a killed holder left is of a process that lives no more; who has just taken the lock has said nothing
yet, and is not mistaken for who had it before, as the text is taken away before the lock is given back.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

from slotkeeper.core.domain.report import Identity
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import FolderLock, StateFolder

_MOST = 4_096


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a lock, since that moment by its clock."""

    who: Identity
    since: datetime


@dataclass(frozen=True, slots=True)
class SignedLock:
    """A lock whose holder can be read by others, until it is released or its process ends."""

    lock: FolderLock

    @classmethod
    def of(cls, lock: FolderLock, who: Identity | None, at: datetime) -> SignedLock:
        """The same lock, signed; a disk that takes nothing leaves it unsigned."""
        if who is not None:
            with suppress(OSError):
                os.ftruncate(lock.descriptor, 0)
                text = json.dumps({**asdict(who), "since": at.astimezone(timezone.utc).isoformat()})
                os.write(lock.descriptor, text.encode("utf-8"))
        return cls(lock)

    def release(self) -> None:
        """Take the signature away, then give the lock back."""
        with suppress(OSError):
            os.ftruncate(self.lock.descriptor, 0)
        self.lock.release()


def holder_of(folder: StateFolder, job: str, what: str) -> Holder | None:
    """Who holds a lock now, as far as it says so; whether that process lives is for the caller to find out."""
    before = _read(folder, job, what)
    if before is None or not folder.is_locked(job, what) or _read(folder, job, what) != before:
        return None
    return before


def _read(folder: StateFolder, job: str, what: str) -> Holder | None:
    with suppress(OSError, StateError, ValueError, TypeError, KeyError, RecursionError):
        text = folder.read(folder.lock_file(job, what))
        if 0 < len(text) <= _MOST:
            found = json.loads(text)
            since = datetime.fromisoformat(found.pop("since"))
            who = Identity(**found)
            if since.tzinfo is not None and isinstance(who.pid, int) and isinstance(who.started, str):
                return Holder(who, since)
    return None
