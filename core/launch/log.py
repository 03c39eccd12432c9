"""A job's log file: written by the driver and all it starts, bounded by the supervisor.

The writers hold the file itself, opened to append, not a pipe to the supervisor: a killed supervisor must break
nobody's stderr. A file that is renamed away would be written on by all of them (a JVM and its workers cannot be told
to open anew), so it is copied and then cut: writers that append go on at the new end. What is written between the
last piece copied and the cut is lost; the log is for reading, the record is in the state store.
"""

from __future__ import annotations

import os
import shutil
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path

from core.bounded import end_of
from core.domain.text import safe
from core.state.folder import StateFolder

_LONGEST = 2_000
SHOWN_BYTES = 8 * 1024 * 1024
"""So much of a log's end is read at most, and of a line `_LONGEST` bytes."""


def rotate(folder: StateFolder, job: str, most_bytes: int, files: int) -> bool:
    """Keep the log below `most_bytes` and at most `files` files of it; True where it was cut."""
    log = folder.log(job)
    try:
        if log.stat().st_size < most_bytes:
            return False
    except FileNotFoundError:
        return False
    older = [log.with_name(f"{log.name}.{number}") for number in range(1, files)]
    for newer, later in reversed(list(pairwise(older))):
        if newer.exists():
            newer.replace(later)
    if older:
        older[0].unlink(missing_ok=True)
        copy = folder.append(older[0])
        with log.open("rb") as reading, os.fdopen(copy, "wb") as writing:
            shutil.copyfileobj(reading, writing, 1024 * 1024)
    descriptor = folder.append(log)
    os.ftruncate(descriptor, 0)
    os.close(descriptor)
    return True


def say(folder: StateFolder, job: str, text: str) -> None:
    """A line of the supervisor's own."""
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    descriptor = folder.append(folder.log(job))
    try:
        os.write(descriptor, f"{now} supervisor {os.getpid()} {safe(text)}\n".encode())
    finally:
        os.close(descriptor)


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a log, every hostile byte visible."""
    try:
        lines = end_of(path, min(count * _LONGEST, SHOWN_BYTES))[0].splitlines()
    except FileNotFoundError:
        return []
    return [safe(line[:_LONGEST], _LONGEST) for line in lines[-count:]]
