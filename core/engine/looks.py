"""When to look at which idle lane: all DNs in one query, or each by itself while one of them does not answer. Pure.

A DN that hangs must not hold back a look at another. Next door: `attend.py` carries the looks out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

ALL_AGAIN = 30.0
"""Seconds between looks at all DNs, beside those at each, while one of them does not answer."""


@dataclass(frozen=True, slots=True)
class Due:
    """The looks to take now: one query at all DNs for these lanes (None: no such query), and these by themselves."""

    together: tuple[str, ...] | None = None
    alone: tuple[str, ...] = ()


class Looks:
    """Which looks are under way, and when the next ones are due; times are monotonic seconds."""

    def __init__(self) -> None:
        self._together = False
        self._alone: set[str] = set()
        self._apart = False
        self._all_again_at = 0.0
        self._next_at = 0.0
        self._rests_until = 0.0
        self._empty_rounds = 0

    def due(self, idle: Collection[str], now: float) -> Due:
        """The looks to take now, which are under way from here on."""
        free = tuple(name for name in idle if name not in self._alone)
        if self._apart:
            again = not self._together and now >= self._all_again_at
            self._together |= again
            alone = free if now >= self._next_at else ()
            self._alone.update(alone)
            return Due(() if again else None, alone)
        if not free or self._together or now < max(self._next_at, self._rests_until):
            return Due()
        self._together = True
        return Due(free)

    def together_failed(self, now: float) -> None:
        """The query at all DNs failed: each is looked at by itself from now on."""
        self._next_at = self._next_at if self._apart else 0.0
        self._together, self._apart = False, True
        self._all_again_at = now + ALL_AGAIN

    def together_ended(self, rests_until: float = 0.0) -> None:
        """All DNs answered; no query at all of them before `rests_until`, however soon one is wanted."""
        self._together = self._apart = False
        self._rests_until = rests_until

    def alone_ended(self, name: str) -> None:
        """This DN answered, or the look at it failed."""
        self._alone.discard(name)

    def paced(self, found: bool, now: float, sleep_ms: int, max_sleep_ms: int) -> None:
        """Set the time of the next round: `found` where a lane is due, so that the next pause is the shortest."""
        self._empty_rounds = 0 if found else self._empty_rounds + (not self._alone)
        self._next_at = now + look_pause(self._empty_rounds, sleep_ms, max_sleep_ms)

    def soon(self, at: float) -> None:
        """The next round no later than that."""
        self._next_at = min(self._next_at, at)

    def busy(self) -> None:
        """Rows were applied: the pauses begin anew."""
        self._empty_rounds = 0


def look_pause(empty_rounds: int, sleep_ms: int, max_sleep_ms: int) -> float:
    """Seconds between looks: `binlog_sleep_time` x consecutive empty rounds, at most `binlog_max_sleep_time`.

    >>> look_pause(1, 500, 10_000), look_pause(3, 500, 10_000), look_pause(99, 500, 10_000)
    (0.5, 1.5, 10.0)
    """
    return min(sleep_ms * max(1, empty_rounds), max_sleep_ms) / 1000
