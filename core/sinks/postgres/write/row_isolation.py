"""Applies a step or chunk that contains a bad row in pieces: accepted rows are applied, rejected rows are quarantined.

Everything, including the changes to quarantine entries, happens in the transaction that the fence started, so that no
row is lost or duplicated (design 4.7). Units are applied in blocks. A block that fails is halved, each half under its
own savepoint, until the bad unit is found: about log2(BLOCK) attempts for each bad row.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import IO, Any

from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.quarantine import key_in_words
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Defect, TooLarge
from slotkeeper.core.sinks.postgres import session
from slotkeeper.core.sinks.postgres.quarantine import entries
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write import session_tables, text_staging
from slotkeeper.core.sinks.postgres.write import statements as compose
from slotkeeper.core.sinks.postgres.write.statements import Plan, TargetTable

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
Composable = pg.sql.Composable


@dataclass(frozen=True, slots=True)
class Bad:
    """The error for a rejected row, without its values; `column` and `constraint` are set if the server names them."""

    sqlstate: str
    column: str
    constraint: str
    message: str

    @property
    def values(self) -> dict[str, Any]:
        """The fields as parameters of a statement."""
        return {part: getattr(self, part) for part in ("sqlstate", "column", "constraint", "message")}


class Quarantine:
    """The entries of one slot's table in an open transaction; `quarantined` is the number of entries added."""

    def __init__(
        self, session: SinkSession, cursor: pg.Cursor, table: TargetTable, options: SinkOptions, key: LaneKey
    ) -> None:
        self._session, self._cursor, self._table, self._options = session, cursor, table, options
        self._key = key
        self._place = asdict(key)
        self._before = 0
        self.quarantined = 0

    def supersede(self, keys: Composable, by: str) -> list[int]:
        """Supersede the entries with one of these keys; return the ids of old halves that take effect as a result."""
        by = f"{self._key.shard} {by}"
        if not self._run("supersede", {"by": by}, keys=keys).rowcount:
            return []
        ids = [id for (id,) in self._run("old_halves").fetchall()]
        if ids:
            self._run("halves_ended", {"by": by, "ids": ids})
        return ids

    def add(self, unit: int, bad: Bad, alone: bool = True, copied: tuple[str, str, int] | None = None) -> None:
        """Quarantine a unit; raises QUARANTINE FULL if the limit is exceeded, and the whole step is then rolled back.

        With `alone`, no old half of a changed key is stored. `copied`: the lane, DN and point of a copied row.
        """
        if not self.quarantined:
            (self._before,) = self._run("quarantined").fetchone() or (0,)
        self.quarantined += 1
        if self._before + self.quarantined > self._options.quarantine_limit:
            place = f" ({bad.constraint or bad.column})" if bad.constraint or bad.column else ""
            raise entries.full(self._key, self._options.quarantine_limit, f"{bad.sqlstate} {bad.message}{place}")
        row, shard, point = copied or (self._key.shard, self._key.shard, None)
        values = {**bad.values, "row": row, "shard": shard, "point": point}
        values |= {"unit": unit, "alone": alone, "names": list(self._table.columns)}
        units = Identifier(self._table.units)
        if not self._run("hold", values, columns=self._texts(), units=units).rowcount:
            raise Defect(f"unit {unit} was not quarantined: its lane has no progress row")

    def just_quarantined(self) -> Composable:
        """Return a SELECT for (point, sequence, key) of the entries that this transaction has added."""
        place = [SQL("{} = {}").format(Identifier(name), Literal(value)) for name, value in self._place.items()]
        return SQL("SELECT {} FROM {}.slotkeeper_quarantine WHERE {} AND {}").format(
            SQL("point, sequence, key"),
            self._session.schema,
            SQL(" AND ").join(place),
            SQL("state = 'quarantined' AND quarantined_at = now()"),
        )

    def one(self, id: int) -> Composable:
        """Return the FROM item that selects one entry."""
        return SQL("{}.slotkeeper_quarantine WHERE id = {}").format(self._session.schema, Literal(id))

    def _texts(self) -> Composable:
        """Return the columns of a unit; for an old half, only the key columns."""
        columns = []
        for n in range(1, len(self._table.columns) + 1):
            column = SQL("u.{}").format(Identifier(f"c{n}"))
            whole = n in self._table.places
            columns.append(column if whole else SQL("CASE WHEN u.kind <> 'B' THEN {} END").format(column))
        return SQL(", ").join(columns)

    def _run(self, name: str, values: dict[str, Any] | None = None, **parts: Composable) -> pg.Cursor:
        return entries.run(self._session, self._cursor, name, {**self._place, **(values or {})}, **parts)


