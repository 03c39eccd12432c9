"""Walks a source and a sink range by range: hashes first, rows only where hashes differ.

Both tables may change meanwhile: a difference seen here is only a suspicion until `recheck` confirms it.
What this cannot see: a row that becomes wrong after its range was found equal, and values whose text form is equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import WHOLE, Key, KeyRange, TableReader
from slotkeeper.core.verify.comparison import Comparison, Options
from slotkeeper.core.verify.recheck import Suspects

T = TypeVar("T")

_MONOTONIC = SystemClock().monotonic

MOST_RANGES = 4_096
"""First ranges planned at most, so that the list of bounds stays small whatever the table's size."""

DEEPEST = 40
"""Each cut leaves less than half, so a deeper one means keys that do not sort as they are spelled."""


def compare(
    source: TableReader,
    sink: TableReader,
    options: Options | None = None,
    monotonic: Callable[[], float] = _MONOTONIC,
) -> Comparison:
    """Compare two tables by key; raises `Refused` where they cannot be compared, and what the readers raise."""
    options = options or Options()
    if list(source.signature) != list(sink.signature) or len(source.columns) != len(sink.columns):
        raise Refused(
            f"cannot compare {source.label} with {sink.label}: keys, encodings or column counts do not match "
            f"({list(source.signature)}, {len(source.columns)} columns; {list(sink.signature)}, {len(sink.columns)})",
            hint="give both sides the same key and the mapped columns in the same order",
        )
    started = monotonic()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="verify-sink") as beside:
        walk = _Walk(source, sink, options, beside, Suspects(source, sink, options))
        walk.run()
    return walk.suspects.result(walk.rows_source, walk.rows_sink, walk.ranges, monotonic() - started)


@dataclass(slots=True)
class _Walk:
    """The ranges still to compare, nearest first; the sink is asked in a thread beside the source."""

    source: TableReader
    sink: TableReader
    options: Options
    beside: ThreadPoolExecutor
    suspects: Suspects
    rows_source: int = 0
    rows_sink: int = 0
    ranges: int = 0
    todo: list[tuple[KeyRange, int]] = field(default_factory=list)

    def run(self) -> None:
        total = self.source.count(WHOLE)
        step = max(self.options.range_rows, -(-total // MOST_RANGES))
        self._push(WHOLE, 0, self.source.split(WHOLE, step) if total > step else [])
        while self.todo:
            self._one(*self.todo.pop())
            self.ranges += 1
            self.options.on_rows(self.rows_source, total)
        self.suspects.judge()

    def _push(self, bounds: KeyRange, depth: int, cuts: list[Key]) -> None:
        self.todo.extend((part, depth + 1) for part in reversed(bounds.cut(cuts)))

    def _both(self, ask: Callable[[TableReader], T]) -> tuple[T, T]:
        other = self.beside.submit(ask, self.sink)
        try:
            return ask(self.source), other.result()
        finally:
            other.cancel()

    def _one(self, bounds: KeyRange, depth: int) -> None:
        ours, theirs = self._both(lambda side: side.checksum(bounds))
        if ours == theirs:
            self.rows_source += ours.rows
            self.rows_sink += theirs.rows
            return
        if max(ours.rows, theirs.rows) > self.options.leaf_rows and self._cut(bounds, depth, ours.rows, theirs.rows):
            return
        self._leaf(bounds, depth)

    def _cut(self, bounds: KeyRange, depth: int, ours: int, theirs: int) -> bool:
        if depth > DEEPEST:
            raise Refused(f"the keys of {self.source.label} and {self.sink.label} cannot be put in one order")
        # The side with more rows knows where they lie; both sides order keys alike, so its bounds serve both.
        side, rows = (self.source, ours) if ours >= theirs else (self.sink, theirs)
        cuts = side.split(bounds, max(1, rows // self.options.fan_out))
        cuts = [cut for cut in dict.fromkeys(cuts) if cut not in (bounds.low, bounds.high)]
        if cuts:
            self._push(bounds, depth, cuts)
        return bool(cuts)

    def _leaf(self, bounds: KeyRange, depth: int) -> None:
        most = self.options.leaf_rows * 2
        ours, theirs = self._both(lambda side: side.rows(bounds, most + 1))
        if max(len(ours), len(theirs)) > most:
            if not self._cut(bounds, depth, len(ours), len(theirs)):
                raise Refused(f"more than {most} rows share one key in {self.source.label} or {self.sink.label}")
            return
        self.rows_source += len(ours)
        self.rows_sink += len(theirs)
        # Counted, not set: a target without a unique key may hold the same row twice.
        left, right = Counter(ours), Counter(theirs)
        differing = {key for key, _ in ((left - right) + (right - left))}
        self.suspects.add(sorted(differing))
