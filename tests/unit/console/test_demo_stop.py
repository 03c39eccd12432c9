"""`slotkeeper demo stop` ends demos by their own records, and does not touch any other process or folder."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.report import Identity
from slotkeeper.core.errors import Refused
from slotkeeper.core.launch import identity
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo import mariadb, placement, postgres, running
from slotkeeper.demo.run import DemoOptions
from slotkeeper.demo.sources import KINDS


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    """The state folder that is used without a configuration."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return StateFolder.open(tmp_path / "slotkeeper")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    running = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1)
    assert running.stdout is not None and running.stdin is not None
    running.stdout.readline()
    yield running
    running.kill()
    running.communicate()


def put(state: StateFolder, folder: Path, process: Identity) -> None:
    text = json.dumps({"folder": str(folder), "process": dataclasses.asdict(process)})
    state.replace(state.path / running.NOTES / f"{folder.name}.json", text.encode())


def left(state: StateFolder) -> list[str]:
    return [each.name for each in (state.path / running.NOTES).glob("*")]


@pytest.mark.usefixtures("state")
def test_without_a_demo_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "stop"]) == 0
    assert capsys.readouterr().out == "no demo of this user is running\n"


def test_notes_that_the_system_refuses_are_one_line(state: StateFolder, capsys: pytest.CaptureFixture[str]) -> None:
    (state.path / running.NOTES).symlink_to("x" * 300)
    assert main(["demo", "stop"]) == 3
    assert "cannot be read: File name too long" in capsys.readouterr().err


def test_a_demo_notes_itself_until_its_folder_has_gone(state: StateFolder, tmp_path: Path) -> None:
    folder = tmp_path / "slotkeeper-demo-x"
    folder.mkdir()
    with running.noted(folder, os.environ):
        (read,) = running.notes(os.environ)
        note = read()
        assert (note.folder, note.lives) == (folder, True)
    assert left(state) == ["slotkeeper-demo-x.json"]  # retained
    with running.noted(folder, os.environ):
        folder.rmdir()
    assert left(state) == []


def test_its_process_is_ended_and_its_folder_taken_away(
    state: StateFolder, tmp_path: Path, process: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "slotkeeper-demo-x"
    folder.mkdir()
    put(state, folder, identity.of(process.pid))
    assert main(["demo", "stop"]) == 0
    assert process.wait(10) != 0
    assert (folder.exists(), left(state)) == (False, [])
    assert capsys.readouterr().out == f"stopped the demo in {folder}, its job and its two servers\n"


def test_jobs_in_each_of_its_state_folders_are_stopped(
    state: StateFolder, tmp_path: Path, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The incident `second-job` starts the job with another state folder; killed, the demo leaves both running."""
    folder = tmp_path / "slotkeeper-demo-x"
    places = [folder / "state", folder / "state-elsewhere"]
    for place in places:
        place.mkdir(parents=True)
    found = list[Path]()

    def existing(place: Path) -> Store:
        found.append(place)
        raise Refused("nothing is stored here")

    monkeypatch.setattr(Store, "existing", existing)
    put(state, folder, identity.of(process.pid))
    assert main(["demo", "stop"]) == 0
    assert set(places) <= set(found)


def test_a_process_that_has_its_number_now_is_left_alone(
    state: StateFolder, tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    folder = tmp_path / "slotkeeper-demo-x"
    folder.mkdir()
    put(state, folder, dataclasses.replace(identity.of(process.pid), started="0"))
    assert main(["demo", "stop"]) == 0
    assert process.poll() is None
    assert not folder.exists()


def test_a_demo_that_cannot_be_ended_here_keeps_no_other_one_running(
    state: StateFolder, tmp_path: Path, process: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = dataclasses.replace(identity.of(os.getpid()), host="elsewhere", started="another-boot:1")
    put(state, tmp_path / "slotkeeper-demo-a", elsewhere)
    (state.path / running.NOTES / "slotkeeper-demo-b.json").write_text("")
    folder = tmp_path / "slotkeeper-demo-c"
    folder.mkdir()
    put(state, folder, identity.of(process.pid))
    assert main(["demo", "stop"]) == 3
    assert process.wait(10) != 0 and not folder.exists()
    assert sorted(left(state)) == ["slotkeeper-demo-a.json", "slotkeeper-demo-b.json"]
    said = capsys.readouterr().err
    assert "was started on elsewhere" in said and "is not a valid demo record" in said


@pytest.mark.parametrize("noted", ["", "\n", "/", "relative", "/etc"])
@pytest.mark.parametrize("server", [postgres, mariadb])
def test_a_server_that_noted_no_place_of_its_own_takes_nothing_else_away(
    server: ModuleType, noted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk leaves an empty record, and an empty path would be the current folder."""
    removed = list[Path]()
    monkeypatch.setattr(placement, "remove", removed.append)
    (tmp_path / "place.txt").write_text(noted, "utf-8")
    server.discard(tmp_path)
    assert set(removed) == {tmp_path}


@pytest.mark.parametrize("server", [postgres, mariadb])
def test_the_place_of_a_server_that_was_killed_while_it_was_made_is_removed(server: ModuleType, tmp_path: Path) -> None:
    place = tmp_path / "slotkeeper-server-x"
    (place / "data").mkdir(parents=True)
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse" / "place.txt").write_text(f"{place}\n", "utf-8")
    server.discard(tmp_path / "warehouse")
    assert not list(tmp_path.iterdir())


def test_a_demo_has_its_note_before_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`demo stop` finds a demo only by its record, even if the demo is killed before the folder exists."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = KINDS["dws"](DemoOptions(), print).folder
    assert (folder.parent, list(tmp_path.iterdir())) == (tmp_path, [])


def test_a_server_has_the_note_of_its_place_before_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, noted = tmp_path / "warehouse", list[Path]()
    monkeypatch.setattr(placement, "must_drop", lambda: True)
    monkeypatch.setattr(placement, "_open_folder_above", lambda folder: tmp_path)
    monkeypatch.setattr(placement, "give", lambda place, owner: noted.append(placement.noted_place(folder)))
    folder.mkdir()
    assert noted == [placement.place_for(folder)]
    assert (noted[0].stat().st_mode & 0o777, noted[0].parent) == (0o700, tmp_path)


@pytest.mark.parametrize("kind", ["another name", "a link", "damaged"])
def test_other_processes_and_folders_are_left_alone(
    kind: str, state: StateFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    folder = precious
    if kind == "a link":
        folder = tmp_path / "slotkeeper-demo-x"
        folder.symlink_to(precious)
    put(state, folder, dataclasses.replace(identity.of(os.getpid()), started="0"))
    if kind == "damaged":
        (state.path / running.NOTES / "precious.json").write_text("{}")
    assert main(["demo", "stop"]) == 3
    error = capsys.readouterr().err
    assert ("is not a valid demo record" if kind == "damaged" else "is not a demo folder of this user") in error
    assert (precious / "file").exists()
