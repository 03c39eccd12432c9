"""Whether a lane continues after a change of columns in the source's log, and whether its target permits it."""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.logged_change import ColumnStep, LoggedChange, Verdict, clash, judge
from slotkeeper.core.domain.shape import Act, Need, Reshape
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.spec import APPLY, IGNORE
from slotkeeper.core.sources.dws.position import DwsPosition

ADDED = Verdict(named=(("", "n"),))
FILLED = Verdict(named=(("", "n"),), defaults=(("n", "7"),))
RENAMED = Verdict(named=(("a", "b"),))


def target(*names: str, needs: tuple[Need, ...] = ()) -> Reshape:
    return Reshape(needs=needs, there=frozenset({"id", *names}))


@pytest.mark.parametrize(
    ("verdict", "shape", "alone", "began"),
    [
        (ADDED, target(), "", ""),
        (ADDED, target("n"), "already has a column n", ""),
        (ADDED, target("N"), "already has a column n", ""),
        (FILLED, target(), "", ""),
        (FILLED, target("n"), "already has a column n", ""),
        (FILLED, target("N"), "already has a column n", ""),
        (RENAMED, target("a"), "", ""),
        (RENAMED, target("b"), "already has a column b", ""),
        (RENAMED, target("a", "b"), "already has a column b", "already has a column b"),
        (RENAMED, target(), "has no column a", "has no column a"),
        (RENAMED, target("a", "b", needs=(Need(Act.DROP, "a"),)), "would lose its column a", "would lose its column a"),
        (RENAMED, Reshape(), "the job cannot create column", "the job cannot create column"),
        (FILLED, Reshape(), "the job cannot create column", "the job cannot create column"),
        (ADDED, Reshape(), "", ""),
    ],
)
def test_a_target_column_is_neither_dropped_nor_taken_over(
    verdict: Verdict, shape: Reshape, alone: str, began: str
) -> None:
    """Only a sink in two parts can have the column from an interrupted attempt, which the store then records."""
    for has_begun, why in ((False, alone), (True, began)):
        found = clash(verdict, shape, True, has_begun)
        assert why in found and bool(why) == bool(found)
    exact = {one for _, one in verdict.named} & (shape.there or frozenset())
    found = clash(verdict, shape, False)
    assert found == (clash(verdict, shape, True) if exact or "already" not in alone else "")


def test_a_verdict_names_the_new_columns_of_the_target() -> None:
    one, other = Column("a", "integer", number=1), Column("b", "integer", number=1)
    new = Column("n", "integer", number=2)
    steps = (ColumnStep(one, other, other), ColumnStep(None, new, new, default="7"))
    change = LoggedChange("ALTER", "here", DwsPosition(1), steps)
    assert judge(change, APPLY, (), (), ()).named == (("a", "b"), ("", "n"))
    assert judge(LoggedChange("ALTER", "here", change.position, steps[1:]), IGNORE, (), (), ()).named == ()
