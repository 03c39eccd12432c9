"""The owner of the state folder, and the message about a file that cannot be used."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from slotkeeper.core.errors import Busy
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import FILE_NAME, Store


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_all_that_is_made_is_for_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Store.open(tmp_path / "a" / "state") as store:
            store.register_job("orders", "c")
            folder = store.folder
            os.close(folder.append(folder.log("orders")))
            made = {path.name: rights(path) for path in folder.path.rglob("*") if path.is_file()}
    finally:
        os.umask(before)
    assert rights(tmp_path / "a" / "state") == 0o700
    assert {FILE_NAME, f"{FILE_NAME}-wal", "orders.log"} <= set(made)
    assert set(made.values()) == {0o600}
    assert not folder.shared


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702, 0o2777])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(mode)
    with pytest.raises(StateError, match="is writable by other users") as refused:
        Store.open(tmp_path / "state")
    assert "chmod 700" in refused.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    os.chown(tmp_path / "state", 12345, -1)
    with pytest.raises(StateError, match="belongs to another user"):
        Store.open(tmp_path / "state")


def test_a_team_folder_keeps_its_group_in_all_files(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team").chmod(0o2770)
    with Store.open(tmp_path / "team") as store:
        store.register_job("orders", "c")
        assert store.folder.shared
        files = [path for path in store.folder.path.rglob("*") if path.is_file()]
        assert {rights(path) for path in files} == {0o660}
        assert rights(store.folder.path / "logs") == 0o2770


def test_an_unknown_group_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="group"):
        Store.open(tmp_path / "state", group="no-such-group-here")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("name", ["../evil", "", "a/b", ".hidden", "x" * 64, "a\nb"])
def test_a_job_name_never_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    with Store.open(tmp_path / "state") as store, pytest.raises(StateError, match="job name"):
        store.register_job(name, "c")


def test_a_lock_has_one_holder_and_is_free_again(tmp_path: Path) -> None:
    folder = StateFolder.open(tmp_path / "state")
    first = folder.try_lock("orders", "start")
    assert first is not None
    assert folder.try_lock("orders", "start") is None
    with pytest.raises(Busy, match="start lock of job orders"), folder.locked("orders", "start", 0.0):
        pass
    first.release()
    with folder.locked("orders", "start", 0.0):
        pass


def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path) -> None:
    with Store.open(tmp_path / "state") as store:
        file = store.file
    file.write_bytes(b"this is not a database" * 500)
    with pytest.raises(StateError, match="damaged") as refused:
        Store.open(tmp_path / "state")
    assert str(file) in refused.value.message
    assert "it contains no position" in refused.value.hint


def test_damage_inside_the_file_is_named_too(tmp_path: Path) -> None:
    with Store.open(tmp_path / "state") as store:
        file = store.file
        store.register_job("orders", "c")
    content = bytearray(file.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    file.write_bytes(content)
    with pytest.raises(StateError, match="damaged"), Store.open(tmp_path / "state") as store:
        store.jobs()


def test_a_newer_schema_is_named_and_left_alone(tmp_path: Path) -> None:
    with Store.open(tmp_path / "state") as store:
        file = store.file
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StateError, match="newer slotkeeper") as refused:
        Store.open(tmp_path / "state")
    assert str(file) in refused.value.message


def test_another_programs_database_is_never_migrated(tmp_path: Path) -> None:
    folder = StateFolder.open(tmp_path / "state")
    with sqlite3.connect(folder.path / FILE_NAME) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(StateError, match="another program's database"):
        Store.open(tmp_path / "state")
