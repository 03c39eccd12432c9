"""The body of a load: one row per key, every character unchanged, deleted rows with their delete sign."""

from __future__ import annotations

import json
import random

import pytest

from slotkeeper.core.ports.sink import Fields
from slotkeeper.core.sinks.doris.encode import SEQUENCE, SIGN, Layout, body_of

LAYOUT = Layout(("id", "v", "b"), (0,), booleans=frozenset({2}), filled=((1, "-"),))


def lines(layout: Layout, rows: list[Fields], chunk: bool = False) -> list[dict[str, str | None]]:
    body = body_of(layout, lambda: iter(rows), chunk)
    with body.file:
        text = body.file.read()
    assert len(text) == body.size
    found = [json.loads(line) for line in text.decode().splitlines()]
    assert len(found) == body.rows
    return found


def test_the_last_row_of_a_key_is_sent_and_no_other() -> None:
    rows: list[Fields] = [
        ("1", "0", "I", "1", "a", "t"),
        ("1", "1", "I", "2", "b", "f"),
        ("2", "0", "B", "1", "a", "t"),
        ("2", "1", "U", "1", "c", None),
        ("3", "0", "d", "2", None, None),
    ]
    assert lines(LAYOUT, rows) == [
        {"id": "1", "v": "c", "b": None, SIGN: "0"},
        {"id": "2", "v": "-", "b": None, SIGN: "1"},
    ]


def test_the_last_row_of_a_key_is_that_of_its_last_event_in_whatever_order_a_range_comes(seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    events: list[Fields] = [
        (str(point), str(number), "U", str(chance.randrange(9)), f"{point}/{number}", "t")
        for point in range(8, 13)
        for number in range(8, 13)
    ]
    last = {row[3]: row[4] for row in events}
    chance.shuffle(events)
    assert {line["id"]: line["v"] for line in lines(LAYOUT, events)} == last


def test_an_update_of_a_key_deletes_the_old_one() -> None:
    rows: list[Fields] = [("1", "0", "B", "1", "a", "t"), ("1", "1", "U", "9", "a", "t")]
    assert [(one["id"], one[SIGN]) for one in lines(LAYOUT, rows)] == [("1", "1"), ("9", "0")]


@pytest.mark.parametrize("text", ['\t\n\\N"', "\\N", "", "é漢😀\x01\x02\x7f", "null"])
def test_every_text_stays_what_it_is(text: str) -> None:
    assert lines(LAYOUT, [("1", "0", "I", "1", text, "t")])[0]["v"] == text


def test_rows_of_a_chunk_have_columns_alone_and_lie_below_all_changes() -> None:
    layout = Layout(("id", "v"), (0,), sequenced=True)
    (copied,) = lines(layout, [("1", "a")], chunk=True)
    (read,) = lines(layout, [("0", "0", "I", "1", "a")])
    assert (copied[SEQUENCE], int(read[SEQUENCE] or 0) > 0) == ("0", True)
    assert layout.header == f"`id`,`v`,`{SIGN}`,`{SEQUENCE}`"


def test_many_rows_wait_in_a_file() -> None:
    rows: list[Fields] = [("1", "0", "I", str(one), "x" * 1000, "t") for one in range(10_000)]
    assert len(lines(LAYOUT, rows)) == 10_000


@pytest.mark.parametrize("key", [(0,), (0, 1)])
@pytest.mark.parametrize("in_order", [True, False])
def test_the_last_row_of_each_key_is_the_one_with_the_highest_numbers(
    key: tuple[int, ...], in_order: bool, seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    numbers = [(chance.randrange(20), chance.randrange(9, 12)) for _ in range(300)]
    numbers = sorted(numbers) if in_order else numbers
    rows: list[Fields] = [
        (str(point), str(number), "U", str(chance.randrange(8)), str(chance.randrange(3)), str(place))
        for place, (point, number) in enumerate(numbers)
    ]
    wanted = {}
    for row in sorted(rows, key=lambda row: [int(row[place] or 0) for place in (0, 1, 5)]):
        wanted[tuple(row[3 + place] for place in key)] = row[5]
    assert {row["c"] for row in lines(Layout(("a", "b", "c"), key), rows)} == set(wanted.values())
