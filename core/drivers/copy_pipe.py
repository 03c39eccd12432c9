"""Moves COPY text from a source to a sink through a pipe: memory does not grow with the number of rows.

A text stream that is cut at a line end looks like a whole one, so the reader's error is raised and the counts of both
sides are compared before anything is committed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import BinaryIO

from core.errors import Unreachable

BUFFER = 262_144


def copy_through(read: Callable[[BinaryIO], int], write: Callable[[BinaryIO], int | None]) -> int | None:
    """Run `read` (source to pipe) in a thread beside `write` (pipe to sink); returns what `write` returned.

    Raises the side's error that came first, and Unreachable where both ended well with different row counts.
    """
    read_end, write_end = os.pipe()
    reading = _Reading(read, write_end)
    reading.start()
    try:
        with os.fdopen(read_end, "rb", BUFFER) as stream:
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


class _Reading(threading.Thread):
    """The source's side: closes its end of the pipe whatever happens."""

    def __init__(self, read: Callable[[BinaryIO], int], write_end: int) -> None:
        super().__init__(name="slotkeeper-copy", daemon=True)
        self._read = read
        self._write_end = write_end
        self.rows = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with os.fdopen(self._write_end, "wb", BUFFER) as out:
                self.rows = self._read(out)
        except BaseException as error:
            self.error = error

    def raise_first(self) -> None:
        """Raise the source's own error; a pipe that the sink closed is not one."""
        if self.error is not None and not isinstance(self.error, BrokenPipeError):
            raise self.error
