"""Records of actions: before they start, when they end, and the handling of damaged files."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slotkeeper.console.actions.record import Action, Record, Stage, record_from, record_text, stage_of
from slotkeeper.console.actions.runner import KEPT, Order, Records, Runner
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config import secrets
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.report import Identity
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.state.folder import StateFolder
from tests.support.waiting import until

NOW = datetime(2026, 11, 21, 2, 31, 7, tzinfo=timezone.utc)
ONE = Identity(77, "boot:1", 77, "", "host1")
RECORD = Record("20261121T023107-0a1b2c", ("jobs", "stop", "a"), "stop job a", "a", "li.wei@host1", True, NOW)
SAYS = "import sys; print('seen', *sys.argv[1:]); print('slotkeeper: why', file=sys.stderr); sys.exit(3)"
WAITS = "import sys; sys.stdin.read(); print('begun', flush=True); import time; time.sleep(60)"


def runner(folder: Path, code: str = SAYS) -> Runner:
    return Runner(folder, SystemClock(), (sys.executable, "-c", code))


def wait(condition: Callable[[], bool]) -> None:
    until(condition, 30, "the action's record to say so")


def ended(runs: Runner, id: str) -> Action:
    def over() -> bool:
        found = runs.find(id)
        return found is not None and found.over

    wait(over)
    found = runs.find(id)
    assert found is not None
    return found


def test_a_record_is_read_back_as_it_was_written() -> None:
    for record in (RECORD, replace(RECORD, child=ONE, command=ONE, ended_at=NOW + timedelta(seconds=6), code=3)):
        assert record_from(record_text(record)) == record


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"x"',
        "{}",
        record_text(RECORD).replace('Z"', '"'),
        record_text(RECORD).replace('"what"', '"colour"'),
        record_text(replace(RECORD, id="../../x")),
        record_text(replace(RECORD, child=ONE)).replace('"pid":77', '"sid":77'),
        record_text(RECORD).replace('"what":"stop job a"', '"what":7'),
    ],
)
def test_a_damaged_record_is_none(text: str) -> None:
    assert record_from(text) is None


def test_how_far_an_action_is_follows_from_its_record_and_its_processes() -> None:
    begun = replace(RECORD, child=ONE)
    assert stage_of(RECORD, lambda one: False, NOW) is Stage.BEGINNING
    assert stage_of(RECORD, lambda one: False, NOW + timedelta(minutes=2)) is Stage.GONE
    assert stage_of(begun, lambda one: one == ONE, NOW) is Stage.RUNNING
    assert stage_of(replace(begun, command=ONE, child=None), lambda one: one == ONE, NOW) is Stage.RUNNING
    assert stage_of(begun, lambda one: False, NOW) is Stage.GONE
    assert stage_of(replace(begun, ended_at=NOW, code=0), lambda one: True, NOW) is Stage.ENDED


def test_an_action_runs_apart_and_its_words_exit_code_and_texts_are_kept(tmp_path: Path) -> None:
    runs = runner(tmp_path / "state")
    id = runs.start(Order(("a b", "$(id)", "--x=*"), "try", "a"))
    found = ended(runs, id)
    assert (found.stage, found.record.code) == (Stage.ENDED, 3)
    assert runs.said(id).out == "seen a b $(id) --x=*\n" and runs.said(id).err == "slotkeeper: why\n"
    assert found.record.child is not None and found.record.child.session_id == found.record.child.pid
    assert found.record.child.session_id != os.getsid(0)
    files = sorted((tmp_path / "state" / "actions").iterdir())
    assert [path.suffix for path in files] == [".err", ".json", ".out"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def noted(runs: Runner, id: str) -> bool:
    """Whether the action's process has been recorded; the process starts earlier."""
    found = runs.find(id)
    return found is not None and found.record.command is not None


def test_another_console_sees_what_is_on_its_way_and_the_end_of_it(tmp_path: Path) -> None:
    runs = runner(tmp_path, WAITS)
    id = runs.start(Order(("x",), "wait", "a"))
    other = runner(tmp_path)
    wait(lambda: other.said(id).out == "begun\n" and noted(other, id))
    (seen,) = other.running()
    assert seen.record.id == id and seen.stage is Stage.RUNNING and seen.record.by
    with pytest.raises(Refused, match="wait is already in progress"):
        other.start(Order(("x",), "wait", "a"))
    assert seen.record.child is not None and seen.record.command is not None
    os.kill(seen.record.child.pid, signal.SIGHUP)
    os.kill(seen.record.command.pid, signal.SIGHUP)
    assert processes.alive(seen.record.child) and processes.alive(seen.record.command)
    processes.end(seen.record.command, 0.0)
    assert ended(other, id).record.code == -signal.SIGTERM
    assert other.running() == []


