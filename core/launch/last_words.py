"""What a driver, or the Java process below it, said of its own death, out of the end of a job's log. Pure.

A JVM that ends for want of memory or by a fault of its own says so on its stderr, which is the job's log (java, the
options -XX:+ExitOnOutOfMemoryError and -XX:ErrorFile); one that was killed says nothing, and the driver then says that
it is gone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LINES = 200
"""So many lines of a log's end are read."""
_BEGAN = re.compile(r"supervisor \d+ driver started, pid \d+")
_JAVA = re.compile(
    r"(java\.lang\.(?:OutOfMemoryError|StackOverflowError|InternalError)\b.*"
    r"|There is insufficient memory for the Java Runtime Environment.*"
    r"|(?:Error occurred during initialization of VM|Could not reserve enough space).*"
    r"|SIG(?:SEGV|BUS|ILL|FPE|ABRT) \(0x[0-9a-f]+\).*)"
)
_OURS = "slotkeeper: "
_MOST = 200


def last_words(lines: Sequence[str]) -> str:
    """Its own words since the last driver began, the Java process's before the driver's; "" where it said nothing.

    >>> last_words(["12:00 supervisor 7 driver started, pid 9", "slotkeeper: Spark's Java process is gone"])
    "Spark's Java process is gone"
    >>> last_words(["java.lang.OutOfMemoryError: Java heap space", "slotkeeper: Spark's Java process is gone"])
    'java.lang.OutOfMemoryError: Java heap space'
    """
    began = next((at for at in range(len(lines) - 1, -1, -1) if _BEGAN.search(lines[at])), -1)
    mine = lines[began + 1 :]
    java = next((found[1] for line in reversed(mine) if (found := _JAVA.search(line))), "")
    ours = next((line.removeprefix(_OURS) for line in reversed(mine) if line.startswith(_OURS)), "")
    return (java or ours)[:_MOST].strip()
