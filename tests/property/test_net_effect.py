"""The net effect of a changelog, however it is split into batches and parts, equals applying the events one by one.

In Arrow, as a task of Spark computes it; `tests/spark/test_dataframe_writer.py` tests the same with Spark and a table.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from slotkeeper.core.dataframe import changelog
from slotkeeper.core.dataframe.net import Reduce
from slotkeeper.core.errors import Refused
from tests.support.oracle import Event, History, Image, Key, Oracle, Rules, history
from tests.support.query_effects import CHANGES, batches_of, rows_of

HISTORIES = 20


def applied(target: dict[Key, Image], effect: Iterable[Mapping[str, object]]) -> dict[Key, Image]:
    """Return the target after a net effect: at most one row for each key, so their order does not matter."""
    after, seen = dict(target), set()
    for row in effect:
        key = (int(str(row["h"])), int(str(row["k"])))
        assert key not in seen, "a key has one row"
        seen.add(key)
        if row[changelog.CHANGE] == changelog.DELETE:
            after.pop(key, None)
        else:
            assert row[changelog.CHANGE] in changelog.WRITES
            after[key] = {name: row[name] for name in ("h", "k", "a", "b", "tags", "j")}  # type: ignore[misc]
    return after


def one_at_a_time(one: History) -> Mapping[Key, Image]:
    oracle = Oracle(Rules(), one.target)
    oracle.apply(one.events)
    return oracle.rows


def test_a_net_effect_leaves_what_one_event_after_another_leaves(seed: int) -> None:
    @seeded(seed)
    @settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32), st.integers(1, 40))
    def examples(number: int, size: int) -> None:
        draw = random.Random(number)
        histories = [history(draw, one) for one in range(HISTORIES)]
        events: list[Event] = [event for one in histories for event in one.events]
        draw.shuffle(events)
        effect = rows_of(Reduce(("h", "k"))(batches_of(events, size)))
        for one in histories:
            mine = [row for row in effect if row["h"] == one.number]
            assert applied(one.target, mine) == one_at_a_time(one), number

    examples()


def test_a_net_effect_is_the_same_in_small_rounds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotkeeper.core.dataframe.net.REDUCE_ROWS", 7)
    draw = random.Random(seed)
    histories = [history(draw, one) for one in range(HISTORIES)]
    events = [event for one in histories for event in one.events]
    draw.shuffle(events)
    effect = rows_of(Reduce(("h", "k"))(batches_of(events, 3)))
    for one in histories:
        assert applied(one.target, [row for row in effect if row["h"] == one.number]) == one_at_a_time(one)


def test_a_copied_row_comes_before_every_change_of_its_key() -> None:
    image: Image = {"h": 1, "k": 1, "a": 1, "b": "copied", "tags": None, "j": None}
    later = {**image, "b": "changed"}
    first = Event(changelog.BEGINNING, changelog.BEGINNING, changelog.COPIED, (1, 1), image)
    events = [Event(0, 1, "U", (1, 1), later), first]
    (row,) = rows_of(Reduce(("h", "k"))(batches_of(events, 10)))
    assert (row["b"], row[changelog.CHANGE]) == ("changed", "U")
    (row,) = rows_of(Reduce(("h", "k"))(batches_of([first], 10)))
    assert (row["b"], row[changelog.CHANGE]) == ("copied", "S")


def test_two_rows_of_one_change_are_refused() -> None:
    image: Image = {"h": 1, "k": 1, "a": 1, "b": "x", "tags": None, "j": None}
    twice = [Event(5, 1, "I", (1, 1), image), Event(5, 1, "I", (1, 1), {**image, "a": 2})]
    with pytest.raises(Refused, match="several rows of a key have the same position"):
        rows_of(Reduce(("h", "k"))(batches_of(twice, 10)))


def test_nothing_comes_of_nothing() -> None:
    assert rows_of(Reduce(("h", "k"))([])) == []
    assert rows_of(Reduce(("h", "k"))([pa.RecordBatch.from_pylist([], CHANGES)])) == []
