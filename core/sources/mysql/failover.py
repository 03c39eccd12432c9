"""Continue a lane at another server whose binlog contains the lane's transactions; no row is copied again.

A server's file names and offsets mean nothing at another server. A position that contains GTIDs is translated: the
other server's files are read from the newest whose start the lane has passed, to the point at which exactly the lane's
transactions are executed. A translation is refused, with an error that names the transactions, if the server lacks some
of them, has purged some that follow, or has executed others before them.

Equal GTIDs do not prove an equal history. MariaDB's GTIDs contain only a server_id, and a restored server writes its
numbers again. So a position has a mark: one of its last transactions, with a time that replicas write unchanged.
MySQL, "Delayed Replication": original_commit_timestamp. MariaDB and MySQL 5.7: a replica executes an event with the
time of the event and writes it with that time (`Log_event::when`); this was measured for row events and statements, and
does not apply to GTID and commit events.

Sources: MariaDB, "GTID_LIST_EVENT", "Global Transaction ID" (gtid_binlog_state: the last GTID of each server of each
domain in the binlog). MySQL, "GTID Format and Storage" (gtid_executed, Previous_gtids), "Binary Logging Options and
Variables" (log_replica_updates: without it, a replica's binlog has no replicated transactions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.start import SAFE
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.core.ports.source import NOT_YET
from slotkeeper.core.sources.mysql import starts
from slotkeeper.core.sources.mysql.events import (
    ARTIFICIAL,
    HEADER,
    FormatDescription,
    MariaGtid,
    MariaGtidList,
    MysqlGtid,
    Parser,
    PreviousGtids,
    Query,
    Rotate,
)
from slotkeeper.core.sources.mysql.faults import Damaged
from slotkeeper.core.sources.mysql.position import (
    FIRST_OFFSET,
    Birth,
    Gtids,
    MariaState,
    Mark,
    MysqlPosition,
    MysqlSet,
    maria_gtids,
    ours,
    parse_gtids,
)
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.transactions import gtid_text

T = TypeVar("T")

NO_MARK = "the job's position contains no transaction with a time, so another server's history cannot be recognized"
NO_GTIDS = "the job's position contains no GTIDs, so it is valid only at the server that wrote it"
_REPLICA = " (a replica writes them with log_replica_updates = ON)"
_NAMED = 12
"""Maximum number of transactions that an error names one by one."""

# -- the decision, pure -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileStart:
    """The start of a binlog file: when it was created, and the transactions executed before it."""

    file: str
    born: Birth | None
    before: Gtids


@dataclass(frozen=True, slots=True)
class Group:
    """A transaction in a binlog: its event, the time for a `Mark`, where it starts, and a position after it."""

    event: MariaGtid | MysqlGtid
    time: int
    file: str
    begin: int
    after: int

    @property
    def gtid(self) -> str:
        return gtid_text(self.event)


class Log(Protocol):
    """A server's binlog."""

    def files(self) -> Sequence[str]:
        """Return the names of the files that the server still has, oldest first."""

    def start(self, file: str) -> FileStart: ...

    def groups(self, file: str) -> Iterator[FileStart | Group]:
        """Return the start of a file and its transactions, then those of the files that follow, to the end."""


def contains(state: Gtids, event: MariaGtid | MysqlGtid) -> bool:
    if isinstance(state, MariaState):
        return isinstance(event, MariaGtid) and state.each.get((event.domain, event.server), -1) >= event.sequence
    return (
        isinstance(event, MysqlGtid)
        and event.source is not None
        and state.contains(event.source, event.number, event.tag)
    )


def _with(state: Gtids, event: MariaGtid | MysqlGtid) -> Gtids:
    if isinstance(state, MariaState) and isinstance(event, MariaGtid):
        return state.after(event.domain, event.server, event.sequence)
    if isinstance(state, MysqlSet) and isinstance(event, MysqlGtid) and event.source is not None:
        return state.after(event.source, event.number, event.tag)
    return state


