"""Views over many tiny rounds, over rounds concurrent with writers, and in the demo: no view is ever wrong."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from slotkeeper.core.domain.views import ViewState
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Busy
from slotkeeper.core.sinks.postgres.views.compare import PostgresViews
from tests.support.views import Layers, beside_writers, transaction, writing
from tests.support.waiting import until

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


CAUSES = (
    "TRUNCATE ods.orders",
    "ALTER TABLE ods.orders DISABLE TRIGGER USER; DELETE FROM ods.orders WHERE id < 5",
    "ALTER TABLE ods.orders DISABLE TRIGGER USER; DELETE FROM ods.orders; ALTER TABLE ods.orders ENABLE TRIGGER USER",
    "ALTER TABLE ods.orders ALTER amount TYPE numeric(14,4) USING amount / 2",
    "ALTER TABLE ods.orders RENAME TO old; CREATE TABLE ods.orders (LIKE ods.old INCLUDING ALL); INSERT INTO ods.orders"
    " SELECT * FROM ods.old LIMIT 3; DROP TABLE ods.old CASCADE",
    "UPDATE dws.by_status SET n = n + 1; DELETE FROM dwd.cheap",
)
STATES = "SELECT target FROM public.slotkeeper_views WHERE state = 'RUNNING'"


@pytest.mark.parametrize("cause", CAUSES)
def test_a_view_that_a_cause_made_stale_under_writes_is_never_running_and_different(
    layers: Layers, seed: int, cause: str
) -> None:
    print(f"seed {seed}")
    layers.views = layers.views[3:7]
    views, epoch = layers.built()
    different: list[dict[str, int]] = []
    building: list[str] = []

    def judge(point: str) -> None:
        if point in ("before_round_commit", "before_build_commit"):
            wrong = layers.wrong(views)
            with views._session.ready().cursor() as cursor:
                cursor.execute(STATES)
                running = {target for (target,) in cursor.fetchall()}
            if point == "before_build_commit":  # the others were right at the commit of their last round
                running = set(building)
            different.append({target: wrong[target] for target in running if target in wrong})

    views.probe = judge
    for number in range(10):
        with writing(layers, seed + number):
            views.round(epoch)
            causing(layers, cause)
            stale = until(lambda: views.round(epoch).stale, 60, "the cause to be noticed")
            for target in stale:
                building[:] = [target]
                until(partial(built, views, target, epoch), 60, f"{target} to be built")
            views.round(epoch)
        until(lambda: rebuilt(views, epoch, building), 60, "all views to be RUNNING")
        assert layers.wrong() == {}, number
    assert different == [{}] * len(different)
    assert len(different) >= 40


def causing(layers: Layers, cause: str) -> None:
    """Run the cause, again after each deadlock with a writer."""
    while True:
        try:
            layers.run(cause)
        except pg.DriverError:
            layers.run("ROLLBACK")
        else:
            return


def built(views: PostgresViews, target: str, epoch: int) -> bool:
    try:
        views.build(target, epoch)
    except Busy:
        return False
    return True


def rebuilt(views: PostgresViews, epoch: int, building: list[str]) -> bool:
    """Build what is not RUNNING, and run a round; whether all views were RUNNING after it."""
    for row in views.rows():
        if row.state is not ViewState.RUNNING:
            building[:] = [row.target]
            built(views, row.target, epoch)
    views.round(epoch)
    return {row.state for row in views.rows()} == {ViewState.RUNNING}


def test_the_layered_demo_ends_with_every_view_equal_to_its_select(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slotkeeper.console", "demo", "--layers", "--headless", "--json"]
    made = [*command, "--duration", "15s", "--rows", "20000", "--dns", "2"]
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    ended = subprocess.run(made, capture_output=True, text=True, check=False, env=env)
    assert ended.returncode == 0, ended.stderr[-2_000:]
    views = json.loads(ended.stdout)["views"]
    assert [one["equal"] for one in views] == [True, True, True]
