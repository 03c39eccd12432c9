"""What a server says about a table and its character sets: information_schema, as `columns.py` wants it."""

from __future__ import annotations

from slotkeeper.core.drivers import my
from slotkeeper.core.sources.mysql.columns import Described, SchemaColumn

_COLUMNS = """
SELECT column_name, data_type, column_type, is_nullable, character_set_name, character_octet_length,
       numeric_precision, numeric_scale, datetime_precision
  FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
_CHARSETS = (
    # only here MariaDB lists the numbers of its uca1400 collations; MySQL has numbers in the other
    "SELECT id, character_set_name FROM information_schema.collation_character_set_applicability",
    "SELECT id, character_set_name FROM information_schema.collations",
)


def read_described(session: my.Session, schema: str, table: str) -> Described | None:
    """A table's columns now; None where there is no such table, or none that this login may see."""
    found = session.rows(_COLUMNS, (schema, table))
    columns = tuple(
        SchemaColumn(
            str(name),
            str(kind).lower(),
            str(full),
            nullable == "YES",
            None if charset is None else str(charset),
            *(None if number is None else int(number) for number in numbers),
        )
        for name, kind, full, nullable, charset, *numbers in found
    )
    return columns or None


def read_charsets(session: my.Session) -> dict[int, str]:
    """Character sets by the number of a collation. Raises DriverError."""
    found: dict[int, str] = {}
    for statement in _CHARSETS:
        try:
            rows = session.rows(statement)
        except my.DriverError as error:
            if my.code_of(error) != _NO_COLUMN:
                raise
            continue
        found |= {int(number): str(charset) for number, charset in rows if number is not None and charset}
    return found


_NO_COLUMN = 1054
"""ER_BAD_FIELD_ERROR: MySQL's applicability table has no numbers."""
