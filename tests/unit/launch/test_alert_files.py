"""The metrics overwrite only their own file, and a command that cannot be killed blocks no other work."""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from slotkeeper.core.judgement.facts import Facts
from slotkeeper.core.launch import alert_sender, alerting

FACTS = Facts(datetime(2026, 11, 23, 7, 0, tzinfo=timezone.utc))


def test_figures_are_replaced_by_newer_figures(tmp_path: Path) -> None:
    file = tmp_path / "figures.prom"
    file.touch()
    assert alerting.write_metrics(file, FACTS, ()) == "" and file.stat().st_size == 0, "it was written a moment ago"
    os.utime(file, (0, 0))
    assert alerting.write_metrics(file, FACTS, ()) == "" and file.read_text("ascii").endswith("# EOF\n")
    os.utime(file, (0, 0))
    assert alerting.write_metrics(file, FACTS, ()) == "" and file.stat().st_mtime > 0


@pytest.mark.parametrize("what", ["another file", "a link", "a pipe", "a folder"])
def test_a_file_without_figures_is_left_as_it_is_and_reported(tmp_path: Path, what: str) -> None:
    file, other = tmp_path / "state.db", tmp_path / "other"
    other.write_text("precious", encoding="ascii")
    if what == "another file":
        file.write_text("precious", encoding="ascii")
    elif what == "a link":
        file.symlink_to(other)
    elif what == "a pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    before = file.lstat()
    assert "is not replaced: the existing file" in alerting.write_metrics(file, FACTS, ())
    assert (file.lstat().st_ino, file.lstat().st_mtime) == (before.st_ino, before.st_mtime)
    assert other.read_text("ascii") == "precious" and len(list(tmp_path.iterdir())) == 2


def test_a_device_is_not_taken_as_a_file_of_figures() -> None:
    assert "/dev/null is not replaced" in alerting.write_metrics(Path("/dev/null"), FACTS, ())


def test_a_path_that_no_system_takes_is_said() -> None:
    assert "cannot be written" in alerting.write_metrics(Path("/tmp/a\0b"), FACTS, ())


@pytest.fixture
def not_ours_to_kill(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A command that runs as another user, as with sudo: the kernel does not let us signal it (kill(2): EPERM)."""
    groups: list[int] = []

    def refuse(group: int, number: int) -> None:
        groups.append(group)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "killpg", refuse)
    monkeypatch.setattr(alert_sender, "_KILLED_WITHIN", 0.1)
    return groups


def test_a_command_that_ended_as_another_user_has_taken_its_notification(not_ours_to_kill: list[int]) -> None:
    found = alert_sender.run([sys.executable, "-c", "print('paged')"], "{}", 30.0)
    assert (found.code, found.fault, found.written) == (0, "", "paged") and len(not_ours_to_kill) == 1


def test_a_command_that_hangs_as_another_user_is_reported_and_not_waited_for(not_ours_to_kill: list[int]) -> None:
    found = alert_sender.run([sys.executable, "-c", "import time; time.sleep(600)"], "{}", 0.1)
    assert found.code is None and found.fault.endswith("did not end within 0.1 s and could not be killed")
    os.kill(not_ours_to_kill[0], signal.SIGKILL)
    alert_sender._left.pop().wait()
