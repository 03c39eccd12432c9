"""A reset is killed at every step: each time it is reported, and completed or rolled back, never left half done."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.reset import DONE, ROLLED_BACK, Check
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.errors import ErrorKind, Refused
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.fault.test_fence import Running, task_of
from tests.fault.test_reset import followed
from tests.support import polling
from tests.support.mirror import At, MakeMirror, written
from tests.support.resetting import EARLIEST, LATEST, Crash, CrashAt, Resetting
from tests.support.standin import MakeWarehouse
from tests.support.waiting import until

BEFORE = ("after_backup_file", "after_backup_row", "after_intent")
"""Points at which nothing has been started yet: there is no marker and nothing to resume."""


@pytest.fixture
def resetting(warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path) -> Resetting:
    return followed(make_mirror, warehouse, seed, tmp_path)


def steps_of(resetting: Resetting) -> list[str]:
    """The points that a whole reset passes, recorded on the way; the slot is restored."""
    heard = CrashAt()
    done = resetting.reset(EARLIEST, heard)
    resetting.undo(done.reset)
    return heard.seen


def test_a_kill_at_every_step_is_finished_or_rolled_back(resetting: Resetting) -> None:
    start = resetting.places()
    steps = steps_of(resetting)
    assert resetting.places() == start
    assert len(steps) == 20, steps
    target: dict[str, Any] = {}
    for number, step in enumerate(steps, 1):
        with pytest.raises(Crash, match=step):
            resetting.reset(EARLIEST, CrashAt(number))
        if step in BEFORE:
            assert resetting.places() == start and not resetting.names("resets")
            continue
        assert resetting.names("resets"), f"{step}: unreported"
        result = resetting.resume()
        expected = ROLLED_BACK if step in ("after_mark", "after_begun", "after_epoch", "after_silence") else DONE
        assert result.outcome == expected, step
        assert not resetting.names("resets")
        if expected == ROLLED_BACK:
            assert resetting.places() == start, step
            continue
        target = target or resetting.places()
        assert resetting.places() == target != start, step
        assert resetting.undo(result.reset).outcome == DONE
        assert resetting.places() == start, step


def test_a_kill_at_every_step_of_going_back(
    make_warehouse: MakeWarehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path
) -> None:
    warehouse = make_warehouse(switches=Switches(backward_allowed=False))
    resetting = followed(make_mirror, warehouse, seed, tmp_path)
    start, heard = resetting.places(), CrashAt()
    assert resetting.reset(EARLIEST, heard).outcome == ROLLED_BACK
    for number in range(heard.seen.index("after_rows") + 1, len(heard.seen) + 1):
        with pytest.raises(Crash):
            resetting.reset(EARLIEST, CrashAt(number))
        assert resetting.names("resets")
        assert resetting.resume().outcome == ROLLED_BACK
        assert resetting.places() == start


def test_only_a_stopped_job_is_reset_undone_or_resumed(resetting: Resetting) -> None:
    backup = resetting.reset(LATEST).reset
    plan = resetting.plan(EARLIEST)
    start = resetting.places()
    resetting.at_rest = lambda: Check("job not running", False, "job x is RUNNING")
    with pytest.raises(Refused, match="job x is RUNNING"):
        resetting.execute(plan)
    with pytest.raises(Refused, match="job x is RUNNING"):
        resetting.resume()
    assert [check.name for check in resetting.plan(EARLIEST).failed] == ["job not running"]
    with pytest.raises(Refused, match="job x is RUNNING"):
        resetting.undo(backup)
    assert resetting.places() == start


def test_a_running_job_keeps_its_lease_from_a_reset(resetting: Resetting) -> None:
    plan = resetting.plan(EARLIEST)
    resetting.mirror.start().wait_running()
    with pytest.raises(Refused, match=r"'lease' is not met: the lease of .* is held by job .* run run-1 by"):
        resetting.execute(plan)
    resetting.mirror.stop()
    with pytest.raises(Refused, match="stale; changed: dn_1: epoch"):
        resetting.execute(plan)


def interleaved(resetting: Resetting, seed: int, moment: str, nth: int) -> None:
    """A task waits, the slot is reset meanwhile, and the task continues: it commits nothing."""
    mirror = resetting.mirror
    with written(mirror, seed, changes=40):
        pass
    reached, go_on = threading.Event(), threading.Event()

    def stand_still() -> None:
        reached.set()
        go_on.wait(240)

    entries.probe = At(moment, stand_still, nth)
    zombie = Running(task_of(mirror))
    until(lambda: reached.is_set() or not zombie.is_alive(), 20, "the zombie to stand still")
    stood = reached.is_set()
    resetting.reset(EARLIEST)
    quarantined = resetting.places()
    go_on.set()
    errors = [lane.error for lane in zombie.finish().lanes if lane.error]
    assert errors or not stood
    kinds = {error.error().kind for error in errors}
    assert kinds <= {ErrorKind.SUPERSEDED, ErrorKind.OPERATOR, ErrorKind.TRANSIENT}
    assert resetting.places() == quarantined, "a commit of an older epoch succeeded"
    entries.close_kept(mirror.job)


MOMENTS = ("after_status", "after_read", "after_recheck")


def test_a_zombie_commits_nothing_after_a_reset(resetting: Resetting, seed: int) -> None:
    for number in range(9):
        interleaved(resetting, seed + number, MOMENTS[number % 3], 1 + number // 3)
    mirror = resetting.mirror
    entries.probe = lambda _: None
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()


@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_a_zombie_commits_nothing_in_100_interleavings(resetting: Resetting, seed: int) -> None:
    for number in range(100):
        interleaved(resetting, seed + number, MOMENTS[number % 3], 1 + number % 4)


KILLED = """
import os, signal, sys
from slotkeeper.console.__main__ import main
from slotkeeper.core.services import reset

