"""A link or a FIFO in place of a state file is rejected without waiting, and its target does not change."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from slotkeeper.core.domain.reset_files import PLANS
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.launch import log
from slotkeeper.core.state.audit import Audit, intent
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.files import ResetFiles, marks
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import FILE_NAME, Store

pytestmark = pytest.mark.timeout(60)
"""A test that waits for the other end of a FIFO fails."""
Use = Callable[[StateFolder], object]


def audited(folder: StateFolder) -> None:
    Audit(folder).append(intent("try", "it", ""))


def opened(folder: StateFolder) -> None:
    Store.open(folder.path).close()


USES: list[tuple[str, Use]] = [
    ("logs/orders.log", lambda folder: os.close(folder.append(folder.log("orders")))),
    ("logs/orders.log", lambda folder: log.rotate(folder, "orders", 0, 3)),
    ("logs/orders.log", lambda folder: log.last_lines(folder.log("orders"), 1)),
    ("locks/orders.start", lambda folder: folder.try_lock("orders", "start")),
    ("audit.jsonl", audited),
    ("audit.jsonl", lambda folder: Audit(folder).read()),
    ("plans/p.json", lambda folder: ResetFiles(folder).load(PLANS, "p")),
    (FILE_NAME, opened),
    (f"{FILE_NAME}-wal", opened),
    (f"{FILE_NAME}-shm", opened),
]


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    made = StateFolder.open(tmp_path / "state")
    made.subfolder(PLANS)
    Store.open(made.path).close()
    return made


@pytest.mark.parametrize(("name", "use"), USES)
@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
def test_a_link_is_refused_and_what_it_leads_to_is_untouched(
    folder: StateFolder, tmp_path: Path, name: str, use: Use, there: bool
) -> None:
    victim, planted = tmp_path / "victim", folder.path / name
    if there:
        victim.write_text("theirs", "utf-8")
        victim.chmod(0o604)
    planted.unlink(missing_ok=True)
    planted.symlink_to(victim)
    with pytest.raises(StateError, match=f"{planted} is a link or not a regular file"):
        use(folder)
    assert victim.exists() == there and planted.is_symlink()
    if there:
        assert victim.read_text("utf-8") == "theirs" and stat.S_IMODE(victim.stat().st_mode) == 0o604


@pytest.mark.parametrize(("name", "use"), USES)
@pytest.mark.parametrize("reader", [True, False], ids=["with a reader", "alone"])
def test_a_fifo_is_refused_at_once(folder: StateFolder, name: str, use: Use, reader: bool) -> None:
    planted = folder.path / name
    planted.unlink(missing_ok=True)
    os.mkfifo(planted)
    descriptor = os.open(planted, os.O_RDONLY | os.O_NONBLOCK) if reader else None
    with pytest.raises(StateError, match=f"{planted} is a link or not a regular file"):
        use(folder)
    if descriptor is not None:
        assert os.read(descriptor, 10) == b""
        os.close(descriptor)


@pytest.mark.parametrize("name", ["logs", "locks", PLANS])
def test_a_link_in_place_of_a_folder_is_refused(folder: StateFolder, tmp_path: Path, name: str) -> None:
    inside = folder.path / name
    for one in inside.iterdir():
        one.unlink()
    inside.rmdir()
    (tmp_path / "victim").mkdir()
    inside.symlink_to(tmp_path / "victim")
    with pytest.raises(StateError, match=r"link or not a (regular file|folder)"):
        os.close(folder.append(inside / "orders.log"))
    with pytest.raises(StateError, match=r"link or not a (regular file|folder)"):
        folder.replace(inside / "x.json", b"x")
    assert list((tmp_path / "victim").iterdir()) == []


def test_an_older_log_that_is_a_link_is_moved_on_and_nothing_is_written_through_it(
    folder: StateFolder, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs", "utf-8")
    current = folder.log("orders")
    current.with_name("orders.log.1").symlink_to(victim)
    os.mkfifo(current.with_name("orders.log.2"))
    for _ in range(3):
        log.say(folder, "orders", "mine")
        assert log.rotate(folder, "orders", 1, 3)
    assert victim.read_text("utf-8") == "theirs"
    assert all(stat.S_ISREG(one.lstat().st_mode) for one in current.parent.iterdir())


def test_a_mark_that_cannot_be_read_is_one_all_the_same(folder: StateFolder) -> None:
    folder.subfolder("resets")
    os.mkfifo(folder.path / "resets" / "r1.json")
    (folder.path / "resets" / "r2.json").symlink_to("nowhere")
    assert [mark.id for mark in marks(folder.path)] == ["r1", "r2"]


def test_a_second_name_of_another_file_is_refused_in_a_teams_folder(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team").chmod(0o2770)
    folder = StateFolder.open(tmp_path / "team")
    (tmp_path / "victim").write_text("theirs", "utf-8")
    os.link(tmp_path / "victim", folder.log("orders"))
    with pytest.raises(SlotkeeperError, match="hard link"):
        folder.append(folder.log("orders"))
    assert (tmp_path / "victim").read_text("utf-8") == "theirs"
