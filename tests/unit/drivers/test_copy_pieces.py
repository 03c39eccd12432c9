"""COPY text in pieces of whole lines: no text is truncated silently, and a caller that stops early ends the read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import BinaryIO

import pytest

from slotkeeper.core.drivers.pipe import pieces
from slotkeeper.core.errors import Busy, Unreachable


def writing(*blocks: bytes, rows: int) -> Callable[[BinaryIO], int]:
    def read(out: BinaryIO) -> int:
        for block in blocks:
            out.write(block)
        return rows

    return read


def test_pieces_end_at_line_ends_whatever_their_size() -> None:
    text = b"".join(b"%d\tvalue\n" % n for n in range(1000)) + b"x" * 500 + b"\n"
    for size in (1, 7, 64, 1 << 20):
        found = list(pieces(writing(text, rows=1001), size))
        assert b"".join(found) == text
        assert all(one.endswith(b"\n") for one in found)


@pytest.mark.parametrize("rows", [1, 3])
def test_another_number_of_rows_than_was_sent_is_an_error(rows: int) -> None:
    with pytest.raises(Unreachable, match="the connection was lost"):
        list(pieces(writing(b"a\nb\n", rows=rows), 10))


def test_a_line_without_its_end_is_an_error() -> None:
    with pytest.raises(Unreachable, match="the connection was lost"):
        list(pieces(writing(b"a\nb", rows=1), 10))


def test_the_reader_s_error_comes_behind_what_it_wrote() -> None:
    def read(out: BinaryIO) -> int:
        out.write(b"a\n")
        raise Busy("no")

    found = pieces(read, 10)
    assert next(found) == b"a\n"
    with pytest.raises(Busy, match="no"):
        next(found)


def test_a_caller_that_stops_early_ends_the_reading() -> None:
    ended = threading.Event()

    def read(out: BinaryIO) -> int:
        try:
            while True:
                out.write(b"row\n" * 10_000)
        finally:
            ended.set()

    found = pieces(read, 100)
    next(found)
    assert isinstance(found, Generator)
    found.close()
    assert ended.wait(5)
