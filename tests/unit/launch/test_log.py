"""The job's log stays bounded while other processes continue to write to it."""

from __future__ import annotations

import os
from pathlib import Path

from slotkeeper.core.launch import log
from slotkeeper.core.state.folder import StateFolder


def test_a_log_that_is_too_long_is_copied_and_cut_and_its_writers_go_on_at_the_new_end(tmp_path: Path) -> None:
    folder = StateFolder.open(tmp_path / "state")
    writer = folder.append(folder.log("orders"))
    for round_number in range(5):
        os.write(writer, f"{round_number}".encode() * 1_000)
        assert log.rotate(folder, "orders", 1_000, 3)
        assert folder.log("orders").stat().st_size == 0
    os.write(writer, b"last")
    os.close(writer)
    assert not log.rotate(folder, "orders", 1_000, 3)
    names = sorted(path.name for path in folder.log("orders").parent.iterdir())
    assert names == ["orders.log", "orders.log.1", "orders.log.2"]
    assert folder.log("orders").read_bytes() == b"last"
    assert folder.log("orders").with_name("orders.log.1").read_bytes() == b"4" * 1_000
    assert folder.log("orders").with_name("orders.log.2").read_bytes() == b"3" * 1_000


def test_an_absent_log_is_nothing_to_bound(tmp_path: Path) -> None:
    folder = StateFolder.open(tmp_path / "state")
    assert not log.rotate(folder, "orders", 1, 3)
    assert log.last_lines(folder.log("orders"), 5) == []


def test_the_last_lines_show_no_raw_bytes(tmp_path: Path) -> None:
    folder = StateFolder.open(tmp_path / "state")
    log.say(folder, "orders", "hello\x1b[31m")
    writer = folder.append(folder.log("orders"))
    os.write(writer, b"one\ntwo\xff\x07\n")
    os.close(writer)
    lines = log.last_lines(folder.log("orders"), 3)
    assert lines[0].endswith("hello\\x1b[31m")
    assert lines[1:] == ["one", "two\\xff\\x07"]
