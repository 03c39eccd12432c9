"""What a comparison asks of one table, whatever keeps it, and the values that it is asked with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

Key = tuple[str, ...]
"""A row's key: the text form of each key column under the pinned text settings, in canonical spelling."""

COUNTED = "counted"
"""The form of a column in a row's hash that every kind knows: its text with its length before it."""

Digest = tuple[str | None, ...]
"""One hash per compared column, None where the value is NULL; values themselves never leave the server."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys from `low` (included) to `high` (not included) in the reader's order; None is open."""

    low: Key | None = None
    high: Key | None = None

    def cut(self, bounds: Sequence[Key]) -> list[KeyRange]:
        """This range in parts that begin at `bounds`.

        >>> [(r.low, r.high) for r in KeyRange().cut([("5",), ("9",)])]
        [(None, ('5',)), (('5',), ('9',)), (('9',), None)]
        """
        edges = [self.low, *bounds, self.high]
        return [KeyRange(low, high) for low, high in pairwise(edges)]


WHOLE = KeyRange()


@dataclass(frozen=True, slots=True)
class Checksum:
    """Number of rows and the sum of their hashes: equal tables have equal ones, in whatever order rows are stored."""

    rows: int
    total: int


class TableReader(Protocol):
    """One side of a comparison. Both sides must order keys alike and spell equal values alike.

    Each call sees one moment of the table; different calls may see different moments.
    """

    @property
    def label(self) -> str:
        """The table in words, for messages."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of the compared columns; pairs with the other side's by place."""

    @property
    def signature(self) -> Sequence[str]:
        """How keys are ordered and text is encoded; both sides must have the same."""

    def count(self, bounds: KeyRange) -> int:
        """Rows in the range."""

    def checksum(self, bounds: KeyRange) -> Checksum:
        """Count and hash of the range, computed by the server."""

    def split(self, bounds: KeyRange, rows: int) -> list[Key]:
        """Keys inside the range at which a new part of about `rows` rows begins, ascending."""

    def rows(self, bounds: KeyRange, limit: int) -> list[tuple[Key, str]]:
        """Key and hash of each row of the range, at most `limit` of them, in no particular order."""

    def digests(self, keys: Collection[Key]) -> dict[Key, Digest]:
        """The column hashes of those of `keys` that exist; several rows of one key are strung together."""


class ComparedKey(Protocol):
    """A column of a compared table's key."""

    @property
    def name(self) -> str:
        """Its name."""

    def of_copy(self, text: str) -> str:
        """A value as a copy of the source spells it, in the reader's canonical spelling."""


class ComparedTable(TableReader, Protocol):
    """A table that can be compared with one of another server."""

    @property
    def key(self) -> Sequence[ComparedKey]:
        """The columns of the key, in its order."""

    @property
    def forms(self) -> Sequence[str]:
        """In which form each compared column is hashed."""

    def hashes_by(self, forms: Sequence[str]) -> None:
        """Hash the columns in these forms; both sides of a comparison must have the same."""


class TableSession(Protocol):
    """An open session that reads whole tables, in short transactions."""

    def table(self, name: str, key: Sequence[str] = (), columns: Sequence[str] = (), where: str = "") -> ComparedTable:
        """A table as `schema.table`; no `key` means its primary key, no `columns` all of them.

        `where` is a trusted condition over the columns. Raises Refused where there is no usable key.
        """

    def close(self) -> None:
        """End the session; safe to call twice."""
