"""A clock for tests that does not advance until it is moved."""

from __future__ import annotations

from datetime import datetime, timezone


class Hand:
    """A clock that does not advance until it is moved."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def utc(self) -> datetime:
        return datetime.now(timezone.utc)

    def random(self) -> float:
        return 0.5
