"""The moment of an event as a person reads it: UTC, as everything here says it, and the clock on their wall beside it.

What a program reads stays UTC.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

FULL = "%Y-%m-%dT%H:%M:%S"
SHORT = "%m-%d %H:%M:%S"
CLOCK = "%H:%M:%S"


def both(moment: datetime, form: str = FULL) -> str:
    """UTC in this form, and the local time with its offset where this machine (TZ, or /etc/localtime) has another.

    The day is said where it is another one.

    >>> both(datetime(2026, 1, 31, 23, 30, tzinfo=timezone.utc)).partition(" ")[0]
    '2026-01-31T23:30:00Z'
    """
    utc = moment.astimezone(timezone.utc)
    return f"{utc:{form}}Z{_beside(utc, utc.astimezone())}"


def _beside(utc: datetime, here: datetime) -> str:
    """The local time in brackets, "" where it is UTC.

    >>> there = timezone(timedelta(hours=1))
    >>> late = datetime(2026, 1, 31, 23, 30, tzinfo=timezone.utc)
    >>> _beside(late, late.astimezone(there)), _beside(late, late)
    (' (02-01 00:30:00+01:00)', '')
    """
    offset = here.utcoffset() or timedelta(0)
    if not offset:
        return ""
    sign, minutes = ("-", -offset) if offset < timedelta(0) else ("+", offset)
    hours, rest = divmod(int(minutes.total_seconds()) // 60, 60)
    day = "" if here.date() == utc.date() else f"{here:%m-%d} "
    return f" ({day}{here:%H:%M:%S}{sign}{hours:02d}:{rest:02d})"
