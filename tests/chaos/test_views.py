"""Views over many tiny rounds, and over rounds beside writers: none is ever wrong."""

from __future__ import annotations

import random

import pytest

from slotkeeper.core.domain.views import ViewState
from tests.support.views import Layers, beside_writers, transaction

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(14_400)]
ROUNDS = 10_000


@pytest.mark.parametrize("number", range(3))
def test_ten_thousand_tiny_rounds_leave_no_view_wrong(layers: Layers, seed: int, number: int) -> None:
    print(f"seed {seed + number}")
    draw = random.Random(seed + number)
    views, epoch = layers.built()
    for place in range(ROUNDS):
        changes = transaction(draw)
        layers.run(*changes)
        assert views.round(epoch).stale == {}, (place, changes)
        assert layers.wrong() == {}, (place, changes)
        if place % 100 == 0:
            layers.vacuum()
    assert {row.state for row in views.rows()} == {ViewState.RUNNING}


def test_a_hundred_rounds_beside_four_writers_are_right_in_their_own_snapshots(layers: Layers, seed: int) -> None:
    print(f"seed {seed}")
    applied, found = beside_writers(layers, seed, rounds=100)
    print(f"{applied} changes applied")
    assert found == [{}] * len(found)
