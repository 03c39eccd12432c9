"""Start positions of a job without a stored position: oldest, newest, by time, by GTIDs, or that of a consistent copy.

Each start position is the end of a transaction. A commit is in the binlog before its rows are visible (MySQL, "Binary
Logging Format": group commit). MariaDB reports a position for which this cannot happen, so a start does not wait. MySQL
does not report such a position, so the source waits for the writers that were open (`open_now`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from slotkeeper.core.drivers import my
from slotkeeper.core.errors import AccessRefused, Busy, Refused, SlotkeeperError
from slotkeeper.core.ports.source import OpenTransactions
from slotkeeper.core.sources.mysql.events import FormatDescription, Parser, Rotate
from slotkeeper.core.sources.mysql.faults import Damaged
from slotkeeper.core.sources.mysql.position import FIRST_OFFSET, Gtids, MariaState, MysqlPosition, MysqlSet, parse_gtids
from slotkeeper.core.sources.mysql.session import MysqlSession, ServerFacts, newest

_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class BinlogFile:
    """A binlog file that the server still has; `bytes` can grow for the last file."""

    name: str
    bytes: int


def binlog_files(session: my.Session) -> list[BinlogFile]:
    """Return the files, oldest first; needs REPLICATION CLIENT (MariaDB: BINLOG MONITOR). Raises DriverError."""
    return [BinlogFile(str(row[0]), int(row[1])) for row in session.rows("SHOW BINARY LOGS")]


def gtids_at(session: my.Session, facts: ServerFacts, file: str, offset: int) -> Gtids | None:
    """Return the GTIDs executed up to a transaction's end in a file; None if the server cannot report them (MySQL)."""
    if not facts.is_mariadb or offset >= 1 << 32:
        return None
    row = session.row("SELECT BINLOG_GTID_POS(%s, %s)", (file, offset))
    return parse_gtids(str(row[0])) if row is not None and row[0] else None


def position_at(session: my.Session, facts: ServerFacts, file: str, offset: int = FIRST_OFFSET) -> MysqlPosition:
    """Return the position at a transaction's end or a file's start, with the GTIDs there. Raises DriverError."""
    return MysqlPosition(file, offset, gtids_at(session, facts, file, offset))


def latest(session: my.Session, facts: ServerFacts) -> MysqlPosition:
    """Return the current end of the binlog. Raises DriverError."""
    return position_at(session, facts, *newest(session))


def behind(session: my.Session, facts: ServerFacts, text: str) -> MysqlPosition:
    """Return the position after the GTIDs that a user typed; the job starts there by GTID. Raises Refused if the GTIDs
    are invalid or omit a MariaDB domain, which would silently be read from its oldest transaction on.
    """
    try:
        gtids = parse_gtids(text)
    except ValueError as error:
        raise Refused(f"{text!r}: {error}", "use the format in which the server shows GTIDs") from None
    file, offset = newest(session)
    if isinstance(gtids, MariaState):
        now = gtids_at(session, facts, file, offset)
        missing = sorted(set(now.last) - set(gtids.last)) if isinstance(now, MariaState) else []
        if missing:
            named = ", ".join(map(str, missing))
            raise Refused(
                f"{text!r} omits domain {named}: the job would read that domain from its oldest transaction on",
                f"name every domain (domain-server-0 is its start); the server is at {now.text if now else 'none'}",
            )
    return MysqlPosition(file, offset, gtids)


def file_of_moment(files: Sequence[BinlogFile], began: Callable[[str], int], moment: int) -> BinlogFile | None:
    """Return the last file created at or before a time in seconds since 1970; None if the oldest file is newer.

    `began` returns the creation time of a file; it is called only for some of the files.
    """
    low, high = 0, len(files)
    while low < high:
        middle = (low + high) // 2
        if began(files[middle].name) <= moment:
            low = middle + 1
        else:
            high = middle
    return files[low - 1] if low else None


def file_began(connect: Callable[[], my.Session], replica: my.Replica, file: str) -> FormatDescription:
    """Return the first event of a file, which contains the file's creation time. Raises DriverError, BinlogError."""
    session = connect()
    try:
        my.register(session, replica)
        dump = my.dump_file(session, replica, file, FIRST_OFFSET, blocking=False)
        parser = Parser()
        while (packet := dump.packet(_SECONDS)) is not None:
            event = parser.parse(packet, 1)
            if isinstance(event, FormatDescription):
                return event
            if not isinstance(event, Rotate):
                break
        raise Damaged(f"{file} does not start with its format description")
    finally:
        session.close()


def at_moment(
    session: my.Session, facts: ServerFacts, connect: Callable[[], my.Session], replica: my.Replica, moment: int
) -> MysqlPosition:
    """Return the start of the file that contains a time: its earlier changes are read again, and no change is omitted.

    Raises Refused if the oldest file was created later: earlier changes have been purged.
    """
    files = binlog_files(session)
    found = file_of_moment(files, lambda name: file_began(connect, replica, name).header.time, moment)
    if found is None:
        hint = "take a snapshot, or start at the oldest position: earliest"
        raise Refused("the oldest binlog that the server retains starts after that time", hint, "", "source")
    return position_at(session, facts, found.name)


