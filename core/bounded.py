"""Read files and the output of programs with a size limit, so that their use of memory is bounded."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from select import POLLIN, poll
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import subprocess

STATE_FILE_BYTES = 16 * 1024 * 1024
"""Size limit of a state file that is read whole: a plan for a thousand DNs takes less than 1 MiB."""
_BLOCK = 65_536


class TooLong(ValueError):
    """The content exceeds the size limit."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"more than {_size(most_bytes)}")


def size_of(path: Path) -> int:
    """Return a file's size in bytes; 0 if it does not exist, or if another program has just deleted it."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def text_of(path: Path, most_bytes: int = STATE_FILE_BYTES, errors: str = "strict") -> str:
    """Return the whole text of a UTF-8 file. Raises OSError, UnicodeDecodeError and TooLong."""
    with path.open("rb") as reading:
        return text_in(reading, most_bytes, errors)


def text_in(reading: BinaryIO, most_bytes: int = STATE_FILE_BYTES, errors: str = "strict") -> str:
    """Return the whole text of an open UTF-8 file. Raises OSError, UnicodeDecodeError and TooLong."""
    return content_of(reading, most_bytes).decode("utf-8", errors)


def content_of(reading: BinaryIO, most_bytes: int = STATE_FILE_BYTES) -> bytes:
    """Return the whole content of an open file. Raises OSError and TooLong."""
    content = reading.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise TooLong(most_bytes)
    return content


def end_in(reading: BinaryIO, most_bytes: int) -> tuple[bytes, bool]:
    """Return the last lines of an open file, and whether they are the whole file. Raises OSError."""
    size = reading.seek(0, os.SEEK_END)
    begin = max(0, size - most_bytes)
    reading.seek(max(0, begin - 1))  # read one more byte, because the part may start exactly at the start of a line
    content = reading.read(min(size, most_bytes + 1))
    return (content.partition(b"\n")[2], False) if begin else (content, True)


def output_of(
    words: Sequence[str],
    seconds: float,
    most_bytes: int,
    errors_too: bool = False,
    env: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """Run a program without input; return its exit code and its output, including stderr if `errors_too`.

    `env` is the program's environment (default: this process's environment). A program that exceeds the time or size
    limit is killed together with its child processes. Raises OSError, subprocess.TimeoutExpired and TooLong.
    """
    import subprocess  # most callers run no program

    stderr = subprocess.STDOUT if errors_too else subprocess.DEVNULL
    end = time.monotonic() + seconds
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=env)
    assert child.stdout is not None
    try:
        written = _drained(child.stdout.fileno(), end, most_bytes)
        return child.wait(max(0.0, end - time.monotonic())), written
    except TimeoutError:
        raise subprocess.TimeoutExpired(words, seconds) from None
    finally:
        child.stdout.close()  # a child of the program may hold the other end open indefinitely
        if child.poll() is None:
            _kill(child)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a program and its child processes; otherwise a program started by a script would continue to run."""
    try:
        import psutil
    except ImportError:  # a cluster's worker has only psycopg2 installed, so child processes are not killed there
        child.kill()
        child.wait()
        return
    started: list[psutil.Process] = []
    with suppress(psutil.Error):
        started = psutil.Process(child.pid).children(recursive=True)
    child.kill()
    for one in started:
        with suppress(psutil.Error):
            one.kill()
    child.wait()


def _drained(descriptor: int, end: float, most_bytes: int) -> bytes:
    waiting, written = poll(), bytearray()
    waiting.register(descriptor, POLLIN)
    while True:
        if not waiting.poll(max(0.0, end - time.monotonic()) * 1000):
            raise TimeoutError
        block = os.read(descriptor, _BLOCK)
        if not block:
            return bytes(written)
        written += block
        if len(written) > most_bytes:
            raise TooLong(most_bytes)


def _size(most_bytes: int) -> str:
    """
    >>> _size(65_536), _size(16 * 1024 * 1024), _size(100)
    ('64 KiB', '16 MiB', '100 bytes')
    """
    for unit, of in ((2**20, "MiB"), (2**10, "KiB")):
        if most_bytes >= unit and most_bytes % unit == 0:
            return f"{most_bytes // unit} {of}"
    return f"{most_bytes} bytes"
