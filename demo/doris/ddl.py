"""The table-changing statements that a mirror needs, each in the exact form in which it is sent.

The stand-in does not run statements in any other form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from slotkeeper.demo.doris.tables import Column, Table, Tables

_AT = r"`([^`]+)`\.`([^`]+)`"
_MAKE = re.compile(
    rf"CREATE TABLE IF NOT EXISTS {_AT} \(\n(.*)\n\)\nUNIQUE KEY\(([^)]*)\)\n"
    r"DISTRIBUTED BY HASH\(([^)]*)\) BUCKETS AUTO\nPROPERTIES \((.*)\)$",
    re.S,
)
_LIKE = re.compile(rf"CREATE TABLE {_AT} LIKE {_AT}$")
_DROP = re.compile(rf"DROP TABLE IF EXISTS {_AT} FORCE$")
_REPLACE = re.compile(rf"ALTER TABLE {_AT} REPLACE WITH TABLE `([^`]+)` PROPERTIES \('swap' = 'false'\)$")
_ADD = re.compile(rf'ALTER TABLE {_AT} ADD COLUMN (`(?:[^`]|``)+` \w+(?:\([\d,]+\))? NULL)(?: DEFAULT "([^"]*)")?$')
_RENAME = re.compile(rf"ALTER TABLE {_AT} RENAME COLUMN `([^`]+)` `([^`]+)`$")
_MODIFY = re.compile(rf"ALTER TABLE {_AT} MODIFY COLUMN (`(?:[^`]|``)+` \w+(?:\([\d,]+\))? (?:NOT NULL|NULL))$")
_DROP_COLUMN = re.compile(rf"ALTER TABLE {_AT} DROP COLUMN `([^`]+)`$")
_UPDATE = re.compile(rf"UPDATE {_AT} SET (`([^`]+)` = .* WHERE .*)$", re.S)
_COLUMN = re.compile(r"\s*`((?:[^`]|``)+)` (\w+(?:\([\d,]+\))?) (NOT NULL|NULL)$")
_FIRST, _REST = frozenset("_@/"), frozenset('_.+,-/?@#$%^&*":')
"""Allowed characters of a column name besides ASCII letters, digits and blanks (`FeNameFormat.COLUMN_NAME_REGEX`)."""
LONGEST_NAME = 256


class NotDone(Exception):
    """Raised if a statement is rejected; the message is the FE's."""


def run(tables: Tables, sql: str) -> bool:
    """Run the statement if it has one of these forms; return whether it does."""
    for form, act in _ACTS.items():
        found = form.match(sql)
        if found:
            act(tables, found)
            return True
    return False


def _make(tables: Tables, found: re.Match[str]) -> None:
    database, name = found[1], found[2]
    if not tables.has_database(database):
        raise NotDone(f"Unknown database '{database}'")
    key, buckets = re.findall(r"`([^`]+)`", found[4]), re.findall(r"`([^`]+)`", found[5])
    columns = [_column(line, tables.unicode_names) for line in found[3].split(",\n")]
    if [one.name for one in columns[: len(key)]] != key:
        raise NotDone("Key columns must be the first few columns of the schema")
    if set(buckets) - set(key):
        raise NotDone("Distribution column must be key column")
    for one in columns[: len(key)]:
        if one.type.partition("(")[0] in ("FLOAT", "DOUBLE", "STRING", "JSON"):
            raise NotDone(f"{one.type} type should not be used in key column[{one.name}].")
    if tables.find(database, name) is None:
        sequence = re.search(r'"function_column.sequence_type" = "(\w+)"', found[6])
        tables.create(
            Table(database, name, tuple(columns), tuple(key), sequence=sequence[1].upper() if sequence else "")
        )


