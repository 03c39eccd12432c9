"""The pipe between source and sink: whose error is raised, truncated streams, and that no resources remain."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import pytest

from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.drivers import pipe
from slotkeeper.core.drivers.pipe import put, rows_in
from slotkeeper.core.errors import Busy, Unreachable

LINE = b"x" * 999 + b"\n"


@pytest.fixture(autouse=True, params=list(Encoding), ids=[one.name for one in Encoding])
def encoding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Encoding:
    found: Encoding = request.param
    monkeypatch.setattr(sys.modules[__name__], "copy_through", partial(pipe.copy_through, encoding=found))
    return found


copy_through = pipe.copy_through


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> object:
    """No thread and no open pipe after a test, however it ended."""
    before = open_files()
    yield
    assert not [one.name for one in threading.enumerate() if one.name == "slotkeeper-copy"]
    assert open_files() == before


def open_files() -> int:
    gc.collect()  # garbage of earlier tests closes its files at an unknown time
    gc.freeze()  # the remaining objects are not scanned again: half a second after thousands of tests
    return len(list(Path("/proc/self/fd").iterdir()))


def sends(rows: int, claims: int | None = None, then: BaseException | None = None) -> Callable[[BinaryIO], int]:
    def read(out: BinaryIO) -> int:
        for _ in range(rows):
            out.write(LINE)
        if then is not None:
            raise then
        return rows if claims is None else claims

    return read


def takes(then: BaseException | None = None, at_once: bool = False) -> Callable[[BinaryIO], int]:
    def write(stream: BinaryIO) -> int:
        if at_once and then is not None:
            raise then
        count = sum(1 for _ in rows_in(stream))
        if then is not None:
            raise then
        return count

    return write


def test_every_row_arrives_however_many_there_are() -> None:
    assert copy_through(sends(0), takes()) == 0
    assert copy_through(sends(5_000), takes()) == 5_000


def test_a_stream_cut_at_a_line_end_is_noticed() -> None:
    with pytest.raises(Unreachable, match="the source sent 11 rows, but the sink received 10"):
        copy_through(sends(10, claims=11), takes())


def test_the_readers_error_is_raised_although_the_sink_saw_a_whole_stream() -> None:
    with pytest.raises(Busy, match="source"):
        copy_through(sends(10, then=Busy("source")), takes())


def test_the_sinks_error_wins_over_the_broken_pipe_that_it_causes() -> None:
    with pytest.raises(Busy, match="sink"):
        copy_through(sends(5_000), takes(Busy("sink"), at_once=True))


def test_where_the_source_failed_first_its_error_explains_the_sinks() -> None:
    with pytest.raises(Busy, match="source"):
        copy_through(sends(10, then=Busy("source")), takes(Unreachable("sink")))


def test_a_sink_that_does_not_want_the_rows_ends_the_reader_without_an_error() -> None:
    assert copy_through(sends(5_000), lambda stream: None) is None
    assert copy_through(sends(0), lambda stream: None) is None


def test_an_error_of_the_source_is_not_hidden_by_a_sink_that_does_not_want_the_rows() -> None:
    def refuse(stream: BinaryIO) -> None:
        stream.read()

    with pytest.raises(Busy, match="source"):
        copy_through(sends(3, then=Busy("source")), refuse)


def test_an_interrupt_of_the_sinks_side_ends_the_reader() -> None:
    with pytest.raises(KeyboardInterrupt):
        copy_through(sends(5_000), takes(KeyboardInterrupt(), at_once=True))


def test_rows_arrive_in_their_order_and_a_reader_that_leaves_stops_the_writer(encoding: Encoding) -> None:
    sent = [(str(number), None if number % 3 else "a\tb\\", "") for number in range(3_000)]
    got: list[tuple[str | None, ...]] = []

    def read(out: BinaryIO) -> int:
        for row in sent:
            put(out, row)
        return len(sent)

    def write(stream: BinaryIO) -> int:
        got.extend(rows_in(stream))
        return len(got)

    assert copy_through(read, write) == len(sent)
    assert got == sent


def test_no_more_waits_than_a_reader_needs_soon(encoding: Encoding) -> None:
    put_so_far = [0]

    def read(out: BinaryIO) -> int:
        for number in range(200):
            put(out, ("x" * 100_000,))
            put_so_far[0] = number + 1
        return 200

    def write(stream: BinaryIO) -> int:
        count = 0
        for _ in rows_in(stream):
            count += 1
            assert put_so_far[0] - count < 60
        return count

    assert copy_through(read, write) == 200


def test_a_paced_batch_arrives_unchanged_and_every_row_and_byte_is_counted() -> None:
    sent, counted = [LINE[:-1] for _ in range(700)], [0, 0]

    def wait(rows: int, size: int) -> float:
        counted[0] += rows
        counted[1] += size
        return 0.0

    received: list[tuple[str | None, ...]] = []

    def write(stream: BinaryIO) -> int:
        received.extend(rows_in(stream))
        return len(received)

    assert copy_through(lambda out: sends(700)(pipe.paced(out, wait)), write) == 700
    assert [row[0] for row in received] == [line.decode() for line in sent]
    assert counted[0] == 700 and 0 <= counted[1] - 700 * len(LINE[:-1]) <= 700


def test_a_paced_batch_ends_with_its_reader_instead_of_waiting() -> None:
    waits = iter([0.0, 600.0])

    def read(out: BinaryIO) -> int:
        return sends(5_000)(pipe.paced(out, lambda rows, size: next(waits, 0.0) if isinstance(out, pipe.RowOut) else 0))

    with pytest.raises(Busy, match="sink"):
        copy_through(read, takes(Busy("sink"), at_once=True))


def test_a_constant_is_the_last_value_of_each_row_however_the_text_is_cut(encoding: Encoding) -> None:
    text = b"1\ta\\nb\n2\t\\N\n"

    def read(out: BinaryIO) -> int:
        out = pipe.paced(pipe.with_tail(out, b"\teu_1"), lambda rows, size: 0.0)
        for place in range(len(text)):
            out.write(text[place : place + 1])
        put(out, ("3", "x"))
        return 3

    received: list[tuple[str | None, ...]] = []

    def write(stream: BinaryIO) -> int:
        received.extend(rows_in(stream))
        return len(received)

    assert copy_through(read, write) == 3
    assert received == [("1", "a\nb", "eu_1"), ("2", None, "eu_1"), ("3", "x", "eu_1")]
    assert pipe.with_tail(one := BytesIO(), b"") is one
