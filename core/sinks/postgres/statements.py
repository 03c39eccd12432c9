"""The statements of the staging path, as pure functions of table and columns (write mode copy_upsert).

The staging table's columns are c1..cn in the target's types, so that no name of a user's column can collide with ours.
Next door: `sink.py` runs them in the order that design 4.2 fixes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from core.drivers import pg

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
Composable = pg.sql.Composable


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A target: `schema.table`, its columns in the source's order, and which of them are the key."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def identifier(self) -> Composable:
        """`"schema"."table"`."""
        return Identifier(*self.name.split(".", 1))

    @property
    def staging(self) -> str:
        """The session's staging table, named by table and columns, so that a changed table gets another."""
        spelled = "\x1f".join((self.name, *self.columns))
        return "slotkeeper_stage_" + hashlib.sha256(spelled.encode()).hexdigest()[:12]


def create_staging(table: TargetTable) -> Composable:
    """The session's temporary table; emptied at every commit, made once."""
    columns = SQL(", ").join(
        SQL("{} AS {}").format(Identifier(name), Identifier(f"c{n}")) for n, name in enumerate(table.columns, 1)
    )
    return SQL(
        "CREATE TEMP TABLE IF NOT EXISTS {stage} ON COMMIT DELETE ROWS AS"
        " SELECT 0::bigint AS point, 0::bigint AS sequence, 'I'::\"char\" AS kind, {columns} FROM {table} WITH NO DATA"
    ).format(stage=Identifier(table.staging), columns=columns, table=table.identifier)


def fill_staging(table: TargetTable) -> Composable:
    """COPY into the staging table, in the order in which the source writes."""
    return SQL("COPY {} FROM STDIN").format(Identifier(table.staging))


def fill_target(table: TargetTable, into: Composable | None = None) -> Composable:
    """COPY of a chunk straight into the target (or into `into`)."""
    columns = SQL(", ").join(map(Identifier, table.columns))
    return SQL("COPY {} ({}) FROM STDIN").format(into or table.identifier, columns)


def fill_chunk_staging(table: TargetTable) -> Composable:
    """COPY of a chunk into the staging table, which then has no point and no kind of its own."""
    return SQL("COPY {} ({}) FROM STDIN").format(Identifier(table.staging), _staged(range(1, len(table.columns) + 1)))


def staged_top(table: TargetTable, up_to: int) -> Composable:
    """(highest point staged, highest sequence at `up_to`)."""
    return SQL("SELECT max(point), max(sequence) FILTER (WHERE point = {}) FROM {}").format(
        Literal(up_to), Identifier(table.staging)
    )


def apply(table: TargetTable, ignore_delete: bool) -> Composable:
    """The net effect per key in (point, sequence) order, as one statement that sorts the staged rows once.

    Each key is in `slotkeeper_last` once, so it is either deleted or upserted, and neither part sees the other's rows.
    A B row counts as a delete of its own key, and its U row follows it: where both have one key the U wins, where
    they differ the old key goes. With `ignore_delete`, d rows are left out before the order is looked at, B rows never.
    """
    return SQL("WITH slotkeeper_last AS MATERIALIZED ({}), slotkeeper_gone AS ({}) {}").format(
        _last(table, ignore_delete),
        _delete(table),
        _insert(table, SQL("slotkeeper_last s"), SQL(" WHERE s.kind IN ('I', 'U')")),
    )


def merge_chunk(table: TargetTable) -> Composable:
    """Upsert of a staged chunk, for `on_existing = "merge"`."""
    return _insert(table, Identifier(table.staging), SQL(""))


def _last(table: TargetTable, ignore_delete: bool) -> Composable:
    key = _staged(_places(table))
    kept = SQL(" WHERE kind <> 'd'") if ignore_delete else SQL("")
    return SQL("SELECT DISTINCT ON ({key}) * FROM {stage}{kept} ORDER BY {key}, point DESC, sequence DESC").format(
        key=key, stage=Identifier(table.staging), kept=kept
    )


def _delete(table: TargetTable) -> Composable:
    match = SQL(" AND ").join(
        SQL("t.{} = s.{}").format(Identifier(name), Identifier(f"c{n}"))
        for name, n in zip(table.key, _places(table), strict=True)
    )
    return SQL("DELETE FROM {table} t USING slotkeeper_last s WHERE s.kind IN ('d', 'B') AND {match}").format(
        table=table.identifier, match=match
    )


def _insert(table: TargetTable, origin: Composable, where: Composable) -> Composable:
    others = [name for name in table.columns if name not in table.key]
    action: Composable = SQL("NOTHING")
    if others:
        sets = SQL(", ").join(SQL("{0} = EXCLUDED.{0}").format(Identifier(name)) for name in others)
        action = SQL("UPDATE SET {}").format(sets)
    return SQL(
        "INSERT INTO {table} ({columns}) SELECT {staged} FROM {origin}{where} ON CONFLICT ({key}) DO {action}"
    ).format(
        table=table.identifier,
        columns=SQL(", ").join(map(Identifier, table.columns)),
        staged=_staged(range(1, len(table.columns) + 1)),
        origin=origin,
        where=where,
        key=SQL(", ").join(map(Identifier, table.key)),
        action=action,
    )


def _places(table: TargetTable) -> list[int]:
    return [table.columns.index(name) + 1 for name in table.key]


def _staged(places: range | list[int]) -> Composable:
    return SQL(", ").join(Identifier(f"c{n}") for n in places)


def shadow(table: TargetTable) -> Composable:
    """The table beside the target that a replacing copy fills."""
    schema, _, name = table.name.rpartition(".")
    beside = name[:44] + "__slotkeeper_copy"
    return Identifier(schema, beside) if schema else Identifier(beside)
