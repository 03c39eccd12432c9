"""Whether the disk below a path is full or read-only, and which one it is, in words."""

from __future__ import annotations

import errno
import os
from pathlib import Path

FULL_BYTES = 65_536
"""Less than this is full: SQLite writes pages of 4 KiB, and its index of the log in pieces of 32 KiB (wal.html)."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""No space left, a quota is used up, or a file would be longer than it may be: write(2)."""


def full(path: Path, certain: bool = False) -> str:
    """Which disk is full, in words, or "" where it has room; `certain` where a write has been refused for that.

    >>> full(Path("/proc/self"), certain=True).startswith("the disk at /proc takes no more")
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
    return f"the disk at {mount} takes no more ({sizes}): a quota, or a limit of file sizes?" if certain else ""


def read_only(path: Path) -> str:
    """Which file system is read-only, in words, or "" where it takes writes (statvfs(3): ST_RDONLY).

    >>> read_only(Path("/proc/self"))
    ''
    """
    place = next((one for one in (path, *path.parents) if one.exists()), Path(os.sep))
    if not os.statvfs(place).f_flag & os.ST_RDONLY:
        return ""
    return f"the file system at {_mount_point(place)} is read-only"


def free_bytes(path: Path) -> int:
    """What is left on the disk of a path for this process; raises OSError."""
    return _free(os.statvfs(path))


def _free(found: os.statvfs_result) -> int:
    """Root may use what a disk keeps for it."""
    return (found.f_bfree if os.geteuid() == 0 else found.f_bavail) * found.f_frsize


def _mount_point(place: Path) -> Path:
    """The folder that the disk is mounted at: the highest one above a path on the same device."""
    here = place.resolve()
    device = here.stat().st_dev
    while here.parent != here and here.parent.stat().st_dev == device:
        here = here.parent
    return here


def _in_words(size: float) -> str:
    """A number of bytes.

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
