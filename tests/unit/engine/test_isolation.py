"""The rows that are sent and left out in a step with rejected rows: random histories, compared event by event."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from slotkeeper.core.domain.quarantine import Refusal
from slotkeeper.core.engine.worker.two_part import LONGEST, Isolated, Isolation
from slotkeeper.core.errors import TooLarge, Trouble
from slotkeeper.core.ports.sink import Fields

BAD = "bad"


@dataclass
class Tries:
    """A sink that rejects rows with the value BAD, and counts its calls."""

    columns: tuple[str, ...] = ("id", "v")
    key: tuple[int, ...] = (0,)
    asked: int = 0

    def trial(self, rows: Callable[[], Iterator[Fields]], count: int, chunk: bool) -> int:
        self.asked += 1
        found = list(rows())
        assert len({row[0 if chunk else 3] for row in found}) == len(found) == count, "one row of each key"
        return sum(_refused(row, chunk) for row in found)

    def refusal(self, row: Fields, chunk: bool) -> Refusal | None:
        self.asked += 1
        return Refusal("22000", "v", "does not fit") if _refused(row, chunk) else None


def _refused(row: Fields, chunk: bool) -> bool:
    return row[-1] == BAD and (chunk or row[2] in ("I", "U"))


def isolated(
    sink: Tries, rows: list[Fields], limit: int = 1_000, chunk: bool = False, seconds: Callable[[], float] = lambda: 0.0
) -> Isolated:
    return Isolation(sink, lambda: iter(rows), limit, chunk, seconds).isolated()  # type: ignore[arg-type]


def history(chance: random.Random, keys: int, events: int) -> list[Fields]:
    """Events of rows that are inserted, updated and deleted as in a source, in their order."""
    there: dict[str, str] = {}
    found: list[Fields] = []
    for number in range(events):
        key, value = str(chance.randrange(keys)), chance.choice(["x", "y", BAD])
        point, at = str(10 + number // 5), 2 * (number % 5)
        if key not in there:
            found.append((point, str(at), "I", key, value))
        elif chance.random() < 0.3:
            found.append((point, str(at), "d", key, there.pop(key)))
            continue
        else:
            other = str(keys + number) if chance.random() < 0.2 else key
            found += [(point, str(at), "B", key, there.pop(key)), (point, str(at + 1), "U", other, value)]
            key = other
        there[key] = value
    return found


def expected(rows: list[Fields]) -> tuple[dict[str | None, Fields], set[str | None]]:
    """The expected row of each key, and the keys whose last event is rejected, computed event by event."""
    sent: dict[str | None, Fields] = {}
    bad: set[str | None] = set()
    for number, row in enumerate(rows):
        after = rows[number + 1] if number + 1 < len(rows) else None
        if row[2] == "B" and after is not None and after[3] == row[3]:
            continue
        bad.discard(row[3])
        if _refused(row, False):
            bad.add(row[3])
        else:
            sent[row[3]] = row
    return sent, bad


@pytest.mark.parametrize("count", [100, pytest.param(5_000, marks=pytest.mark.chaos)])
def test_each_key_is_sent_as_its_last_event_that_fits_and_the_last_event_is_left_out_where_it_does_not(
    seed: int, count: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(count):
        rows = history(chance, chance.randint(1, 12), chance.randint(1, 60))
        sent, bad = expected(rows)
        shuffled = chance.sample(rows, len(rows))  # the rows of a range have no order
        found = isolated(Tries(), shuffled)
        assert {row[3]: row for row in found.rows(shuffled.__iter__)} == sent
        assert {one.key[0] for one in found.left_out.rows} == bad
        assert {key for (key,) in found.left_out.touched} == {row[3] for row in rows}


def test_a_bad_row_is_found_by_few_trials() -> None:
    sink, rows = Tries(), [("1", str(one), "I", str(one), BAD if one == 700 else "x") for one in range(1_000)]
    assert [one.key for one in isolated(sink, list(rows)).left_out.rows] == [("700",)]
    assert sink.asked <= 22


def test_rows_of_a_chunk_are_left_out_alone() -> None:
    found = isolated(Tries(), [("1", "x"), ("2", BAD), ("3", "x")], chunk=True)
    assert [(one.key, one.kind, one.texts) for one in found.left_out.rows] == [(("2",), "c", ("2", BAD))]
    assert found.keep == frozenset({0, 2})
    assert found.left_out.touched == ()


def test_more_than_the_limit_are_told_with_one_of_them_and_not_looked_for() -> None:
    sink, rows = Tries(), [("1", str(one), "I", str(one), BAD) for one in range(1_000)]
    with pytest.raises(Trouble, match=r"rejects 1000 rows at once, .* one of them: does not fit"):
        isolated(sink, list(rows), limit=999)
    assert sink.asked <= 12


def test_trials_that_take_too_long_make_the_step_smaller() -> None:
    clock = iter(range(0, 10_000, int(LONGEST) // 2))
    rows = [("1", str(one), "I", str(one), BAD if one % 50 == 0 else "x") for one in range(1_000)]
    with pytest.raises(TooLarge, match="too many"):
        isolated(Tries(), list(rows), seconds=lambda: float(next(clock)))
