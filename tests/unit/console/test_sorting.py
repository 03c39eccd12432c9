"""Sorting is stable, unknown values are last in both orders, and rows do not move while a user presses keys."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.views.rows import Column, Order, Row, calmly, following, ordered, turned

COLUMNS = (Column("mark", "", 1), Column("job", "JOB", 8), Column("lag", "LAG", 6, right=True))


def row(key: str, lag: str, order: float | None = None, has_order: bool = False) -> Row:
    return Row(key, Level.FINE, {"job": key, "lag": lag}, {"lag": order} if has_order else {})


def keys(rows: list[Row]) -> list[str]:
    return [one.key for one in rows]


def test_numbers_beside_the_text_decide_and_unknown_is_last_both_ways() -> None:
    rows = [row("a", "?", None, True), row("b", "14m", 840, True), row("c", "5h41m", 20_460, True), row("d", "-")]
    assert keys(ordered(rows, Order("lag"))) == ["b", "c", "a", "d"]
    assert keys(ordered(rows, Order("lag", True))) == ["c", "b", "a", "d"]


@given(st.lists(st.sampled_from(["1", "2", "10", "?", "-", "", "x", "Y"]), max_size=20), st.booleans())
def test_equal_rows_keep_the_order_in_which_they_came(values: list[str], reverse: bool) -> None:
    rows = [row(f"k{number}", value) for number, value in enumerate(values)]
    found = ordered(rows, Order("lag", reverse))
    assert sorted(keys(found)) == sorted(keys(rows))
    for value in set(values):
        if value not in ("?", "-", ""):
            alike = [one.key for one in found if one.cells["lag"] == value]
            assert alike == [one.key for one in rows if one.cells["lag"] == value]
    unknown = [one.cells["lag"] in ("?", "-", "") for one in found]
    assert unknown == sorted(unknown)


def test_columns_are_gone_through_and_end_where_they_began() -> None:
    seen, order = [], Order()
    for _ in range(3):
        order = following(order, COLUMNS)
        seen.append(order)
    assert seen == [Order("job"), Order("lag", True), Order()]
    assert following(Order("a column that went"), COLUMNS) == Order("job")
    assert turned(Order("lag", True)) == Order("lag")


def test_the_usual_order_can_be_turned() -> None:
    rows = [row("a", "1"), row("b", "2")]
    assert keys(ordered(rows, Order("", True))) == ["b", "a"]
    assert Order("", True).title(COLUMNS, "worst first") == "worst first, reversed"


def test_rows_that_are_shown_stay_where_they_are_and_new_ones_come_below() -> None:
    rows = [row(key, "1") for key in ("new", "c", "a", "newer", "b")]
    assert keys(calmly(rows, ["a", "gone", "b", "c"])) == ["a", "b", "c", "new", "newer"]
