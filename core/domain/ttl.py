"""How long a server retains a slot's unread changes, based on the slot's TTL or the age of binlog files. Pure.

An unknown time is None, never 0; an unknown name is "".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.text import whole

DEFAULT_SECONDS = 86_400
"""The documented default of `binlog_ttl`."""
LONGEST = 100 * 366 * 86_400
"""Maximum seconds of a server's setting, because dates end with the year 9999."""

WARN_BELOW, CRITICAL_BELOW = 0.5, 0.2

_OPTION = re.compile(r"(?:^|[,{\s])(\w+)\s*=\s*'?([^,}'\s]+)")


class Severity(Enum):
    """How close a slot is to expiry, based on the remaining part of its TTL."""

    FINE = "fine"
    WARN = "warn"
    CRITICAL = "critical"


class Behind(Enum):
    """Which of a slot's two points is older."""

    LIVE = "live"
    DURABLE = "durable"
    BOTH = "both"

    @property
    def words(self) -> str:
        return "both points" if self is Behind.BOTH else f"its {self.value} point"


@dataclass(frozen=True, slots=True)
class Ttl:
    """A table's `binlog_ttl`; `seconds` is None if it cannot be parsed, `default` is true if the table does not set it.

    `by_record`: the table has binlog timestamps, so each record is deleted once it is older than the TTL.
    """

    seconds: int | None
    default: bool = False
    by_record: bool = False


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """When an unconfirmed slot expires, and the remaining time in seconds; 0: it expires now."""

    expires_at: datetime
    seconds: int
    severity: Severity


def ttl_of(options: str) -> Ttl:
    """Return the TTL in a table's storage options.

    >>> ttl_of("orientation=column,enable_binlog=on,binlog_ttl=600")
    Ttl(seconds=600, default=False, by_record=False)
    >>> ttl_of("").seconds, ttl_of("").default
    (86400, True)
    """
    found = {name.lower(): value for name, value in _OPTION.findall(options)}
    by_record = found.get("enable_binlog_timestamp", "off").lower() in ("on", "true", "yes", "1")
    if "binlog_ttl" not in found:
        return Ttl(DEFAULT_SECONDS, True, by_record)
    return Ttl(seconds_of(found["binlog_ttl"]) or None, False, by_record)


def seconds_of(text: object) -> int | None:
    """Parse a server's setting as seconds, at most a century; None if it is not a whole number.

    >>> seconds_of("600"), seconds_of("9" * 18) == LONGEST, seconds_of("-1")
    (600, True, None)
    """
    number = whole(text)
    return None if number is None else min(number, LONGEST)


def left_of(registered_at: datetime | None, ttl: Ttl, now: datetime) -> TimeLeft | None:
    """Return the remaining TTL after a registration; None if the registration time or the TTL is unknown."""
    if registered_at is None or ttl.seconds is None:
        return None
    expires_at = registered_at + timedelta(seconds=ttl.seconds)
    seconds = max(0, int((expires_at - now).total_seconds()))
    return TimeLeft(expires_at, seconds, severity_of(seconds, ttl.seconds))


def severity_of(seconds: float, ttl: int) -> Severity:
    """Return the severity for the remaining seconds of a TTL.

    >>> [severity_of(left, 100).value for left in (50, 49, 20, 19)]
    ['fine', 'warn', 'warn', 'critical']
    """
    part = seconds / ttl
    return Severity.CRITICAL if part < CRITICAL_BELOW else Severity.WARN if part < WARN_BELOW else Severity.FINE


def behind_of(live: Position | None, durable: Position | None) -> Behind | None:
    """Return which point is older; None if one of them is unknown.

    On a server that stores one position per slot, both points are the same.
    """
    if live is None or durable is None:
        return None
    return Behind.LIVE if live < durable else Behind.DURABLE if durable < live else Behind.BOTH


def in_words(seconds: float) -> str:
    """Format a duration in its two largest units.

    >>> [in_words(n) for n in (5, 90, 7_200, 86_399, 200_000)]
    ['5s', '1m30s', '2h00m', '23h59m', '2d07h']
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3_600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3_600}h{whole % 3_600 // 60:02d}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3_600:02d}h"


@dataclass(frozen=True, slots=True)
class Purge:
    """A server's binlog files at `now` on the server's clock, for a slot at one position.

    `seconds`: the age at which a file can be purged, 0: no limit; `setting`: the name of that setting. `oldest`: the
    oldest existing file; `needed`: the file that contains the position; `closed_at`: the time of that file's last
    event. `written`: the server still writes to the needed file. `gtids`: the GTIDs executed at the position.
    """

    seconds: int | None
    setting: str
    oldest: str
    now: datetime
    needed: str = ""
    there: bool = True
    written: bool = False
    closed_at: datetime | None = None
    gtids: str = ""

    @property
    def from_at(self) -> datetime | None:
        """When the server can first purge the needed file; None: never, or unknown."""
        if self.closed_at is None or not self.seconds:
            return None
        return self.closed_at + timedelta(seconds=self.seconds)

    @property
    def left(self) -> int | None:
        """Seconds until `from_at`, at least 0; None if `from_at` is None."""
        return None if self.from_at is None else max(0, int((self.from_at - self.now).total_seconds()))

    @property
    def severity(self) -> Severity:
        """How close the needed file is to being purged."""
        if not self.there:
            return Severity.CRITICAL
        return Severity.FINE if self.left is None or not self.seconds else severity_of(self.left, self.seconds)

    @property
    def age_text(self) -> str:
        """The age after which the server purges files, as a sentence.

        >>> Purge(864_000, "binlog_expire_logs_seconds", "b.000001", datetime(2026, 11, 26)).age_text
        'binlogs are purged after 240 h (binlog_expire_logs_seconds)'
        """
        if self.seconds is None:
            return "the server's binlog retention is unknown"
        if not self.seconds:
            return f"binlogs are purged only by PURGE BINARY LOGS ({self.setting} is 0)"
        return f"binlogs are purged after {hours(self.seconds)} ({self.setting})"

    @property
    def file_text(self) -> str:
        """The state of the needed file, as a sentence; "" if the file is unknown."""
        if not self.needed:
            return ""
        what = f"the oldest binlog that the job needs is {self.needed}"
        if not self.there:
            return f"{what}: the server has purged it (oldest now: {self.oldest})"
        if self.written:
            return f"{what}: the server is writing to it, so it is not purged"
        if self.from_at is None:
            return what
        if not self.left:
            return f"{what}: the server purges it when it next starts a new binlog"
        return f"{what}: it can be purged from {self.from_at:%Y-%m-%d %H:%M:%S} UTC on (in {in_words(self.left)})"

    def lines(self) -> Iterator[str]:
        """Yield the retention, the needed file and the GTIDs, one sentence each."""
        yield self.age_text
        if self.file_text:
            yield self.file_text
        if self.gtids:
            yield f"GTIDs of the position: {self.gtids}"

    def counted_to(self, now: datetime) -> Purge:
        """Return the same state at a later time of the server's clock."""
        return replace(self, now=now)


def hours(seconds: int) -> str:
    """Format a duration in hours, even if it exceeds a day; in minutes or seconds if it is not a whole number of hours.

    >>> hours(2_592_000), hours(5_400), hours(90)
    ('720 h', '90 min', '90 s')
    """
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and not seconds % size:
            return f"{seconds // size:,} {unit}"
    return f"{seconds:,} s"
