"""A user's settings: which files and values are accepted, and how the file is written."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from slotkeeper.console.cli.settings import MOST, Settings, raw_from, settings_from, text_of
from slotkeeper.console.tui.settings_file import SettingsFile
from slotkeeper.console.views.fitting import Chosen
from slotkeeper.console.views.rows import Order

WHOLE = {
    "theme": "light",
    "columns": {"JobsScreen": {"shown": ["pid"], "hidden": ["lag"]}},
    "orders": {"JobsScreen": {"column": "lag", "reverse": True}},
    "span": 21_600,
    "window": 3_600,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "slotkeeper" / "console.json"


def written(path: Path, content: bytes | object, mode: int = 0o600) -> Path:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    path.chmod(mode)
    return path


def kept(path: Path) -> Settings:
    return SettingsFile(path).now


def test_what_is_chosen_is_there_at_the_next_start_in_a_private_file(path: Path) -> None:
    one = SettingsFile(path)
    assert (one.now, one.fault) == (Settings(), "")
    one.change("light", "theme")
    one.change(Chosen(frozenset({"pid"}), frozenset({"lag"})), "columns", "JobsScreen")
    one.change(Order("lag", True), "orders", "JobsScreen")
    one.change(21_600, "span")
    one.change(3_600, "window")
    one.close()
    assert json.loads(path.read_bytes()) == WHOLE and kept(path) == one.now == settings_from(WHOLE)
    assert path.stat().st_mode & 0o7777 == 0o600 and path.parent.stat().st_mode & 0o7777 == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_a_usual_order_and_columns_as_they_were_leave_the_file(path: Path) -> None:
    one = SettingsFile(written(path, WHOLE))
    one.change(Order(), "orders", "JobsScreen")
    one.forget("columns", "JobsScreen")
    one.close()
    assert kept(path).orders == {} == kept(path).columns and kept(path).theme == "light"


def test_reset_forgets_everything_even_a_broken_file(path: Path) -> None:
    one = SettingsFile(written(path, b"{"))
    assert "has an invalid format" in one.fault and "`:settings reset`" in one.fault
    one.change("light", "theme")
    one.forget()
    one.change(600, "span")
    one.close()
    assert json.loads(path.read_bytes()) == {"span": 600}


def test_a_broken_file_is_never_written_over_without_a_reset(path: Path) -> None:
    said: list[str] = []
    one = SettingsFile(written(path, b"{"))
    one.tell = said.append
    one.change("light", "theme")
    one.close()
    assert path.read_bytes() == b"{" and "settings not saved" in said[0]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 60_000, b"{}" + b" " * MOST, {"theme": 7}, {"theme": "a" * 50},
        {"theme": "\x1b[31m"}, {"orders": []}, {"orders": {"JobsScreen": {"column": "\x1b]0;x\x07", "reverse": True}}},
        {"orders": {"JobsScreen": {"column": "lag", "reverse": 1}}}, {"orders": {"JobsScreen": "lag"}},
        {"columns": {"JobsScreen": {"shown": "pid"}}}, {"columns": {"JobsScreen": {"hidden": [7]}}},
        {"columns": {"JobsScreen": {"shown": ["a"] * 101}}}, {"span": -1}, {"span": 1e99}, {"span": True},
        {"window": "1h"}, b'{"span": ' + b"9" * 5_000 + b"}",
    ],
    ids=repr,
)  # fmt: skip
def test_a_hostile_file_is_one_clear_line_and_defaults(content: object, path: Path) -> None:
    one = SettingsFile(written(path, content))
    assert one.now == Settings() and one.fault and "\n" not in one.fault and "\x1b" not in one.fault


def test_keys_of_another_version_stay_in_the_file(path: Path) -> None:
    one = SettingsFile(written(path, {"later": {"a": 1}}))
    one.change("light", "theme")
    one.close()
    assert json.loads(path.read_bytes()) == {"later": {"a": 1}, "theme": "light"}


@pytest.mark.parametrize("mode", [0o622, 0o660, 0o602])
def test_a_file_that_others_can_write_is_not_used_and_not_written(mode: int, path: Path) -> None:
    said: list[str] = []
    one = SettingsFile(written(path, {"theme": "light"}, mode))
    assert one.now == Settings() and "writable by other users" in one.fault
    one.tell = said.append
    one.change("contrast", "theme")
    one.forget()
    one.close()
    assert json.loads(path.read_bytes()) == {"theme": "light"} and len(said) == 2


def test_a_file_of_another_user_is_not_used_and_not_written(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives files away")
    os.chown(written(path, {"theme": "light"}), 4_711, -1)
    one = SettingsFile(path)
    assert one.now == Settings() and "belongs to another user" in one.fault
    one.forget()
    one.close()
    assert json.loads(path.read_bytes()) == {"theme": "light"} and path.stat().st_uid == 4_711


def test_a_link_of_ones_own_is_followed_and_stays_and_one_to_a_strangers_file_is_not_used(path: Path) -> None:
    target = written(path.parent.parent / "dotfiles.json", {"theme": "light"})
    path.parent.mkdir(mode=0o700)
    path.symlink_to(target)
    one = SettingsFile(path)
    one.change(600, "span")
    one.close()
    assert path.is_symlink() and json.loads(target.read_bytes()) == {"theme": "light", "span": 600}
    target.chmod(0o666)
    assert "writable by other users" in SettingsFile(path).fault


def test_a_fifo_a_folder_and_a_closed_file_hold_nothing_up(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    os.mkfifo(path, 0o600)
    assert "not a regular file" in SettingsFile(path).fault
    path.unlink()
    path.mkdir()
    assert SettingsFile(path).fault
    assert SettingsFile(Path("/proc/1/nowhere/console.json")).now == Settings()


def test_a_folder_that_others_can_write_gets_no_settings(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.parent.chmod(0o777)
    said: list[str] = []
    one = SettingsFile(path)
    one.tell = said.append
    one.change("light", "theme")
    one.close()
    assert not path.exists() and "writable by other users" in said[0]


def test_two_consoles_at_once_keep_what_each_of_them_changed_and_tear_nothing(path: Path) -> None:
    both = [SettingsFile(path) for _ in range(2)]
    whole = threading.Event()
    torn: list[bytes] = []

    def watch() -> None:
        while not whole.is_set():
            content = path.read_bytes() if path.exists() else b"{}"
            try:
                settings_from(raw_from(content))
            except ValueError:
                torn.append(content)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(40):
        for place, one in enumerate(both):
            one.change(Order(f"column{number}"), "orders", f"Screen{place}x{number}")
    for one in both:
        one.close()
        assert one._thread is not None
        one._thread.join(30)
    whole.set()
    watcher.join()
    assert not torn
    assert set(kept(path).orders) == {f"Screen{place}x{number}" for place in (0, 1) for number in range(40)}


def test_an_unwritable_folder_is_reported_and_the_choice_holds_until_the_end(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    said: list[str] = []
    one = SettingsFile(blocked / "slotkeeper" / "console.json")
    one.tell = said.append
    one.change("light", "theme")
    one.close()
    assert one.now.theme == "light" and said and text_of({}) == b"{}\n"
