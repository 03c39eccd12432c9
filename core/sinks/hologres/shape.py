"""The target as Hologres reports it, and objections to it. Pure except for the queries.

The target must be a table with its own rows (not the parent of partitions). It must have the source's primary key and
types that store each value unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from slotkeeper.core.domain.finding import Objection
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg_types
from slotkeeper.core.drivers.session import Rows, Session
from slotkeeper.core.errors import Refused
from slotkeeper.core.sinks.hologres.statements import RowTarget, plain
from slotkeeper.core.sqltext import dotted, quoted

_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "p": "the parent of physical partitions"}
_NUMERIC = re.compile(r"numeric\((\d+),\d+\)")
MOST_DIGITS = 38
"""Hologres, "Data types": a DECIMAL has an explicit precision of at most 38 digits."""
_FINE = re.compile(r"timestamp\(([0-3])\) with time zone")
_NO_KEY = frozenset({"real", "double precision", "numeric", "json", "jsonb"})
"""Hologres, "Primary key": types that are rejected for a key column, as are arrays."""
MODES = ("auto", "upsert")


@dataclass(frozen=True, slots=True)
class HologresColumn:
    """A column of the target; `filled`: the server has a default value; `number`: its number in the catalog."""

    name: str
    type: str
    required: bool
    filled: bool
    number: int = 0


@dataclass(frozen=True, slots=True)
class HologresTable:
    """A table: `kind`: the letter in pg_class.relkind; `others`: unique keys other than the primary key."""

    name: str
    oid: int
    kind: str
    columns: tuple[HologresColumn, ...]
    key: tuple[str, ...]
    others: tuple[str, ...] = ()

    def column(self, name: str) -> HologresColumn | None:
        return next((one for one in self.columns if one.name == name), None)


def read(session: Session, target: str) -> HologresTable:
    """Return the target; raises Refused if it does not exist."""
    schema, _, name = target.partition(".")
    found = session.rows("relation", {"schema": schema, "name": name})
    if not found:
        hint = f"CREATE TABLE {dotted(target)} (..., PRIMARY KEY (...)): you choose distribution and storage"
        raise Refused(f"target {target} does not exist", hint, where="sink")
    oid, kind = found[0]
    place: dict[str, Any] = {"oid": oid}
    columns = tuple(HologresColumn(*row) for row in session.rows("columns", place))
    keys: Rows = session.rows("keys", place)
    key = next((tuple(names) for _, primary, names in keys if primary), ())
    others = tuple(str(index) for index, primary, _ in keys if not primary)
    return HologresTable(target, int(oid), str(kind), columns, key, others)


def objections(table: HologresTable, image: TableIdentity, options: SinkOptions) -> Iterator[Objection]:
    """Yield objections to the target for the table `image` and the job's options, each with a fix."""
    if table.kind in _KINDS:
        what = f"target {table.name} is {_KINDS[table.kind]}"
        yield Objection(what, "name a table that stores rows (for a partitioned table, a child)")
        return
    yield from _option_objections(options)
    if set(table.key) != set(image.key):
        there = ", ".join(table.key) or "nothing"
        what = f"the primary key of {table.name} is ({there}), but ({', '.join(image.key)}) in the source"
        yield Objection(what, "recreate it with the source's key: Hologres cannot add a key to an existing table")
    for index in table.others:
        what = f"target {table.name} has another unique key ({index}): changes of two keys could conflict on it"
        yield Objection(what, f"DROP INDEX {quoted(index)}")
    for column in image.columns:
        yield from _column_objections(table, column, image)
    yield from _other_objections(table, image, options)


def _option_objections(options: SinkOptions) -> Iterator[Objection]:
    """Yield the objections to options that Hologres does not support, by option name."""
    if options.write_mode not in MODES:
        what = (
            f'write_mode = "{options.write_mode}" is not supported for Hologres, which supports only INSERT ON CONFLICT'
        )
        yield Objection(what, 'set write_mode = "auto"')
    if options.ignore_null_when_update:
        what = "ignore_null_when_update is not supported for Hologres: rows of a statement share columns"
        yield Objection(what, "remove it")


