"""Determine how far back a server's binlog reaches for one table, and the age at which the server purges its files.

A search by time starts in the file that contains the time and skips older events in that file. The time of an event is
the time at which its statement started on the source, in whole seconds.

Sources: MySQL, "Binary Logging Options and Variables": binlog_expire_logs_seconds (8.0; 0 disables purging by this
variable, and only then does expire_logs_days apply), binlog_expire_logs_auto_purge (8.0.29). MariaDB, "Replication and
Binary Log System Variables": binlog_expire_logs_seconds (10.6, the same as expire_logs_days in another unit). The
server purges files when it starts and when it starts a new file, based on the time of their last change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial

from slotkeeper.core.domain.position import NOTHING_KEPT, Position
from slotkeeper.core.domain.reset import Count
from slotkeeper.core.domain.row_counts import RowCount, count_within
from slotkeeper.core.domain.slot import FirstRecord, Shard, SlotStatus
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.ttl import LONGEST, Purge, seconds_of
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.sources.mysql import starts
from slotkeeper.core.sources.mysql.events import Action
from slotkeeper.core.sources.mysql.failover import enriched
from slotkeeper.core.sources.mysql.faults import BinlogError
from slotkeeper.core.sources.mysql.position import POSITIONS, MariaState, MysqlPosition, ours
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.source import SHARD, MysqlSource
from slotkeeper.core.sources.mysql.starts import BinlogFile
from slotkeeper.core.sources.mysql.statements import Statement
from slotkeeper.core.sources.mysql.stream import Follower, there
from slotkeeper.core.sources.mysql.transactions import End, Item, TableRows

_DAY = 86_400
SECONDS, DAYS, AUTO = "binlog_expire_logs_seconds", "expire_logs_days", "binlog_expire_logs_auto_purge"
_ASKED = "SHOW GLOBAL VARIABLES WHERE variable_name IN (%s, %s, %s)"


def age_of(variables: Mapping[str, str]) -> tuple[int | None, str]:
    """Return (age in seconds at which a file can be purged, variable that sets it); 0 for no purge, None if unknown.

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
    return found if found >= 0 else None  # false for NaN


def variables_of(session: MysqlSession) -> dict[str, str]:
    """Return the current values of the variables, which can be changed while the server is running."""
    return {str(name).lower(): str(value) for name, value in session.rows(_ASKED, (SECONDS, DAYS, AUTO))}


class Purges:
    """Purge settings of one server. The time at which a file was closed never changes and is read only once."""

    def __init__(self, session: MysqlSession) -> None:
        self._session = session
        self._closed: dict[str, datetime] = {}

    def at(self, position: MysqlPosition | None) -> Purge:
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
        """Return when the file before `following` was closed, that is, `following` was created; None if unknown."""
        if following not in self._closed:
            replica = self._session.replica("purging")
            try:
                began = starts.file_began(self._session.connect, replica, following)
            except (my.DriverError, BinlogError, SlotkeeperError):
                return None
            self._closed[following] = datetime.fromtimestamp(began.header.time, timezone.utc)
        return self._closed[following]


_KINDS = {Action.INSERT: ("I",), Action.UPDATE: ("B", "U"), Action.DELETE: ("d",)}


