"""The quarantine as a step writes it: entries are held and superseded in the transaction of the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.quarantine import EVERYWHERE
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.domain.start import SAFE
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Defect, Trouble, TroubleName
from slotkeeper.core.sinks.postgres.progress.locks import lock_number
from slotkeeper.core.sinks.postgres.progress.store import key_of
from slotkeeper.core.sinks.postgres.quarantine import entries
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write.statements import TargetTable

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
Composable = pg.sql.Composable


@dataclass(frozen=True, slots=True)
class Bad:
    """Why a row was refused, without its values; `column` and `constraint` where the server names them."""

    sqlstate: str
    column: str
    constraint: str
    message: str

    @property
    def values(self) -> dict[str, Any]:
        """As parameters of a statement."""
        return {part: getattr(self, part) for part in ("sqlstate", "column", "constraint", "message")}


@dataclass(frozen=True, slots=True)
class Copied:
    """Where a copied row belongs: the lane whose progress row names the run, the DN or "*", and the stream's start."""

    row: str
    shard: str
    point: int


class Quarantine:
    """The entries of one slot's table, over an open transaction; `quarantined` counts what this transaction holds."""

    def __init__(
        self, session: SinkSession, cursor: pg.Cursor, table: TargetTable, options: SinkOptions, key: LaneKey
    ) -> None:
        self._session, self._cursor, self._table, self._options = session, cursor, table, options
        self._key = key
        self._place: dict[str, Any] = {**key_of(key)}
        self._before = 0
        self.quarantined = 0

    def open(self) -> None:
        """Let nobody else hold rows of this table until the end: the limit is counted by one at a time."""
        name = "/".join(("slotkeeper quarantine", self._key.source, self._key.source_table, self._key.slot))
        self._cursor.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number(name),))

    def supersede(self, keys: Composable, by: str) -> list[int]:
        """End the entries whose key is among `keys`; returns the old halves that take effect now, ended too."""
        by = f"{self._key.shard} {by}"
        if not self._run("supersede", {"by": by}, keys=keys).rowcount:
            return []
        ids = [id for (id,) in self._run("old_halves").fetchall()]
        if ids:
            self._run("halves_ended", {"by": by, "ids": ids})
        return ids

    def copied(self) -> Copied:
        """Where the rows of a copy belong: to the only DN there is, or to none by name."""
        lanes = self._run("lanes").fetchall()
        if not lanes:
            raise Defect(f"{self._key.source_table} slot {self._key.slot} has no progress row")
        shard = lanes[0][0] if len(lanes) == 1 else EVERYWHERE
        return Copied(lanes[0][0], shard, min(point or 0 for _, point in lanes))

    def add(self, unit: int, bad: Bad, alone: bool = True, copied: Copied | None = None) -> None:
        """Hold a unit; raises QUARANTINE FULL where the limit is passed, and then nothing of the step stays.

        `alone` leaves out the old half of a changed key, because there is none.
        """
        if not self.quarantined:
            (self._before,) = self._run("quarantined").fetchone() or (0,)
        self.quarantined += 1
        if self._before + self.quarantined > self._options.quarantine_limit:
            raise self._full(bad)
        lane = copied or Copied(self._key.shard, self._key.shard, 0)
        place = {"row": lane.row, "shard": lane.shard, "point": copied.point if copied else None}
        values = {**bad.values, **place, "unit": unit, "alone": alone, "names": list(self._table.columns)}
        units = Identifier(self._table.units)
        if not self._run("hold", values, columns=self._texts(), units=units).rowcount:
            raise Defect(f"unit {unit} was not quarantined: its lane has no progress row")

    def just_quarantined(self) -> Composable:
        """(point, sequence, key) of what this transaction holds, as SELECT."""
        return self._origin("point, sequence, key", "state = 'quarantined' AND quarantined_at = now()")

    def one(self, id: int) -> Composable:
        """One entry, as what stands after FROM."""
        return SQL("{}.slotkeeper_quarantine WHERE id = {}").format(self._session.schema, Literal(id))

    def _texts(self) -> Composable:
        """The columns of a unit; of an old half its key alone."""
        columns = []
        for n in range(1, len(self._table.columns) + 1):
            column = SQL("u.{}").format(Identifier(f"c{n}"))
            whole = n in self._table.places
            columns.append(column if whole else SQL("CASE WHEN u.kind <> 'B' THEN {} END").format(column))
        return SQL(", ").join(columns)

    def _origin(self, columns: str, where: str) -> Composable:
        place = [SQL("{} = {}").format(Identifier(name), Literal(value)) for name, value in self._place.items()]
        return SQL("SELECT {} FROM {}.slotkeeper_quarantine WHERE {} AND {}").format(
            SQL(columns), self._session.schema, SQL(" AND ").join(place), SQL(where)
        )

    def _full(self, bad: Bad) -> Trouble:
        limit, key = self._options.quarantine_limit, self._key
        what = f"{key.source_table} slot {key.slot} has more bad rows than quarantine_limit = {limit} allows"
        place = f" ({bad.constraint or bad.column})" if bad.constraint or bad.column else ""
        sentence = f"{what}; the last one: {bad.sqlstate} {bad.message}{place}"
        hint = SAFE[TroubleName.QUARANTINE_FULL]
        return Trouble(sentence, hint, bad.sqlstate, "sink", name=TroubleName.QUARANTINE_FULL)

    def _run(self, name: str, values: dict[str, Any] | None = None, **parts: Composable) -> pg.Cursor:
        return entries.run(self._session, self._cursor, name, {**self._place, **(values or {})}, **parts)
