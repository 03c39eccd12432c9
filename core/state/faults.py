"""Errors of the state folder and its files. The messages name the file, the disk and the fix."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slotkeeper.core.errors import Busy, Refused

FULL_BYTES = 65_536
"""A disk with fewer free bytes than this counts as full: SQLite writes pages of 4 KiB and extends its log's index in
steps of 32 KiB (wal.html)."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of write(2): no space left, quota exceeded, or file too large."""


def full(path: Path, certain: bool = False) -> str:
    """Return a message that names the full disk, or "" if it has space; set `certain` if a write has just failed.

    >>> full(Path("/proc/self"), certain=True).startswith("the disk at /proc accepts no more data")
    True
    """
    place = next((one for one in (path, *path.parents) if one.exists()), Path(os.sep))
    found, mount = os.statvfs(place), _mount_point(place)
    free = _free(found)
    sizes = f"{_in_words(free)} of {_in_words(found.f_blocks * found.f_frsize)} free"
    if found.f_blocks and free < FULL_BYTES:
        return f"the disk at {mount} is full ({sizes})"
    if found.f_files and found.f_favail == 0:
        return f"the disk at {mount} has no inodes left (all {found.f_files} in use)"
    return f"the disk at {mount} accepts no more data ({sizes}): check quotas and file size limits" if certain else ""


def read_only(path: Path) -> str:
    """Return a message that names the read-only file system, or "" if it is writable (statvfs(3): ST_RDONLY).

    >>> read_only(Path("/proc/self"))
    ''
    """
    place = next((one for one in (path, *path.parents) if one.exists()), Path(os.sep))
    if not os.statvfs(place).f_flag & os.ST_RDONLY:
        return ""
    return f"the file system at {_mount_point(place)} is read-only"


def free_bytes(path: Path) -> int:
    """Return the number of bytes that this process can still write to the disk of a path; raises OSError."""
    return _free(os.statvfs(path))


def _free(found: os.statvfs_result) -> int:
    """Return the number of free bytes; for root, this includes the disk's reserved space."""
    return (found.f_bfree if os.geteuid() == 0 else found.f_bavail) * found.f_frsize


def _mount_point(place: Path) -> Path:
    """Return the mount point of the disk: the highest folder above a path on the same device."""
    here = place.resolve()
    device = here.stat().st_dev
    while here.parent != here and here.parent.stat().st_dev == device:
        here = here.parent
    return here


def _in_words(size: float) -> str:
    """Format a number of bytes with its unit.

    >>> _in_words(0), _in_words(70_000), _in_words(3 << 30)
    ('0 bytes', '68.4 KiB', '3.0 GiB')
    """
    if size < 1024:
        return f"{size:.0f} bytes"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


class StateError(Refused):
    """The state folder or a file in it cannot be used; the message names it, the hint gives the fix."""


WAY_OUT = (
    "stop the jobs, move the file away with its -wal and -shm, and start the jobs again: it contains no positions; the"
    " sink's progress rows contain them"
)
"""The hint for a state file that cannot be read."""


PLANTED = "find out which user created it, and remove it"
"""The hint for a link or a FIFO in place of one of Slotkeeper's files."""
_WHEN_FULL = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")
"""SQLite's errors on a full disk: FULL if a page cannot be written; IOERR and CANTOPEN if -wal or -shm cannot grow or
be created (rescode.html)."""
FREE_IT = "free disk space there; running jobs continue, and `slotkeeper jobs stop JOB` still works"
"""The hint for a full disk."""


REMOUNT = "see `dmesg` for the disk's errors, repair it, and remount it read-write"
"""The hint for a read-only file system: Linux remounts ext4 read-only after an error (mount(8), errors=)."""


class NoRoom(StateError):
    """A file cannot be written because its disk is full; the message names the disk."""


def cannot_write(path: Path, error: OSError, what: str = "") -> StateError:
    """Return the error for a file that cannot be written or created; `what` precedes the path in the message."""
    place = full(path, certain=error.errno in NO_ROOM)
    if place:
        return NoRoom(f"{what}{path} cannot be written: {place}", FREE_IT, cause=str(error))
    locked = read_only(path)
    why, hint = (locked, REMOUNT) if locked else (_why(error), "set its permissions")
    return StateError(f"{what}{path} cannot be written: {why}", hint, cause=str(error))


def cannot_read(path: Path, error: OSError) -> StateError:
    return StateError(f"{path} cannot be read: {_why(error)}", "set its permissions", cause=str(error))


def _why(error: OSError) -> str:
    return error.strerror or type(error).__name__


@contextmanager
def translated(file: Path) -> Iterator[None]:
    """Convert SQLite's errors to Busy if a retry can succeed, otherwise to StateError with the file's name."""
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
            hint = REMOUNT if locked else "check the folder's owner, mode and disk; WAL needs a local file system"
            raise StateError(f"state file {file} cannot be used: {locked or text}", hint, code, cause=text) from error
        raise StateError(f"state file {file}: {text}", WAY_OUT, code, cause=text) from error
