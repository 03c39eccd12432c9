"""An emptied target is fixed by a completed copy, and not by a reset that is undone before that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.reset import DONE
from slotkeeper.core.errors import Refused, Trouble, TroubleName
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.resetting import EARLIEST, LATEST, SNAPSHOT, Crash, Resetting
from tests.support.standin import run
from tests.support.waiting import until


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    """A job that has copied 300 rows and runs."""
    warehouse.create_table("ods.t", "id bigint NOT NULL, v numeric(12,2)", ("id",))
    run(warehouse, "INSERT INTO ods.t SELECT n, n FROM generate_series(1, 300) n")
    mirror = make_mirror(warehouse, "ods.t", "mart.t")
    mirror.capacity = 2
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, full_sync_binlog_batch_read_size=20))
    mirror.start().wait_running()
    mirror.wait_equal()
    return mirror


def emptied(mirror: Mirror, running: bool) -> None:
    """Empty the target under the job, which records this, or while the job is stopped."""
    if not running:
        mirror.stop()
    mirror.at_sink("TRUNCATE mart.t")
    if not running:
        mirror.start()
    told(mirror)


def told(mirror: Mirror) -> None:
    error = mirror.wait_error()
    assert isinstance(error, Trouble), error
    assert error.name is TroubleName.TARGET_CHANGED
    assert error.message.count("target mart.t") == 1, error.message


def kill(mirror: Mirror) -> None:
    mirror.runner.close()  # no further task of this driver
    raise Crash("in the copy")


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
def test_an_undo_of_the_snapshot_before_its_copy_is_target_changed_again_and_the_copy_cures_it(
    mirror: Mirror, tmp_path: Path, running: bool
) -> None:
    emptied(mirror, running)
    resetting = Resetting(mirror, tmp_path / "state")
    if running:
        for goal in (EARLIEST, LATEST):
            (failed,) = [one for one in resetting.plan(goal).failed if one.name == "same target"]
            assert failed.sentence.startswith("target mart.t "), failed
            with pytest.raises(Refused, match=r"'same target' is not met: target mart.t .*only --to snapshot"):
                resetting.reset(goal)
    backup = resetting.reset(SNAPSHOT).reset
    assert resetting.undo(backup).outcome == DONE
    mirror.start()
    told(mirror)
    assert resetting.reset(SNAPSHOT).outcome == DONE
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    assert not resetting.plan(EARLIEST).failed, "the end of the copy removes it"
    mirror.start().wait_running()
    mirror.stop()


@pytest.mark.chaos
@pytest.mark.parametrize("way", ["shadow", "merge", "direct"])
def test_an_undo_half_way_through_the_copy_is_refused_and_the_copy_runs_to_its_end(
    mirror: Mirror, tmp_path: Path, way: str
) -> None:
    emptied(mirror, running=False)
    if way == "shadow":
        mirror.at_sink("INSERT INTO mart.t VALUES (1000, 1)")
    if way != "direct":
        mirror.job = replace(mirror.job, on_existing={"shadow": "replace"}.get(way, way))
    resetting = Resetting(mirror, tmp_path / "state")
    backup = resetting.reset(SNAPSHOT).reset
    half = At("after_chunk_commit", lambda: kill(mirror), nth=2)
    mirror.start(half)
    until(half.done.is_set, 30, "the copy to be half done")
    until(mirror.ended, 30, "the job to end")
    with pytest.raises(Refused, match="may have rebuilt the target"):
        resetting.undo(backup)
    assert {row.state for row in mirror.rows()} == {LaneState.COPYING}
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
