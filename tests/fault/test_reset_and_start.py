"""Between a reset and a start no change is skipped silently: a snapshot copies the table, or nothing starts.

An undo does not call a target equal that a start has recreated since.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.reset import DONE, NEVER_BEGUN, Goal, TargetKind
from slotkeeper.core.errors import Refused
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.resetting import SNAPSHOT, Crash, CrashAt, Resetting
from tests.support.standin import run

TABLE, TARGET = "ods.t", "mart.t"


def kill() -> None:
    raise Crash("killed")


def running(warehouse: Warehouse, make_mirror: MakeMirror, start: str, *target: str) -> Mirror:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    run(warehouse, f"INSERT INTO {TABLE} VALUES (1, 'old'), (2, 'old')")
    mirror = make_mirror(warehouse, TABLE, TARGET)
    mirror.job = replace(mirror.job, start=start, on_existing="replace")
    mirror.at_sink(*target)
    mirror.start().wait_running()
    return mirror


def test_where_start_makes_no_copy_a_snapshot_is_refused_and_an_emptied_mirror_does_not_start(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    """A start at the newest point would skip the change that no job has read yet."""
    same = f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v text)"
    mirror = running(warehouse, make_mirror, "latest", "CREATE SCHEMA mart", same)
    mirror.at_sink(f"INSERT INTO {TARGET} VALUES (1, 'old'), (2, 'old')")
    run(warehouse, f"INSERT INTO {TABLE} VALUES (3, 'applied')")
    mirror.wait_equal()
    mirror.stop()
    run(warehouse, f"INSERT INTO {TABLE} VALUES (4, 'unread')")
    resetting = Resetting(mirror, tmp_path / "state")
    with pytest.raises(Refused, match='start = "latest" makes no copy: set start = "initial" for the snapshot'):
        resetting.reset(SNAPSHOT)
    mirror.job = replace(mirror.job, start="initial")
    assert resetting.reset(SNAPSHOT).outcome == DONE
    mirror.job = replace(mirror.job, start="latest")
    error = mirror.start().wait_error()
    assert isinstance(error, Refused), error
    assert "ods.t needs a copy" in error.message
    assert 'start = "initial"' in error.hint
    mirror.job = replace(mirror.job, start="initial")
    mirror.start(driver_probe=At("after_first_registration", kill)).wait_error()
    assert sum(mirror.changes().values()) == 1, "the rows show that a copy is due, also after a killed copy"
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()


def test_an_undo_over_a_target_that_a_start_may_have_recreated_is_refused(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = running(warehouse, make_mirror, "initial")
    mirror.stop()
    resetting = Resetting(mirror, tmp_path / "state")
    backup = Goal(TargetKind.BACKUP, backup=resetting.reset(SNAPSHOT).reset)
    with pytest.raises(Crash):
        resetting.reset(SNAPSHOT, CrashAt(point="after_mark"))
    plan = resetting.plan(backup)
    assert not plan.failed, "no start came"
    mirror.at_sink(f"DROP TABLE {TARGET}")
    mirror.start(driver_probe=At("before_first_registration", kill)).wait_error()
    with pytest.raises(Refused, match="is stale"):
        resetting.execute(plan)
    with pytest.raises(Refused, match="may have rebuilt the target"):
        resetting.reset(backup)
    assert resetting.resume().sentence == NEVER_BEGUN
    assert refusing(resetting, backup) == ["target unchanged"], "a reset that did not begin does not hide a start"
    assert resetting.reset(SNAPSHOT).outcome == DONE
    assert refusing(resetting, backup) == ["target unchanged"], "nor does another one"


def refusing(resetting: Resetting, goal: Goal) -> list[str]:
    return [check.name for check in resetting.plan(goal).failed]
