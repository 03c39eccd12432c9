"""Whatever resets, shares replayed, undos and snapshots follow each other: RUNNING means equal, or a plan has said not.

In memory the reset's own plan and execution are played over lists; a chaos run plays 500 histories against a real store
and the stand-in, with the worker's own steps.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror
from tests.support.replayed import StandinWorld
from tests.support.reset_histories import Figures, Story
from tests.support.reset_world import World
from tests.support.resetting import Resetting

HISTORIES = 80
REAL, MANY, PARTS = 2, 500, 4
REAL_KINDS = ("earliest", "latest", "point", "point", "undo", "undo", "undo") * 3 + ("snapshot",)
"""A table without times; a copy takes a driver seconds."""


def test_whatever_resets_and_replays_came_before_running_means_equal_or_a_plan_has_said_otherwise(seed: int) -> None:
    figures = Figures()
    for number in range(HISTORIES):
        draw = random.Random(seed * 1_000 + number)
        world = World(draw, draw.randint(1, 3))
        world.change(draw.randint(3, 30))
        Story(world, draw, figures).play(draw.randint(2, 7))
    told(figures, seed)
    assert figures.refused["replay not started"]


def told(figures: Figures, seed: int) -> None:
    print(f"seed {seed}: {figures.text}")
    assert not figures.wrong, f"seed {seed}: {figures.text}\n{figures.wrong[0]}"
    assert figures.said and len(figures.done) >= 5


def played(warehouse: Warehouse, make_mirror: MakeMirror, seed: int, folder: Path, histories: int) -> Figures:
    """Histories over one slot; each begins with a copy or a whole replay, and forgets the resets before it."""
    warehouse.create_table("ods.t", "id bigint NOT NULL, v integer", ("id",))
    mirror = make_mirror(warehouse, "ods.t", "mart.t")
    mirror.job = replace(mirror.job, on_existing="replace")
    mirror.start().wait_running().stop()
    resetting, figures = Resetting(mirror, folder / "state"), Figures()
    for number in range(histories):
        draw = random.Random(seed * 1_000 + number)
        world = StandinWorld(resetting, draw, keys=12)
        world.change(draw.randint(3, 20))
        world.heal()
        Story(world, draw, figures, REAL_KINDS).play(draw.randint(2, 4))
        if number % 25 == 24:
            print(f"seed {seed}: {figures.text}", flush=True)
    return figures


@pytest.mark.slow
def test_over_a_real_store_running_means_equal_or_a_plan_has_said_otherwise(
    warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path
) -> None:
    figures = played(warehouse, make_mirror, seed, tmp_path, REAL)
    assert not figures.wrong, f"seed {seed}: {figures.text}\n{figures.wrong[0]}"


@pytest.mark.chaos
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_500_histories_over_a_real_store(
    warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path, part: int
) -> None:
    told(played(warehouse, make_mirror, seed + part, tmp_path, MANY // PARTS), seed + part)
