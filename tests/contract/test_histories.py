"""Random histories of a job in virtual time, over every pair of a source and a sink: whatever fails meanwhile, every
change is applied once, in the order of its key, and no position is registered that the sink does not hold.
"""

from __future__ import annotations

import random

import pytest

from tests.contract.pairs import (
    BY_SLOT,
    BY_STREAM,
    DORIS,
    FIRST,
    HOLOGRES,
    KEEPS,
    MYSQL,
    OF_HOLOGRES,
    SECOND,
    Pair,
    pair,
)
from tests.support.histories import History
from tests.support.sqlite_pair.sink import ADDS_UP, TOKENS
from tests.support.virtual import World

__all__ = ["pair"]
FAST = (FIRST, SECOND, KEEPS, ADDS_UP, TOKENS, DORIS)
SLOW = (HOLOGRES, OF_HOLOGRES, BY_STREAM, BY_SLOT, MYSQL)


@pytest.mark.parametrize("pair", [*FAST, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)], indirect=True)
def test_a_random_history_ends_equal(pair: Pair, world: World, seed: int) -> None:
    history = History(pair, world, random.Random(seed))
    for turns in (3, 2):
        assert history.run(turns)
        print(world.now, history.probe.hits, history.workers.cancelled)
