"""Views over many tiny rounds, over rounds concurrent with writers, and in the demo: no view is ever wrong."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

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


def test_the_layered_demo_ends_with_every_view_equal_to_its_select(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slotkeeper.console", "demo", "--layers", "--headless", "--json"]
    made = [*command, "--duration", "15s", "--rows", "20000", "--dns", "2"]
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    ended = subprocess.run(made, capture_output=True, text=True, check=False, env=env)
    assert ended.returncode == 0, ended.stderr[-2_000:]
    views = json.loads(ended.stdout)["views"]
    assert [one["equal"] for one in views] == [True, True, True]
