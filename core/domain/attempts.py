"""What is remembered of failures since the last success: how many, on which side, for how long."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class History:
    """Failures since the last success, counted by `after`; a success resets to `NO_HISTORY`.

    `elapsed` is the seconds since the first of them, on a monotonic clock: the caller's to set before it asks.
    """

    failures: int = 0
    source: int = 0
    sink: int = 0
    access: int = 0
    login: int = 0
    unknown: int = 0
    long: int = 0
    elapsed: float = 0.0


NO_HISTORY = History()
"""What a success leaves behind."""
