"""The memory disk for tests, if the host has one: a write that must reach a disk takes milliseconds, and a job's state,
audit and servers write often.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

DISK = Path("/dev/shm")
ROOM = 4 << 30
"""The minimum of free bytes for tests to write there; most tests create databases, each with hundreds of files."""


def memory_disk(with_programs: bool = False) -> Path | None:
    """The memory disk if it has space and, on request, if programs there may be executed."""
    if not DISK.is_dir() or shutil.disk_usage(DISK).free < ROOM:
        return None
    return None if with_programs and os.statvfs(DISK).f_flag & os.ST_NOEXEC else DISK
