"""The clock and random numbers for the core's decisions; no other core module uses `time` or `random` for decisions."""

from __future__ import annotations

import random
import sys
import time
from datetime import datetime, timezone
from typing import Protocol


class Clock(Protocol):
    """Source of the current time (monotonic and UTC) and of random numbers."""

    def monotonic(self) -> float:
        """Return monotonic seconds for deadlines and durations, including time while the host is suspended."""

    def utc(self) -> datetime:
        """Return this host's wall-clock time; for records only, never compared between hosts."""

    def random(self) -> float:
        """Return a random number in [0, 1), for jitter."""


def monotonic() -> float:
    """Return the seconds since this host started, including suspended time where the system counts it.

    Servers continue to run while this host is suspended. Linux's CLOCK_MONOTONIC stops during a suspension,
    CLOCK_BOOTTIME does not (https://man7.org/linux/man-pages/man2/clock_gettime.2.html).
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


class SystemClock:
    """The system clock; pass a seed only to make a run repeatable."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311  jitter, not a secret

    def monotonic(self) -> float:
        return monotonic()

    def utc(self) -> datetime:
        return datetime.now(timezone.utc)

    def random(self) -> float:
        return self._random.random()
