"""Reads and records the states of targets, for all targets of a sink in one statement and over one session.

`seen.sql` contains the statement; `slotkeeper.core.domain.target_seen` defines what a reading proves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace

from slotkeeper.core.domain.progress import LaneKey, LaneState
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import LEAST_COUNTED, PARTS, TargetSeen, begun, image_of, newest
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.ports.sink import Applied, Asked
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sinks.postgres.session import SinkSession, set_locally
from slotkeeper.core.sqltext import statements

SQL_BOOK: Book = ("slotkeeper.core.sinks.postgres.check", "seen.sql")
SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
LIMIT_MS, LOCK_MS, LOCKED_MS = 10_000, 500, 50
"""Time limits of a check in milliseconds: of its statement, of its lock wait, and of its lock wait for a target that
was locked at the last check, because a lock on a target also delays its steps. Such a target is queried separately."""
_GONE = ("42P01", "3F000")
"""SQLSTATEs of a missing table and a missing schema."""
_IS_LOCKED = "55P03"
_UNSEEN = ("42501", _IS_LOCKED, "57014")
"""SQLSTATEs of a missing privilege, a lock that was not granted in time, and a statement timeout."""
_ABSENT = dict.fromkeys(PARTS, "")


class PostgresTargets:
    """Implements `slotkeeper.core.ports.sink.TargetReader`; not shared between threads."""

    def __init__(self, session: SinkSession) -> None:
        self._session = session
        self.sever = session.sever
        self._locked: set[str] = set()
        """Source tables whose targets were locked at the last check."""

    def read(self, asked: Sequence[Asked]) -> dict[str, TargetSeen | SlotkeeperError]:
        """Return each target's state or error by source table, read in one statement or, if that fails, one by one."""
        locked = [one for one in asked if one.job.channel.source_table in self._locked]
        found = self._read([one for one in asked if one not in locked], LOCK_MS)
        for one in locked:
            found |= self._read([one], LOCKED_MS)
        self._locked = {table for table, it in found.items() if getattr(it, "code", "") == _IS_LOCKED}
        return found

    def _read(self, asked: Sequence[Asked], lock_ms: int) -> dict[str, TargetSeen | SlotkeeperError]:
        if not asked:
            return {}
        try:
            with self._session.transaction() as cursor:
                _limit(cursor, lock_ms)
                return dict(read(self._session, cursor, asked))
        except SlotkeeperError as error:
            if len(asked) > 1 and self._session.generation and not error.silent:
                return {table: it for one in asked for table, it in self._read([one], LOCKED_MS).items()}
            found: dict[str, TargetSeen | SlotkeeperError] = {one.job.channel.source_table: error for one in asked}
            if error.code in _GONE:
                found = dict.fromkeys(found, TargetSeen(0, 0, "", _ABSENT, "", 0, 0, ""))
            elif error.code in _UNSEEN:
                with suppress(SlotkeeperError):  # formatting an index or a default waits for the same lock
                    found |= self._exchanged(asked, LOCKED_MS)
            return found

    def _exchanged(self, asked: Sequence[Asked], lock_ms: int) -> dict[str, TargetSeen]:
        """Return the targets that are not the recorded table, which catalogs show even if rows cannot be read."""
        with self._session.transaction() as cursor:
            _limit(cursor, lock_ms)
            found = read(self._session, cursor, asked, blind=True)
        known = {one.job.channel.source_table: one.since.oid for one in asked if one.since is not None}
        return {table: seen for table, seen in found if known.get(table, seen.oid) != seen.oid}

    def refusal(self, job: JobSpec, identity: TableIdentity) -> Refused | None:
        channel = job.channel
        target = targets.target_of(channel, identity)
        try:
            targets.check(self._session, target, image_of(channel, identity), job.sink_options)
        except Refused as refused:
            return refused
        return None

    def mark(self, job: JobSpec, epoch: int, record: TargetSeen) -> None:
        self._session.changed("mark", {**asdict(job.lane_key()), "seen": record.text, "epoch": epoch}, SQL_BOOK)


def _limit(cursor: pg.Cursor, lock_ms: int) -> None:
    pg.limit_transaction(cursor, LIMIT_MS)
    set_locally(cursor, "lock_timeout", str(lock_ms))


