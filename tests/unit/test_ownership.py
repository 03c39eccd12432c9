"""Files that control Slotkeeper, on a real file system: links are followed part by part; files that others can change
are rejected."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from slotkeeper.core import ownership
from slotkeeper.core.ownership import NotOurs

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
STRANGER = 64_001
"""A user id without an account."""


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    file = tmp_path / "kept" / "c.toml"
    file.parent.mkdir(mode=0o755)
    file.write_text("x = 1", "utf-8")
    file.chmod(0o644)
    return file


def read(path: Path) -> bytes:
    return ownership.read(path, f"configuration {path}", 100)


def test_a_file_is_read_up_to_a_limit_also_behind_links(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").symlink_to("kept")
    (tmp_path / "kept" / "again").symlink_to("../folder/./c.toml")
    assert read(tmp_path / "folder" / "again") == b"x = 1"
    assert ownership.read(kept, "it", 3) == b"x ="
    assert [part.path for part in ownership.follow(tmp_path / "folder")][-2:] == [
        str(tmp_path / "folder"),
        str(tmp_path / "kept"),
    ]


def test_every_part_of_the_way_is_followed_as_the_kernel_does(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "up").symlink_to("kept/..")
    for path in (kept, tmp_path / "up" / "kept" / "c.toml", tmp_path / "kept" / ".." / "kept" / "c.toml"):
        assert ownership.follow(path)[-1].path == str(path.resolve())
    assert ownership.follow(tmp_path / "up")[-1].path == str(tmp_path)


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError) as caught:
        ownership.follow(tmp_path / "a")
    assert caught.value.errno == errno.ELOOP


def test_a_path_that_is_not_a_regular_file_is_rejected_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    for path in (tmp_path / "fifo", tmp_path / "link", Path("/dev/null")):
        with pytest.raises(NotOurs, match="not a regular file"):
            read(path)
    with pytest.raises(IsADirectoryError):
        read(tmp_path)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_can_write_is_refused(kept: Path, mode: int) -> None:
    kept.chmod(mode)
    with pytest.raises(NotOurs, match=f"{kept} is writable by other users .mode {mode:04o}") as caught:
        read(kept)
    assert caught.value.hint == f"chmod go-w {kept}"
    assert ownership.check(kept, "it") is not None


def test_a_folder_in_which_others_could_put_another_file_is_refused(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(kept)
    kept.parent.chmod(0o777)
    for path in (kept, tmp_path / "link"):
        with pytest.raises(NotOurs, match=f"below {kept.parent}, which is writable by other users"):
            read(path)
    kept.parent.chmod(0o1777)
    assert read(kept) == b"x = 1"


@NEEDS_ROOT
def test_a_strangers_file_folder_or_link_is_refused(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(kept)
    os.chown(tmp_path / "link", STRANGER, -1, follow_symlinks=False)
    with pytest.raises(NotOurs, match=f"reached through the link {tmp_path / 'link'}, which belongs to another user"):
        read(tmp_path / "link")
    os.chown(kept, STRANGER, -1)
    with pytest.raises(
        NotOurs, match=f"belongs to another user .uid {STRANGER}., and this command runs as root"
    ) as caught:
        read(kept)
    assert "sudo -u" in caught.value.hint and f"chown root {kept}" in caught.value.hint
    os.chown(kept, 0, -1)
    os.chown(kept.parent, STRANGER, -1)
    with pytest.raises(NotOurs, match=f"below {kept.parent}, which belongs to another user"):
        read(kept)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_new_folder_and_all_above_it_are_ours_alone_under_every_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        ownership.make_folder(tmp_path / "a" / "b" / "c")
        ownership.make_folder(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    for folder in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        ownership.make_folder(tmp_path / "file" / "a")
