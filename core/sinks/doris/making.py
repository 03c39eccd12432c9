"""How a target is made: a Doris type for each of the source's, the statement, and what cannot be made. Pure.

Rules: a UNIQUE KEY table, whose key columns come first and are no FLOAT, DOUBLE or STRING, and whose buckets are of key
columns (Doris, "Unique Key Model", "CREATE TABLE"); a UNIQUE table has its delete sign from the start (Doris, "Batch
Deletion"). It gets no sequence column: with one, rows that are copied once more stand below those that are there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slotkeeper.core.domain.finding import Objection
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.sinks.doris.encode import backquoted
from slotkeeper.core.sinks.doris.shape import quoted, unsendable

_SIZES = re.compile(r"\((\d+)(?:,\s*(\d+))?\)")
_PLAIN = {
    "tinyint": "SMALLINT",
    "smallint": "SMALLINT",
    "integer": "INT",
    "bigint": "BIGINT",
    "boolean": "BOOLEAN",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "date": "DATE",
}
"""A DWS's tinyint has no sign."""
DIGITS = 38
"""Of a DECIMAL, at most (Doris, "DECIMAL")."""
MICROSECONDS = 6
LONGEST = 65_533
"""Bytes of a VARCHAR, at most (Doris, "VARCHAR")."""
_TEXT_BYTES = 4
"""Of a character in UTF-8, at most: a VARCHAR of Doris counts bytes."""
_NO_KEY = frozenset({"FLOAT", "DOUBLE"})


def type_of(source: str, key: bool) -> str:
    """The Doris type of a column of the source, spelled as PostgreSQL does.

    >>> type_of("numeric(12,2)", False), type_of("numeric", False), type_of("timestamp(3) without time zone", False)
    ('DECIMAL(12,2)', 'STRING', 'DATETIME(3)')
    >>> type_of("text", False), type_of("text", True), type_of("character varying(20)", True)
    ('STRING', 'VARCHAR(65533)', 'VARCHAR(80)')
    """
    plain, found = _SIZES.sub("", source).strip(), _SIZES.search(source)
    sizes = [int(one) for one in found.groups() if one] if found else []
    if plain in _PLAIN:
        return _PLAIN[plain]
    if plain == "numeric" and sizes:
        digits, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
        if digits <= DIGITS and scale <= digits:
            return f"DECIMAL({digits},{scale})"
    if plain == "timestamp without time zone":
        return f"DATETIME({min(sizes[0] if sizes else MICROSECONDS, MICROSECONDS)})"
    if not key:
        return "STRING"
    characters = sizes[0] if sizes and plain.startswith("character") else LONGEST
    return f"VARCHAR({min(characters * _TEXT_BYTES, LONGEST)})"


def unmakeable(name: str, image: TableIdentity) -> Iterator[Objection]:
    """Why no target can be made for the source's image."""
    if not image.key:
        yield Objection(f"{name} cannot be made: the source has no key", "give the source's table a primary key")
    yield from unsendable(image)
    for column in image.columns:
        if column.name in image.key and type_of(image.plain(column.type), True) in _NO_KEY:
            what = f"{name} cannot be made: its key column {column.name} is {column.type}, and a Doris has no such key"
            yield Objection(what, "leave the column out of the key, or mirror the table into another kind of sink")


def statement(name: str, image: TableIdentity) -> str:
    """CREATE TABLE of a target."""
    key = [column for column in image.columns if column.name in image.key]
    order = [*sorted(key, key=lambda one: image.key.index(one.name))]
    order += [column for column in image.columns if column.name not in image.key]
    columns = ",\n".join(f"  {_column(column, image)}" for column in order)
    names = ", ".join(map(backquoted, image.key))
    return (
        f"CREATE TABLE IF NOT EXISTS {quoted(name)} (\n{columns}\n)\nUNIQUE KEY({names})\n"
        f"DISTRIBUTED BY HASH({names}) BUCKETS AUTO\n"
        'PROPERTIES ("enable_unique_key_merge_on_write" = "true")'
    )


def _column(column: Column, image: TableIdentity) -> str:
    in_key = column.name in image.key
    kind = type_of(image.plain(column.type), in_key)
    return f"{backquoted(column.name)} {kind} {'NOT NULL' if in_key else 'NULL'}"


def shadow_of(name: str) -> str:
    """The table into which a replacing copy goes.

    >>> shadow_of("mart.orders")
    'mart.slotkeeper_copy_orders'
    """
    database, _, table = name.partition(".")
    return f"{database}.slotkeeper_copy_{table}"
