"""Closes quarantine entries on request by applying a quarantined row to the target or discarding it.

Like every step, a replay first locks the lane's progress row, so that no step runs between the replay's read of the
entry and its commit. The position and epoch of the progress row do not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.quarantine import EVERYWHERE, OUTDATED, OUTDATED_WHY, EntryState, Replayed
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused
from slotkeeper.core.sinks.postgres import own_tables, session
from slotkeeper.core.sinks.postgres.progress.store import key_of
from slotkeeper.core.sinks.postgres.quarantine import entries
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write import session_tables, text_staging
from slotkeeper.core.sinks.postgres.write import statements as compose
from slotkeeper.core.sinks.postgres.write.row_isolation import DAMAGED, Bad, bad_of, move
from slotkeeper.core.sinks.postgres.write.statements import TargetTable

SQL, Literal = pg.sql.SQL, pg.sql.Literal
_OTHER_COLUMNS = Bad("", "", "", "the target's columns have changed since the row was quarantined")
_OUTDATED = Bad(OUTDATED, "", "", OUTDATED_WHY)
_UNIT = ("id", "state", "shard", "pair", "damaged", "names", "sqlstate")


@dataclass(frozen=True, slots=True)
class _Unit:
    """A quarantined entry and, for a changed key, the other half of the change if that is quarantined too."""

    ids: tuple[int, ...]
    state: EntryState
    shard: str
    damaged: bool
    outdated: bool
    names: tuple[str, ...]


class Replays:
    """The entries of one slot's table, with a separate session; `key` names the table, and its shard is ignored."""

    def __init__(self, session: SinkSession, key: LaneKey) -> None:
        self._session = session
        self._place = {name: value for name, value in key_of(key).items() if name != "shard"}

    def quarantined(self) -> list[int]:
        """Return the ids of all quarantined entries in the order in which their rows were read."""
        with self._session.transaction() as cursor:
            if not entries.exists(self._session, cursor):
                return []
            return [id for (id,) in entries.run(self._session, cursor, "entry_ids", self._place).fetchall()]

    def replay(self, id: int, table: TargetTable, options: SinkOptions, by: str, reason: str) -> Replayed:
        """Apply an entry in one transaction, both halves of a changed key together; raises Refused during a copy."""
        for statement in session_tables.temporary(table, options):
            with self._session.transaction() as cursor:
                cursor.execute(statement)
        with self._session.transaction() as cursor:
            unit = self._locked(cursor, id, table)
            if unit.state is not EntryState.QUARANTINED:
                return Replayed(id, unit.state)
            bad = self._apply(cursor, unit, table, options)
            if bad is None:
                self._end(cursor, unit, EntryState.REPLAYED, by, reason, tries=1)
                return Replayed(id, EntryState.REPLAYED, unit.ids)
            entries.run(self._session, cursor, "still_bad", {**bad.values, "ids": list(unit.ids)})
            return Replayed(
                id, EntryState.QUARANTINED, unit.ids, bad.sqlstate, bad.message, bad.constraint or bad.column
            )

    def discard(self, id: int, by: str, reason: str) -> Replayed:
        """Discard an entry and leave the target unchanged; both halves of a changed key are discarded together."""
        with self._session.transaction() as cursor:
            unit = self._unit(cursor, id)
            if unit.state is not EntryState.QUARANTINED:
                return Replayed(id, unit.state)
            self._end(cursor, unit, EntryState.DISCARDED, by, reason)
            return Replayed(id, EntryState.DISCARDED, unit.ids)

    def _locked(self, cursor: pg.Cursor, id: int, table: TargetTable) -> _Unit:
        """Lock the lane's progress row, then return the unit; a step takes its locks in the same order."""
        seen = next((one for one in entries.run(self._session, cursor, "shard_of", {**self._place, "id": id})), None)
        shard = seen[0] if seen else EVERYWHERE
        lanes = self._lanes(cursor, shard, every=shard == EVERYWHERE) or self._lanes(cursor, shard, every=True)
        if not lanes:
            what = f"{self._place['source_table']} slot {self._place['slot']} has no progress row"
            raise Refused(what, "start the job first: a replay writes to its target", where="sink")
        entries.refuse_copying(state for _, state, _ in lanes)
        if any(target.partition(".")[2] != table.place for *_, target in lanes):  # database.schema.table
            raise Refused(f"its job writes to {lanes[0][2]}, not {table.place}", "start the job first", where="sink")
        return self._unit(cursor, id)

    def _lanes(self, cursor: pg.Cursor, shard: str, every: bool) -> list[tuple[str, str, str]]:
        place = {**self._place, "shard": shard, "every": every}
        return entries.run(self._session, cursor, "lock_lanes", place).fetchall()

    def _unit(self, cursor: pg.Cursor, id: int) -> _Unit:
        own_tables.refuse_newer(self._session, cursor, "quarantine")
        found = entries.run(self._session, cursor, "unit", {**self._place, "id": id}).fetchall()
        rows: list[dict[str, Any]] = [dict(zip(_UNIT, row, strict=True)) for row in found]
        mine = next((row for row in rows if row["id"] == id), None)
        if mine is None:
            what = f"unknown entry {id} of {self._place['source_table']} slot {self._place['slot']}"
            raise Refused(what, "`slotkeeper errors list` shows the entries", where="sink")
        ids = tuple(row["id"] for row in rows if row["state"] == EntryState.QUARANTINED.value)
        damaged = any(row["damaged"] for row in rows if row["id"] in ids)
        outdated = any(row["sqlstate"] == OUTDATED for row in rows if row["id"] in ids)
        return _Unit(ids, EntryState(mine["state"]), mine["shard"], damaged, outdated, tuple(mine["names"]))

    def _apply(self, cursor: pg.Cursor, unit: _Unit, table: TargetTable, options: SinkOptions) -> Bad | None:
        if unit.damaged or unit.outdated:
            return _OUTDATED if unit.outdated else DAMAGED
        if unit.names != table.columns:
            return _OTHER_COLUMNS
        cursor.execute("SAVEPOINT slotkeeper_replay")
        try:
            wanted = SQL(", ").join(map(Literal, unit.ids))
            rows = move(
                cursor,
                text_staging.entries(
                    table, SQL("{}.slotkeeper_quarantine WHERE id IN ({})").format(self._session.schema, wanted)
                ),
                session_tables.fill_staging(table),
            )
            compose.execute(cursor, compose.plan(table, options, rows))
        except pg.DriverError as error:
            if not session.is_bad_row(error):
                raise
            cursor.execute("ROLLBACK TO SAVEPOINT slotkeeper_replay")
            return bad_of(error, table)
        return None

    def _end(self, cursor: pg.Cursor, unit: _Unit, state: EntryState, by: str, reason: str, tries: int = 0) -> None:
        values = {"ids": list(unit.ids), "state": state.value, "by": by, "reason": reason, "tries": tries}
        entries.run(self._session, cursor, "end", values)
