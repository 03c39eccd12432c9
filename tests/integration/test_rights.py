"""File modes and owners under every umask, for one user and for a team; another user has no access."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from slotkeeper.core.launch import identity
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import FILE_NAME, Store
from tests.support import other_user
from tests.support.jobs import Jobs

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two other users")
ALICE, BOB, STRANGER, TEAM = 64_001, 64_002, 64_003, 64_010
"""Users and a group that no system has."""
UMASKS = [0o000, 0o022, 0o077]
UMASKS_OF_TWO = [
    pytest.param(first, second, marks=() if (place + 1) % 3 == after else pytest.mark.chaos)
    for place, first in enumerate(UMASKS)
    for after, second in enumerate(UMASKS)
]
"""Each umask once as the first user's and once as the second's; the chaos runs have all pairs."""
DATABASE = {FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"}


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's."""
    found = Path(tempfile.mkdtemp(prefix="slotkeeper-rights-"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found)


def team_folder(place: Path) -> Path:
    folder = place / "team"
    folder.mkdir()
    os.chown(folder, 0, TEAM)
    folder.chmod(0o2770)
    return folder


def expected(rights: dict[str, str], folder: Path, shared: bool) -> dict[str, str]:
    """Return the rights that each name should have; files that one user copied or exported are that user's own."""
    private = {name for name in rights if name == "clip.txt" or name.startswith("exports/")}
    of_folders, of_files = ("2770", "0660") if shared else ("0700", "0600")
    kinds = {name: of_folders if (folder / name).is_dir() else of_files for name in rights}
    return {name: "0600" if name in private else kind for name, kind in kinds.items()}


@pytest.mark.parametrize("umask", UMASKS, ids="{:03o}".format)
def test_all_that_one_user_leaves_is_that_users_alone(place: Path, umask: int) -> None:
    (place / "home").mkdir()
    os.chown(place / "home", ALICE, ALICE)
    folder = place / "home" / "a" / "b" / "state"
    for _ in range(2):
        rights = other_user.run("use", folder, ALICE, umask)
        folders = {name for name in rights if (folder / name).is_dir()}
        assert {name: rights[name] for name in folders} == dict.fromkeys(folders, "0700")
        assert {value for name, value in rights.items() if name not in folders} == {"0600"}
        assert set(rights) >= DATABASE | {"audit.jsonl", "logs/orders.log.2", "plans/same.json", "locks/orders.start"}
    made = [place / "home" / "a", place / "home" / "a" / "b", folder, *folder.rglob("*")]
    assert {(one.stat().st_uid, one.stat().st_gid) for one in made} == {(ALICE, ALICE)}
    assert {f"{one.stat().st_mode & 0o7777:04o}" for one in made if one.is_dir()} == {"0700"}


@pytest.mark.parametrize(("first", "second"), UMASKS_OF_TWO, ids="{:03o}".format)
def test_a_teams_folder_works_for_its_members_under_every_umask(place: Path, first: int, second: int) -> None:
    folder = team_folder(place)
    for uid, umask in ((ALICE, first), (BOB, second), (ALICE, second)):
        rights = other_user.run("use", folder, uid, umask, TEAM)
        assert rights == expected(rights, folder, shared=True)
        assert set(rights) >= DATABASE | {"audit.jsonl", "logs/orders.log.2", "plans/same.json", "exports", "spark"}
    assert {one.stat().st_gid for one in folder.rglob("*")} == {TEAM}
    assert {one.stat().st_uid for one in folder.rglob("*")} == {ALICE, BOB}
    assert len((folder / "audit.jsonl").read_text("utf-8").splitlines()) == 3


def as_the_kubelet_mounts_it(volume: Path) -> None:
    """Apply an fsGroup: the group owns everything, and group permissions and setgid are added."""
    for one in (volume, *volume.rglob("*")):
        os.chown(one, -1, TEAM)
        one.chmod(one.stat().st_mode | (0o2770 if one.is_dir() else 0o660))


def test_a_volume_with_an_fs_group_works_after_the_command_of_the_error_and_after_each_mount(place: Path) -> None:
    volume = place / "volume"
    volume.mkdir(mode=0o755)
    as_the_kubelet_mounts_it(volume)
    folder = volume / "slotkeeper"
    said = other_user.run("attempt", folder, ALICE, 0o022, TEAM)["refused"]
    assert f"is below {volume}, which is writable by other users (mode 2775)" in said
    assert f"in an init container: chmod +t {volume};" in said
    subprocess.run(["chmod", "+t", volume], check=True)
    rights = other_user.run("use", folder, ALICE, 0o022, TEAM)
    assert rights == expected(rights, folder, shared=False) | {".": "2700"}, "the volume sets setgid"
    for _ in range(2):
        as_the_kubelet_mounts_it(volume)
        rights = other_user.run("use", folder, ALICE, 0o022, TEAM)
        assert rights == expected(rights, folder, shared=True)


def test_a_volume_with_an_fs_group_can_itself_be_the_folder_after_the_command_of_the_error(place: Path) -> None:
    volume = place / "volume"
    volume.mkdir(mode=0o755)
    as_the_kubelet_mounts_it(volume)
    said = other_user.run("attempt", volume, ALICE, 0o022, TEAM)["refused"]
    assert f"in an init container: chmod 2770 {volume};" in said
    subprocess.run(["chmod", "2770", volume], check=True)
    for _ in range(2):
        as_the_kubelet_mounts_it(volume)
        rights = other_user.run("use", volume, ALICE, 0o022, TEAM)
        assert rights == expected(rights, volume, shared=True)


def test_folders_in_one_that_was_private_are_shared_by_their_owners_next_command(place: Path) -> None:
    (place / "home").mkdir()
    os.chown(place / "home", ALICE, TEAM)
    folder = place / "home" / "state"
    other_user.run("use", folder, ALICE, 0o077)
    os.chown(folder, 0, TEAM)
    folder.chmod(0o2770)
    (place / "home").chmod(0o755)
    os.chown(place / "home", 0, 0)
    said = other_user.run("attempt", folder, BOB, 0o022, TEAM)["refused"]
    assert (
        "belongs to uid 64001 and is not shared like the state folder" in said
        and "ask that user to run any slotkeeper command" in said
    )
    other_user.run("use", folder, ALICE, 0o022, TEAM)
    assert other_user.run("attempt", folder, BOB, 0o022, TEAM) == {}


def test_a_user_who_is_in_no_team_is_let_in_nowhere(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    team = team_folder(place)
    other_user.run("use", team, ALICE, 0o000, TEAM)
    (place / "home").mkdir()
    os.chown(place / "home", ALICE, ALICE)
    own = place / "home" / "state"
    other_user.run("use", own, ALICE, 0o000)
    mine = place / "mine"
    mine.mkdir()
    Store.open(mine / "state").close()
    (mine / "open").mkdir()
    for one in (mine, mine / "open"):
        one.chmod(0o755)
    with Store.open(mine / "open") as store:
        os.close(store.folder.append(store.folder.log("orders")))
        inside = [one for top in (team, own, mine / "state", mine / "open") for one in (top, *top.rglob("*"))]
        monkeypatch.setenv("SLOTKEEPER_TEST_PATHS", json.dumps([str(one) for one in inside]))
        found = other_user.run("intrude", place, STRANGER, 0o022)
    assert found == {f"list {mine / 'open'}": "done"}, "a folder with mode 0755 reveals names only"


def test_a_user_can_signal_or_look_into_no_process_of_another(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(place / "state") as store:
        jobs = Jobs(store, place)
        try:
            view = jobs.start("orders", child=True)
            assert view.supervisor is not None and view.driver is not None
            child = identity.of(jobs.pids("orders", "children")[0])
            its = [view.supervisor, view.driver, child]
            monkeypatch.setenv("SLOTKEEPER_TEST_PROCESSES", json.dumps([asdict(one) for one in its]))
            found = other_user.run("signals", place, STRANGER, 0o022)
            assert {what for name, what in found.items() if name.startswith("kill ")} == {"refused"}
            assert {"belongs to another user" in what for name, what in found.items() if "terminate" in name} == {True}
            assert {what for name, what in found.items() if name[0] in "efmc"} == {"False"}
            assert len(found) == 3 * 9 and all(identity.alive(one) for one in its)
        finally:
            jobs.end_all()


def test_a_team_that_we_are_not_in_and_a_strangers_folder_are_refused(place: Path) -> None:
    folder = team_folder(place)
    assert "of which this user is not a member" in other_user.run("attempt", folder, 0, 0o022)["refused"], "nor is root"
    assert other_user.run("attempt", folder, ALICE, 0o022, TEAM) == {}
    os.chown(folder, STRANGER, TEAM)
    assert "belongs to another user" in other_user.run("attempt", folder, ALICE, 0o022, TEAM)["refused"]
    os.chown(folder, ALICE, TEAM)
    assert other_user.run("attempt", folder, ALICE, 0o022, TEAM) == {}
    os.chown(place, STRANGER, -1)
    said = other_user.run("attempt", folder, ALICE, 0o022, TEAM)["refused"]
    assert f"is below {place}, which belongs to another user (uid {STRANGER})" in said


def test_root_keeps_no_state_in_a_users_folder(place: Path) -> None:
    (place / "state").mkdir(mode=0o700)
    os.chown(place / "state", ALICE, ALICE)
    said = other_user.run("attempt", place / "state", 0, 0o022)["refused"]
    assert "belongs to another user (uid 64001), and this command runs as root" in said and "sudo -u" in said


def test_what_a_stranger_left_in_a_private_folder_is_not_written_to(place: Path) -> None:
    folder = StateFolder.open(place / "state")
    planted = folder.log("orders")
    planted.touch(0o666)
    os.chown(planted, STRANGER, -1)
    with pytest.raises(Exception, match=f"belongs to uid {STRANGER}"):
        folder.append(planted)
