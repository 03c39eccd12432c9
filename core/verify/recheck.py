"""Which suspected differences persist: each is looked at again once the sink must have caught up.

The rule per key: source, wait until settled, sink, source again. A source that did not change around the sink's look
proves that the sink should have shown that very row. One proof can still be wrong where a row changed away and back
in between, so `Options.confirmations` of them in a row are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

from slotkeeper.core.ports.kinds import Digest, Key, TableReader
from slotkeeper.core.verify.comparison import Comparison, Found, Options


class Verdict(Enum):
    """What one look at a key says."""

    SAME = "same"
    DIFFERS = "differs"
    MOVING = "moving"


def verdict(before: Digest | None, sink: Digest | None, after: Digest | None) -> Verdict:
    """Judge one key from the source's row before and after the sink was read; None is no row.

    >>> verdict(("a",), ("a",), ("b",)), verdict(("a",), None, ("a",)), verdict(("a",), ("x",), ("b",))
    (<Verdict.SAME: 'same'>, <Verdict.DIFFERS: 'differs'>, <Verdict.MOVING: 'moving'>)
    """
    if sink in (before, after):
        return Verdict.SAME
    return Verdict.DIFFERS if before == after else Verdict.MOVING


class _Tally:
    """Counts keys of one kind and keeps the first of them."""

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
    """Differing keys, judged in batches so that memory does not grow with the number of differences."""

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
        """Suspect `keys`; judges the batch when it is full."""
        self._waiting.update(dict.fromkeys(keys))
        if len(self._waiting) >= self._options.pending:
            self.judge()

    def judge(self) -> None:
        """Look again at all waiting keys until each is the same, proven to differ, or known to keep moving."""
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
        """One look at every key left in `proofs`; drops the decided ones; False when settling failed."""
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
        """Everything judged so far, with the walk's own figures."""
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
