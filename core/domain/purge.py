"""When a server purges its binlog files by their age, and the oldest one that a slot still needs. Pure.

Unknown is None or "", never 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from slotkeeper.core.domain.ttl import Severity, in_words, severity_of


@dataclass(frozen=True, slots=True)
class Purge:
    """What a server's files are, as of `now` by its clock, for a slot at one position.

    `seconds`: the age at which a file can be purged, 0 where none is; `setting` names it. `oldest` is the oldest file
    that is there, `needed` the one that the position is in, `closed_at` when its last event was written. `written`:
    the server still writes to it. `gtids` are those that are done at the position.
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
        """From when on the server can purge the file that is needed; None where it does not, or that is unknown."""
        if self.closed_at is None or not self.seconds:
            return None
        return self.closed_at + timedelta(seconds=self.seconds)

    @property
    def left(self) -> int | None:
        """Seconds until then, at least 0."""
        return None if self.from_at is None else max(0, int((self.from_at - self.now).total_seconds()))

    @property
    def severity(self) -> Severity:
        """How near the file that is needed is to its end."""
        if not self.there:
            return Severity.CRITICAL
        return Severity.FINE if self.left is None or not self.seconds else severity_of(self.left, self.seconds)

    @property
    def age_text(self) -> str:
        """After how long the server purges files.

        >>> Purge(864_000, "binlog_expire_logs_seconds", "b.000001", datetime(2026, 11, 26)).age_text
        'binlogs are purged after 240 h (binlog_expire_logs_seconds)'
        """
        if self.seconds is None:
            return "after how many hours binlogs are purged is unknown"
        if not self.seconds:
            return f"binlogs are purged only by PURGE BINARY LOGS ({self.setting} is 0)"
        return f"binlogs are purged after {hours(self.seconds)} ({self.setting})"

    @property
    def file_text(self) -> str:
        """What becomes of the file that is needed; "" where that is unknown."""
        if not self.needed:
            return ""
        what = f"the oldest binlog that the job needs is {self.needed}"
        if not self.there:
            return f"{what}: the server has purged it (oldest now: {self.oldest})"
        if self.written:
            return f"{what}: the server writes to it, so it is not purged"
        if self.from_at is None:
            return what
        if not self.left:
            return f"{what}: the server purges it when it next starts a file"
        return f"{what}: it can be purged from {self.from_at:%Y-%m-%d %H:%M:%S} UTC on (in {in_words(self.left)})"

    def lines(self) -> Iterator[str]:
        """All of it, a sentence each."""
        yield self.age_text
        if self.file_text:
            yield self.file_text
        if self.gtids:
            yield f"GTIDs of the position: {self.gtids}"

    def counted_to(self, now: datetime) -> Purge:
        """The same some time later by the server's clock."""
        return replace(self, now=now)


def hours(seconds: int) -> str:
    """A duration in hours, as settings of days are thought of; in minutes or seconds where it is no whole hour.

    >>> hours(2_592_000), hours(5_400), hours(90)
    ('720 h', '90 min', '90 s')
    """
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and not seconds % size:
            return f"{seconds // size:,} {unit}"
    return f"{seconds:,} s"
