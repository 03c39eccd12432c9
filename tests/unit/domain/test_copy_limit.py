"""The tasks of a copy stay within its limit together, and use it, whatever their gaps and the sizes of their blocks."""

from __future__ import annotations

import heapq
import random

import pytest

from slotkeeper.core.domain.copy_limit import BURST, CopyLimit, Pace, Shares, size_of, size_text

SECONDS = 60.0


def simulated(seed: int, limit: CopyLimit, tasks: int, gap: float, block: int, width: int) -> list[tuple[float, int]]:
    """Run tasks of about 4 s with a gap between two; return (time, rows) of each block passed on."""
    chance, shares = random.Random(seed), Shares(tasks, 0.0)
    passed: list[tuple[float, int]] = []
    starts = [0.0] * tasks
    while starts and (now := heapq.heappop(starts)) < SECONDS:
        share = shares.take(now, tasks)
        late = chance.uniform(0.0, gap)
        pace, ends = Pace(limit, tasks / share.of, share.credit, now + late), now + late + 4.0
        now += late
        while now < min(ends, SECONDS):
            rows = chance.randint(1, block)
            now += pace.wait(rows, rows * width, now)
            passed.append((now, rows))
        shares.give_back(share, pace.spent)
        heapq.heappush(starts, now + chance.uniform(0.0, gap))
    return sorted(passed)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("limit", "rate"), [(CopyLimit(5_000), 5_000), (CopyLimit(None, 1 << 20), (1 << 20) / 100)])
def test_tasks_together_use_the_limit_and_never_more_than_it_and_a_burst(
    seed: int, limit: CopyLimit, rate: float
) -> None:
    for tasks in (1, 2, 7):
        passed = simulated(seed, limit, tasks, 0.2, 256, 100)
        total = sum(rows for _, rows in passed if _ <= SECONDS)
        assert 0.9 * rate <= total / SECONDS <= rate * (1 + BURST / SECONDS), (seed, tasks, total / SECONDS)
        for first in range(0, len(passed), max(1, len(passed) // 50)):
            start, rows = passed[first][0], 0
            for at, more in passed[first + 1 :]:
                rows += more
                if at - start >= 10.0:
                    assert rows <= rate * (at - start + BURST) + 256 * tasks, (seed, tasks, start)
                    break


def test_a_slow_source_saves_no_budget_for_later() -> None:
    pace = Pace(CopyLimit(1_000), 1, 0.0, 0.0)
    assert pace.wait(10, 0, 100.0) == 0.0
    assert sum(pace.wait(1_000, 0, 100.0) for _ in range(1)) == pytest.approx(0.01)
    assert pace.wait(1_000, 0, 100.0) == pytest.approx(1.01)


def test_the_last_task_of_a_copy_gets_all_that_is_free() -> None:
    shares = Shares(4, 0.0)
    assert [shares.take(1.0, left).of for left in (9, 8, 1)] == [1, 1, 2]
    assert not shares.free


def test_no_limit_waits_for_nothing() -> None:
    assert Pace(CopyLimit(), 3, 0.0, 0.0).wait(10**9, 10**12, 0.0) == 0.0


@pytest.mark.parametrize("text", ["", "ten", "10 mib", "-1", "1.5MiB", "1TiB"])
def test_other_sizes_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="must be a size"):
        size_of(text)


@pytest.mark.parametrize("size", [1, 1023, 1024, 65_536, 10 << 20, 3 << 30])
def test_a_shown_size_can_be_typed(size: int) -> None:
    assert size_of(size_text(size)) == size
