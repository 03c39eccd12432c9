"""After how long a server purges its binlog files, and which one a position still needs.

Sources: MySQL, "Binary Logging Options and Variables": binlog_expire_logs_seconds (8.0; 0 purges none, and
expire_logs_days counts only where it is 0), binlog_expire_logs_auto_purge (8.0.29). MariaDB, "Replication and Binary
Log System Variables": binlog_expire_logs_seconds (10.6, the same as expire_logs_days in another unit). Files go at a
start of the server and whenever it begins a file, by the time of their last change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from slotkeeper.core.domain.ttl import LONGEST, Purge, seconds_of
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sources.mysql import starts
from slotkeeper.core.sources.mysql.errors import BinlogError
from slotkeeper.core.sources.mysql.position import MysqlPosition
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.starts import BinlogFile

_DAY = 86_400
SECONDS, DAYS, AUTO = "binlog_expire_logs_seconds", "expire_logs_days", "binlog_expire_logs_auto_purge"
_ASKED = "SHOW GLOBAL VARIABLES WHERE variable_name IN (%s, %s, %s)"


def age_of(variables: Mapping[str, str]) -> tuple[int | None, str]:
    """(the age in seconds at which a file can be purged, the variable that says so); 0 for none, None for unknown.

    >>> age_of({"expire_logs_days": "3.500000"}), age_of({"binlog_expire_logs_seconds": "0", "expire_logs_days": "1"})
    ((302400, 'expire_logs_days'), (86400, 'expire_logs_days'))
    """
    if variables.get(AUTO, "").upper() in ("OFF", "0"):
        return 0, AUTO
    seconds, days = seconds_of(variables.get(SECONDS, "")), variables.get(DAYS, "")
    if seconds is not None and (seconds or not _number(days)):
        return seconds, SECONDS
    known = _number(days)
    return (None, SECONDS) if known is None else (round(min(known * _DAY, LONGEST)), DAYS)


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if found >= 0 else None  # NaN is not


def variables_of(session: MysqlSession) -> dict[str, str]:
    """The variables as they are now: they can be set while the server runs."""
    return {str(name).lower(): str(value) for name, value in session.rows(_ASKED, (SECONDS, DAYS, AUTO))}


class Purges:
    """What is asked of one server; when a file was closed is asked once, because it stays so."""

    def __init__(self, session: MysqlSession) -> None:
        self._session = session
        self._closed: dict[str, datetime] = {}

    def at(self, position: MysqlPosition | None) -> Purge:
        """The server's setting, and what becomes of the file of a position."""
        seconds, setting = age_of(variables_of(self._session))
        files = self._session.asking(starts.binlog_files)
        now = float(self._session.rows("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0])
        found = Purge(seconds, setting, files[0].name if files else "", datetime.fromtimestamp(now, timezone.utc))
        return found if position is None else self._needing(found, files, position)

    def _needing(self, found: Purge, files: Sequence[BinlogFile], position: MysqlPosition) -> Purge:
        names = [one.name for one in files]
        there = position.file in names
        number = names.index(position.file) if there else 0
        written = there and number == len(names) - 1
        closed = None if written or not there or not found.seconds else self._closed_at(names[number + 1])
        return Purge(
            found.seconds, found.setting, found.oldest, found.now, position.file, there, written, closed,
            position.gtids_text,
        )  # fmt: skip

    def _closed_at(self, following: str) -> datetime | None:
        """When the file before `following` was closed: when that one began. None where the server does not say."""
        if following not in self._closed:
            replica = self._session.replica("purging")
            try:
                began = starts.file_began(self._session.connect, replica, following)
            except (my.DriverError, BinlogError, SlotkeeperError):
                return None
            self._closed[following] = datetime.fromtimestamp(began.header.time, timezone.utc)
        return self._closed[following]
