"""One binlog stream of the stand-in: START_REPLICATION over a connection whose login the real server has checked.

The request is that of holo-client (its V3ReplicationProtocol and ServiceContract): the options contain the shard, the
batch size and the position, and name a table or a slot. Rows come from the embedded binlog as they become visible; a
message without rows means that there are no more. Every LSN that a client reports as flushed moves its slot, including
the LSNs of keepalives.
"""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from slotkeeper.core.drivers import pg
from slotkeeper.demo.hologres import wire
from slotkeeper.demo.hologres.faults import Faults, StreamFault
from slotkeeper.demo.hologres.stream_rows import message, row
from slotkeeper.demo.hologres.stream_values import plain, sendable, value_of

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
PAUSE = 0.03
"""Seconds between two reads of a binlog without new records."""
BEFORE = 3
_COMMAND = re.compile(r"START_REPLICATION\s+SLOT\s+(\S+)\s+LOGICAL\s+\S+\s*\((.*)\)\s*$", re.DOTALL)
_OPTION = re.compile(r"\"(\w+)\"\s+'((?:[^']|'')*)'")
_TABLE = """
SELECT t.rel, t.log, t.shards, t.schema_version, has_table_privilege(%(user)s, t.rel, 'SELECT'),
       to_regclass(format('hg_log.%%I', t.log)) IS NOT NULL
FROM hg_standin.tab t WHERE t.rel = to_regclass(%(table)s)
"""
_OF_SLOT = """
SELECT p.property_value, (SELECT format('%%I.%%I', schemaname, tablename) FROM pg_publication_tables
                          WHERE pubname = p.property_value LIMIT 1),
       (SELECT lsn FROM hologres.hg_replication_progress g
        WHERE g.slot_name = p.slot_name AND g.parallel_index = %(shard)s),
       hg_standin.may_replicate(%(user)s)
FROM hologres.hg_replication_slot_properties p WHERE p.slot_name = %(slot)s AND p.property_key = 'publication'
"""
_COLUMNS = """
SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_PAGE = """
SELECT (SELECT schema_version FROM hg_standin.tab WHERE rel = {rel}), hg_binlog_lsn, hg_binlog_event_type,
       hg_binlog_timestamp_us{columns}
FROM hg_log.{log} WHERE hg_shard_id = {shard} AND {place} ORDER BY hg_binlog_lsn LIMIT {most}
"""


class RefusedStream(Exception):
    """Raised if the stream is rejected; the arguments are a SQLSTATE and a message."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of a START_REPLICATION command."""

    table: str
    shard: int
    batch: int
    after: int | None
    since: str
    compressed: bool
    slot: str = ""


def asked(command: str) -> Asked:
    """Return the options of a command; raises RefusedStream for a command that the stand-in does not support.

    >>> asked("START_REPLICATION SLOT null LOGICAL 0/0 (\\"table_name\\" 'ods.t', \\"start_lsn\\" '7')").after
    7
    """
    found = _COMMAND.match(command.strip())
    if found is None:
        raise RefusedStream("42601", "a replication connection supports only START_REPLICATION")
    slot = "" if found[1] == "null" else found[1]
    options = {name: value.replace("''", "'") for name, value in _OPTION.findall(found[2])}
    if not slot and "table_name" not in options:
        raise RefusedStream("22023", "neither a slot nor table_name is specified")
    # Hologres, "Technical Principle of Hologres Binlog": if both are given, the LSN takes precedence
    after = int(options["start_lsn"]) if "start_lsn" in options else None
    return Asked(
        options.get("table_name", ""),
        int(options.get("parallel_index", "0")),
        int(options.get("batch_size", "1024")),
        after,
        options.get("start_time", ""),
        options.get("enable_compression") == "true",
        slot,
    )


