"""Wait for a condition, never for a time. Next door: `tests.support.standin` (servers and warehouses)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], seconds: float, what: str) -> T:
    """Ask `condition` again and again until its answer is true, and return that; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    pause = 0.002
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
