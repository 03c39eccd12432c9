"""What a comparison needs of a table, as a port, and what it answers, as values.

Next door: `compare` walks the ranges, `recheck` decides which differences persist, `pg` reads real tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

Key = tuple[str, ...]
"""A row's key: the text form of each key column under the pinned text settings, in canonical spelling."""

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


def _no_keys(_: Collection[Key]) -> Collection[Key]:
    return ()


def _silent(_done: int, _planned: int) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Options:
    """How to compare.

    `settled` waits until the sink must hold everything that the source had when it was called, and says whether it
    came to that; None means that nothing moves. `quarantined` picks those keys that are known to be held back.
    `on_range` is told (ranges done, ranges known so far); what it raises ends the comparison. `named` bounds the keys
    kept per kind, `pending` the differing keys held in memory at a time.
    """

    settled: Callable[[], bool] | None = None
    quarantined: Callable[[Collection[Key]], Collection[Key]] = _no_keys
    on_range: Callable[[int, int], None] = _silent
    range_rows: int = 100_000
    fan_out: int = 16
    leaf_rows: int = 2_000
    named: int = 100
    pending: int = 10_000
    confirmations: int = 2
    rounds: int = 6


@dataclass(frozen=True, slots=True)
class Found:
    """Keys of one kind of difference: how many in all, and the first of them by name."""

    count: int = 0
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found; row counts are sums over ranges read at different moments.

    `unsettled` are keys that could not be judged: they kept moving, or the sink did not catch up in time. They are
    never counted as equal. `differing_columns` counts, per source column, the rows in which it differs.
    """

    rows_source: int
    rows_sink: int
    ranges: int
    missing: Found
    extra: Found
    different: Found
    unsettled: Found
    quarantined: Found
    differing_columns: tuple[tuple[str, int], ...]
    seconds: float

    @property
    def equal(self) -> bool:
        """Whether every row was judged and none differs, quarantined keys apart."""
        return not (self.missing.count or self.extra.count or self.different.count or self.unsettled.count)
