"""The quarantine of a sink: its table, pages of entries, one full entry, and counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from slotkeeper.core.domain.progress import LaneKey, LaneState
from slotkeeper.core.domain.quarantine import (
    EVERYWHERE,
    OUTDATED,
    OUTDATED_WHY,
    EntryState,
    QuarantineCount,
    QuarantineEntry,
    Wanted,
)
from slotkeeper.core.domain.start import SAFE
from slotkeeper.core.domain.text import whole
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Defect, Refused, Trouble, TroubleName
from slotkeeper.core.sinks.postgres import own_tables
from slotkeeper.core.sinks.postgres.progress.locks import lock_number
from slotkeeper.core.sinks.postgres.session import SinkSession

SQL: Book = ("slotkeeper.core.sinks.postgres.quarantine", "quarantine.sql")
_FIELDS = [name for name in QuarantineEntry.__dataclass_fields__ if name != "values"]


class QuarantineRows:
    """The quarantine of one sink, accessed through a session; a sink without a quarantine table has no entries."""

    def __init__(self, session: SinkSession) -> None:
        self.session = session
        self.close = session.close

    def page(self, wanted: Wanted) -> list[QuarantineEntry]:
        names = ("source", "source_table", "slot", "job", "shard", "sqlstate", "before", "limit")
        values: dict[str, Any] = {name: getattr(wanted, name) for name in names}
        values |= {"states": [one.value for one in wanted.states], "all": not wanted.states}
        return [quarantine_of(row) for row in self._rows("page", values)]

    def entry(self, id: int) -> QuarantineEntry | None:
        return next((quarantine_of(row) for row in self._rows("entry", {"id": id})), None)

    def counts(self) -> list[QuarantineCount]:
        return [QuarantineCount(*row) for row in self._rows("counts", {})]

    def values(self, key: LaneKey) -> list[dict[str, str | None]]:
        return [dict(zip(names, texts, strict=True)) for names, texts in self._rows("entry_values", asdict(key))]

    def _rows(self, name: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        with self.session.transaction() as cursor:
            return run(self.session, cursor, name, values).fetchall() if exists(self.session, cursor) else []


def exists(session: SinkSession, cursor: pg.Cursor) -> bool:
    return session.has(cursor, "exists", SQL)


def open(cursor: pg.Cursor, key: LaneKey) -> None:
    """Lock this table's quarantine until the transaction ends, so that only one session at a time checks the limit."""
    name = "/".join(("slotkeeper quarantine", key.source, key.source_table, key.slot))
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number(name),))


def refuse_copying(states: Iterable[str]) -> None:
    """Raise Refused if one of these lane states means that a copy is unfinished: no replay runs during a copy."""
    if {LaneState.CREATING.value, LaneState.COPYING.value}.intersection(states):
        raise Refused("the copy is unfinished", "replay once the job is CATCHING UP or RUNNING", where="sink")


def full(key: LaneKey, limit: int, last: str) -> Trouble:
    """Return the error QUARANTINE FULL; `last` is the SQLSTATE and the message for the last bad row."""
    what = f"{key.source_table} slot {key.slot} has more bad rows than quarantine_limit = {limit}"
    hint, code = SAFE[TroubleName.QUARANTINE_FULL], last.partition(" ")[0]
    return Trouble(f"{what}; the last row: {last}", hint, code, "sink", name=TroubleName.QUARANTINE_FULL)


def copied(session: SinkSession, cursor: pg.Cursor, key: LaneKey) -> tuple[str, str, int]:
    """Return the lane, DN and point under which a copied row is quarantined.

    The lane's progress row names the run. The DN is "*" unless the slot has exactly one DN. The point is where the
    stream starts: the lowest number among the recorded positions, in the format of the quarantine's column.
    """
    lanes = run(session, cursor, "lanes", asdict(key)).fetchall()
    if not lanes:
        raise Defect(f"{key.source_table} slot {key.slot} has no progress row")
    points = (whole(str(point or 0).partition("/")[0]) or 0 for _, point in lanes)
    return lanes[0][0], lanes[0][0] if len(lanes) == 1 else EVERYWHERE, min(points)


def run(
    session: SinkSession, cursor: pg.Cursor, name: str, values: dict[str, Any], **parts: pg.sql.Composable
) -> pg.Cursor:
    """Execute the statement `name` of quarantine.sql with its `parts`."""
    return session.run(cursor, name, values, SQL, **parts)


def prepare(session: SinkSession, cursor: pg.Cursor, place: dict[str, Any], wanted: bool) -> None:
    """Create the table if the job uses a quarantine; raise Refused if the job does not use it but has rows in it.

    The changes of such a job would not end the entries, so replaying an entry would then overwrite a newer row.
    """
    there = exists(session, cursor)
    if wanted or there:
        own_tables.prepare(session, cursor, "quarantine")
    (quarantined,) = (run(session, cursor, "quarantined", place).fetchone() or (0,)) if there and not wanted else (0,)
    if quarantined:
        place_text = f"{place['source_table']} slot {place['slot']}"
        what = f'{place_text} has {quarantined} rows in quarantine, but on_bad_row is "stop"'
        raise Refused(
            what, '`slotkeeper errors replay` or `errors discard` them, or set on_bad_row = "quarantine"', where="sink"
        )


def rename(session: SinkSession, cursor: pg.Cursor, names: dict[str, Any]) -> None:
    if exists(session, cursor):
        run(session, cursor, "renamed", names)


def outdate(session: SinkSession, cursor: pg.Cursor, place: dict[str, Any]) -> None:
    """Mark the entries of a slot's table: the source's rows no longer have all their values."""
    if exists(session, cursor):
        run(session, cursor, "outdate", {**place, "sqlstate": OUTDATED, "message": OUTDATED_WHY})


def archive(session: SinkSession, cursor: pg.Cursor, place: dict[str, Any]) -> None:
    """Archive the entries of a slot's table and its target when a copy starts, because it reads every row again."""
    if exists(session, cursor):
        run(session, cursor, "archive", place)


def quarantine_of(row: tuple[Any, ...]) -> QuarantineEntry:
    """Parse a result row of the statements `page` and `entry`."""
    given: dict[str, Any] = dict(zip(_FIELDS, row, strict=False))
    given |= {"key": tuple(given["key"]), "state": EntryState(given["state"])}
    return QuarantineEntry(**given, values=tuple(zip(*row[len(_FIELDS) :], strict=True)) if row[len(_FIELDS) :] else ())
