"""Runs the command of `[alerts]` with one notification, within its time and an output that is bounded.

It leads a process group of its own, which is killed whole: at the limit, or when the command itself has ended and left
something running.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slotkeeper.core.config import handover
from slotkeeper.core.domain.text import safe

MOST_BYTES = 1 << 20
"""A command that writes more than this is killed: nobody reads it."""
_KEPT = 2_000
_POLL = 0.02
_KILLED_WITHIN = 2.0
"""Seconds that the end of a killed command is waited for; what waits after it must be told all the same."""
_BLOCK = 65_536
_left: list[subprocess.Popen[bytes]] = []
"""What could not be killed, kept so that its end is still noted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command answered: its exit code (negative: a signal), None where it was killed or could not be started.

    `fault` is "" where it took the notification; `written` is the beginning of what it wrote, made visible.
    """

    code: int | None
    fault: str
    written: str = ""

    @property
    def said(self) -> str:
        """Its failure in words, with the beginning of what it wrote."""
        return f"{self.fault}: {self.written}" if self.fault and self.written else self.fault


def run(words: Sequence[str], text: str, seconds: float) -> Answer:
    """Start the command with a text on its standard input and wait for its end, `seconds` at most; never raises."""
    program = safe(words[0], 200)
    try:
        given = in_memory(text)
    except OSError as error:
        return Answer(None, f"{program} cannot be started: {error.strerror or error}")
    try:
        child = subprocess.Popen(
            words, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env=handover.environment(), cwd=Path("/"),
        )  # fmt: skip
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return Answer(None, f"{program} cannot be started: {reason}")
    finally:
        os.close(given)
    return _answer(child, program, seconds)


def in_memory(text: str) -> int:
    """A descriptor from which a child reads a text, however much it is and whether it reads it or not. Raises OSError.

    A pipe would have to be fed for as long as the child does not read.
    """
    descriptor = os.memfd_create("slotkeeper-alert", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _answer(child: subprocess.Popen[bytes], program: str, seconds: float) -> Answer:
    """Follow it to its end or its limit. Its group is killed before it is reaped: its id is nobody else's."""
    assert child.stdout is not None
    reading = child.stdout.fileno()
    os.set_blocking(reading, False)
    end, written, number = time.monotonic() + seconds, bytearray(), 0
    try:
        while not (ended := _has_ended(child.pid)) and time.monotonic() < end and number <= MOST_BYTES:
            number += _drain(reading, written)
            time.sleep(_POLL)
        _drain(reading, written)
    finally:
        # a command that has become another user's (sudo) may not be ours to kill
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.stdout.close()
        code = _code_of(child)
    said = safe(bytes(written).decode("utf-8", "replace").strip(), _KEPT // 2)
    if number > MOST_BYTES:
        return Answer(None, f"{program} wrote more than 1 MiB and was killed")
    if code is None:
        return Answer(None, f"{program} has not ended within {seconds:g} s and could not be killed", said)
    if not ended:
        return Answer(None, f"{program} has not ended within {seconds:g} s and was killed", said)
    if code < 0:
        return Answer(code, f"{program} was ended by signal {-code}", said)
    return Answer(code, f"{program} ended with status {code}" if code else "", said)


def _code_of(child: subprocess.Popen[bytes]) -> int | None:
    """Its exit code; None where it has not ended although it was killed: another user's, or in a call that hangs."""
    with suppress(subprocess.TimeoutExpired):
        return child.wait(_KILLED_WITHIN)
    _left.append(child)
    return None


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _drain(reading: int, written: bytearray) -> int:
    """Read what is there, MOST_BYTES at most, keep its beginning; how much it was."""
    number = 0
    with suppress(BlockingIOError):
        while number <= MOST_BYTES and (block := os.read(reading, _BLOCK)):
            number += len(block)
            written += block[: max(0, _KEPT - len(written))]
    return number