class FirstBadRow(Quarantine):
    """Replaces the quarantine of a job that stops at a bad row; the error names the row."""

    def supersede(self, keys: Composable, by: str) -> list[int]:
        return []

    def add(self, unit: int, bad: Bad, alone: bool = True, copied: tuple[str, str, int] | None = None) -> None:
        """Raise RowRefused with the key of the unit; for a changed key, the new key."""
        key = SQL("SELECT key FROM {} WHERE unit = {} ORDER BY kind = 'B'").format(
            Identifier(self._table.units), Literal(unit)
        )
        self._cursor.execute(key)
        (values,) = self._cursor.fetchone() or ((),)
        row = key_in_words([self._table.columns[n - 1] for n in self._table.places], values)
        raise session.bad_row(self._session.place, f"row {row}: {bad.message}", bad.sqlstate)


BLOCK = 1_000
"""Initial number of units per attempt: larger blocks are halved more often, smaller blocks need more statements."""
SPOOL = 8_388_608
"""Maximum number of bytes of a piece in memory during its transfer; the rest is written to a file."""
_PLACE = re.compile(r", line \d+, column (.*)", re.DOTALL)

LONGEST = 8.0
"""Maximum seconds of an isolating step: a longer task would be abandoned. The next attempt is half as wide."""
STALE = 2_000
"""Number of dead staging rows above which the table is truncated; fewer rows are faster to delete."""

_CONSTRAINTS = "23"
"""SQLSTATE class of violated constraints."""

Attempt = Callable[[int, int], Bad | None]
Single = Callable[[int, Bad], None]


@dataclass(frozen=True, slots=True)
class Into:
    """The destination of a piece: the table that it is copied into, and the statements that then apply its rows."""

    copy: Composable
    plan: Callable[[int], Plan] | None


