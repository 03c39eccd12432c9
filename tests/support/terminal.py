"""A program on its own terminal: its input, its output with times, the screen, and its CPU time and memory.

Waits are for conditions, not for times, where possible; `during` is for measuring. Used by the tests and by
`bench`.

The bytes are taken apart into characters, controls and sequences. It is strict where a real emulator is lenient: every
sequence outside the short list of Textual's own is recorded as foreign. For this reason it uses no emulator library
(pyte, the usual one, skips unknown sequences, and these tests look for them); tmux draws the pictures of
`bench.snapshots`, and is the second opinion.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import psutil
from rich.cells import get_character_cell_size

_TOKEN = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC with their end
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # two or three characters
    r"|[^\x00-\x1f\x7f-\x9f]+"  # text
    r"|[\x00-\x1a\x1c-\x1f\x7f-\x9f]",  # a control alone
)
_PARTIAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\x9c]{0,200000}\x1b?|[ -/]*)?\Z")
_MODES = "1000|1002|1003|1004|1006|1015|1016|1049|2004|2026|2048|25|7"
_ALLOWED = re.compile(
    rf"\x1b\[\?(?:{_MODES})[hl]|\x1b\[\?(?:2026|2048)\$p|\x1b\[>\d+u|\x1b\[<u|\x1b\]22;[a-z-]*\x07"
    r"|\x1b\[\d+;\d+H|\x1b\[H|\x1b\[[\d;]*m|[\r\n]"
)
"""The sequences that Textual sends: modes, its questions, the pointer's shape, positions and colours."""
_WHERE = "\x1b[6n"
_PROBE = (_WHERE, "\x1b[K")
"""The console's question, before it starts, whether the terminal draws its signs in one column each."""
_STYLES = frozenset(("0", "1", "2", "3", "4", "7", "9", "22", "23", "24", "27", "29"))
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_WRAP = "7"
_UP, _ERASE_LINE = "\x1b[1A", "\x1b[2K"
_PLACE = re.compile(r"\x1b\[(\d*);?(\d*)H")


@dataclass
class Screen:
    """The characters of a screen, fed with bytes; `foreign` has the sequences that the console does not send."""

    width: int
    height: int
    foreign: list[str] = field(default_factory=list)
    modes: dict[str, bool] = field(default_factory=dict)
    coloured: int = 0
    """The number of sequences that set a colour."""
    inline: bool = False
    """Whether the program draws over its own last lines, like `watch`; a full screen never does."""
    ambiguous: int = 1
    """The cells of a character that East Asian fonts draw wide and others narrow (UAX #11, class A)."""
    reports: list[bytes] = field(default_factory=list)
    """Pending answers to queries for the cursor's position."""

    def __post_init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._rest = ""
        self.resize(self.width, self.height)

    def resize(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._row = self._column = 0
        self._cells = [[" "] * width for _ in range(height)]

    def feed(self, content: bytes) -> None:
        """Process the bytes; an unfinished sequence waits for its end."""
        text = self._rest + self._decoder.decode(content)
        self._rest = ""
        place = 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                if _PARTIAL.match(text, place):
                    self._rest = text[place:]
                    return
                self.foreign.append(text[place : place + 20])
                place += 1
                continue
            self._take(found[0])
            place = found.end()

    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self._cells]

    @property
    def text(self) -> str:
        return "\n".join(self.lines())

    def _take(self, token: str) -> None:
        if token[0] >= " " and token[0] != "\x7f" and not "\x80" <= token[0] <= "\x9f":
            self._write(token)
        elif token in _PROBE and "1049" not in self.modes:
            if token == _WHERE:
                self.reports.append(f"\x1b[{self._row + 1};{self._column + 1}R".encode())
        elif self.inline and token == _UP:
            self._row = max(0, self._row - 1)
        elif self.inline and token == _ERASE_LINE:
            self._cells[self._row] = [" "] * self.width
        elif not _ALLOWED.fullmatch(token):
            self.foreign.append(token[:80])
        elif token == "\r":
            self._column = 0
        elif token == "\n":
            self._row = min(self._row + 1, self.height - 1)
        elif found := _PLACE.fullmatch(token):
            self._move(int(found[1] or 1) - 1, int(found[2] or 1) - 1, token)
        elif token[-1] in "hl" and token.startswith("\x1b[?"):
            self._mode(token[3:-1], token[-1] == "h")
        elif token[-1] == "m":
            self._style(token)

    def _move(self, row: int, column: int, token: str) -> None:
        if row >= self.height or column >= self.width:
            self.foreign.append(token)
        self._row, self._column = min(row, self.height - 1), min(column, self.width - 1)

    def _mode(self, name: str, on: bool) -> None:
        self.modes[name] = on
        if name == "1049":
            self.resize(self.width, self.height)

    def _style(self, token: str) -> None:
        words = iter(token[2:-1].split(";"))
        for word in words:
            if word in ("38", "48"):
                self.coloured += 1
                for _ in range({"5": 1, "2": 3}.get(next(words, ""), 0)):
                    next(words, "")
            elif re.fullmatch(r"(?:[349]|10)[0-79]", word):
                self.coloured += 1
            elif word and word not in _STYLES:
                self.foreign.append(token)

    def _write(self, text: str) -> None:
        for character in text:
            if unicodedata.category(character) in _HIDDEN:
                self.foreign.append(f"{character!a} in {text[:40]!a}")
                continue
            wide = get_character_cell_size(character)
            if wide and unicodedata.east_asian_width(character) == "A":  # so are marks, which take no cell
                wide = self.ambiguous
            if not wide:
                self._cells[self._row][max(0, self._column - 1)] += character
                continue
            if self._column + wide > self.width:
                if self.modes.get(_WRAP) is False:
                    self.foreign.append(f"beyond the last column: {text[:40]!a}")
                    return
                self._row, self._column = min(self._row + 1, self.height - 1), 0
            self._cells[self._row][self._column : self._column + wide] = [character, *[""] * (wide - 1)]
            self._column += wide


