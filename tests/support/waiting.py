"""Wait for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


PATIENCE = 4.0
"""The factor by which a wait exceeds the time on an idle host: a deadline costs time only if a test fails."""
MOST = 240.0
"""The maximum seconds of such a wait: each test has a limit as a whole."""


def until(condition: Callable[[], T | None], seconds: float, what: str, every: float = 0.0) -> T:
    """Call `condition` repeatedly until its answer is true, and return the answer; AssertionError after a multiple of
    `seconds`, which are those of an idle host.

    It is called at most once in `every` seconds.
    """
    seconds = max(seconds, min(PATIENCE * max(seconds, 10.0), MOST))
    deadline = time.monotonic() + seconds
    pause = max(0.002, every)
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(pause)
        pause = max(every, min(pause * 1.5, 0.05))