class RowIsolation:
    """One isolating step or chunk in an open transaction whose fence succeeded."""

    def __init__(
        self, session: SinkSession, cursor: pg.Cursor, table: TargetTable, options: SinkOptions, key: LaneKey
    ) -> None:
        self._cursor, self._table, self._options = cursor, table, options
        self._kept = (Quarantine if options.quarantines else FirstBadRow)(session, cursor, table, options, key)
        self._damaged: set[int] = set()
        self._stale = 0
        self._session, self._key, self._end = session, key, math.inf
        staging = session_tables.fill_staging(table)
        self._into = Into(staging, lambda rows: compose.plan(table, options, rows))

    def step(self, by: str) -> None:
        """Apply or quarantine the staged events; `by` is the lane's new position, recorded in superseded entries."""
        entries.open(self._cursor, self._key)
        self._end = self._session.seconds() + LONGEST
        self._fill_units()
        for entry in self._kept.supersede(text_staging.touched_units(self._table), by):
            self._try(text_staging.entries(self._table, self._kept.one(entry)), self._into)
        self._walk(self._attempt, self._single)
        if self._kept.quarantined:
            self._clear(self._table.units)
            self._fill_units(self._kept.just_quarantined())
            self._walk(self._attempt, self._before)

    def _fill_units(self, besides: Composable | None = None) -> None:
        self._cursor.execute(text_staging.units(self._table, self._options, besides))
        if self._table.marks:
            self._cursor.execute(text_staging.earlier_images(self._table))

    def chunk(self, into: Into) -> None:
        """Copy or quarantine the staged rows."""
        entries.open(self._cursor, self._key)
        copied = entries.copied(self._session, self._cursor, self._key)
        self._cursor.execute(text_staging.chunk_units(self._table))

        def attempt(first: int, last: int) -> Bad | None:
            return self._among(first, last) or self._try(text_staging.rows(self._table, first, last), into)

        def single(unit: int, bad: Bad) -> None:
            self._kept.add(unit, bad, copied=copied)

        self._walk(attempt, single)

    def _walk(self, attempt: Attempt, single: Single) -> None:
        """Try all units in blocks; call `single` with each bad unit and its error."""
        if self._table.dialect.analyzes:
            self._cursor.execute(SQL("ANALYZE {}").format(Identifier(self._table.units)))
        total, self._damaged = self._sizes()
        for first in range(1, total + 1, BLOCK):
            last = min(total, first + BLOCK - 1)
            bad = attempt(first, last)
            if bad:
                self._halve(first, last, bad, attempt, single)

    def _halve(self, first: int, last: int, known: Bad | None, attempt: Attempt, single: Single) -> None:
        """Find the bad units in a range that failed; if the first half succeeds, the second half must be bad."""
        if first == last:
            bad = known or attempt(first, first)
            if bad:
                single(first, bad)
            return
        middle = (first + last) // 2
        left = attempt(first, middle)
        if left:
            self._halve(first, middle, left, attempt, single)
        right = attempt(middle + 1, last) if left else None
        if right or not left:
            self._halve(middle + 1, last, right, attempt, single)

    def _sizes(self) -> tuple[int, set[int]]:
        """Return (the number of units, the units whose text the sink cannot store)."""
        units = Identifier(self._table.units)
        self._cursor.execute(SQL("SELECT coalesce(max(unit), 0) FROM {}").format(units))
        (total,) = self._cursor.fetchone() or (0,)
        damaged = "SELECT unit FROM {} WHERE kind IN ('i', 'u')"
        self._cursor.execute(SQL(damaged).format(units))
        return int(total), {unit for (unit,) in self._cursor.fetchall()}

    def _attempt(self, first: int, last: int) -> Bad | None:
        return self._among(first, last) or self._try(text_staging.piece(self._table, first, last), self._into)

    def _among(self, first: int, last: int) -> Bad | None:
        return DAMAGED if any(first <= unit <= last for unit in self._damaged) else None

    def _single(self, unit: int, bad: Bad | None) -> None:
        """Apply the valid part of a bad unit; quarantine its last event if the target rejects it.

        A delete has no effect if the target cannot store the key, because such a row does not exist. So an old half
        with such a key is dropped, and only the new half is applied.
        """
        found = SQL("SELECT kind::text FROM {} WHERE unit = {}")
        self._cursor.execute(found.format(Identifier(self._table.units), Literal(unit)))
        kinds = {kind for (kind,) in self._cursor.fetchall()}
        if not kinds & {"I", "U", "i", "u"}:
            self._mark(unit)
            return
        alone = "B" not in kinds
        if not alone:
            bad = self._among(unit, unit) or self._try(text_staging.piece(self._table, unit, unit, "U"), self._into)
            if bad is None:
                self._mark(unit)
                return
            alone = self._try(text_staging.piece(self._table, unit, unit, "B"), self._into, keep=False) is not None
        assert bad is not None
        self._kept.add(unit, bad, alone)

    def _mark(self, unit: int) -> None:
        """Apply only the soft deletes of a bad unit: mark the rows that the target has, without an earlier image.

        Raises RowRefused if a constraint rejects the marked row, because a delete is never quarantined.
        """
        if self._table.marks:
            bad = self._try(text_staging.piece(self._table, unit, unit, "dBx"), self._into)
            if bad is not None and bad.sqlstate.startswith(_CONSTRAINTS):
                FirstBadRow(self._session, self._cursor, self._table, self._options, self._key).add(unit, bad)

    def _before(self, unit: int, bad: Bad) -> None:
        """Handle a bad event that precedes a quarantined event of the same key: apply only the delete of the key."""
        self._mark(unit)
        self._try(text_staging.ends(self._table, unit), self._into)

    def _try(self, out: Composable, into: Into, keep: bool = True) -> Bad | None:
        """Apply a piece under a savepoint and return None; on a bad row, roll the piece back and return the error."""
        if self._session.seconds() > self._end:
            what = f"an isolating step of {self._table.name} took longer than {LONGEST:.0f} s: it has too many bad rows"
            raise TooLarge(what, where="sink")
        self._cursor.execute("SAVEPOINT slotkeeper_piece")
        bad = None
        try:
            rows = move(self._cursor, out, into.copy)
            self._stale += rows
            if rows and into.plan:
                compose.execute(self._cursor, into.plan(rows))
                self._cleared()
        except pg.DriverError as error:
            if not session.is_bad_row(error):
                raise
            bad = bad_of(error, self._table)
        undo = bad is not None or not keep
        self._cursor.execute("ROLLBACK TO SAVEPOINT slotkeeper_piece" if undo else "RELEASE SAVEPOINT slotkeeper_piece")
        return bad

    def _cleared(self) -> None:
        """Empty the staging tables for the next piece."""
        names = [self._table.staging]
        if compose.needs_net(self._table, self._options):
            names.append(self._table.net)
        for name in names:
            if self._stale < STALE:
                self._cursor.execute(SQL("DELETE FROM {}").format(Identifier(name)))
            else:
                self._clear(name)
        self._stale = self._stale if self._stale < STALE else 0

    def _clear(self, name: str) -> None:
        self._cursor.execute(SQL("TRUNCATE {}").format(Identifier(name)))


DAMAGED = Bad("22021", "", "", "text that the sink's encoding cannot represent; stored as bytes")


def move(cursor: pg.Cursor, out: Composable, into: Composable) -> int:
    """Copy rows from one of the session's own tables into another table with COPY; return their number."""
    with tempfile.SpooledTemporaryFile(max_size=SPOOL) as spool:
        there: IO[bytes] = spool
        cursor.copy_expert(out.as_string(cursor), there)
        there.seek(0)
        return pg.copy_in(cursor, into, there)


def bad_of(error: pg.DriverError, table: TargetTable) -> Bad:
    """Return the server's error for a row, without the row's values."""
    code, sentence = session.sentence(error)
    said = pg.named(error)
    return Bad(code, said.column or _column(said.context, table), said.constraint, sentence)


def _column(context: str, table: TargetTable) -> str:
    """Return the column at which a COPY failed, found by its number in the staging table or its name in the target."""
    place = _PLACE.search(context)
    if place is None:
        return ""
    names = {f"c{n}": name for n, name in enumerate(table.columns, 1)} if table.staging in context else {}
    names = names or {name: name for name in table.columns}
    return next((name for spelled, name in names.items() if place[1].startswith(f"{spelled}:")), "")
