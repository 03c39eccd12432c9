"""The write mode: the console is read-only until a user arms it with a reason, for ten minutes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

LASTS = timedelta(minutes=10)
IDLE = timedelta(minutes=5)
_LEAST = 3
FORBIDDEN = "this console was started with --read-only: changes are not allowed"


@dataclass(frozen=True, slots=True)
class Instant:
    """A time on both host clocks: UTC can be changed, and the monotonic clock stops while the host sleeps."""

    utc: datetime
    monotonic: float

    def since(self, past: Instant) -> float:
        """Return the seconds since `past`, by the clock that counted more."""
        return max((self.utc - past.utc).total_seconds(), self.monotonic - past.monotonic)


@dataclass(frozen=True, slots=True)
class Arming:
    """An arming with its reason and start; it ends after ten minutes on either clock."""

    reason: str
    since: Instant

    def countdown(self, now: Instant) -> str:
        """Return the remaining time.

        >>> at = datetime(2026, 1, 1)
        >>> Arming("INC-1", Instant(at, 0.0)).countdown(Instant(at + timedelta(seconds=19), 19.0))
        '9:41'
        """
        left = max(0, int(LASTS.total_seconds() - now.since(self.since)))
        return f"{left // 60}:{left % 60:02}"

    def ended(self, now: Instant, touched: Instant) -> str:
        """Return the reason why the arming has ended; "" while it lasts. `touched`: the last key press."""
        if now.since(self.since) >= LASTS.total_seconds():
            return "read-only again: the ten minutes have ended"
        return "read-only again: no key pressed for five minutes" if now.since(touched) >= IDLE.total_seconds() else ""


def refusal(reason: str, read_only: bool) -> str:
    """Return the reason why the console cannot be armed; "" if it can.

    >>> refusal("INC-2304", False), refusal(" x ", False), bool(refusal("INC-2304", True))
    ('', 'reason required: `:rw REASON`, at least 3 characters', True)
    """
    if read_only:
        return FORBIDDEN
    return "" if len(reason.strip()) >= _LEAST else f"reason required: `:rw REASON`, at least {_LEAST} characters"


def armed(reason: str, now: Instant) -> Arming:
    """Return an arming that starts now."""
    return Arming(reason.strip(), now)
