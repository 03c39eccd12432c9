"""No position committed after an act on the target is ever confirmed at the source."""

from __future__ import annotations

from tests.model.target import explore


def test_no_position_behind_an_act_is_confirmed() -> None:
    states, lost = explore()
    assert states > 500
    assert not lost


def test_a_position_noted_at_the_end_of_a_check_is_confirmed_behind_an_act() -> None:
    assert explore(late=True)[1]


def test_a_position_registered_without_a_check_is_confirmed_behind_an_act() -> None:
    assert explore(eager=True)[1]