def beyond(state: Gtids, known: Gtids) -> str:
    """Name the transactions of `state` that `known` lacks; "" if there are none.

    >>> beyond(MariaState.of_list([(0, 1, 9), (5, 2, 3)]), MariaState.of_list([(0, 1, 7)]))
    '0-1-8 to 0-1-9, up to 5-2-3'
    """
    if isinstance(state, MysqlSet) and isinstance(known, MysqlSet):
        return state.minus(known).text
    if isinstance(state, MariaState) and isinstance(known, MariaState):
        mine = known.each
        return ", ".join(
            _from(each, mine.get(each), n) for each, n in sorted(state.each.items()) if n > mine.get(each, -1)
        )
    return state.text


def _from(source: tuple[int, int], known: int | None, last: int) -> str:
    name = f"{source[0]}-{source[1]}"
    if known is None:
        return f"up to {name}-{last}"
    return f"{name}-{last}" if known + 1 == last else f"{name}-{known + 1} to {name}-{last}"


def missing(wanted: Gtids, executed: Gtids) -> str:
    """Name the transactions of a lane that a server lacks; "" if there are none.

    For MariaDB, the binlog has to contain the last transaction of each domain, and of each server that it contains at
    all. A server that was set up from a backup does not have every server_id of the lane's history in its binlog.
    """
    if isinstance(wanted, MariaState) and isinstance(executed, MariaState):
        theirs, last = executed.each, {(domain, server) for domain, (server, _) in wanted.last.items()}
        return ", ".join(
            _from(source, theirs.get(source), sequence)
            for source, sequence in sorted(wanted.each.items())
            if (source in last or source in theirs) and theirs.get(source, -1) < sequence
        )
    return beyond(wanted, executed)


def _is_at(state: Gtids, wanted: Gtids) -> bool:
    """Whether exactly the wanted transactions are executed, as far as `state` shows; it never has others."""
    if isinstance(state, MariaState) and isinstance(wanted, MariaState):
        there = state.each
        return state == wanted and all(there.get(one, last) == last for one, last in wanted.each.items())
    return isinstance(state, MysqlSet) and isinstance(wanted, MysqlSet) and state.covers(wanted)


def _not_shown(state: Gtids, wanted: Gtids, executed: Gtids) -> set[tuple[int, int]]:
    """Return the servers of MariaDB's domains of which a server shows transactions only after a state.

    Their wanted ones were executed before its binlog began, if it was set up from a backup; or they follow.
    """
    if isinstance(state, MariaState) and isinstance(wanted, MariaState) and isinstance(executed, MariaState):
        return {one for one in wanted.each if one not in state.each and one in executed.each}
    return set()


def translate(position: MysqlPosition, executed: Gtids, log: Log) -> MysqlPosition:
    """Return the position in `log` at which exactly the transactions of `position` are executed.

    `executed` is what the server reports as executed. Raises Trouble that names what is missing, purged or in another
    order: POSITIONS DIFFER, or SLOT LOST if the server has purged transactions that the lane needs.
    """
    wanted = position.gtids
    if wanted is None or not wanted.text:
        raise _differs(NO_GTIDS)
    if isinstance(wanted, MariaState) and not wanted.whole:
        raise _differs(f"it is unknown which servers have written before {position.plain}: {_NOT_YET}")
    if isinstance(wanted, MariaState) and position.mark is None:
        raise _differs(f"{NO_MARK}: {_NOT_YET}")
    lacks = missing(wanted, executed)
    if lacks:
        raise _lacks(lacks)
    found = _point(wanted, executed, position.mark, log)
    return replace(position, file=found.file, offset=found.offset, born=found.born, pending=())


_NOT_YET = "this is known once the job has read a transaction, or the start of a binlog file, at its former server"


@dataclass(frozen=True, slots=True)
class _Point:
    file: str
    offset: int
    born: Birth | None


