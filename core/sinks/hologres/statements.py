"""The statements that write to a target: inserts with `unnest` of one array per column, deletes by key. Pure.

Source: holo-client, UnnestUpsertStatementBuilder and DeleteStatementBuilder: they produce statements that Hologres runs
with fixed plans. Each statement is independent: a transaction over several statements is a beta feature that locks
whole tables, including tables that are only read (Hologres, "SQL transactions"), and a failed statement with many rows
may have written some of them ("Accelerate SQL execution with fixed plans":
hg_experimental_enable_fixed_dispatcher_for_multi_values).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from slotkeeper.core.domain import type_name
from slotkeeper.core.drivers import pg
from slotkeeper.core.ports.sink import Fields

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
Composable = pg.sql.Composable
MOST_ROWS = 512
"""Maximum rows in a statement, and bytes in its values (holo-client: writeBatchSize, writeBatchByteSize)."""
MOST_BYTES = 2 * 1024 * 1024
_SIZE = re.compile(r"\([\d,]+\)")
_UNNESTED = frozenset(
    {
        "smallint",
        "integer",
        "bigint",
        "real",
        "double precision",
        "boolean",
        "numeric",
        "text",
        "character varying",
        "character",
        "bytea",
        "json",
        "jsonb",
        "date",
        "timestamp without time zone",
        "timestamp with time zone",
        "time with time zone",
    }
)
"""Types whose arrays holo-client unnests (StatementBuilderUtil.isTypeSupportForUnnest); others use VALUES."""


@dataclass(frozen=True, slots=True)
class RowTarget:
    """A target for writing rows: mirrored columns with their types, the key, and the columns that are set to NULL.

    `types`: the types of the target's columns, as `format_type` returns them. `conflict`: "update" or "ignore", for a
    row whose key already exists.
    """

    target: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    key: tuple[str, ...]
    nulled: tuple[str, ...] = ()
    conflict: str = "update"

    @property
    def places(self) -> tuple[int, ...]:
        """The key's indexes among the columns, from 0."""
        return tuple(self.columns.index(name) for name in self.key)

    @property
    def unnests(self) -> bool:
        return all(plain(one) in _UNNESTED for one in self.types)

    @property
    def name(self) -> Composable:
        """`"schema"."table"`."""
        return Identifier(*self.target.split(".", 1))


def plain(type_: str) -> str:
    """Return a type without its sizes: an explicit cast to a type with a size would silently truncate a value.

    >>> plain("character varying(20)"), plain("timestamp(3) without time zone"), plain("integer[]")
    ('character varying', 'timestamp without time zone', 'integer[]')
    """
    return _SIZE.sub("", type_)


def cast(type_: str) -> str:
    """Return the type to which a string is cast so that no explicit or implied size (`character`, `bit`) truncates it.

    >>> cast("character(3)"), cast("numeric(12,2)"), cast("bit(3)")
    ('bpchar', 'numeric', 'bit(3)')
    """
    bare = plain(type_)
    return type_name.sql({"character": "bpchar", "bit": type_}.get(bare, bare))


def pieces(rows: Iterable[Fields]) -> Iterator[list[Fields]]:
    """Yield the rows in groups, one group per statement."""
    some: list[Fields] = []
    size = 0
    for row in rows:
        more = sum(len(text) for text in row if text is not None)
        if some and (len(some) == MOST_ROWS or size + more > MOST_BYTES):
            yield some
            some, size = [], 0
        some.append(row)
        size += more
    if some:
        yield some


def insert(table: RowTarget, rows: Sequence[Fields]) -> Composable:
    """Return the INSERT ... ON CONFLICT of these rows, which have distinct keys."""
    names = SQL(", ").join(map(Identifier, (*table.columns, *table.nulled)))
    rest = [SQL("NULL")] * len(table.nulled)
    given: Composable
    if table.unnests:
        arrays = [
            SQL("unnest({}::" + cast(type_) + "[])").format(Literal(array_text([row[place] for row in rows])))
            for place, type_ in enumerate(table.types)
        ]
        given = SQL("SELECT {}").format(SQL(", ").join([*arrays, *rest]))
    else:
        values = [SQL("({})").format(SQL(", ").join([*map(Literal, row), *rest])) for row in rows]
        given = SQL("VALUES {}").format(SQL(", ").join(values))
    alias = SQL(" AS slotkeeper_target") if table.target.endswith(".excluded") else SQL("")
    action: Composable = SQL("NOTHING")
    free = [name for name in (*table.columns, *table.nulled) if name not in table.key]
    if table.conflict != "ignore" and free:  # a table with only key columns has nothing to set
        sets = SQL(", ").join(SQL("{0} = excluded.{0}").format(Identifier(name)) for name in free)
        action = SQL("UPDATE SET {}").format(sets)
    return SQL("INSERT INTO {}{} ({}) {} ON CONFLICT ({}) DO {}").format(
        table.name, alias, names, given, SQL(", ").join(map(Identifier, table.key)), action
    )


def delete(table: RowTarget, keys: Sequence[Fields]) -> Composable:
    typed = [
        (Identifier(name), SQL(cast(table.types[place]))) for name, place in zip(table.key, table.places, strict=True)
    ]
    one = [
        SQL("({})").format(
            SQL(" AND ").join(
                SQL("{} = {}::{}").format(name, Literal(text), type_)
                for (name, type_), text in zip(typed, key, strict=True)
            )
        )
        for key in keys
    ]
    return SQL("DELETE FROM {} WHERE {}").format(table.name, SQL(" OR ").join(one))


def array_text(texts: Sequence[str | None]) -> str:
    """Return an array's text in the format that PostgreSQL reads: each element in quotes, NULL without quotes.

    >>> array_text(["a", None, 'b"\\\\', ""])
    '{"a",NULL,"b\\\\"\\\\\\\\",""}'
    """
    escaped = (text and text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join("NULL" if text is None else f'"{text}"' for text in escaped) + "}"