def plain(content: bytes) -> str:
    """Return the text among the bytes, for programs whose screens do not have to be known."""
    return "".join(_texts(content.decode("utf-8", "replace")))


def _texts(text: str) -> Iterator[str]:
    for found in _TOKEN.finditer(text):
        if found[0][0] >= " " and found[0][0] != "\x7f":
            yield found[0]


ROOT = Path(__file__).parents[2]
SOON = 120.0
_OURS = ("TEXTUAL", "NO_COLOR", "COLUMNS", "LINES", "COLORTERM", "TERM_PROGRAM", "TMUX")
"""Variables that would change the drawing; a program gets them only if they are given to it."""

_POINTER = re.compile(rb"\x1b\]22;[a-z-]*\x07")
"""The pointer's shape, which is not visible without a mouse."""


def console(config: Path, *args: str) -> list[str]:
    return [sys.executable, "-m", "slotkeeper.console.__main__", "--config", str(config), *args]


@dataclass(frozen=True, slots=True)
class Piece:
    """Received bytes, with the time."""

    at: float
    content: bytes


class Terminal:
    """A started program; leaving the `with` block ends it.

    `answers` are the terminal's answers to questions; without them it reports the cursor's position. `ambiguous` are
    the cells of a sign that some fonts draw wide.
    """

    def __init__(
        self,
        command: Sequence[str],
        size: tuple[int, int] = (80, 24),
        env: Mapping[str, str] | None = None,
        answers: Mapping[bytes, bytes] | None = None,
        ambiguous: int = 1,
    ) -> None:
        self.size = size
        self._answers = answers
        self.screen = Screen(*size, ambiguous=ambiguous)
        self.pieces: list[Piece] = []
        self._settings = tempfile.TemporaryDirectory()  # the console stores each sort order that a test chooses
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**kept, "TERM": "xterm-256color", "XDG_CONFIG_HOME": self._settings.name, **(env or {})},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=_own_terminal,  # noqa: PLW1509 - no thread of this process holds a lock here
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
        self._settings.cleanup()

    @property
    def content(self) -> bytes:
        return b"".join(piece.content for piece in self.pieces)

    @property
    def count(self) -> int:
        """The number of occurrences of these bytes."""
        return sum(len(piece.content) for piece in self.pieces)

    def send(self, keys: str | bytes) -> float:
        """Type keys; returns the time."""
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)
        return time.monotonic()

    def read(self, seconds: float = 0.05) -> bytes:
        """The next bytes, waited for at most this long; empty if there were none or the end is reached."""
        if not self._open or not select.select([self.master], [], [], max(0.0, seconds))[0]:
            return b""
        try:
            content = os.read(self.master, 65_536)
        except OSError:  # no process has the other side open any more
            self._open = False
            return b""
        self.pieces.append(Piece(time.monotonic(), content))
        self.screen.feed(content)
        if self._answers is None:
            os.write(self.master, b"".join(self.screen.reports))
            self.screen.reports.clear()
        for question, answer in (self._answers or {}).items():
            if question in content:
                os.write(self.master, answer * content.count(question))
        return content

    def until(self, true: Callable[[], object], what: str, seconds: float = SOON) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            if not self._open or time.monotonic() > deadline:
                if true():
                    return
                why = f"not within {seconds:g} s" if self._open else "its end came before"
                raise AssertionError(f"{why}: {what}; the screen:\n{self.screen.text}")
            self.read()

    def shows(self, *texts: str, seconds: float = SOON) -> None:
        self.until(lambda: all(text in self.screen.text for text in texts), " and ".join(map(repr, texts)), seconds)

    def resize(self, size: tuple[int, int]) -> None:
        """Give the terminal another size; its contents are lost."""
        self.size = size
        self.screen.resize(*size)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))

    def first(self, keys: str) -> float:
        """Type keys, and read until a visible change; return the seconds in between."""
        at = self.send(keys)
        before = len(self.pieces)
        self.until(lambda: any(_seen(piece) for piece in self.pieces[before:]), f"something seen after {keys!r}")
        return next(piece.at for piece in self.pieces[before:] if _seen(piece)) - at

    def quiet(self, seconds: float = 0.15, most: float = SOON) -> None:
        deadline = time.monotonic() + most
        while self.read(seconds):
            if time.monotonic() > deadline:
                raise AssertionError(f"not quiet within {most:g} s")

    def during(self, seconds: float) -> Used:
        """Read for this long; returns the resources that the program used meanwhile."""
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
        return [one.pid for one in self._family()[1:]]

    def end(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Send a signal and wait for the end; return the seconds until then."""
        at = time.monotonic()
        self.process.send_signal(number)
        self.gone()
        return time.monotonic() - at

    def gone(self, seconds: float = SOON) -> int:
        """Wait for the end, reading the remaining output; return the exit code."""
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
        """Close the terminal, like a lost connection; safe to call twice."""
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
    """The resources that a program used in some seconds."""

    seconds: float
    cpu: float
    count: int

    @property
    def percent(self) -> float:
        return 100 * self.cpu / self.seconds

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self.count / self.seconds


def _seen(piece: Piece) -> bool:
    return bool(_POINTER.sub(b"", piece.content))


def _own_terminal() -> None:
    """Start a new session with the terminal as its controlling terminal, so that closing it hangs up the program."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