def _point(wanted: Gtids, executed: Gtids, mark: Mark | None, log: Log) -> _Point:
    files = log.files()
    start = _last_start(wanted, log, files)
    state, born, marked = start.before, start.born, mark is None
    found = _Point(start.file, FIRST_OFFSET, born) if _is_at(state, wanted) else None
    later = _not_shown(state, wanted, executed) if found is not None else set()
    strange: list[str] = []
    for item in log.groups(start.file) if found is None or later else ():
        if isinstance(item, FileStart):
            born = item.born
        elif found is not None:
            if contains(wanted, item.event):
                raise _differs(f"the server has executed {item.gtid} after the job's last transaction: {_ORDER}")
            if isinstance(item.event, MariaGtid):
                later.discard((item.event.domain, item.event.server))
        elif not contains(wanted, item.event) or contains(state, item.event):
            strange.append(item.gtid or f"one without a GTID before {item.file}/{item.after}")
        else:
            if mark is not None and item.gtid == mark.gtid:
                _refuse_other_time(mark, item.time)
                marked = True
            state = _with(state, item.event)
            if _is_at(state, wanted):
                found, later = _Point(item.file, item.after, born), _not_shown(state, wanted, executed)
        if found is not None and not later:
            break
    if found is None:
        lacks = missing(wanted, state)
        raise _lacks(lacks) if lacks else _differs(_ORDER)
    if strange:
        what = "the server has executed transactions before the job's last one that the job lacks"
        more = f" and {len(strange) - _NAMED} more" if len(strange) > _NAMED else ""
        raise _differs(f"{what}: {', '.join(strange[:_NAMED])}{more}")
    if mark is not None and not marked:
        _check_mark(mark, log, files[: list(files).index(start.file)])
    return found


_ORDER = "the server's binlog has the job's transactions in another order"


def _last_start(wanted: Gtids, log: Log, files: Sequence[str]) -> FileStart:
    """Return the newest file that starts with nothing but wanted transactions."""
    start = None
    for file in reversed(files):
        start = log.start(file)
        if not beyond(start.before, wanted):
            return start
    gone = beyond(start.before, wanted) if start is not None else "all"
    what = f"the server has purged binlog files with transactions that the job has not applied: {gone}"
    raise Trouble(what, SAFE[TroubleName.SLOT_LOST], name=TroubleName.SLOT_LOST)


def _check_mark(mark: Mark, log: Log, files: Sequence[str]) -> None:
    """Find the mark in files before the position; the newest file that starts without it contains it."""
    for file in reversed(files):
        if _names(log.start(file).before, mark.gtid):
            continue
        for item in log.groups(file):
            if isinstance(item, Group) and item.gtid == mark.gtid:
                _refuse_other_time(mark, item.time)
                return
    raise _differs(f"the server has purged {mark.gtid}, by which its history could be recognized as the job's")


def _names(state: Gtids, gtid: str) -> bool:
    """Whether a state contains a GTID in its text form."""
    if isinstance(state, MariaState):
        domain, server, sequence = map(int, gtid.split("-"))
        return state.each.get((domain, server), -1) >= sequence
    return state.covers(MysqlSet.parse(gtid))


def _refuse_other_time(mark: Mark, time: int) -> None:
    if time != mark.time:
        what = (
            f"transaction {mark.gtid} is from {_moment(mark.time)} in the job's history, and from {_moment(time)} here"
        )
        raise _differs(f"{what}: this server has another history with the same GTIDs")


def _moment(time: int) -> str:
    """
    >>> _moment(1700000000), _moment(1700000000000001)
    ('2023-11-14 22:13:20 UTC', '2023-11-14 22:13:20.000001 UTC')
    """
    seconds, micros = divmod(time, 1_000_000) if time >= 1 << 33 else (time, 0)
    shown = f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S}"
    return f"{shown}.{micros:06d} UTC" if micros else f"{shown} UTC"


def _differs(what: str, code: str = "") -> Trouble:
    return Trouble(what, SAFE[TroubleName.POSITIONS_DIFFER], code, name=TroubleName.POSITIONS_DIFFER)


def _lacks(what: str) -> Trouble:
    return _differs(f"the server's binlog lacks transactions that the job has applied: {what}{_REPLICA}", NOT_YET)


