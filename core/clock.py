"""The only user of `time` and `random` in the core's decisions: everything else is told the time."""

from __future__ import annotations

import random
import time
from datetime import datetime, timezone
from typing import Protocol


class Clock(Protocol):
    """Now, in three ways, and chance."""

    def monotonic(self) -> float:
        """Seconds that never go back: for deadlines and durations."""

    def utc(self) -> datetime:
        """This host's wall clock, for records only; never compared between machines."""

    def random(self) -> float:
        """A number in [0, 1), for jitter."""


class SystemClock:
    """The real clock; seeded only to make a run repeatable."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311  jitter, not a secret

    def monotonic(self) -> float:
        return time.monotonic()

    def utc(self) -> datetime:
        return datetime.now(timezone.utc)

    def random(self) -> float:
        return self._random.random()
