"""The rate limit of a job's copy, in rows and in bytes per second. Pure.

A copy limits the rows that it reads, so that the source serves its other clients. The tasks of a copy share the limit:
each task paces itself within its chunks, and the driver credits the time between two tasks to the next one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LEAST_ROWS, LEAST_BYTES = 100, 64 << 10
"""The lowest limits: below them, a chunk would exceed its time limit, because it is one statement at the source."""
BURST = 1.0
"""Seconds of unused budget that a task can use later; more would be a burst above the limit."""
CHUNK_SECONDS, CHUNK_ROWS, ROW_BYTES = 1.0, 1_000, 1 << 10
"""The seconds of a planned chunk of a limited copy, its fewest rows, and the assumed size of a row in bytes."""
TASK_ROWS, TASK_BYTES = 10.0, 1 << 20
"""A chunk planned earlier lasts at most about this many seconds per task, and each task gets this many bytes/s."""
_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE = re.compile(r"([0-9]{1,15})\s*(B|KiB|MiB|GiB|)")


def size_of(text: str) -> int:
    """Return the number of bytes in a size such as "10MiB"; raises ValueError.

    >>> size_of("10MiB"), size_of("65536"), size_of("64 KiB")
    (10485760, 65536, 65536)
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError('must be a size such as "512KiB" or "10MiB", or a number of bytes')
    return int(found[1]) * _UNITS[found[2]]


def size_text(size: int) -> str:
    """Return the shortest text that `size_of` converts to this number of bytes.

    >>> size_text(10 << 20), size_text(1536), size_text(1000)
    ('10 MiB', '1536 B', '1000 B')
    """
    unit = next(unit for unit in reversed(_UNITS) if size % _UNITS[unit] == 0 and size >= _UNITS[unit])
    return f"{size // _UNITS[unit]} {unit}"


@dataclass(frozen=True, slots=True)
class CopyLimit:
    """The limit of a job's copy; None: no limit. Bytes are those of the values as text."""

    rows: int | None = None
    bytes: int | None = None

    @property
    def limits(self) -> bool:
        """Whether there is a limit."""
        return self.rows is not None or self.bytes is not None

    @property
    def text(self) -> str:
        """The limit as shown to users; "" without a limit.

        >>> CopyLimit(5_000).text, CopyLimit(None, 10 << 20).text, CopyLimit(5_000, 10 << 20).text, CopyLimit().text
        ('limited to 5,000 rows/s', 'limited to 10 MiB/s', 'limited to 5,000 rows/s and 10 MiB/s', '')
        """
        rows = [] if self.rows is None else [f"{self.rows:,} rows/s"]
        sizes = [] if self.bytes is None else [f"{size_text(self.bytes)}/s"]
        return f"limited to {' and '.join(rows + sizes)}" if self.limits else ""

    def seconds(self, rows: float, size: float) -> float:
        """Return the seconds that these rows and bytes take at this limit.

        >>> CopyLimit(5_000, 1_000).seconds(10_000, 1_000), CopyLimit().seconds(10_000, 1_000)
        (2.0, 0.0)
        """
        return max(rows / self.rows if self.rows else 0.0, size / self.bytes if self.bytes else 0.0)

    def chunk_rows(self, most: int) -> int:
        """Return the rows per chunk of a copy that starts with this limit: a changed limit applies between chunks.

        >>> CopyLimit().chunk_rows(50_000), CopyLimit(5_000).chunk_rows(50_000), CopyLimit(100).chunk_rows(50_000)
        (50000, 5000, 1000)
        """
        per_second = min(
            self.rows if self.rows is not None else most, self.bytes // ROW_BYTES if self.bytes is not None else most
        )
        return min(most, max(CHUNK_ROWS, int(per_second * CHUNK_SECONDS)))

    def tasks(self, chunk_rows: int, most: int) -> int:
        """Return how many tasks share the limit: few enough that no chunk of one task exceeds its time limit.

        >>> CopyLimit().tasks(50_000, 4), CopyLimit(100).tasks(50_000, 4), CopyLimit(10_000).tasks(20_000, 8)
        (4, 1, 5)
        """
        by_rows = most if self.rows is None else int(self.rows * TASK_ROWS / max(1, chunk_rows))
        by_bytes = most if self.bytes is None else self.bytes // TASK_BYTES
        return max(1, min(most, by_rows, by_bytes))


NO_LIMIT = CopyLimit()


class Pace:
    """The pace of one task, whose limit is the copy's limit divided by `parts`; callers pass the current time.

    `credit`: seconds of budget from before the task; negative if the tasks before it used more than their share.
    """

    def __init__(self, limit: CopyLimit, parts: float, credit: float, now: float) -> None:
        self._limit, self._parts, self._earned_at = limit, parts, now - credit
        self.spent = 0.0
        """The seconds of budget that the task has used."""

    def wait(self, rows: int, size: int, now: float) -> float:
        """Return the seconds to wait before these rows are passed on.

        >>> pace = Pace(CopyLimit(1_000), 2, 0.0, 100.0)
        >>> pace.wait(250, 0, 100.0), pace.wait(250, 0, 100.5), pace.wait(500, 0, 110.0)
        (0.5, 0.5, 0.0)
        """
        seconds = self._limit.seconds(rows * self._parts, size * self._parts)
        self.spent += seconds
        self._earned_at = max(self._earned_at, now - BURST) + seconds
        return max(0.0, self._earned_at - now)


@dataclass(frozen=True, slots=True)
class Share:
    """The share of one task: the number of equal parts, the time up to which they are used, and the credit in them."""

    of: int
    used_to: float
    credit: float


class Shares:
    """The budget of the tasks of one copy in equal parts; the driver assigns them and takes them back.

    Time that passes between two tasks is credited to the next.
    """

    def __init__(self, number: int, now: float) -> None:
        self._free = [now] * number
        self.number = number

    def take(self, now: float, tasks: int) -> Share:
        """Return the share of a new task. If fewer tasks can still start than shares are free, they divide these
        shares.

        `tasks`: how many tasks can still start, including this one. Raises ZeroDivisionError if no share is free.

        >>> shares = Shares(2, 100.0)
        >>> first, last = shares.take(100.5, 7), shares.take(100.5, 7)
        >>> shares.give_back(first, 3.0), shares.give_back(last, 3.0)
        (None, None)
        >>> first, shares.take(103.5, 1)
        (Share(of=1, used_to=100.0, credit=0.5), Share(of=2, used_to=103.0, credit=0.5))
        """
        self._free.sort()
        count = max(1, len(self._free) // max(1, tasks))
        taken, self._free = self._free[:count], self._free[count:]
        used_to = sum(max(one, now - BURST) for one in taken) / len(taken)
        return Share(count, used_to, now - used_to)

    def give_back(self, share: Share, spent: float) -> None:
        """Return a share, of which the task has used `spent` seconds."""
        self._free += [share.used_to + spent] * share.of

    @property
    def free(self) -> bool:
        """Whether another task can start."""
        return bool(self._free)