# -- a server's binlog ------------------------------------------------------------------------------------------------

_SECONDS = 20.0
_GTIDS, _LISTS, _MAPPED, _QUERY = frozenset({33, 34, 42, 162}), frozenset({35, 163}), 19, 2
_PARSED = frozenset({4, 15, _QUERY, _MAPPED}) | _GTIDS | _LISTS
_CONTROLS = ("BEGIN", "XA", "COMMIT", "ROLLBACK", "SAVEPOINT")
_LOW = 0xFFFFFFFF


class ServerLog:
    """Reads a server's binlog event by event and parses only what shows its transactions; implements `Log`.

    Every method raises DriverError, and BinlogError for bytes that cannot be read.
    """

    def __init__(self, session: MysqlSession, reader: str) -> None:
        self._session, self._replica = session, session.replica(reader)
        self._starts: dict[str, FileStart] = {}

    def files(self) -> list[str]:
        return [one.name for one in self._session.asking(starts.binlog_files)]

    def start(self, file: str) -> FileStart:
        if file not in self._starts:
            first = next(self.groups(file), None)
            if not isinstance(first, FileStart):
                raise Damaged(f"{file} does not start with its list of GTIDs")
            self._starts[file] = first
        return self._starts[file]

    def groups(self, file: str) -> Iterator[FileStart | Group]:
        return self.walk(Walk(file))

    def walk(self, walk: Walk) -> Iterator[FileStart | Group]:
        """Continue the walk from its current position; return what it finds."""
        session = self._session.connect()
        try:
            my.register(session, self._replica)
            dump = my.dump_file(session, self._replica, walk.file, walk.offset, blocking=False)
            yield from walk.items(iter(lambda: dump.packet(_SECONDS), None))
        finally:
            session.close()


class Walk:
    """Groups the packets of a dump into transactions, from the start of a file or from a transaction's end. Pure."""

    def __init__(self, file: str, offset: int = FIRST_OFFSET) -> None:
        self.file, self.offset = file, offset
        self.births: dict[str, Birth | None] = {}
        """When each file that was reached was created."""
        self._parser = Parser()
        self._listed = offset > FIRST_OFFSET
        self._open: MariaGtid | MysqlGtid | None = None
        self._time = self._begin = 0

    def items(self, packets: Iterator[bytes | None]) -> Iterator[FileStart | Group]:
        for packet in packets:
            assert packet is not None
            time, code, _, size, end, flags = HEADER.unpack_from(packet, 1)
            if code in _GTIDS or code == 4:
                yield from self._ended()
            if code in _PARSED:
                yield from self._parsed(packet, code, time)
            if not flags & ARTIFICIAL and end and code != 4:
                reached = self.offset + size
                self.offset = reached + (end - reached & _LOW)  # MariaDB omits annotations
        yield from self._ended()

    def _parsed(self, packet: bytes, code: int, time: int) -> Iterator[FileStart | Group]:
        if code == _MAPPED or (code == _QUERY and self._time):
            self._time = self._time or time
            return
        event = self._parser.parse(packet, 1)
        if isinstance(event, Rotate):
            if event.file != self.file:
                self.file, self._listed = event.file, False
            self.offset = event.offset
        elif isinstance(event, FormatDescription):
            self.births[self.file] = event.born
        elif isinstance(event, MariaGtidList | PreviousGtids):
            if not event.header.is_artificial:
                self._listed = True
                before = MariaState.of_list(event.last) if isinstance(event, MariaGtidList) else event.executed
                yield FileStart(self.file, self.births.get(self.file), before)
        elif isinstance(event, MariaGtid | MysqlGtid):
            self._open, self._begin = event, self.offset
            self._time = event.committed if isinstance(event, MysqlGtid) else 0
        elif isinstance(event, Query) and not event.text.lstrip().upper().startswith(_CONTROLS):
            self._time = time

    def _ended(self) -> Iterator[Group]:
        event, self._open = self._open, None
        if event is not None:
            yield Group(event, self._time, self.file, self._begin, self.offset)


