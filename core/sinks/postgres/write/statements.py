"""The target as statements see it, and those around its staging table, as pure functions of table and columns.

The staging table's columns are c1..cn in the target's types, so that no name of a user's column can collide with ours.
Next door: `effects.py` composes what a step's events make of the target, `sink.py` runs all of them in the order that
design 4.2 fixes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from core.drivers import pg

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
Composable = pg.sql.Composable


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A target: `schema.table`, its mirrored columns in the order in which they arrive, and which of them are the key.

    `loose` are key columns of types that call values equal whose texts differ (numeric 1.0 and 1.00, interval 1 mon
    and 30 days): whatever meets its key writes them too, but on a DWS, which updates no column of a key.
    `others` are the columns that only the target has, `types` the mirrored columns' own, `kind` the server's: on a
    "dws" a statement has no WITH before INSERT ... ON CONFLICT, no DISTINCT ON, no FILTER and no RETURNING.
    `forms` say for each key column how its equal values become one text (`types.form_of`).
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    others: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    kind: str = "postgres"
    loose: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()

    @property
    def identifier(self) -> Composable:
        """`"schema"."table"`."""
        return Identifier(*self.name.split(".", 1))

    @property
    def staging(self) -> str:
        """The session's staging table, named by table and columns, so that a changed table gets another."""
        return "slotkeeper_stage_" + self._digest

    @property
    def net(self) -> str:
        """The session's table of net effects, named likewise."""
        return "slotkeeper_net_" + self._digest

    @property
    def texts(self) -> str:
        """The session's table of a careful step's events, all columns as text."""
        return "slotkeeper_text_" + self._digest

    @property
    def units(self) -> str:
        """The session's table of what a careful step applies or holds."""
        return "slotkeeper_unit_" + self._digest

    @property
    def _digest(self) -> str:
        spelled = "\x1f".join((self.name, *self.columns))
        return hashlib.sha256(spelled.encode()).hexdigest()[:12]

    @property
    def places(self) -> tuple[int, ...]:
        """The key's places among the columns, from 1."""
        return tuple(self.columns.index(name) + 1 for name in self.key)


def distributed(kind: str, key: Iterable[Composable]) -> Composable:
    """How a DWS spreads a table: by the hash of its key, staging like the target, so that they join on each DN."""
    return SQL(" DISTRIBUTE BY HASH ({})").format(SQL(", ").join(key)) if kind == "dws" else SQL("")


def create_temporary(table: TargetTable, name: str, before: str, after: str) -> Composable:
    """A temporary table of a DWS, emptied at every commit: own columns, c1..cn in the target's types, more own ones."""
    typed = SQL(", ").join(
        SQL("{} {}").format(Identifier(f"c{n}"), SQL(spelled)) for n, spelled in enumerate(table.types, 1)
    )
    key = [Identifier(f"c{n}") for n in table.places]
    return SQL("CREATE TEMP TABLE IF NOT EXISTS {} ({}{}{}) ON COMMIT DELETE ROWS{}").format(
        Identifier(name), SQL(before), typed, SQL(after), distributed(table.kind, key)
    )


def create_staging(table: TargetTable) -> Composable:
    """The session's temporary table; emptied at every commit, made once."""
    if table.kind == "dws":
        return create_temporary(table, table.staging, 'point bigint, sequence bigint, kind "char", ', "")
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
    return SQL("COPY {} ({}) FROM STDIN").format(Identifier(table.staging), staged(range(1, len(table.columns) + 1)))


def staged_top(table: TargetTable, staging: str, up_to: int) -> Composable:
    """(highest point staged, highest sequence at `up_to`, 1 for an event of an unknown type or 2 for one without key).

    In the one pass that is needed anyway. i and u are an I and a U whose text the sink cannot keep, in a careful step.
    """
    return SQL(
        "SELECT max(point), max(CASE WHEN point = {up_to} THEN sequence END),"
        " max(CASE WHEN kind IN ('I', 'd', 'B', 'U', 'x', 'i', 'u') THEN CASE WHEN {no_key} THEN 2 END ELSE 1 END)"
        " FROM {staging}"
    ).format(
        up_to=Literal(up_to),
        no_key=SQL(" OR ").join(SQL("{} IS NULL").format(Identifier(f"c{n}")) for n in table.places),
        staging=Identifier(staging),
    )


def staged(places: Iterable[int]) -> Composable:
    """`"c1", "c2"`."""
    return SQL(", ").join(Identifier(f"c{n}") for n in places)


def shadow(table: TargetTable) -> pg.sql.Identifier:
    """The table beside the target that a replacing copy fills."""
    *schema, name = table.name.split(".", 1)
    short = name.encode()
    if len(short) > 44:  # the server cuts longer names in silence, the target's own name might be left
        short = short[:31].decode(errors="ignore").encode() + b"_" + hashlib.sha256(short).hexdigest()[:12].encode()
    return Identifier(*schema, short.decode() + "__slotkeeper_copy")