def read(
    session: SinkSession, cursor: pg.Cursor, asked: Sequence[Asked], blind: bool = False
) -> list[tuple[str, TargetSeen]]:
    """Return (source table, reading) of each target, read in the open transaction; a missing target raises an error.

    `blind`: read only catalogs, and no rows.
    """
    if not asked:
        return []
    named = [one.job.channel.target.split(".", 1) for one in asked]
    parts = SQL(" UNION ALL ").join(_rows(session, place, one, blind) for place, one in enumerate(asked))
    text = SQL(statements(*SQL_BOOK)[session.of_dialect("seen", SQL_BOOK)]).format(
        rows=parts,
        places=Literal(list(range(len(asked)))),
        schemas=Literal([name[0] for name in named]),
        names=Literal([name[-1] for name in named]),
        home=Literal(session.schema.string),
    )
    cursor.execute(text)
    found = []
    for row in cursor.fetchall():
        one, now = asked[row[0]], _seen(row[1:], asked[row[0]].columns)
        same = one.since is not None and one.since.oid == now.oid and not blind
        gone = set(one.since.members) - set(now.members) if one.since is not None and same else set()
        parted = bool(gone) and _parted(session, cursor, gone)
        older = now.older and (not same or _sure(session, cursor, one, now))
        found.append((one.job.channel.source_table, replace(now, parted=parted, older=older)))
    return found


def _sure(session: SinkSession, cursor: pg.Cursor, one: Asked, now: TargetSeen) -> bool:
    """Whether an older row certainly exists, even though the storage is new and the statistics count no row."""
    since = one.since
    if since is None or not since.snapshot or now.counted or since.files == now.files:
        return True
    if since.members != now.members:
        return True  # a partition was added or removed, which also changes the files
    table = _part(one.job)
    asked = {"snapshot": since.snapshot, "own": since.own, "oid": since.oid}
    return bool(session.run(cursor, "sure", asked, SQL_BOOK, table=table).fetchall()[0][0])


def _parted(session: SinkSession, cursor: pg.Cursor, gone: set[int]) -> bool:
    """Whether removed members of a table's tree may have taken rows away: one was dropped, or contains rows."""
    still = session.run(cursor, "still", {"members": list(gone)}, SQL_BOOK).fetchall()
    if len(still) < len(gone):
        return True
    any_row = SQL(statements(*SQL_BOOK)["any_row"])
    for name in still:
        cursor.execute(any_row.format(table=Identifier(*name)))  # no parameters: a name can contain a percent sign
        if cursor.fetchall()[0][0]:
            return True
    return False


def _rows(session: SinkSession, place: int, one: Asked, blind: bool) -> pg.sql.Composable:
    if blind:
        return SQL(statements(*SQL_BOOK)["rows_unread"]).format(place=Literal(place))
    target, since = Identifier(*one.job.channel.target.split(".", 1)), one.since
    key = one.job.lane_key()
    return SQL(statements(*SQL_BOOK)[session.of_dialect("rows", SQL_BOOK)]).format(
        place=Literal(place),
        target=_part(one.job),
        oid=SQL("{}::regclass").format(Literal(target.as_string(session.ready()))),
        most=Literal(one.most),
        snapshot=Literal(since.snapshot if since else ""),
        own=Literal(since.own if since else 0),
        next=SQL("(SELECT txid_snapshot_xmax(txid_current_snapshot()))"),
        schema=session.schema,
        source=Literal(key.source),
        source_table=Literal(key.source_table),
        slot=Literal(key.slot),
    )


def _part(job: JobSpec) -> pg.sql.Composable:
    """Return the rows that a job's channel writes, with their xmin: the target, or the part with its constant."""
    table, one = Identifier(*job.channel.target.split(".", 1)), job.channel.constant
    if one is None:
        return table
    rows = SQL("(SELECT p.xmin FROM {} p WHERE p.{} = {})")
    return rows.format(table, Identifier(one.column), Literal(one.text))


