"""Moves a batch from a source to a sink: memory does not grow with the number of rows.

COPY text goes through a pipe that nothing of ours looks into, rows through a queue (`row_pipe.py`). A text stream that
is cut at a line end looks like a whole one, so the reader's error is raised and the counts of both sides are compared
before anything is committed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO

from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.drivers.row_pipe import row_ends
from slotkeeper.core.errors import Unreachable

BUFFER = 262_144


def copy_through(
    read: Callable[[BinaryIO], int],
    write: Callable[[BinaryIO], int | None],
    encoding: Encoding = Encoding.COPY_TEXT,
) -> int | None:
    """Run `read` (source to pipe) in a thread beside `write` (pipe to sink); returns what `write` returned.

    `encoding` is how the sink reads the batch; `row_pipe.put` and `row_pipe.rows_in` are the two ends of one of rows.
    Raises the side's error that came first, and Unreachable where both ended well with different row counts.
    """
    stream, out = _text_ends() if encoding is Encoding.COPY_TEXT else row_ends()
    reading = _Reading(read, out)
    reading.start()
    try:
        with stream:
            written = write(stream)
    except BaseException:
        reading.join()
        reading.raise_first()
        raise
    reading.join()
    reading.raise_first()
    if reading.error is not None:
        if written is None:  # the sink did not want the rows, and the pipe was closed on the reader
            return None
        raise reading.error
    if written is not None and written != reading.rows:
        raise Unreachable(f"the source sent {reading.rows} rows, the sink got {written}: the line was cut")
    return written


def pieces(read: Callable[[BinaryIO], int], size: int) -> Iterator[bytes]:
    """What `read` writes as COPY text, in pieces of whole lines of about `size` bytes, as it comes.

    Raises its error, and Unreachable where it says another number of rows than came. Whoever stops early ends it.
    """
    stream, out = _text_ends()
    reading, rows, rest = _Reading(read, out), 0, b""
    reading.start()
    try:
        with stream:
            while block := stream.read(size):
                whole, newline, rest_of_it = block.rpartition(b"\n")
                if not newline:
                    rest += block
                    continue
                piece, rest = rest + whole + newline, rest_of_it
                rows += piece.count(b"\n")
                yield piece
    finally:
        reading.join()
    if reading.error is not None:
        raise reading.error
    if rest or rows != reading.rows:
        raise Unreachable(f"the source sent {reading.rows} rows, {rows} came: the line was cut")


def _text_ends() -> tuple[BinaryIO, BinaryIO]:
    read_end, write_end = os.pipe()
    return os.fdopen(read_end, "rb", BUFFER), os.fdopen(write_end, "wb", BUFFER)


class _Reading(threading.Thread):
    """The source's side: closes its end of the pipe whatever happens."""

    def __init__(self, read: Callable[[BinaryIO], int], out: BinaryIO) -> None:
        super().__init__(name="slotkeeper-copy", daemon=True)
        self._read = read
        self._out = out
        self.rows = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self._out:
                self.rows = self._read(self._out)
        except BaseException as error:
            self.error = error

    def raise_first(self) -> None:
        """Raise the source's own error; a pipe that the sink closed is not one."""
        if self.error is not None and not isinstance(self.error, BrokenPipeError):
            raise self.error
