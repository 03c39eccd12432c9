"""Reads the types of a table that somebody made, and all types within them: domains' bases, attributes, subtypes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from slotkeeper.core.domain.slot import UserType
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.sources.dws.session import DwsSession

_SQL: Book = ("slotkeeper.core.sources.dws", "made_types.sql")
RANGE, MULTIRANGE = "r", "m"


def read(session: DwsSession, table: str) -> tuple[UserType, ...]:
    """The made types of a table's columns and those within them; one question where there are none."""
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