def _seen(row: tuple[object, ...], mirrored: Sequence[str]) -> TargetSeen:
    home, oid, files, *rest = row
    hashes, (names, numbers, members, counted, rows, older, changes, snapshot) = rest[: len(PARTS)], rest[len(PARTS) :]
    places = dict(zip(names, numbers, strict=True))  # type: ignore[call-overload]
    spelled = "\x1f".join(f"{places.get(name, 0)} {name}" for name in sorted(mirrored))
    shape = {part: str(it or "")[:12] for part, it in zip(PARTS, hashes, strict=True)}
    return TargetSeen(
        home,  # type: ignore[arg-type]
        oid,  # type: ignore[arg-type]
        str(files)[:12],
        shape,
        hashlib.sha256(spelled.encode()).hexdigest()[:12],
        rows,  # type: ignore[arg-type]
        changes,  # type: ignore[arg-type]
        str(snapshot),
        members=tuple(sorted(members)),  # type: ignore[call-overload]
        older=bool(older),
        counted=bool(counted),
    )


def recorded(session: SinkSession, cursor: pg.Cursor, lane: LaneKey) -> tuple[TargetSeen | None, bool]:
    """Return the newest record in the lanes of a slot's table, and whether a copy is due, which requires no record.

    If the record contains a copy but no copy is in progress, that copy was undone. The record then shows the state that
    streaming would find if it continued.
    """
    found = session.run(cursor, "recorded", asdict(lane), SQL_BOOK).fetchall()
    states = {LaneState(state) for _, state in found}
    record = newest(text for text, _ in found)
    if record is not None and LaneState.COPYING not in states:
        record = replace(record, copying="")
    return record, LaneState.CREATING in states


def written_down(session: SinkSession, cursor: pg.Cursor, place: Mapping[str, str]) -> str:
    """Return the recorded reason why no start accepts the target of a slot's table; "" if there is none."""
    if not session.has(cursor, "kept", SQL_BOOK):
        return ""  # a reset can run before the first start of this version
    record = newest(text for text, _ in session.run(cursor, "recorded", place, SQL_BOOK).fetchall())
    return record.why if record else ""


def renew(session: SinkSession, cursor: pg.Cursor, job: JobSpec, columns: Sequence[str], copying: str = "") -> None:
    """Record the target's state in the open transaction, which has changed the target or its rows, or starts a copy.

    The start of a copy records the problem that the target would have if the copy were undone; its end removes it.
    """
    key, earlier = job.lane_key(), None
    if copying:
        earlier, _ = recorded(session, cursor, key)
    ((_, seen),) = read(session, cursor, [Asked(job, tuple(columns), earlier, LEAST_COUNTED)])
    own = 0
    if not session.dialect.spreads:
        cursor.execute("SELECT txid_current()")
        own = cursor.fetchall()[0][0]
    write(session, cursor, key, replace(begun(earlier, seen, copying), own=own))


def write(session: SinkSession, cursor: pg.Cursor, lane: LaneKey, seen: TargetSeen) -> None:
    """Write the record into all rows of the slot's table."""
    session.run(cursor, "record", {**asdict(lane), "seen": seen.text}, SQL_BOOK)


class PostgresRecords:
    """Implements `slotkeeper.core.ports.sink.TargetRecords`; not shared between threads."""

    def __init__(self, session: SinkSession) -> None:
        self._session = session
        self.mark = PostgresTargets(session).mark
        self.sever = session.sever

    def applied(self, jobs: Sequence[JobSpec]) -> dict[str, Applied]:
        key = jobs[0].lane_key()
        tables = [job.channel.source_table for job in jobs]
        values = {"source": key.source, "slot": key.slot, "source_tables": tables, "home": self._session.schema.string}
        with self._session.transaction() as cursor:
            found = self._session.run(cursor, "applied", values, SQL_BOOK).fetchall()
        counted = {str(row[0]): Applied(*map(int, row[1:])) for row in found}
        return {table: counted.get(table, Applied(0, 0, 0)) for table in tables}

    def recorded(self, job: JobSpec) -> tuple[TargetSeen | None, bool]:
        with self._session.transaction() as cursor:
            return recorded(self._session, cursor, job.lane_key())

    def record(self, job: JobSpec, record: TargetSeen) -> None:
        with self._session.transaction() as cursor:
            write(self._session, cursor, job.lane_key(), record)
