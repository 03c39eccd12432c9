"""A job's log file, written by the driver and its processes, truncated by the supervisor, and searched for errors.

The writers have the file itself open for appending instead of a pipe to the supervisor, so that their stderr still
works if the supervisor is killed. All of them would continue to write to a renamed file (a JVM and its workers cannot
be asked to reopen it), so the file is copied and then truncated; writers that append continue at the new end. Text that
is written between the last copied block and the truncation is lost; that is acceptable, because the state store has the
official record.

A JVM that ends for lack of memory or because of its own error reports that on its stderr, which is the job's log (java,
the options -XX:+ExitOnOutOfMemoryError and -XX:ErrorFile). A killed JVM reports nothing; in that case, the driver
reports that the JVM has exited.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path

from slotkeeper.core.bounded import end_in
from slotkeeper.core.domain.text import piece, safe
from slotkeeper.core.state.faults import NoRoom, StateError, cannot_read
from slotkeeper.core.state.folder import StateFolder, opened_alone

_LONGEST = 2_000
SHOWN_BYTES = 8 * 1024 * 1024
"""Maximum number of bytes read from the end of a log; lines are limited to `_LONGEST` bytes."""


def rotate(folder: StateFolder, job: str, most_bytes: int, files: int) -> bool:
    """Keep the log below `most_bytes`, in at most `files` files; return True if it was truncated.

    Raises StateError if it is a link or not a regular file. If a full disk has no space for the copy, the log is
    truncated without a copy.
    """
    log = folder.log(job)
    try:
        reading = folder.open_to_read(log)
    except FileNotFoundError:
        return False
    with os.fdopen(reading, "rb") as source:
        if os.fstat(reading).st_size < most_bytes:
            return False
        older = [log.with_name(f"{log.name}.{number}") for number in range(1, files)]
        for newer, later in reversed(list(pairwise(older))):
            with suppress(FileNotFoundError):
                newer.rename(later)
        if older:
            with suppress(OSError, NoRoom):
                folder.remove(older[0])
                with os.fdopen(folder.append(older[0]), "wb") as writing:
                    shutil.copyfileobj(source, writing, 1024 * 1024)
    descriptor = folder.append(log)
    os.ftruncate(descriptor, 0)
    os.close(descriptor)
    return True


def say(folder: StateFolder, job: str, text: str) -> None:
    """Write a supervisor's line to the log; a failed write is ignored, because the log is only informational."""
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    with suppress(OSError, StateError):
        descriptor = folder.append(folder.log(job))
        try:
            os.write(descriptor, f"{now} supervisor {os.getpid()} {safe(text)}\n".encode())
        finally:
            os.close(descriptor)


def last_lines(path: Path, count: int) -> list[str]:
    """Return a log's last lines, as printable text; raises StateError if it is a link or not a regular file."""
    try:
        with os.fdopen(opened_alone(path), "rb") as reading:
            content = end_in(reading, min(count * _LONGEST, SHOWN_BYTES))[0]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise cannot_read(path, error) from error
    found = []
    for line in content.splitlines(keepends=True)[-count:]:
        text = line.rstrip(b"\r\n")
        whole = len(text) <= _LONGEST and text != line  # otherwise truncated or incomplete
        found.append(safe(text, _LONGEST) if whole else piece(text[:_LONGEST], _LONGEST))
    return found


LAST_WORDS_LINES = 200
"""The number of lines that are read from a log's end."""
_DRIVER_STARTED = re.compile(r"supervisor \d+ driver started, pid \d+")
_JAVA = re.compile(
    r"(java\.lang\.(?:OutOfMemoryError|StackOverflowError|InternalError)\b.*"
    r"|There is insufficient memory for the Java Runtime Environment.*"
    r"|(?:Error occurred during initialization of VM|Could not reserve enough space).*"
    r"|SIG(?:SEGV|BUS|ILL|FPE|ABRT) \(0x[0-9a-f]+\).*)"
)
_OURS = "slotkeeper: "
_MOST_WORDS = 200


def last_words(lines: Sequence[str]) -> str:
    """Return the last error since the last driver start, preferably from the Java process; "" if there is none.

    >>> last_words(["12:00 supervisor 7 driver started, pid 9", "slotkeeper: Spark's Java process is gone"])
    "Spark's Java process is gone"
    >>> last_words(["java.lang.OutOfMemoryError: Java heap space", "slotkeeper: Spark's Java process is gone"])
    'java.lang.OutOfMemoryError: Java heap space'
    """
    began = next((at for at in range(len(lines) - 1, -1, -1) if _DRIVER_STARTED.search(lines[at])), -1)
    mine = lines[began + 1 :]
    java = next((found[1] for line in reversed(mine) if (found := _JAVA.search(line))), "")
    ours = next((line.removeprefix(_OURS) for line in reversed(mine) if line.startswith(_OURS)), "")
    return (java or ours)[:_MOST_WORDS].strip()
