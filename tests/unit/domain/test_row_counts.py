"""The effect of a snapshot on a target's rows: no rows at risk are deleted unless a person typed their number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotkeeper.core.domain.row_counts import FEW, CopyRows, Fate, RowCount, count_within

UNKNOWN, NONE = RowCount(None, why="permission denied"), RowCount(0)
MANY = RowCount(FEW, at_least=True)


def rows(source: RowCount | int, target: RowCount | int, way: str = "replace", cleared: bool = False) -> CopyRows:
    there, here = (one if isinstance(one, RowCount) else RowCount(one) for one in (source, target))
    return CopyRows(there, here, way, cleared)


@pytest.mark.parametrize(
    ("found", "fate", "at_stake"),
    [
        (rows(174, 130_881), Fate.SHRINKS, 130_707),
        (rows(0, 1), Fate.SHRINKS, 1),
        (rows(5, 5), Fate.STAYS, 0),
        (rows(6, 5), Fate.STAYS, 0),
        (rows(0, 0), Fate.STAYS, 0),
        (rows(UNKNOWN, NONE), Fate.STAYS, 0),
        (rows(MANY, 99), Fate.STAYS, 0),
        (rows(174, MANY), Fate.SHRINKS, FEW - 174),
        (rows(MANY, FEW + 1), Fate.UNTOLD, FEW + 1),
        (rows(FEW + 1, MANY), Fate.UNTOLD, FEW),
        (rows(MANY, MANY), Fate.UNTOLD, FEW),
        (rows(UNKNOWN, 9), Fate.UNTOLD, 9),
        (rows(9, UNKNOWN), Fate.UNSEEN, 0),
        (rows(UNKNOWN, UNKNOWN), Fate.UNSEEN, 0),
        (rows(0, 9, "merge"), Fate.STAYS, 0),
        (rows(0, UNKNOWN, "refuse"), Fate.STAYS, 0),
    ],
)
def test_what_becomes_of_the_target(found: CopyRows, fate: Fate, at_stake: int) -> None:
    assert (found.fate, found.at_stake) == (fate, at_stake)
    assert found.source.text in found.sentence and found.target.text in found.sentence


@pytest.mark.parametrize(
    ("found", "likely"),
    [
        (rows(0, 1), True),
        (rows(10, 100), True),
        (rows(11, 100), False),
        (rows(99, 100, cleared=True), True),
        (rows(100, 100, cleared=True), False),
        (rows(MANY, FEW * 20), False),
        (rows(0, MANY), True),
        (rows(UNKNOWN, 9), False),
        (rows(0, UNKNOWN), False),
        (rows(0, 9, "merge"), True),
    ],
)
def test_truncate_is_named_where_it_is_likely(found: CopyRows, likely: bool) -> None:
    assert found.truncated is likely


@pytest.mark.parametrize(
    ("planned", "now", "covered"),
    [
        (rows(174, 130_881), rows(174, 130_881), True),
        (rows(100_000, 130_881), rows(99_000, 130_881), True),
        (rows(100_000, 130_881), rows(90_000, 130_881), False),
        (rows(130_881, 130_881), rows(130_880, 130_881), True),
        (rows(130_881, 130_881), rows(0, 130_881), False),
        (rows(130_881, 130_881), rows(UNKNOWN, 130_881), False),
        (rows(130_881, 130_881), rows(9, UNKNOWN), False),
        (rows(1, 5), rows(0, 5), False),
        (rows(9, 9, "merge"), rows(0, 9, "merge"), True),
        (rows(0, 9), rows(9, 9), True),
    ],
)
def test_what_was_typed_holds_for_a_few_rows_more_only(planned: CopyRows, now: CopyRows, covered: bool) -> None:
    assert (now.outgrown(planned) == "") is covered


def counted(number: int, within: int | None) -> RowCount:
    """A count as in a plan; `within` is the limit of the count."""
    return RowCount(number) if within is None or number < within else RowCount(within, at_least=True)


NUMBERS = st.integers(0, 2_000)
LIMITS = st.one_of(st.none(), st.integers(1, 1_000))


@given(NUMBERS, NUMBERS, LIMITS, LIMITS, st.booleans())
def test_no_copy_takes_rows_whose_number_was_not_typed(
    source: int, target: int, seen_there: int | None, seen_here: int | None, told: bool
) -> None:
    there = counted(source, seen_there) if told else UNKNOWN
    found = rows(there, counted(target, seen_here))
    assert found.fate is not Fate.UNSEEN
    assert (found.at_stake > 0) is (found.fate is not Fate.STAYS)
    assert found.at_stake <= target
    if source < target:
        assert found.fate is not Fate.STAYS
    if found.fate is Fate.SHRINKS:
        assert found.at_stake <= target - source
    if found.truncated:
        assert source < target


def test_a_count_that_takes_too_long_counts_some() -> None:
    def asked(number: int, in_time: int) -> tuple[RowCount, list[int | None]]:
        seen: list[int | None] = []

        def ask(most: int | None, limit_ms: int) -> int | None:
            seen.append(most)
            wanted = number if most is None else min(number, most)
            return wanted if wanted <= in_time else None

        return count_within(ask), seen

    assert asked(7, 10) == (RowCount(7), [None])
    assert asked(FEW * 3, FEW) == (MANY, [None, FEW])
    assert asked(FEW * 3, 10) == (RowCount(None, why="not counted within 5 s"), [None, FEW])
