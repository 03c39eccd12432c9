"""Whether this console may change anything: read-only at first, armed for ten minutes by a person with
a reason. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

LASTS = timedelta(minutes=10)
IDLE = timedelta(minutes=5)
_LEAST = 3
FORBIDDEN = "this console was started with --read-only: nothing can be changed from here"


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment by both clocks of this host: one may be set, the other does not count a machine that sleeps."""

    utc: datetime
    monotonic: float

    def since(self, past: Instant) -> float:
        """Seconds since then, by the clock that counts more of them."""
        return max((self.utc - past.utc).total_seconds(), self.monotonic - past.monotonic)


@dataclass(frozen=True, slots=True)
class Arming:
    """Somebody said why, and when; it holds for ten minutes by either clock."""

    reason: str
    since: Instant

    def countdown(self, now: Instant) -> str:
        """What is left of it.

        >>> at = datetime(2026, 1, 1)
        >>> Arming("INC-1", Instant(at, 0.0)).countdown(Instant(at + timedelta(seconds=19), 19.0))
        '9:41'
        """
        left = max(0, int(LASTS.total_seconds() - now.since(self.since)))
        return f"{left // 60}:{left % 60:02}"

    def ended(self, now: Instant, touched: Instant) -> str:
        """Why it does not hold any more, where `touched` is the time of the last key; "" while it holds."""
        if now.since(self.since) >= LASTS.total_seconds():
            return "read-only again: ten minutes are over"
        return "read-only again: no key for five minutes" if now.since(touched) >= IDLE.total_seconds() else ""


def refusal(reason: str, read_only: bool) -> str:
    """Why that cannot arm; "" where it can.

    >>> refusal("INC-2304", False), refusal(" x ", False), bool(refusal("INC-2304", True))
    ('', 'say why: `:rw REASON`, at least 3 characters', True)
    """
    if read_only:
        return FORBIDDEN
    return "" if len(reason.strip()) >= _LEAST else f"say why: `:rw REASON`, at least {_LEAST} characters"


def armed(reason: str, now: Instant) -> Arming:
    """Armed from now on."""
    return Arming(reason.strip(), now)
