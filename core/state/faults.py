"""What can go wrong with the state store, told with the file's name and the way out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slotkeeper.core.errors import Busy, Refused
from slotkeeper.core.state.disk import NO_ROOM, full, read_only


class StateError(Refused):
    """The state folder or its file cannot be used; the message names it, the hint says the way out."""


WAY_OUT = (
    "no position is lost with it (that is the progress row in the sink): stop the jobs, move the file away "
    "with its -wal and -shm, and start the jobs again"
)
"""What to do about a state file that cannot be read."""


PLANTED = "find out who put it there, and remove it"
"""What to do about a link or a FIFO among our files."""
_WHEN_FULL = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")
"""What SQLite says on a full disk: FULL for a page; IOERR and CANTOPEN where -wal or -shm cannot grow or be made
(rescode.html)."""
FREE_IT = "free some space there; running jobs go on, and `slotkeeper jobs stop JOB` still ends one"
"""What to do about a full disk."""


REMOUNT = "see `dmesg` for the disk's errors, have it repaired, and mount it again for writing"
"""What to do about a file system that is read-only: Linux remounts ext4 so after an error (mount(8), errors=)."""


class NoRoom(StateError):
    """Something could not be written because its disk is full; the message says which."""


def cannot_write(path: Path, error: OSError, what: str = "") -> StateError:
    """The error for a file that cannot be written or made; `what` names it in front of its path."""
    place = full(path, certain=error.errno in NO_ROOM)
    if place:
        return NoRoom(f"{what}{path} cannot be written: {place}", FREE_IT, cause=str(error))
    locked = read_only(path)
    why, hint = (locked, REMOUNT) if locked else (_why(error), "set its rights")
    return StateError(f"{what}{path} cannot be written: {why}", hint, cause=str(error))


def cannot_read(path: Path, error: OSError) -> StateError:
    """The error for a file that cannot be read."""
    return StateError(f"{path} cannot be read: {_why(error)}", "set its rights", cause=str(error))


def _why(error: OSError) -> str:
    return error.strerror or type(error).__name__


@contextmanager
def translated(file: Path) -> Iterator[None]:
    """Raise SQLite's errors as ours: Busy where waiting helps, StateError with the file's name otherwise."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", "") or type(error).__name__
        text = str(error)
        if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise Busy(f"state file {file} is locked by another process", code=code, cause=text) from error
        if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")) or "malformed" in text:
            raise StateError(f"state file {file} is damaged: {text}", WAY_OUT, code, cause=text) from error
        place = full(file, certain=code.startswith("SQLITE_FULL")) if code.startswith(_WHEN_FULL) else ""
        if place:
            raise NoRoom(f"state file {file} cannot be written: {place}", FREE_IT, code, cause=text) from error
        if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_IOERR", "SQLITE_AUTH")):
            locked = read_only(file)
            hint = REMOUNT if locked else "check the folder's owner, rights and disk; WAL needs a local file system"
            raise StateError(f"state file {file} cannot be used: {locked or text}", hint, code, cause=text) from error
        raise StateError(f"state file {file}: {text}", WAY_OUT, code, cause=text) from error