def _column_objections(table: HologresTable, column: Column, image: TableIdentity) -> Iterator[Objection]:
    there, wanted = table.column(column.name), image.plain(column.type)
    alter = f"ALTER TABLE {dotted(table.name)}"
    if there is None:
        yield Objection(f"{table.name} has no column {column.name!r}", f"{alter} ADD COLUMN {quoted(column.name)}")
        return
    loss = lost(wanted, there.type)
    if loss:
        what = f"{table.name}.{column.name} ({there.type}) cannot store every {column.type} of the source: {loss}"
        yield Objection(what, "store it as text, or change the source's column to a type with that limit")
    elif not fits(wanted, there.type, image.user_type(wanted) is not None):
        what = f"{table.name}.{column.name} is {there.type}, but {column.type} in the source"
        yield Objection(what, "recreate it with the source's type, a larger one, or text")
    if column.name in image.key and (plain(there.type) in _NO_KEY or there.type.endswith("[]")):
        yield Objection(
            f"key column {table.name}.{column.name} is {there.type}",
            "choose another type: Hologres does not support it in a key",
        )


def lost(source: str, there: str) -> str:
    """Return the reason why a Hologres column of the same type would lose a part of a value; "" if it would not.

    >>> lost("timestamp with time zone", "timestamp with time zone")
    'Hologres stores only milliseconds'
    >>> lost("timestamp(3) with time zone", "timestamp with time zone"), lost("numeric", "numeric(38,10)")
    ('', 'its number of digits is not limited')
    """
    if there == "text":
        return ""
    if pg_types.at_postgres(source).endswith("with time zone") and source.startswith("timestamp"):
        return "" if _FINE.fullmatch(source) else "Hologres stores only milliseconds"
    if plain(source) == "numeric":
        sized = _NUMERIC.fullmatch(source)
        if sized is None:
            return "its number of digits is not limited"
        return "" if int(sized[1]) <= MOST_DIGITS else f"Hologres stores at most {MOST_DIGITS} digits"
    return ""


def fits(source: str, there: str, made: bool = False) -> bool:
    """Whether a column accepts every value of a source's type unchanged; `made`: the type is user-defined.

    >>> fits("integer", "bigint"), fits("bigint", "integer"), fits("kinds.mood", "text", True)
    (True, False, True)
    >>> fits("timestamp(3) with time zone", "timestamp with time zone"), fits("kinds.mood", "kinds.mood", True)
    (True, False)
    """
    if made:
        return there == "text"
    return pg_types.fits(there, source)


def _other_objections(table: HologresTable, image: TableIdentity, options: SinkOptions) -> Iterator[Objection]:
    """Yield objections to columns that exist only in the target."""
    known = {one.name for one in image.columns}
    alter = f"ALTER TABLE {dotted(table.name)} ALTER COLUMN"
    for other in (one for one in table.columns if one.name not in known and one.required):
        if options.conflict_strategy == "replace":
            what = f'{table.name}.{other.name} is NOT NULL, but conflict_strategy = "replace" sets it to NULL'
            yield Objection(what, f"{alter} {quoted(other.name)} DROP NOT NULL")
        elif not other.filled:
            yield Objection(f"{table.name}.{other.name} requires a value, but is not mapped", "drop it, or map it")


def written(table: HologresTable, image: TableIdentity, options: SinkOptions) -> RowTarget:
    """Return the description of how rows of the table `image` are written to the target."""
    names = tuple(one.name for one in image.columns)
    spelled = {one.name: one.type for one in table.columns}
    others = tuple(one.name for one in table.columns if one.name not in names)
    nulled = others if options.conflict_strategy == "replace" else ()
    conflict = "ignore" if options.conflict_strategy == "ignore" else "update"
    return RowTarget(table.name, names, tuple(spelled[name] for name in names), image.key, nulled, conflict)
