"""The logic of the comparison, on tables in memory: splitting, deciding, counting."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotkeeper.core.drivers.pg_table import KeyColumn
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import Checksum, Digest, Key, KeyRange
from slotkeeper.core.verify.compare import Options, Verdict, compare, verdict

Rows = dict[int, str]


class MemoryTable:
    """A table of (number, text) with integer keys; `on_digests` lets a test change it during a comparison."""

    def __init__(self, rows: Rows, label: str = "memory", twice: Collection[int] = ()) -> None:
        self.content = dict(rows)
        self.label = label
        self.columns: Sequence[str] = ("id", "text")
        self.signature: Sequence[str] = ("UTF8", "integer")
        self.twice = set(twice)
        self.on_digests: Callable[[], None] = lambda: None
        self.read = 0
        self.most_rows = 0

    def _in(self, bounds: KeyRange) -> list[int]:
        low = int(bounds.low[0]) if bounds.low else None
        high = int(bounds.high[0]) if bounds.high else None
        kept = (k for k in sorted(self.content) if (low is None or k >= low) and (high is None or k < high))
        return [key for key in kept for _ in range(2 if key in self.twice else 1)]

    def _hash(self, key: int) -> str:
        return hashlib.md5(f"{key}|{self.content[key]}".encode()).hexdigest()

    def count(self, bounds: KeyRange) -> int:
        return len(self._in(bounds))

    def checksum(self, bounds: KeyRange) -> Checksum:
        keys = self._in(bounds)
        return Checksum(len(keys), sum(int(self._hash(key)[:15], 16) for key in keys))

    def split(self, bounds: KeyRange, rows: int) -> list[Key]:
        return [(str(key),) for key in self._in(bounds)[rows::rows]]

    def rows(self, bounds: KeyRange, limit: int) -> list[tuple[Key, str]]:
        keys: list[Key] = [(str(key),) for key in self._in(bounds)[:limit]]
        found = [(key, self._hash(int(key[0]))) for key in keys]
        self.read += len(found)
        self.most_rows = max(self.most_rows, len(found))
        return found

    def digests(self, keys: Collection[Key]) -> dict[Key, Digest]:
        self.on_digests()
        numbers = [int(key[0]) for key in keys if int(key[0]) in self.content]
        return {(str(n),): (str(n), self.content[n]) * (2 if n in self.twice else 1) for n in numbers}


SMALL = Options(range_rows=50, fan_out=4, leaf_rows=5, pending=10)


def numbered(count: int) -> Rows:
    return {number: f"row {number}" for number in range(count)}


def test_equal_tables_are_equal_and_no_row_is_fetched() -> None:
    source, sink = MemoryTable(numbered(1000)), MemoryTable(numbered(1000))
    found = compare(source, sink, SMALL)
    assert found.equal
    assert (found.rows_source, found.rows_sink, found.ranges) == (1000, 1000, 20)
    assert source.read == sink.read == 0


def test_empty_tables_are_equal() -> None:
    assert compare(MemoryTable({}), MemoryTable({})).equal


def test_every_kind_of_difference_is_named() -> None:
    source, sink = MemoryTable(numbered(1000)), MemoryTable(numbered(1000))
    del sink.content[17]
    sink.content[5000] = "extra"
    sink.content[-3] = "extra"
    sink.content[400] = "changed"
    found = compare(source, sink, SMALL)
    assert not found.equal
    assert found.missing.keys == (("17",),)
    assert sorted(found.extra.keys) == [("-3",), ("5000",)]
    assert found.different.keys == (("400",),)
    assert found.differing_columns == (("text", 1),)
    assert (found.rows_source, found.rows_sink) == (1000, 1001)


def test_few_differences_read_few_rows() -> None:
    source, sink = MemoryTable(numbered(2000)), MemoryTable(numbered(2000))
    sink.content[999] = "changed"
    compare(source, sink, SMALL)
    assert source.read <= SMALL.leaf_rows


@pytest.mark.parametrize("empty", ["source", "sink"])
def test_a_side_without_rows_is_counted_in_full_and_named_up_to_the_bound(empty: str) -> None:
    full, none = MemoryTable(numbered(500)), MemoryTable({})
    source, sink = (none, full) if empty == "source" else (full, none)
    found = compare(source, sink, Options(range_rows=50, fan_out=4, leaf_rows=5, pending=10, named=7))
    side = found.extra if empty == "source" else found.missing
    assert (side.count, len(side.keys)) == (500, 7)
    assert full.most_rows <= 11, "the size of a leaf is limited, however much differs"


def test_a_row_that_the_sink_holds_twice_is_different() -> None:
    found = compare(MemoryTable(numbered(30)), MemoryTable(numbered(30), twice={4}), SMALL)
    assert found.different.keys == (("4",),)


def test_one_key_in_very_many_rows_is_refused_rather_than_read_for_ever() -> None:
    class Repeated(MemoryTable):
        def _in(self, bounds: KeyRange) -> list[int]:
            return [1] * 100 if bounds.high is None or int(bounds.high[0]) > 1 else []

    with pytest.raises(Refused, match="share one key"):
        compare(MemoryTable({1: "a"}), Repeated({1: "a"}), SMALL)


def test_keys_that_do_not_sort_as_they_are_spelled_end_in_a_refusal() -> None:
    class Restless(MemoryTable):
        """Every range has rows, and every query finds another key to split at."""

        def _in(self, bounds: KeyRange) -> list[int]:
            return sorted(self.content)

        def split(self, bounds: KeyRange, rows: int) -> list[Key]:
            return [(str(next(self.cuts)),)]

        cuts = iter(range(10**6))

    with pytest.raises(Refused, match="sort in different orders"):
        compare(Restless(numbered(50)), MemoryTable({}), SMALL)


def test_a_difference_that_passes_away_is_not_reported() -> None:
    source, sink = MemoryTable(numbered(100)), MemoryTable(numbered(100))
    sink.content[5] = "late"
    del sink.content[6]

    def settled() -> bool:
        sink.content.update(source.content)
        return True

    assert compare(source, sink, Options(settled=settled)).equal


def test_a_row_that_keeps_moving_is_unsettled_and_not_equal() -> None:
    source, sink = MemoryTable(numbered(10)), MemoryTable(numbered(10))
    sink.content[3] = "old"
    moves = iter(range(10**6))

    def move() -> None:
        source.content[3] = f"move {next(moves)}"

    source.on_digests = move
    found = compare(source, sink, Options(settled=lambda: True, rounds=4))
    assert found.unsettled.keys == (("3",),)
    assert found.different.count == 0
    assert not found.equal


def test_a_row_that_moved_and_then_stood_still_is_judged() -> None:
    source, sink = MemoryTable(numbered(10)), MemoryTable(numbered(10))
    sink.content[3] = "wrong"
    moves = iter(["a", "b", "c"])

    def move() -> None:
        source.content[3] = next(moves, "c")

    source.on_digests = move
    assert compare(source, sink, Options(settled=lambda: True)).different.keys == (("3",),)


def test_changed_away_and_back_once_is_not_taken_for_a_difference() -> None:
    """The source reads the same before and after, while the sink was correctly read in between."""
    source, sink = MemoryTable({1: "a"}), MemoryTable({1: "b"})
    statuses = iter(["b"])

    def catch_up() -> None:
        sink.content[1] = next(statuses, "a")

    sink.on_digests = catch_up
    assert compare(source, sink, Options(settled=lambda: True)).equal


def test_a_sink_that_never_catches_up_leaves_keys_unsettled() -> None:
    source, sink = MemoryTable(numbered(10)), MemoryTable(numbered(9))
    found = compare(source, sink, Options(settled=lambda: False))
    assert (found.unsettled.count, found.missing.count, found.equal) == (1, 0, False)


def test_quarantined_keys_are_reported_apart() -> None:
    source, sink = MemoryTable(numbered(10)), MemoryTable(numbered(10))
    del sink.content[2]
    found = compare(source, sink, Options(quarantined=lambda keys: [key for key in keys if key == ("2",)]))
    assert found.quarantined.keys == (("2",),)
    assert found.equal


def test_progress_is_reported_and_can_end_the_comparison() -> None:
    seen: list[tuple[int, int]] = []
    compare(MemoryTable(numbered(200)), MemoryTable(numbered(200)), Options(range_rows=50, on_rows=_keep(seen)))
    assert seen == [(50, 200), (100, 200), (150, 200), (200, 200)]

    def refuse(_done: int, _planned: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(MemoryTable(numbered(2)), MemoryTable(numbered(2)), Options(on_rows=refuse))


def _keep(seen: list[tuple[int, int]]) -> Callable[[int, int], None]:
    return lambda done, planned: seen.append((done, planned))


def test_tables_with_other_keys_or_encodings_are_refused() -> None:
    source, sink = MemoryTable({}), MemoryTable({})
    sink.signature = ("UTF8", "text")
    with pytest.raises(Refused, match="cannot compare"):
        compare(source, sink)


def test_seconds_come_from_the_clock_given() -> None:
    ticks = iter([10.0, 12.5])
    assert compare(MemoryTable({}), MemoryTable({}), monotonic=lambda: next(ticks)).seconds == 2.5


@given(
    source=st.dictionaries(st.integers(0, 300), st.sampled_from("abc"), max_size=120),
    sink=st.dictionaries(st.integers(0, 300), st.sampled_from("abc"), max_size=120),
)
@settings(max_examples=150, deadline=None)
def test_any_two_tables_are_told_apart_exactly(source: Rows, sink: Rows) -> None:
    options = Options(range_rows=20, fan_out=3, leaf_rows=2, pending=7, named=1000)
    found = compare(MemoryTable(source), MemoryTable(sink), options)
    assert {int(k[0]) for k in found.missing.keys} == set(source) - set(sink)
    assert {int(k[0]) for k in found.extra.keys} == set(sink) - set(source)
    assert {int(k[0]) for k in found.different.keys} == {k for k in set(source) & set(sink) if source[k] != sink[k]}
    assert (found.rows_source, found.rows_sink) == (len(source), len(sink))


@pytest.mark.parametrize(
    ("before", "sink", "after", "said"),
    [
        (("a",), ("a",), ("a",), Verdict.SAME),
        (("a",), ("b",), ("b",), Verdict.SAME),
        (None, None, ("b",), Verdict.SAME),
        (("a",), None, ("a",), Verdict.DIFFERS),
        (None, ("a",), None, Verdict.DIFFERS),
        ((None,), ("",), (None,), Verdict.DIFFERS),
        (("a",), ("x",), ("b",), Verdict.MOVING),
        (("a",), ("x",), None, Verdict.MOVING),
    ],
)
def test_verdict(before: Digest | None, sink: Digest | None, after: Digest | None, said: Verdict) -> None:
    assert verdict(before, sink, after) is said


@pytest.mark.parametrize(
    ("kind", "text", "canonical"),
    [
        ("numeric", "0.00", "0"), ("numeric", "-1.50", "-1.5"), ("numeric", "100", "100"), ("numeric", "NaN", "NaN"),
        ("float8", "1e+300", "1e+300"), ("float8", "0.10000000000000001", "0.1"), ("text", "1.50", "1.50"),
        ("float8", "Infinity", "Infinity"), ("numeric", "-0.0", "0"),
    ],
)  # fmt: skip
def test_equal_keys_have_one_spelling(kind: str, text: str, canonical: str) -> None:
    assert KeyColumn("k", kind, kind, False).canonical(text) == canonical
