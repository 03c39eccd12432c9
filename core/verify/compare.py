"""Compare a source table with a sink table: hashes of ranges, rows where hashes differ, then each suspect key again.

Both tables can change during the comparison: a difference that was seen once is only suspected until `Suspects`
confirms it. Not detected: a row that becomes wrong after its range was found equal, and values whose text form is
equal. For each key, `Suspects` reads the source, waits until the sink has all changes up to then, reads the sink, and
reads the source again. If both reads of the source are equal, the sink should have had exactly that row. A single such
proof can still be wrong if the row changed and changed back in between, so `Options.confirmations` consecutive proofs
are required.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeVar

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import COUNTED, WHOLE, ComparedTable, Digest, Key, KeyRange, Rewrite, TableReader


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a comparison."""

    settled: Callable[[], bool] | None = None
    """Wait until the sink has all changes that the source had at the time of the call; return False if the sink
    does not reach that point.

    None: the job is not running.
    """
    quarantined: Callable[[Collection[Key]], Collection[Key]] = lambda _keys: ()
    """Return those of the given keys that are quarantined."""
    on_rows: Callable[[int, int], None] = lambda _done, _planned: None
    """Called with the rows compared so far and the source's rows at the start; an exception ends the comparison."""
    range_rows: int = 100_000
    """Number of rows in an initial range."""
    fan_out: int = 16
    """Number of parts into which a differing range is split."""
    leaf_rows: int = 2_000
    """Maximum number of rows in a range whose rows are compared one by one, without splitting it further."""
    named: int = 100
    """Maximum number of keys that the result lists for each kind of difference."""
    pending: int = 10_000
    """Maximum number of differing keys in memory."""
    confirmations: int = 2
    """Number of consecutive rounds in which a key has to differ while the source changes."""
    rounds: int = 6
    """Maximum number of rounds for a key; a key that changed in every round is unsettled."""


