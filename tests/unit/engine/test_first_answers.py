"""A job that FAILED before becomes RUNNING after each of its lanes has answered, not when the lanes start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.engine.driver.job import WITHIN, FirstAnswers
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints


def lane(name: str) -> Lane:
    key, points = LaneKey("dws1", "ods.t", "s", name), SyncPoints(1, 1, 1)
    return Lane(key, Shard(name, 1), DwsPosition(7), points, exactly(points, "i"), 100)


LANES = {name: lane(name) for name in ("dn_1", "dn_2")}


@pytest.mark.parametrize(
    "answer",
    [
        {"position": DwsPosition(8)},
        {"latest": DwsPosition(9), "checked": DwsPosition(9)},
        {"error": "dn_2: sink mart (h:1 as u): connection refused"},
    ],
    ids=["a step", "nothing to read", "a failure that is tried again"],
)
def test_it_runs_once_the_last_lane_has_answered(answer: dict[str, object]) -> None:
    first = FirstAnswers(LANES, 0.0)
    assert not first.all_in(LANES, 1.0)
    one = {**LANES, "dn_1": replace(LANES["dn_1"], position=DwsPosition(8))}
    assert not first.all_in(one, 2.0)
    assert first.all_in({**one, "dn_2": replace(LANES["dn_2"], **answer)}, 3.0)  # type: ignore[arg-type]
    assert first.all_in(LANES, 4.0), "it is requested once"


def test_a_lane_that_has_rows_to_read_and_has_read_none_has_not_answered() -> None:
    waiting = {name: replace(one, latest=DwsPosition(9), checked=DwsPosition(7)) for name, one in LANES.items()}
    assert not FirstAnswers(LANES, 0.0).all_in(waiting, 1.0)


def test_a_table_that_has_left_is_not_waited_for() -> None:
    assert FirstAnswers(LANES, 0.0).all_in({}, 1.0)


def test_a_long_first_step_does_not_count_as_a_failure() -> None:
    first = FirstAnswers(LANES, 100.0)
    assert not first.all_in(LANES, 100.0 + WITHIN - 0.1)
    assert first.all_in(LANES, 100.0 + WITHIN)
