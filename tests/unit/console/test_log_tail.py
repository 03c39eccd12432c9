"""Reading the end of a log that grows, is truncated, or is far too long."""

from __future__ import annotations

from pathlib import Path

from slotkeeper.console.monitor.log_tail import Tail


def texts(tail: Tail) -> list[str]:
    tail.read()
    return [line.text for line in tail.lines]


def test_only_what_is_new_is_read_and_a_half_line_waits_for_its_end(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"one\ntw")
    tail = Tail(log)
    assert texts(tail) == ["one"]
    with log.open("ab") as writing:
        writing.write(b"o\nthree\n")
    assert texts(tail) == ["one", "two", "three"]
    assert [line.number for line in tail.lines] == [1, 2, 3]
    assert texts(tail) == ["one", "two", "three"]


def test_a_log_that_was_cut_is_read_from_its_new_beginning(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"a long line before the cut\n")
    tail = Tail(log)
    tail.read()
    log.write_bytes(b"new\n")
    assert texts(tail) == ["a long line before the cut", "new"]


def test_memory_is_bounded_by_lines_and_by_their_length(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"".join(b"line %d %s\n" % (n, b"x" * 90) for n in range(20_000)))
    tail = Tail(log, kept=100)
    found = texts(tail)
    assert len(found) == 100
    assert found[-1].startswith("line 19999 ")
    log.write_bytes(b"y" * 3_000_000)
    assert max(len(text) for text in texts(tail)) <= 2_000


def test_what_is_hostile_in_a_log_is_made_visible(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"\x1b]52;c;x\x07\xff\xe2\x80\xae\r\n")
    (text,) = texts(Tail(log))
    assert text == "\\x1b]52;c;x\\x07\\xff\\u202e"


def test_a_log_that_is_not_there_yet_says_so(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "a.log")
    assert texts(tail) == []
    assert tail.fault == "no log yet"