@dataclass(frozen=True, slots=True)
class Found:
    """Keys with one kind of difference: their total number, and the first keys found."""

    count: int = 0
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison."""

    rows_source: int
    """Number of rows of the source, summed over ranges that were read at different times."""
    rows_sink: int
    """Number of rows of the sink, summed in the same way."""
    ranges: int
    missing: Found
    extra: Found
    different: Found
    unsettled: Found
    """Keys that kept changing, or for which the sink did not catch up in time; never counted as equal."""
    quarantined: Found
    differing_columns: tuple[tuple[str, int], ...]
    """For each differing source column, the number of rows in which it differs."""
    seconds: float

    @property
    def equal(self) -> bool:
        """Whether every row was checked and none differs; quarantined keys are excluded."""
        return not (self.missing.count or self.extra.count or self.different.count or self.unsettled.count)


class Verdict(Enum):
    """The result of one check of a key."""

    SAME = "same"
    DIFFERS = "differs"
    MOVING = "moving"


def verdict(before: Digest | None, sink: Digest | None, after: Digest | None) -> Verdict:
    """Evaluate one key from the source's row before and after the sink was read; None: the row does not exist.

    >>> verdict(("a",), ("a",), ("b",)), verdict(("a",), None, ("a",)), verdict(("a",), ("x",), ("b",))
    (<Verdict.SAME: 'same'>, <Verdict.DIFFERS: 'differs'>, <Verdict.MOVING: 'moving'>)
    """
    if sink in (before, after):
        return Verdict.SAME
    return Verdict.DIFFERS if before == after else Verdict.MOVING


class _Tally:
    """Counts the keys of one kind and retains the first keys."""

    def __init__(self, named: int) -> None:
        self._named = named
        self._count = 0
        self._keys: list[Key] = []

    def add(self, key: Key) -> None:
        self._count += 1
        if len(self._keys) < self._named:
            self._keys.append(key)

    def found(self) -> Found:
        return Found(self._count, tuple(self._keys))


class Suspects:
    """Keys suspected to differ, checked in batches so that memory does not grow with the number of differences."""

    def __init__(self, source: TableReader, sink: TableReader, options: Options) -> None:
        self._source = source
        self._sink = sink
        self._options = options
        self._waiting: dict[Key, None] = {}
        self._missing = _Tally(options.named)
        self._extra = _Tally(options.named)
        self._different = _Tally(options.named)
        self._unsettled = _Tally(options.named)
        self._quarantined = _Tally(options.named)
        self._columns: Counter[str] = Counter()

    def add(self, keys: Iterable[Key]) -> None:
        """Add `keys` to the suspects; checks the batch when it is full."""
        self._waiting.update(dict.fromkeys(keys))
        if len(self._waiting) >= self._options.pending:
            self.judge()

    def judge(self) -> None:
        """Check all pending keys again until each is equal, is proven to differ, or has changed in too many rounds."""
        keys = list(self._waiting)
        self._waiting.clear()
        retained = set(self._options.quarantined(keys)) if keys else set()
        for key in sorted(retained):
            self._quarantined.add(key)
        proofs: dict[Key, int] = {key: 0 for key in keys if key not in retained}
        needed = self._options.confirmations if self._options.settled else 1
        for _ in range(self._options.rounds):
            if not proofs or not self._round(proofs, needed):
                break
        for key in proofs:
            self._unsettled.add(key)

    def _round(self, proofs: dict[Key, int], needed: int) -> bool:
        """Check every key in `proofs` once and remove the decided keys; return False if the sink did not settle."""
        before = self._source.digests(proofs)
        if self._options.settled is not None and not self._options.settled():
            return False
        sink = self._sink.digests(proofs)
        after = self._source.digests(proofs)
        for key in list(proofs):
            said = verdict(before.get(key), sink.get(key), after.get(key))
            proofs[key] = proofs[key] + 1 if said is Verdict.DIFFERS else 0
            if said is Verdict.SAME:
                del proofs[key]
            elif proofs[key] >= needed:
                del proofs[key]
                self._report(key, after.get(key), sink.get(key))
        return True

    def _report(self, key: Key, source: Digest | None, sink: Digest | None) -> None:
        if sink is None:
            self._missing.add(key)
        elif source is None:
            self._extra.add(key)
        else:
            self._different.add(key)
            pairs = zip(self._source.columns, source, sink, strict=False)
            self._columns.update(name for name, ours, theirs in pairs if ours != theirs)

    def result(self, rows_source: int, rows_sink: int, ranges: int, seconds: float) -> Comparison:
        """Return the result of all keys checked so far, with the row and range counts of the comparison."""
        return Comparison(
            rows_source=rows_source,
            rows_sink=rows_sink,
            ranges=ranges,
            missing=self._missing.found(),
            extra=self._extra.found(),
            different=self._different.found(),
            unsettled=self._unsettled.found(),
            quarantined=self._quarantined.found(),
            differing_columns=tuple(sorted(self._columns.items())),
            seconds=seconds,
        )


T = TypeVar("T")

_MONOTONIC = SystemClock().monotonic

MOST_RANGES = 4_096
"""Maximum number of initial ranges, so that the list of bounds stays small for any table size."""

DEEPEST = 40
"""Maximum depth of splits: each leaves less than half of the rows, so a greater depth means inconsistent orders."""


def compare(
    source: TableReader,
    sink: TableReader,
    options: Options | None = None,
    monotonic: Callable[[], float] = _MONOTONIC,
) -> Comparison:
    """Compare two tables by key; raises `Refused` if they cannot be compared, and the errors of the readers."""
    options = options or Options()
    if list(source.signature) != list(sink.signature) or len(source.columns) != len(sink.columns):
        raise Refused(
            f"cannot compare {source.label} with {sink.label}: keys, encodings or column counts do not match "
            f"({list(source.signature)}, {len(source.columns)} columns; {list(sink.signature)}, {len(sink.columns)})",
            hint="pass the same key and the mapped columns in the same order for both sides",
        )
    started = monotonic()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="verify-sink") as beside:
        walk = _Walk(source, sink, options, beside, Suspects(source, sink, options))
        walk.run()
    return walk.suspects.result(walk.rows_source, walk.rows_sink, walk.ranges, monotonic() - started)


@dataclass(slots=True)
class _Walk:
    """The ranges still to compare, in key order; a second thread reads the sink while this one reads the source."""

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
            raise Refused(f"the keys of {self.source.label} and {self.sink.label} sort in different orders")
        # The side with more rows supplies the bounds; both sides order keys in the same way, so the bounds fit both.
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
        # A Counter, not a set: a target without a unique key can hold the same row twice.
        left, right = Counter(ours), Counter(theirs)
        differing = {key for key, _ in ((left - right) + (right - left))}
        self.suspects.add(sorted(differing))


class Opened(Protocol):
    """A function that opens a table of one server, like `slotkeeper.core.ports.kinds.TableSession.table`."""

    def __call__(
        self, name: str, key: Sequence[str] = (), columns: Sequence[str] = (), where: str = ""
    ) -> ComparedTable: ...


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """The columns of the source that are read, those of the target that are compared, and how the latter are made."""

    read: Sequence[str]
    columns: Sequence[str]
    values: Rewrite


def open_pair(
    source: Opened,
    source_table: str,
    sink: Opened,
    target: str,
    mapping: Mapping[str, str] | None = None,
    where: str = "",
    part: str = "",
    row: ComparedRow | None = None,
) -> tuple[ComparedTable, ComparedTable]:
    """Open a channel's two tables with the source's primary key and columns, mapped by `mapping` or by name.

    `where` selects the source's rows, `part` the target's; both are SQL of their server.

    With `row`, the target's columns are compared with values that are computed from the source's.
    With a `mapping`, only its columns (and the key) are compared; extra columns of the target are never read.
    """
    left, names = source(source_table, where=where), mapping or {}
    key = [column.name for column in left.key]
    if row is not None:
        left = source(source_table, key, row.read, where)
        left.rewrite(row.columns, row.values)
    elif mapping is not None:
        left = source(source_table, key, list(dict.fromkeys([*key, *mapping])), where)
    right = sink(
        target,
        [names.get(column.name, column.name) for column in left.key],
        row.columns if row is not None else [names.get(column, column) for column in left.columns],
        part,
    )
    forms = [ours if ours == theirs else COUNTED for ours, theirs in zip(left.forms, right.forms, strict=True)]
    left.hashes_by(forms)
    right.hashes_by(forms)
    return left, right