class MysqlTable(MysqlSource):
    """A table, and what its binlog retains."""

    def open_lanes(self) -> list[SlotStatus]:
        """Return a lane's start position: a later read of the table sees every change before this position."""
        fingerprint = self.identify().text
        facts = self.session.facts
        latest = self.session.asking(lambda line: starts.begin_here(line, facts))
        reader = f"{self.slot}\x1f{self.table}\x1fbegin"
        latest = self.session.asking(lambda _: enriched(self.session, latest, reader))
        return [SlotStatus(SHARD, NOTHING_KEPT, latest, fingerprint, self._first(latest))]

    def place(self, text: str) -> Position:
        """Parse a displayed or stored position, or GTIDs in the server's format; raises ValueError if invalid."""
        try:
            return self.resolved(POSITIONS.place(text))
        except ValueError:
            if "-" not in text:
                raise
        return self._behind_gtids(text)

    def _behind_gtids(self, text: str) -> MysqlPosition:
        """Return the file position up to which exactly these GTIDs are executed; raises Refused if there is none."""
        facts = self.session.facts
        wanted = self.session.asking(lambda line: starts.behind(line, facts, text)).gtids
        if not isinstance(wanted, MariaState):
            raise Refused(f"{text!r}: only MariaDB can find a GTID in its binlog", "use a file position such as 3:1234")
        newest = self.newest()
        for file in reversed(self.session.asking(starts.binlog_files)):
            begin = self.session.asking(partial(starts.position_at, facts=facts, file=file.name))
            done = begin.gtids if isinstance(begin.gtids, MariaState) else MariaState({})
            if not wanted.covers(done):
                continue
            if done.covers(wanted):
                return begin
            for item in self._events_of(begin, newest):
                if isinstance(item, End) and item.position.gtids == wanted:
                    return item.position
            break
        raise Refused(f"{text!r}: no retained binlog has a position with exactly these GTIDs")

    def records(self, place: Position | None = None) -> Mapping[str, FirstRecord]:
        """Return the position of the table's first event at or after `place`; by default, the start of the binlog."""
        newest = self.newest()
        if place is None:
            return {SHARD.name: FirstRecord(newest, self.begin(newest))}
        begin, place = self.begin(newest), self.resolved(ours(place))
        found = self._first_event(place if there(place, begin) else begin, newest)
        return {SHARD.name: FirstRecord(newest, *found) if found else FirstRecord(newest, None)}

    def begin(self, newest: MysqlPosition) -> MysqlPosition:
        return self._first(newest) or newest

    def _first_event(
        self, after: MysqlPosition, up_to: MysqlPosition, since: float = 0.0
    ) -> tuple[MysqlPosition, int] | None:
        """Return the position before the first row event at or after time `since`, and the event's time in µs."""
        last = after
        for item in self._events_of(after, up_to):
            if isinstance(item, End):
                last = item.position
            elif isinstance(item, TableRows) and item.rows.header.time >= since:
                return last, item.rows.header.time * 1_000_000
        return None

    def _events_of(self, after: MysqlPosition, up_to: MysqlPosition) -> Iterator[Item]:
        follower = Follower(lambda place: self.stream(place, "viewer"))
        try:
            yield from follower.read(after, up_to)
        finally:
            follower.close()

    def ended_items(self, after: MysqlPosition, up_to: MysqlPosition) -> Iterator[tuple[Item, MysqlPosition | None]]:
        """Return each item of a range with the position at its end if it ends a transaction, else with None."""
        for item in self._events_of(after, up_to):
            ends = isinstance(item, End) or (isinstance(item, Statement) and item.ends)
            yield item, item.position if ends and not isinstance(item, TableRows) else None

    def since(self, at: str, lowest: bool = True, shard: Shard | None = None) -> dict[str, Position | None]:
        moment, newest = datetime.fromisoformat(at).timestamp(), self.newest()
        facts, replica = self.session.facts, self.session.replica(f"{self.slot}\x1f{self.table}\x1fviewer")
        begin = self.session.asking(
            lambda line: starts.at_moment(line, facts, self.session.connect, replica, int(moment))
        )
        found = self._first_event(begin, newest, moment)
        return {SHARD.name: found[0] if found else None}

    def count(self, shard: Shard, low: Position, high: Position) -> Count:
        counts: dict[str, int] = {}
        first: TableRows | None = None
        odd: SlotkeeperError | None = None
        stopping = ""
        for item in self._events_of(self.resolved(ours(low)), self.resolved(ours(high))):
            if isinstance(item, Statement):
                text = f"{safe(' '.join(item.text.split()), 80)} at {item.position.shown}"
                if item.reshapes:
                    return Count(tuple(sorted(counts.items())), False, reshaped=text, stopping=stopping)
                stopping = stopping or text
            if isinstance(item, TableRows):
                first = first or item
                try:
                    changes = self._decoder(item.table).changes(item.rows)
                except SlotkeeperError as error:  # rows before a change can have other columns
                    odd = error
                    continue
                for kind in _KINDS[changes.action]:
                    counts[kind] = counts.get(kind, 0) + max(len(changes.before), len(changes.after))
        if odd is not None:
            raise odd
        begin = f"{first.number}:{first.at}" if first else None
        oldest = first.rows.header.time * 1_000_000 if first else None
        return Count(tuple(sorted(counts.items())), not stopping, begin, oldest, stopping=stopping)

    def count_rows(self) -> RowCount:
        def ask(most: int | None, limit_ms: int) -> int | None:
            limit = "" if most is None else f" LIMIT {most}"
            statement = f"SELECT count(*) FROM (SELECT 1 FROM {self.seen.quoted}{limit}) c"
            try:
                return int(self.session.rows(statement, (), limit_ms / 1000)[0][0])
            except SlotkeeperError as error:
                if not error.timed_out:
                    raise
                return None

        return count_within(ask)

    def clock(self) -> tuple[float, None]:
        """Return the clock and no TTL, because the existing files show which changes are retained."""
        return float(self.session.rows("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0]), None
