"""Wait for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


PATIENCE = 4.0
"""How many times as long as a quiet machine may need is waited: a deadline costs nothing but where a test fails."""
MOST = 240.0
"""Seconds after which no more patience is shown: each test has a limit as a whole."""


def until(condition: Callable[[], T | None], seconds: float, what: str, every: float = 0.0) -> T:
    """Ask `condition` again and again until its answer is true, and return that; AssertionError after a multiple of
    `seconds`, which are those of a machine that is not busy with others. It is not asked more often than `every`."""
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
