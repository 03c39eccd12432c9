"""What a comparison is told and what it answers, as values."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from slotkeeper.core.ports.kinds import Key


def _no_keys(_: Collection[Key]) -> Collection[Key]:
    return ()


def _silent(_done: int, _planned: int) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Options:
    """How to compare.

    `settled` waits until the sink must hold everything that the source had when it was called, and says whether it
    came to that; None means that nothing moves. `quarantined` picks those keys that are known to be held back.
    `on_rows` is told (rows compared, rows that the source had at first); what it raises ends the comparison. `named`
    bounds the keys
    kept per kind, `pending` the differing keys held in memory at a time.
    """

    settled: Callable[[], bool] | None = None
    quarantined: Callable[[Collection[Key]], Collection[Key]] = _no_keys
    on_rows: Callable[[int, int], None] = _silent
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
