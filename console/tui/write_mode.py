"""Whether this console may change anything: read-only at first, armed for ten minutes by a person with a reason. Pure.

Next door: `console.tui.base_app` keeps the arming and shows what is left of it; actions ask for `app.armed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

LASTS = timedelta(minutes=10)
IDLE = timedelta(minutes=5)
_LEAST = 3
FORBIDDEN = "this console was started with --read-only: nothing can be changed from here"


@dataclass(frozen=True, slots=True)
class Arming:
    """Somebody said why, and until when it holds."""

    reason: str
    until: datetime

    def countdown(self, now: datetime) -> str:
        """What is left of it.

        >>> Arming("INC-1", datetime(2026, 1, 1, 0, 10)).countdown(datetime(2026, 1, 1, 0, 0, 19))
        '9:41'
        """
        left = max(0, int((self.until - now).total_seconds()))
        return f"{left // 60}:{left % 60:02}"

    def ended(self, now: datetime, touched: datetime) -> str:
        """Why it does not hold any more, where `touched` is the time of the last key; "" while it holds."""
        if now >= self.until:
            return "read-only again: ten minutes are over"
        if self.until - now > LASTS:  # a clock that was set back must not make it longer
            return "read-only again: the clock of this host was set back"
        return "read-only again: no key for five minutes" if now - touched >= IDLE else ""


def refusal(reason: str, read_only: bool) -> str:
    """Why that cannot arm; "" where it can.

    >>> refusal("INC-2304", False), refusal(" x ", False), bool(refusal("INC-2304", True))
    ('', 'say why: `:rw REASON`, at least 3 characters', True)
    """
    if read_only:
        return FORBIDDEN
    return "" if len(reason.strip()) >= _LEAST else f"say why: `:rw REASON`, at least {_LEAST} characters"


def armed(reason: str, now: datetime) -> Arming:
    """Armed from now on."""
    return Arming(reason.strip(), now + LASTS)