def begin_copy(session: my.Session, facts: ServerFacts) -> MysqlPosition:
    """Start a consistent snapshot in this session, and return its position in the binlog. MariaDB only.

    MariaDB, "Enhancements for START TRANSACTION WITH CONSISTENT SNAPSHOT": no lock is taken, and the position is exact
    for tables of engines with transactions. Raises DriverError, Refused for a server that does not report the position.
    """
    session.rows("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    session.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    status = {str(name).lower(): str(value) for name, value in session.rows("SHOW STATUS LIKE 'binlog_snapshot_%'")}
    file, offset = status.get("binlog_snapshot_file", ""), status.get("binlog_snapshot_position", "")
    if not file or not offset:
        session.rows("ROLLBACK")
        raise Refused("this server does not report the binlog position of a snapshot", "MariaDB does", "", "source")
    return position_at(session, facts, file, int(offset))


def begin_here(session: my.Session, facts: ServerFacts) -> MysqlPosition:
    """Return a position such that later reads see all changes before it, at once (MariaDB) or after a moment (MySQL).

    For MySQL, `MysqlOpen` waits for that moment. Raises DriverError, Refused.
    """
    if not facts.is_mariadb:
        return latest(session, facts)
    found = begin_copy(session, facts)
    session.rows("ROLLBACK")
    return found


def refuse_invisible(session: MysqlSession) -> None:
    """Raise Refused for a server that does not show which transactions a query sees."""
    if session.facts.is_mariadb or str(session.rows("SELECT @@GLOBAL.gtid_mode")[0][0]).upper() == "ON":
        return
    what = f"source {session.place}: gtid_mode is off, so the server does not show which changes a query sees"
    raise Refused(what, "set gtid_mode = ON, or reset the table to a snapshot", where="source")


@contextmanager
def showing(session: MysqlSession, after: MysqlPosition) -> Iterator[None]:
    hidden = Busy(f"source {session.place}: the newest changes are not visible yet", where="source")
    if session.facts.is_mariadb:
        facts = session.facts
        place = session.asking(lambda line: begin_copy(line, facts))
    elif not isinstance(after.gtids, MysqlSet):
        raise Busy(f"source {session.place}: the position of the table has no GTIDs yet", where="source")
    else:
        statement = "SELECT GTID_SUBSET(%s, @@GLOBAL.gtid_executed)"
        if str(session.rows(statement, (after.gtids.text,))[0][0]) != "1":
            raise hidden
        place = None
    opened = session.opened
    try:
        if place is not None and (place.number, place.offset) < (after.number, after.offset):
            raise hidden
        yield
        if session.opened != opened:
            raise Busy(f"source {session.place}: the connection was lost during a chunk", where="source")
    finally:
        if place is not None and session.opened == opened:
            session.rows("ROLLBACK")


_OPEN = (
    "SELECT trx_id, trx_mysql_thread_id, trx_mysql_thread_id = CONNECTION_ID() FROM information_schema.innodb_trx"
    " WHERE trx_rows_modified > 0 OR trx_mysql_thread_id = CONNECTION_ID()"
)
READ_EVERY = 0.25
"""Seconds between two reads of the list of open transactions, more than the server's refresh of 0.1 s (`writers`)."""
_UNKNOWN = "the list of open transactions may be older than the copy's position"
_STALE = (
    f"{_UNKNOWN}: another session reads INNODB_TRX more than 10 times per second, so the server returns an old list"
)


class MysqlOpen:
    """Open transactions with changes, for which a start waits."""

    def __init__(self, session: MysqlSession) -> None:
        self._session = session
        self._next = time.monotonic() + READ_EVERY
        self._were: frozenset[str] | None = None
        self._left = _UNKNOWN

    def left(self) -> str:
        if time.monotonic() >= self._next:
            now = writers(self._session)
            if now is not None:
                self._were = now if self._were is None else self._were & now
            if self._were is None:
                self._left = _STALE
            else:
                named = ", ".join(sorted(self._were)[:5])
                self._left = f"{len(self._were)} transaction(s) that were open when the copy started: {named}"
            self._next = time.monotonic() + READ_EVERY
        return "" if self._were is not None and not self._were else self._left


def open_now(session: MysqlSession) -> OpenTransactions | None:
    """Return the open writers; None for MariaDB. Raises AccessRefused with the GRANT if the login cannot see them."""
    if session.facts.is_mariadb:
        return None
    writers(session)
    advice = "end them (SHOW ENGINE INNODB STATUS, KILL), or increase the job's `wait`"
    return OpenTransactions(MysqlOpen(session).left, advice)


def writers(session: MysqlSession) -> frozenset[str] | None:
    """Return the open transactions that have changed rows; None if the server's list is older than this call.

    MySQL, "Persistence and Consistency of InnoDB Transaction and Locking Information": the server refreshes the list
    only if no session has read it for 0.1 s, so a monitor that reads the list more often prevents the refresh. This
    function opens a connection with a transaction: a list that contains this transaction cannot be older than the call.
    Raises AccessRefused with the GRANT statement if the login cannot read the list.
    """
    with closing(session.beside("/open")) as fresh:
        try:
            rows = fresh.asking(_listed)
        except SlotkeeperError as error:
            if error.code != "1227":
                raise
            cure = f"GRANT PROCESS ON *.* TO {fresh.user}"
            raise AccessRefused(error.message, cure, error.code, "source") from None
    if not any(own for _, _, own in rows):
        return None
    return frozenset(f"{trx} (session {thread})" for trx, thread, own in rows if not own)


def _listed(session: my.Session) -> list[tuple[Any, ...]]:
    session.rows("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # needed for WITH CONSISTENT SNAPSHOT
    session.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    return session.rows(_OPEN)
