"""The end of a growing log file, read in bounded memory; unsafe characters are escaped."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from slotkeeper.core.domain.text import piece, safe
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import opened_alone

KEPT_LINES = 5_000
_MOST_BYTES = 512 * 1024
_LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line and its number since the first read."""

    number: int
    text: str


class Tail:
    """A growing log file. `lines` are its newest lines; `fault` is the error if it cannot be read."""

    def __init__(self, path: Path, kept: int = KEPT_LINES) -> None:
        self.path = path
        self.lines: deque[LogLine] = deque(maxlen=kept)
        self.fault = ""
        self._offset = 0
        self._rest = b""
        self._number = 0
        self._skip = False
        self._inside = False
        """Whether the next line continues a line whose beginning is already in `lines`."""

    @property
    def last(self) -> int:
        """The number of the newest line; 0 if there is none."""
        return self._number

    def read(self) -> None:
        """Read the text written since the last call, at most the last 512 KiB."""
        try:
            with os.fdopen(opened_alone(self.path), "rb") as reading:
                size = os.fstat(reading.fileno()).st_size
                if size < self._offset:
                    self._offset, self._rest = 0, b""
                if size - self._offset > _MOST_BYTES:
                    self._offset, self._rest, self._skip = size - _MOST_BYTES, b"", True
                reading.seek(self._offset)
                content = reading.read(_MOST_BYTES)
            self.fault = ""
        except FileNotFoundError:
            self.fault = "no log yet"
            return
        except OSError as error:
            self.fault = f"the log cannot be read: {error.strerror}"
            return
        except StateError as error:
            self.fault = error.message
            return
        self._offset += len(content)
        self._take(content)

    def _take(self, content: bytes) -> None:
        *whole, self._rest = (self._rest + content).split(b"\n")
        pieces = [self._inside and not n for n in range(len(whole))]
        if whole:
            self._inside = False
        if len(self._rest) > _LONGEST:  # a line without an end must not exhaust memory
            whole, self._rest = [*whole, self._rest], b""
            pieces, self._inside = [*pieces, True], True
        if self._skip and whole:
            whole, pieces, self._skip = whole[1:], pieces[1:], False
        for line, cut in zip(whole, pieces, strict=True):
            self._number += 1
            text = line.removesuffix(b"\r")
            whole_line = not cut and len(text) <= _LONGEST
            shown = safe(text, _LONGEST) if whole_line else piece(text[:_LONGEST], _LONGEST)
            self.lines.append(LogLine(self._number, shown))
