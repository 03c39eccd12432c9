"""Copied text goes to tmux's buffer or is sent by OSC 52, is always written to a file, and the message says where it
is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from slotkeeper.console.tui.export import FILE, MOST, copied

TMUX = "#!/bin/sh\nprintf '%s ' \"$@\" > {folder}/arguments\ncat > {folder}/buffer\nexit {code}\n"


def fake_tmux(folder: Path, code: int = 0) -> dict[str, str]:
    """An environment in which `tmux` records its arguments and input."""
    binary = folder / "bin" / "tmux"
    binary.parent.mkdir()
    binary.write_text(TMUX.format(folder=folder, code=code), encoding="utf-8")
    binary.chmod(0o755)
    return {"TMUX": "/tmp/tmux-1/default,1,0", "PATH": f"{binary.parent}:{os.environ['PATH']}"}


def test_outside_of_tmux_the_terminal_is_given_it(tmp_path: Path) -> None:
    sent: list[None] = []
    result = copied("orders_rt  RUNNING", tmp_path / "state", {}, lambda: sent.append(None))
    assert result.ok and result.text == "copied 18 characters: OSC 52, clip.txt"
    file = tmp_path / "state" / FILE
    assert sent == [None] and file.read_text("utf-8") == "orders_rt  RUNNING"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_inside_of_tmux_its_buffer_is_loaded_and_the_terminal_left_alone(tmp_path: Path) -> None:
    sent: list[None] = []
    env = fake_tmux(tmp_path)
    result = copied("x", tmp_path / "state", env, lambda: sent.append(None))
    assert result.text == "copied 1 character: tmux buffer, clip.txt"
    assert (tmp_path / "buffer").read_text("utf-8") == "x" and sent == []
    assert (tmp_path / "arguments").read_text("utf-8") == "load-buffer -w - "


def test_where_tmux_refuses_the_terminal_is_tried_and_both_are_said(tmp_path: Path) -> None:
    sent: list[None] = []
    env = fake_tmux(tmp_path, code=1)
    result = copied("x", tmp_path / "state", env, lambda: sent.append(None))
    assert result.text == "copied 1 character: OSC 52, clip.txt; tmux rejected the text" and sent == [None]


def test_more_than_a_terminal_takes_is_in_the_file_only(tmp_path: Path) -> None:
    sent: list[None] = []
    longest = MOST // 4 * 3
    assert copied("x" * longest, tmp_path / "state", {}, lambda: sent.append(None)).ok
    result = copied("x" * (longest + 1), tmp_path / "state", {}, lambda: sent.append(None))
    assert not result.ok and "too long for the terminal" in result.text and "clip.txt" in result.text
    assert len(sent) == 1 and len((tmp_path / "state" / FILE).read_text("utf-8")) == longest + 1


def test_a_link_in_place_of_the_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    copied("first", folder, {}, lambda: None)
    (folder / FILE).unlink()
    (folder / FILE).symlink_to(elsewhere)
    copied("second", folder, {}, lambda: None)
    assert not elsewhere.exists() and (folder / FILE).read_text("utf-8") == "second"


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder", encoding="utf-8")
    result = copied("x", tmp_path / "state", {}, lambda: None)
    assert not result.ok and "could not write clip.txt" in result.text
