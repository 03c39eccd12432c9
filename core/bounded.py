"""What is read of files and of other programs, each with a most: nothing of either is held whole without one."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from select import POLLIN, poll
from typing import BinaryIO

STATE_FILE_BYTES = 16 * 1024 * 1024
"""A file of the state folder that is read whole: a plan for a thousand DNs has less than one MiB."""
_BLOCK = 65_536


class TooLong(ValueError):
    """There is more than is read of such a thing."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"more than {_size(most_bytes)}")


def text_of(path: Path, most_bytes: int = STATE_FILE_BYTES, errors: str = "strict") -> str:
    """The text of a UTF-8 file, whole. Raises OSError, UnicodeDecodeError, and TooLong."""
    with path.open("rb") as reading:
        return text_in(reading, most_bytes, errors)


def text_in(reading: BinaryIO, most_bytes: int = STATE_FILE_BYTES, errors: str = "strict") -> str:
    """The same of an open file."""
    return content_of(reading, most_bytes).decode("utf-8", errors)


def content_of(reading: BinaryIO, most_bytes: int = STATE_FILE_BYTES) -> bytes:
    """What is in an open file, whole. Raises OSError and TooLong."""
    content = reading.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise TooLong(most_bytes)
    return content


def end_in(reading: BinaryIO, most_bytes: int) -> tuple[bytes, bool]:
    """The end of an open file, from the beginning of a line on, and whether that is all of it. Raises OSError."""
    size = reading.seek(0, os.SEEK_END)
    begin = max(0, size - most_bytes)
    reading.seek(max(0, begin - 1))  # one byte more: the piece may begin where a line does
    content = reading.read(min(size, most_bytes + 1))
    return (content.partition(b"\n")[2], False) if begin else (content, True)


def output_of(
    words: Sequence[str],
    seconds: float,
    most_bytes: int,
    errors_too: bool = False,
    env: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """Run a program without input; its exit code and what it wrote, its errors among it where `errors_too`.

    `env` is its environment, ours where none is given.
    It is killed, with what it has started, where it takes too long or writes too much. Raises OSError,
    subprocess.TimeoutExpired, TooLong.
    """
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
        child.stdout.close()  # what it has started may hold the other end for ever
        if child.poll() is None:
            _kill(child)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End a program and what it has started: of a script that waits for another program, that one would stay."""
    try:
        import psutil
    except ImportError:  # a cluster's worker needs nothing but psycopg2: there, what it has started stays
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
