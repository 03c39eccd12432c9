"""The only user of `time` and `random` in the core's decisions: everything else gets the time from its caller."""

from __future__ import annotations

import random
import sys
import time
from datetime import datetime, timezone
from typing import Protocol


class Clock(Protocol):
    """Now, in three ways, and chance."""

    def monotonic(self) -> float:
        """Seconds that never go back, those of a suspended machine among them: for deadlines and durations."""

    def utc(self) -> datetime:
        """This host's wall clock, for records only; never compared between machines."""

    def random(self) -> float:
        """A number in [0, 1), for jitter."""


def monotonic() -> float:
    """Seconds since the machine started, those in which it was suspended among them where the system can tell.

    A server continues while this host sleeps: Linux's CLOCK_MONOTONIC stops then, CLOCK_BOOTTIME does not
    (https://man7.org/linux/man-pages/man2/clock_gettime.2.html).
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


class SystemClock:
    """The real clock; seeded only to make a run repeatable."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311  jitter, not a secret

    def monotonic(self) -> float:
        return monotonic()

    def utc(self) -> datetime:
        return datetime.now(timezone.utc)

    def random(self) -> float:
        return self._random.random()