def _column(line: str, unicode_names: bool) -> Column:
    found = _COLUMN.match(line)
    if found is None:
        raise NotDone(f"the stand-in cannot parse the column definition: {line.strip()}")
    name = found[1].replace("``", "`")
    if not _names_a_column(name, unicode_names):
        raise NotDone(f"Incorrect column name '{name}'. Column regex is {_FIRST | _REST}")
    return Column(name, found[2], found[3] == "NULL")


def _names_a_column(name: str, unicode_names: bool) -> bool:
    """Whether the FE accepts a column name; non-ASCII letters require `enable_unicode_name_support`, off by default.

    >>> [_names_a_column(one, False) for one in ("order", "a b", "a`b", "a(b)", "größe", "mv_a")]
    [True, True, False, False, False, False]
    """

    def plain(letter: str) -> bool:
        if letter.isascii():
            return letter.isalnum() or (letter.isspace() and not unicode_names)
        return unicode_names and letter.isalpha()

    if len(name) > LONGEST_NAME or name.startswith(("mv_", "mva_", "__doris_shadow_")):
        return False
    return (plain(name[0]) or name[0] in _FIRST) and all(plain(one) or one in _REST for one in name[1:])


def _like(tables: Tables, found: re.Match[str]) -> None:
    other = tables.find(found[3], found[4])
    if other is None:
        raise NotDone(f"Unknown table '{found[4]}'")
    if tables.find(found[1], found[2]) is not None:
        raise NotDone(f"Table '{found[2]}' already exists")
    tables.create(replace(other, database=found[1], name=found[2]))


def _drop(tables: Tables, found: re.Match[str]) -> None:
    if tables.find(found[1], found[2]) is not None:
        tables.drop(found[1], found[2])


def _replace(tables: Tables, found: re.Match[str]) -> None:
    database, name, other = found[1], found[2], found[3]
    if tables.find(database, name) is None or tables.find(database, other) is None:
        raise NotDone(f"Unknown table '{name}'")
    tables.take_place(database, name, other)


def _found(tables: Tables, found: re.Match[str]) -> Table:
    table = tables.find(found[1], found[2])
    if table is None:
        raise NotDone(f"Unknown table '{found[2]}'")
    return table


def _add(tables: Tables, found: re.Match[str]) -> None:
    column = replace(_column(found[3], tables.unicode_names), default=found[4])
    if _found(tables, found).column(column.name) is not None:
        raise NotDone(f"Can not add column which already exists in base table: {column.name}")
    tables.add_column(found[1], found[2], column)


def _rename(tables: Tables, found: re.Match[str]) -> None:
    if _found(tables, found).column(found[3]) is None:
        raise NotDone(f"Column[{found[3]}] does not exists")
    tables.rename_column(found[1], found[2], found[3], found[4])


def _modify(tables: Tables, found: re.Match[str]) -> None:
    column = _column(found[3], tables.unicode_names)
    if _found(tables, found).column(column.name) is None:
        raise NotDone(f"Column[{column.name}] does not exists")
    tables.widen(found[1], found[2], column.name, column.type, column.nullable)


def _drop_column(tables: Tables, found: re.Match[str]) -> None:
    table = _found(tables, found)
    if table.column(found[3]) is None:
        raise NotDone(f"Column does not exists: {found[3]}")
    if found[3] in table.key:
        raise NotDone("Can not drop key column in Unique data model table")
    tables.drop_column(found[1], found[2], found[3])


def _update(tables: Tables, found: re.Match[str]) -> None:
    table = _found(tables, found)
    if table.model != "UNIQUE" or found[4] in table.key:
        raise NotDone("Only value columns of unique table could be updated")
    tables.update(found[1], found[2], found[3].replace("`", '"'))


_ACTS: dict[re.Pattern[str], Callable[[Tables, re.Match[str]], None]] = {
    _MAKE: _make,
    _LIKE: _like,
    _DROP: _drop,
    _REPLACE: _replace,
    _ADD: _add,
    _RENAME: _rename,
    _MODIFY: _modify,
    _DROP_COLUMN: _drop_column,
    _UPDATE: _update,
}