def kill(point):
    if point == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)

reset.probe = kill
sys.exit(main(sys.argv[2:]))
"""


def test_a_killed_process_is_reported_by_every_command_and_resumed(
    resetting: Resetting, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for step in ("after_begun", "after_rows"):
        killed_at(step, resetting, tmp_path, capfd)


def killed_at(step: str, resetting: Resetting, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Kill a reset of another process at that point, and end it with the commands of this process."""
    job = resetting.mirror.job
    config = polling.config(
        tmp_path, job.source, job.sink, polling.job(job.name, job.slot, job.channel.source_table, "mart.orders")
    )
    start, common = resetting.places(), ["--config", str(config)]
    place = ["slots", "reset", job.channel.source_table, job.slot]
    assert main([*place, "--to", "earliest", "--json", *common]) == 0
    plan = json.loads(capfd.readouterr().out)["id"]
    words = [*place, "--execute", "--plan", plan, "--reason", "killed", "--confirm", job.slot, *common]
    killed = subprocess.run([sys.executable, "-c", KILLED, step, *words], capture_output=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert main(["jobs", "list", *common]) == 0
    said = capfd.readouterr().err
    assert "is unfinished: `slotkeeper --config" in said
    assert "slots reset --resume ods.orders" in said
    assert main(["jobs", "start", job.name, *common]) == 3
    assert f"job {job.name} must wait until the reset ends" in capfd.readouterr().err
    with Store.open(tmp_path / "state") as store:
        store.register_job(job.name, str(config))
    assert main(["jobs", "cancel", job.name, "--confirm", job.name, "--reason", "r", *common]) == 3
    assert f"job {job.name} must wait until the reset ends" in capfd.readouterr().err
    assert isinstance(resetting.mirror.start().wait_error(), Refused)
    assert main(["slots", "reset", "--resume", "--json", *common]) == (3 if step == "after_begun" else 0)
    result = json.loads(capfd.readouterr().out)
    assert result["outcome"] == (ROLLED_BACK if step == "after_begun" else DONE)
    assert (resetting.places() == start) == (step == "after_begun")
    assert main(["jobs", "list", *common]) == 0
    assert "unfinished" not in capfd.readouterr().err
