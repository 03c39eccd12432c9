"""Parsing single values: units, ranges and names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotkeeper.core.config import values
from slotkeeper.core.config.values import BadValue


@pytest.mark.parametrize(
    ("raw", "milliseconds"),
    [
        (0, 0),
        ("0", 0),
        ("500ms", 500),
        ("500 ms", 500),
        ("1.5s", 1500),
        ("1.001s", 1001),
        ("5m", 300_000),
        ("5min", 300_000),
        ("1h", 3_600_000),
    ],
)
def test_durations_are_read_with_their_unit(raw: object, milliseconds: int) -> None:
    assert values.duration(0, values.DAY)(raw) == milliseconds


@pytest.mark.parametrize("raw", ["", "5 s s", "s", "-5s", "1e3", "5S", True, None, [], 1.0, "\u0665s", "9" * 40])
def test_anything_else_is_rejected_as_a_duration(raw: object) -> None:
    with pytest.raises(BadValue):
        values.duration(0, values.DAY)(raw)


@given(st.integers(0, values.WEEK))
def test_a_duration_that_is_shown_is_read_back(milliseconds: int) -> None:
    assert values.duration(0, values.WEEK)(values.show_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize("raw", [1024, "1024", "1024m", "1g", "1GiB", "1024 MiB"])
def test_memory_is_read_as_mebibytes(raw: object) -> None:
    assert values.memory(512, 4096)(raw) == "1024m"


@given(st.text() | st.integers() | st.booleans() | st.floats() | st.none() | st.binary() | st.lists(st.text()))
def test_no_reader_fails_in_another_way(raw: object) -> None:
    readers = [
        values.boolean,
        values.whole(0, 9),
        values.duration(0, 9),
        values.memory(0, 9),
        values.text(9),
        values.table,
        values.choice("a"),
        values.start,
        values.host,
        values.slot,
        values.identifier,
        values.env_name,
    ]
    for read in readers:
        try:
            read(raw)
        except BadValue as error:
            assert len(str(raw)) < 12 or str(raw) not in str(error)


@pytest.mark.parametrize(
    "name",
    [
        "ods.orders",
        "ODS.Orders_2",
        "_a.b$c",
        "schéma.tablé",
        "a.1b",
        "a b.c-d",
        "a.b'",
        "a.it's %s {0} \\",
        f"a.{'b' * 63}",
    ],
)
def test_table_names_are_taken_as_written(name: str) -> None:
    assert values.table(name) == name


@pytest.mark.parametrize(
    "name", ["a", "a.b.c", '"a".b', 'a.b"', "a.", ".b", "a. ", "a.b\n", f"a.{'b' * 64}", "a.é" + "é" * 40]
)
def test_other_table_names_are_refused(name: str) -> None:
    with pytest.raises(BadValue):
        values.table(name)


@pytest.mark.parametrize("name", ["public.slotkeeper_progress", "mart.orders__slotkeeper_copy"])
def test_a_target_is_not_named_like_a_slotkeeper_table_which_a_copy_would_drop(name: str) -> None:
    with pytest.raises(BadValue, match="a name reserved for Slotkeeper"):
        values.target(name)
