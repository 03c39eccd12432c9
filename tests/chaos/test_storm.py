"""Everything at once for half an hour, on Spark and on the local runner: 0 lost, 0 doubled, equal tables.

    make chaos ARGS="tests/chaos/test_storm.py -s"                           both, half an hour each
    SLOTKEEPER_CHAOS_SECONDS=120 make chaos ARGS="tests/chaos/test_storm.py -s -k local"     two minutes of one

`SLOTKEEPER_CHAOS_ONLY=failover,reset` leaves the acts whose name has one of these words, `SLOTKEEPER_TEST_SEED` repeats
the order of a run. What the acts are stands in `tests.support.storm.acts`.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.report import FOLDER
from tests.support.storm import acts
from tests.support.storm.acts import Act
from tests.support.storm.page import write
from tests.support.storm.rig import Rig, seconds

LOGS = FOLDER.parents[1] / ".cache"
OVER = 3_600
"""Seconds beside those of the run that a start, the last act, its remedies and the last look may take."""
BETWEEN_LOOKS = 8

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(int(seconds()) + OVER)]


@dataclass
class Run:
    """Acts in a seeded order, each followed by a wait until everything has arrived; a look after every few."""

    rig: Rig
    draw: random.Random
    took: dict[str, list[float]] = field(default_factory=dict)
    troubles: dict[str, Counter[str]] = field(default_factory=dict)
    left: list[Act] = field(default_factory=list)
    since_look: int = 0

    def until(self, end: float) -> None:
        """Disturb until `end`, and at least once; each act once before any comes again."""
        while time.monotonic() < end or not self.took:
            if not self.left:
                every = acts.chosen(self.rig.runner)
                self.left = self.draw.sample(every, len(every))
            act = self.left.pop()
            self._one(act)
            if self.since_look >= BETWEEN_LOOKS or act.person:
                self._look()
                self.rig.load.start()
        self._look()

    def _one(self, act: Act) -> None:
        rig = self.rig
        rig.rest(self.draw.uniform(0.5, 3.0))
        rig.troubles.clear()
        rig.say(f"{act.name} ...")
        drawn = act.run(rig, self.draw)
        took = rig.settle(act.person)
        self.took.setdefault(act.name, []).append(took)
        self.troubles.setdefault(act.name, Counter()).update(rig.troubles)
        self.since_look += 1
        rig.say(f"{act.name} ({drawn}): all arrived after {took:.1f} s {dict(Counter(rig.troubles)) or ''}")

    def _look(self) -> None:
        self.since_look = 0
        self.rig.look()


@pytest.fixture
def rig(tmp_path: Path, seed: int, runner: str) -> Iterator[Rig]:
    made = Rig(tmp_path / "p", runner, seed, LOGS / f"chaos-run-{runner}.log")
    yield made
    made.close()


@pytest.mark.parametrize("runner", [pytest.param("spark", marks=pytest.mark.spark), "local"])
def test_nothing_is_lost_or_doubled_whatever_happens(rig: Rig, runner: str, seed: int) -> None:
    rig.say(f"{runner}, seed {seed}, {seconds():.0f} s")
    run = Run(rig, random.Random(f"{seed} {runner}"))
    whole = False
    try:
        rig.start()
        run.until(time.monotonic() + seconds())
        whole = True
        rig.must("jobs", "stop", rig.job.name, "--wait", "2m")
        assert rig.job.left() == []
    finally:
        write(rig, run.took, run.troubles, whole)