def test_an_action_whose_processes_were_killed_is_called_so(tmp_path: Path) -> None:
    runs = runner(tmp_path, WAITS)
    id = runs.start(Order((), "wait", "a"))
    wait(lambda: runs.said(id).out == "begun\n" and noted(runs, id))
    found = runs.find(id)
    assert found is not None and found.record.child and found.record.command
    os.kill(found.record.child.pid, signal.SIGKILL)  # that process alone: `end` ends its whole session if it leads one
    wait(lambda: not processes.alive(found.record.child))
    left = runs.find(id)
    assert left is not None and left.stage is Stage.RUNNING, "the command itself is still running"
    processes.end(found.record.command, 0.0)
    assert ended(runs, id).stage is Stage.GONE


def test_what_cannot_be_written_down_is_not_begun(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    StateFolder.open(folder)
    (folder / "actions").write_text("in the way", "utf-8")
    runs = runner(folder, f"open({str(tmp_path / 'done')!r}, 'w')")
    with pytest.raises(SlotkeeperError, match="cannot be written"):
        runs.start(Order((), "try", "a"))
    assert not (tmp_path / "done").exists()
    (folder / "actions").unlink()
    ended(runs, runs.start(Order((), "try", "a")))
    assert (tmp_path / "done").exists(), "the command would have been seen"


def test_words_that_no_program_can_be_given_are_refused_and_written_down(tmp_path: Path) -> None:
    runs = runner(tmp_path)
    with pytest.raises(Refused, match="cannot start the command"):
        runs.start(Order(("a\0b",), "try", "a"))
    assert [one.stage for one in runs.recent()] == [Stage.ENDED]


def test_no_secret_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOTKEEPER_TEST_PASSWORD", "hunter2-hunter2")
    secrets.resolve(SecretRef("env", "SLOTKEEPER_TEST_PASSWORD"))
    runs = runner(tmp_path)
    ended(runs, runs.start(Order(("--reason=hunter2-hunter2",), "try", "a")))
    (found,) = runs.recent()
    assert "hunter2" not in "".join(found.record.argv)


def test_a_hundred_actions_are_kept_none_for_more_than_a_week_and_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    runs, records = runner(tmp_path), Records(StateFolder.open(tmp_path))
    now = SystemClock().utc()
    for number in range(KEPT + 20):
        at = now - timedelta(minutes=number)
        records.save(replace(RECORD, id=f"{at:%Y%m%dT%H%M%S}-{number:06x}", started_at=at, ended_at=at, code=0))
    old = now - timedelta(days=8)
    records.save(replace(RECORD, id=f"{old:%Y%m%dT%H%M%S}-aaaaaa", started_at=old, ended_at=old, code=0))
    dry = now - timedelta(hours=2)
    records.save(replace(RECORD, id=f"{dry:%Y%m%dT%H%M%S}-bbbbbb", started_at=dry, ended_at=dry, code=0, listed=False))
    living = replace(RECORD, id=f"{old:%Y%m%dT%H%M%S}-cccccc", started_at=old, command=processes.of(os.getpid()))
    records.save(living)
    damaged = f"{now - timedelta(minutes=1):%Y%m%dT%H%M%S}-dddddd"
    (tmp_path / "actions" / f"{damaged}.json").write_text("{", "utf-8")
    assert len(runs.recent()) == KEPT + 22
    ended(runs, runs.start(Order((), "try", "a")))
    ids = [one.record.id for one in runs.recent()]
    assert len(ids) == KEPT + 1 and living.id in ids and damaged not in records.ids()
    assert records.load(f"{dry:%Y%m%dT%H%M%S}-bbbbbb") is None


def test_before_the_first_action_there_is_nothing_and_no_folder_is_made(tmp_path: Path) -> None:
    runs = runner(tmp_path / "none")
    assert (runs.recent(), runs.running(), runs.find("x")) == ([], [], None)
    assert not (tmp_path / "none").exists()
