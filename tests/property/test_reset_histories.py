"""Whatever resets, shares replayed, undos and snapshots follow each other: RUNNING means equal, or a plan has said not.

In memory the reset's own plan and execution are played over lists; against a real store and the stand-in by 500
histories of a chaos run.
"""

from __future__ import annotations

import random

from tests.support.reset_histories import Figures, Story
from tests.support.reset_world import World

HISTORIES = 100


def test_whatever_resets_and_replays_came_before_running_means_equal_or_a_plan_has_said_otherwise(seed: int) -> None:
    figures = Figures()
    for number in range(HISTORIES):
        draw = random.Random(seed * 1_000 + number)
        world = World(draw, draw.randint(1, 3))
        world.change(draw.randint(3, 30))
        Story(world, draw, figures).play(draw.randint(2, 7))
    print(f"seed {seed}: {figures.text}")
    assert not figures.wrong, f"{figures.text}\n{figures.wrong[0]}"