class WalSender:
    """Serves one stream on a connection until the client closes it; `connect` opens one of the stand-in's own
    sessions.
    """

    def __init__(self, client: socket.socket, user: str, connect: Callable[[], pg.Connection], faults: Faults) -> None:
        self._client = client
        self._user = user
        self._connect = connect
        self._faults = faults

    def serve(self, command: str) -> None:
        """Answer a command with a stream, or with an error, after which the connection remains open."""
        try:
            what = asked(command)
            self._faults.wait(what.shard)
            if not self._faults.begun(command):
                raise RefusedStream("53300", "too many wal senders already")
        except RefusedStream as refused:
            self._client.sendall(wire.error(*refused.args) + wire.READY)
            return
        try:
            if not self._faults.taken(what.slot, what.shard):
                raise RefusedStream("55006", f'replication slot "{what.slot}" is active for another session')
            with closing(self._connect()) as session, session.cursor() as cursor:
                _Stream(self._client, what, self._user, cursor, self._faults).run()
        except RefusedStream as refused:
            self._client.sendall(wire.error(*refused.args) + wire.READY)
        except pg.DriverError as failed:
            self._client.sendall(wire.error(*pg.failure(failed)))
            raise EOFError from failed
        finally:
            self._faults.over(what.slot, what.shard)