_walked: WeakKeyDictionary[MysqlSession, MysqlPosition] = WeakKeyDictionary()
"""The last position that each session has enriched: the starts of many tables read a file once."""


def enriched(session: MysqlSession, position: MysqlPosition, reader: str) -> MysqlPosition:
    """Return a start position with what its file's transactions show: creation, GTIDs and mark.

    The file is read from its start to the position, which is at most one file of max_binlog_size (1 GiB by default).
    """
    known = _walked.get(session)
    if known is None or known.file != position.file or known.offset > position.offset:
        known = None
    walk = Walk(position.file, known.offset if known is not None else FIRST_OFFSET)
    state: Gtids | None = known.gtids if known is not None else None
    mark = known.mark if known is not None else None
    for item in ServerLog(session, reader).walk(walk):
        if isinstance(item, FileStart):
            if item.file != position.file:
                break
            state = item.before
            continue
        if item.file != position.file or item.begin >= position.offset:
            break
        state = None if state is None or not item.gtid else _with(state, item.event)
        mark = Mark(item.gtid, item.time) if item.gtid and item.time else mark
    born = walk.births.get(position.file)
    if known is not None and born != known.born:
        del _walked[session]  # another file with this name
        return enriched(session, position, reader)
    if state is None or (position.gtids is not None and state != position.gtids):
        return replace(position, born=born)
    found = _walked[session] = replace(position, born=born, gtids=state, mark=mark)
    return found


# -- the port ---------------------------------------------------------------------------------------------------------

_STATE, _EXECUTED = "SELECT @@GLOBAL.gtid_binlog_state", "SELECT @@GLOBAL.gtid_executed"


class MysqlFailover:
    """Implements `slotkeeper.core.ports.source.Failover` for one table."""

    def __init__(self, session: MysqlSession, reader: str) -> None:
        self._session, self._reader = session, reader

    def other_server(self, fingerprint: str, position: Position, compares: bool) -> str:
        then, place = fingerprint.partition(":")[0], ours(position)
        self._session.close()  # an open session can still be at the former server
        now = self._session.facts.server
        if then != now:
            return f"server {now} answers instead of server {then}"
        if not compares or place.gtids is None:
            return ""
        log = ServerLog(self._session, self._reader)
        files = self._reading(log.files)
        if place.file not in files:
            newer = not files or place.number > int(files[-1].rpartition(".")[2])
            return f"server {now} has no file {place.file}" if newer else ""  # an older file was purged
        born = self._reading(lambda: log.start(place.file)).born
        if place.born is not None and born is not None and born != place.born:
            return f"server {now} has another file {place.file}"
        facts = self._session.facts
        if not facts.is_mariadb or place.offset > _LOW:
            return ""
        there = self._session.asking(lambda line: starts.gtids_at(line, facts, place.file, place.offset))
        if (there or MariaState({})) != place.gtids:
            return f"server {now} has other transactions before {place.file}/{place.offset}"
        return ""

    def moved(self, fingerprint: str, positions: Sequence[Position]) -> list[Position]:
        log, executed = ServerLog(self._session, self._reader), self._executed()
        try:
            return self._reading(lambda: [translate(ours(one), executed, log) for one in positions])
        except Trouble as error:
            restored = fingerprint.partition(":")[0] == self._session.facts.server
            if not restored or error.name is not TroubleName.POSITIONS_DIFFER:
                raise
            older = TroubleName.SOURCE_OLDER  # the same server with another history
            raise Trouble(error.message, SAFE[older], name=older) from None

    def _executed(self) -> Gtids:
        if self._session.facts.is_mariadb:
            found = str(self._session.rows(_STATE)[0][0] or "")
            each = {(domain, server): number for domain, server, number in maria_gtids(found)} if found else {}
            return MariaState({}, each, True)
        found = str(self._session.rows(_EXECUTED)[0][0] or "")
        return parse_gtids(found) or MysqlSet({})

    def _reading(self, read: Callable[[], T]) -> T:
        return self._session.asking(lambda _: read())
