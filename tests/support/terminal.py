"""A program on a terminal of its own: keys in, bytes out with their times, what the screen shows, what it costs.

Nothing here waits for a time where a condition can be waited for; `during` is for measuring. Used by the tests and by
`bench`.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from tests.support.pty_bytes import Screen

ROOT = Path(__file__).parents[2]
SOON = 120.0
_OURS = ("TEXTUAL", "NO_COLOR", "COLUMNS", "LINES", "COLORTERM", "TERM_PROGRAM", "TMUX")
"""Variables that would change what is drawn; a program gets those only that are given to it."""

_ANSWERS = {b"\x1b[6n": b"\x1b[1;2R"}
"""Where the cursor is after one character in one column, as the console asks before it begins."""
_POINTER = re.compile(rb"\x1b\]22;[a-z-]*\x07")
"""The pointer's shape, which nobody sees who has no mouse here."""


def console(config: Path, *args: str) -> list[str]:
    """How the console is started."""
    return [sys.executable, "-m", "slotkeeper.console.__main__", "--config", str(config), *args]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes and when they came."""

    at: float
    content: bytes


class Terminal:
    """A started program; leaving the `with` block ends it.

    `answers` are what the terminal says to questions, for programs that wait for that.
    """

    def __init__(
        self,
        command: Sequence[str],
        size: tuple[int, int] = (80, 24),
        env: Mapping[str, str] | None = None,
        answers: Mapping[bytes, bytes] | None = None,
    ) -> None:
        self.size = size
        self._answers = _ANSWERS if answers is None else answers
        self.screen = Screen(*size)
        self.pieces: list[Piece] = []
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**kept, "TERM": "xterm-256color", **(env or {})},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=_own_terminal,  # noqa: PLW1509 - no thread of ours holds a lock here
        )
        os.close(slave)
        self._open = True

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self.hang_up()

    @property
    def content(self) -> bytes:
        """Everything that it wrote."""
        return b"".join(piece.content for piece in self.pieces)

    @property
    def count(self) -> int:
        """How many bytes that were."""
        return sum(len(piece.content) for piece in self.pieces)

    def send(self, keys: str | bytes) -> float:
        """Type; when that was."""
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)
        return time.monotonic()

    def read(self, seconds: float = 0.05) -> bytes:
        """What comes next, at most so long waited for; empty where nothing came or its end is reached."""
        if not self._open or not select.select([self.master], [], [], max(0.0, seconds))[0]:
            return b""
        try:
            content = os.read(self.master, 65_536)
        except OSError:  # nobody has the other side open any more
            self._open = False
            return b""
        self.pieces.append(Piece(time.monotonic(), content))
        self.screen.feed(content)
        for question, answer in self._answers.items():
            if question in content:
                os.write(self.master, answer * content.count(question))
        return content

    def until(self, true: Callable[[], object], what: str, seconds: float = SOON) -> None:
        """Read until that is true."""
        deadline = time.monotonic() + seconds
        while not true():
            if not self._open or time.monotonic() > deadline:
                if true():
                    return
                why = f"not within {seconds:g} s" if self._open else "its end came before"
                raise AssertionError(f"{why}: {what}; the screen:\n{self.screen.text}")
            self.read()

    def shows(self, *texts: str, seconds: float = SOON) -> None:
        """Read until the screen shows all of that."""
        self.until(lambda: all(text in self.screen.text for text in texts), " and ".join(map(repr, texts)), seconds)

    def resize(self, size: tuple[int, int]) -> None:
        """Give the terminal another size; what was on it is gone."""
        self.size = size
        self.screen.resize(*size)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))

    def first(self, keys: str) -> float:
        """Type, and read until something comes that can be seen: the seconds between."""
        at = self.send(keys)
        before = len(self.pieces)
        self.until(lambda: any(_seen(piece) for piece in self.pieces[before:]), f"something seen after {keys!r}")
        return next(piece.at for piece in self.pieces[before:] if _seen(piece)) - at

    def quiet(self, seconds: float = 0.15, most: float = SOON) -> None:
        """Read until nothing has come for so long."""
        deadline = time.monotonic() + most
        while self.read(seconds):
            if time.monotonic() > deadline:
                raise AssertionError(f"not quiet within {most:g} s")

    def during(self, seconds: float) -> Used:
        """Read for so long; what it used meanwhile."""
        began, cpu, count = time.monotonic(), self.cpu(), self.count
        while (left := began + seconds - time.monotonic()) > 0 and self._open:
            self.read(min(left, 0.5))
        taken = time.monotonic() - began
        return Used(taken, self.cpu() - cpu, self.count - count)

    def cpu(self) -> float:
        """CPU seconds of the program and its children so far."""
        total = 0.0
        for one in self._family():
            try:
                times = one.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        return total

    def memory(self) -> int:
        """Resident bytes of the program alone, without its children."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def children(self) -> list[int]:
        """The pids of all processes below it."""
        return [one.pid for one in self._family()[1:]]

    def end(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Send a signal and wait for the end; the seconds until then."""
        at = time.monotonic()
        self.process.send_signal(number)
        self.gone()
        return time.monotonic() - at

    def gone(self, seconds: float = SOON) -> int:
        """Wait for its end, reading what it still says; the exit code."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"still there after {seconds:g} s; the screen:\n{self.screen.text}")
            self.read(0.01)
            if not self._open:
                try:
                    self.process.wait(0.05)
                except subprocess.TimeoutExpired:
                    continue
        while self.read(0.05):
            pass
        return self.process.returncode

    def hang_up(self) -> None:
        """Close the terminal, as a lost connection does; safe twice."""
        if self.master >= 0:
            os.close(self.master)
            self.master = -1
        self._open = False

    def _family(self) -> list[psutil.Process]:
        try:
            own = psutil.Process(self.process.pid)
            return [own, *own.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


@dataclass(frozen=True, slots=True)
class Used:
    """What a program used in some seconds."""

    seconds: float
    cpu: float
    count: int

    @property
    def percent(self) -> float:
        """Percent of one core."""
        return 100 * self.cpu / self.seconds

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self.count / self.seconds


def _seen(piece: Piece) -> bool:
    return bool(_POINTER.sub(b"", piece.content))


def _own_terminal() -> None:
    """A session of its own with the terminal as its controlling one: closing it hangs the program up."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
