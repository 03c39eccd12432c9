"""A soak reports what grows after the warm-up, and only that."""

from __future__ import annotations

from bench.soak_figures import Measured, Sample

HOUR = 3_600.0


def grown(rss: float = 0.0, fds: float = 0.0, start: float = 0.0, noise: float = 0.5) -> list[str]:
    """What is reported of a process that grows by so much an hour, and by much more before `start`."""
    made = Measured(HOUR)
    for at in range(0, int(HOUR), 10):
        early = 50 * max(0.0, start - at) / HOUR
        memory = 100 - early + rss * at / HOUR + noise * (at // 10 % 2)
        made.lives["driver", 1].append(Sample(at, memory, memory, 20 + int(fds * at / HOUR), 4))
    return [line.partition(" (")[0] for line in made.grown()]


def test_growth_of_memory_and_of_descriptors_is_reported() -> None:
    assert grown(rss=2.0) == ["driver: memory +2.00"]
    assert grown(fds=6.0) == ["driver: fds 22 -> 25"]


def test_growth_during_the_warm_up_noise_and_slower_growth_are_not_reported() -> None:
    assert grown(start=HOUR / 3) == grown(rss=0.8) == grown(noise=5.0) == []


def test_a_process_that_lived_through_less_than_half_of_the_time_is_not_judged() -> None:
    made = Measured(HOUR)
    made.lives["driver", 1] = [Sample(at, at, at, at, at) for at in range(0, 1_800, 10)]
    assert made.judged() == []
