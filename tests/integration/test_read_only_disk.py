"""A disk that has become read-only, as Linux remounts a disk after an error: each command names the file."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import doctor
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.state.sqlite import Store
from tests.integration.test_full_disk import REASON


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "slotkeeper-test", str(place)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip(REASON)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


Remount = Callable[[str], None]


@pytest.fixture
def remount(disk: Path) -> Remount:
    """Remount it as `ro` or `rw`."""

    def done(how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)

    return done


@pytest.fixture
def state(disk: Path, remount: Remount) -> Iterator[Path]:
    """A state folder on that disk, with a job that has stopped."""
    folder = disk / "state"
    with Store.open(folder) as store:
        store.register_job("orders", "c.toml")
        store.begin_run("orders", "r1")
        store.end_run("r1", 0, "stopped")
        store.set_state("orders", JobState.STOPPED)
    yield folder
    remount("rw")


LOOKS = [["jobs", "list"], ["jobs", "show", "orders"], ["jobs", "logs", "orders"], ["status"], ["alerts", "list"]]
CHANGES = [
    ["jobs", "stop", "orders"],
    ["jobs", "cancel", "orders", "--confirm", "orders", "--reason", "x"],
    ["alerts", "silence", "job orders", "--for", "1h", "--reason", "x"],
    ["audit", "accept", "--reason", "x"],
]


def test_commands_on_a_read_only_disk_answer_or_name_it(
    state: Path, disk: Path, remount: Remount, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor.state_folder(state).level is Level.OK
    remount("ro")
    found = doctor.state_folder(state)
    named = f"the file system at {disk} is read-only"
    assert found.level is Level.FAIL and named in found.text
    wrong = []
    for words in (*LOOKS, *CHANGES):
        code = main([*words, "--state-dir", str(state)])
        said = capsys.readouterr().err
        if (words in CHANGES or code) and not (code == 3 and named in said and "Traceback" not in said):
            wrong.append((words, code, said))
    assert not wrong