class _Stream:
    """A requested stream."""

    def __init__(self, client: socket.socket, what: Asked, user: str, cursor: pg.Cursor, faults: Faults) -> None:
        self._client, self._asked, self._user, self._cursor, self._faults = client, what, user, cursor, faults
        self._last = what.after
        self._version = 0
        self._columns: list[tuple[str, str]] = []
        self._rel, self._log = 0, ""

    def run(self) -> None:
        """Send until the client closes the connection (EOFError); raises RefusedStream if the stream is not allowed."""
        self._cursor.execute("SET timezone = 'UTC'; SET datestyle = 'ISO'; SET extra_float_digits = 1")
        if self._asked.slot:
            self._by_slot()
        self._table()
        self._client.sendall(wire.COPY_BOTH)
        caught_up, alive = False, time.monotonic()
        while True:
            self._heard(0.0 if not caught_up else PAUSE)
            self._faults.wait(self._asked.shard)
            rows = self._page()
            if rows:
                self._send(rows)
            elif not caught_up:
                self._data(message((), self._version, compressed=self._asked.compressed))
            caught_up = not rows
            if time.monotonic() - alive >= self._faults.keepalive_seconds:
                alive = time.monotonic()
                self._client.sendall(wire.keepalive(self._faults.frame_lsn, True))

    def _by_slot(self) -> None:
        """Determine the slot's table, and its confirmed position if the command names none."""
        asked = self._asked
        self._cursor.execute(_OF_SLOT, {"slot": asked.slot, "shard": asked.shard, "user": self._user})
        found = self._cursor.fetchone()
        if found is None:
            raise RefusedStream("42704", f'replication slot "{asked.slot}" does not exist')
        publication, table, confirmed, allowed = found
        if not allowed:
            raise RefusedStream("42501", "must be superuser or replication role to start walsender")
        if table is None:
            raise RefusedStream("XX000", f"no table is defined in publication {publication}")
        self._asked = replace(asked, table=str(table))
        if asked.after is None and not asked.since:
            self._last = confirmed

    def _table(self) -> None:
        """Read the current table and check it; the answer depends on the user's rights."""
        self._cursor.execute(_TABLE, {"table": self._asked.table, "user": self._user})
        found = self._cursor.fetchone()
        if found is None:
            raise RefusedStream("42P01", f'relation "{self._asked.table}" does not exist')
        self._rel, self._log, shards, self._version, readable, recorded = found
        if not readable:
            raise RefusedStream("42501", f"permission denied for table {self._asked.table}")
        if not recorded:
            raise RefusedStream("42703", f"hg_binlog is not enabled for table {self._asked.table}")
        if not 0 <= self._asked.shard < shards:
            raise RefusedStream("XX000", f"Shard ID does not exist: {self._asked.shard}")
        self._cursor.execute(_COLUMNS, (self._rel,))
        self._columns = [(str(name), str(kind)) for name, kind in self._cursor.fetchall()]
        odd = [kind for _, kind in self._columns if not sendable(kind)]
        if odd:
            raise RefusedStream("0A000", f"Binlog Convert Failed: type {odd[0]} is not supported")

    def _heard(self, seconds: float) -> None:
        """Wait up to `seconds` for messages of the client and process them; raises EOFError if the client
        closes the stream.
        """
        while self._readable(seconds):
            letter, body = wire.message(self._client)
            if letter in (b"X", b"c"):
                raise EOFError
            lsn = wire.flushed(body) if letter == b"d" else None
            if lsn is not None:
                self._faults.flushed.add(lsn)
                self._confirmed(lsn)
            seconds = 0.0

    def _confirmed(self, lsn: int) -> None:
        """Move the slot to a flushed LSN unless the LSN is invalid (PostgreSQL, ProcessStandbyReplyMessage)."""
        if self._asked.slot and lsn and not self._faults.deaf:
            to = (self._asked.slot, self._asked.shard, lsn, not self._faults.forward_only)
            self._cursor.execute("SELECT hg_standin.confirmed(%s, %s, %s, %s)", to)

    def _readable(self, seconds: float) -> bool:
        """Whether the client sends data within `seconds`; raises EOFError if the connection has been closed."""
        try:
            return bool(select.select([self._client], [], [], seconds)[0])
        except ValueError as closed:  # the descriptor of a closed socket is -1
            raise EOFError from closed

    def _page(self) -> list[tuple[Any, ...]]:
        spelled = [SQL(", {}").format(pg.text_form(kind, Identifier(name))) for name, kind in self._columns]
        place = SQL("hg_binlog_lsn > {}").format(Literal(self._last or 0))
        if self._last is None and self._asked.since:
            at = SQL("extract(epoch FROM {}::timestamptz) * 1000000").format(Literal(self._asked.since))
            place = SQL("hg_binlog_timestamp_us >= {}").format(at)
        statement = SQL(_PAGE).format(
            rel=Literal(self._rel),
            columns=SQL("").join(spelled),
            log=Identifier(self._log),
            shard=Literal(self._asked.shard),
            place=place,
            most=Literal(self._asked.batch),
        )
        self._cursor.execute(statement)
        rows = self._cursor.fetchall()
        if rows and rows[0][0] != self._version:
            self._table()
            return self._page()
        return [tuple(one[1:]) for one in rows]

    def _send(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Send a batch as one message, with its fault, if one is armed."""
        fault = self._faults.take(StreamFault)
        cut = next((n for n, one in enumerate(rows, 1) if one[1] == BEFORE), 0) if fault is StreamFault.SPLIT else 0
        rows = rows[:cut] if cut else rows
        self._last = int(rows[-1][0])
        sent = list(map(self._encoded, rows))
        if fault is StreamFault.LEFT_OUT:
            sent = [b"", *sent, b""]
        version = self._version + (fault is StreamFault.VERSION)
        payload = message(sent, version, compressed=self._asked.compressed)
        if fault is StreamFault.EMPTY:
            self._data(message((), version, compressed=self._asked.compressed))
        if fault is StreamFault.DROP:
            whole = wire.logged(payload)
            self._client.sendall(whole[: len(whole) // 2])
            raise EOFError
        for _ in range(2 if fault is StreamFault.TWICE else 1):
            self._data(payload)
        self._faults.messages += 1

    def _encoded(self, one: tuple[Any, ...]) -> bytes:
        lsn, event, us, *texts = one
        kinds = [kind for _, kind in self._columns]
        values = [value_of(kind, text) for kind, text in zip(kinds, texts, strict=True)]
        return row(int(lsn), int(event), int(us), list(map(plain, kinds)), values)

    def _data(self, payload: bytes) -> None:
        self._client.sendall(wire.logged(payload))
