"""A table as the statement `identity` describes it."""

from __future__ import annotations

from slotkeeper.core.domain.slot import Column, TableIdentity, UserType
from slotkeeper.core.drivers.session import Rows


def identity_of(rows: Rows, kinds: tuple[UserType, ...] = ()) -> TableIdentity:
    """A table out of the rows of the statement `identity`; its key may be empty."""
    columns = tuple(Column(row[1], row[2], row[5], row[6] or "", row[7]) for row in rows)
    key = tuple(name for _, name in sorted((row[4], row[1]) for row in rows if row[4] >= 0))
    return TableIdentity(rows[0][0], columns, key, f"db{rows[0][3]}", kinds)
