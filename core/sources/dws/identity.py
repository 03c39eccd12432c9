"""A table's identity: its columns and key, user-defined types, and the types of its values for readers.

DWS, "Data Types": type names are as returned by format_type. Types without an equivalent (arrays, intervals, times of
day, numerics without limits, user-defined types) are read as text in the server's format.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from slotkeeper.core.domain.slot import Column, TableIdentity, UserType
from slotkeeper.core.drivers.session import Book, Rows
from slotkeeper.core.sources.dws.session import DwsSession


def identity_of(rows: Rows, kinds: tuple[UserType, ...] = ()) -> TableIdentity:
    """Return a table's identity from the result rows of the statement `identity`; the key can be empty."""
    columns = tuple(Column(row[1], row[2], row[5], row[6] or "", row[7]) for row in rows)
    key = tuple(name for _, name in sorted((row[4], row[1]) for row in rows if row[4] >= 0))
    return TableIdentity(rows[0][0], columns, key, f"db{rows[0][3]}", kinds)


_SQL: Book = ("slotkeeper.core.sources.dws", "made_types.sql")
RANGE, MULTIRANGE = "r", "m"


def user_types(session: DwsSession, table: str) -> tuple[UserType, ...]:
    """Return the user-defined types of a table's columns, including nested types; sends one query if there are none."""
    wanted = {int(oid) for (oid,) in session.rows("user_types", {"table": table})}
    found: dict[int, UserType] = {}
    asked: set[int] = set()
    while wanted - asked:
        asking = wanted - asked
        asked |= asking
        for oid, one, within in _types(session, asking):
            found[oid] = one
            wanted.update(within)
    return tuple(found.values())


def _types(session: DwsSession, oids: Collection[int]) -> list[tuple[int, UserType, list[int]]]:
    rows = session.rows("types", {"oids": sorted(oids)}, of=_SQL)
    spans = {oid for oid, _, kind, *_ in rows if kind in (RANGE, MULTIRANGE)}
    ranges = session.rows("ranges", {"oids": sorted(spans)}, of=_SQL) if spans else []
    described = []
    for oid, name, kind, base, parts, table, key, within in rows:
        one = UserType(name, kind, base, tuple(parts), bool(table), tuple(key))
        inner = [int(each) for each in within]
        for span, its_name, many, subtype, spelled, options in ranges:
            if oid == span:
                one, inner = replace(one, base=spelled, parts=(options,) if options else ()), [int(subtype)]
            elif oid == many:
                one, inner = replace(one, base=its_name), [int(span)]
        described.append((int(oid), one, inner))
    return described
