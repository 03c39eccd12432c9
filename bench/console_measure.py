"""What one program on a terminal costs: until it is seen, while no key is pressed, for a key, in memory,
until it is gone.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.console_fill import ROOT
from tests.support.terminal import Terminal, Used, console

SIZE = (100, 30)
WORD = "Overview"
SETTINGS = {"TEXTUAL_ANIMATIONS": "none", "TEXTUAL_FPS": "30", "TEXTUAL_SMOOTH_SCROLL": "0"}
"""What `slotkeeper.console.tui.terminal` sets for itself, for the empty app."""
BYTECODE = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(ROOT / ".cache" / "bench-console" / "bytecode")}
"""All programs have their bytecode, as from the second start after an installation on, whatever is set around us."""
QUIET = 0.12
PAUSED = 15.0
"""Paused, the store is read once in ten seconds, and the system books CPU in steps of 10 ms."""
EMPTY = [sys.executable, str(Path(__file__).with_name("console_empty.py"))]
EMPTY_TABLE = [*EMPTY, "--table"]
SCREENS = ("2", "3", "4", "5", "6", "7", "1")


def open_terminal(argv: Sequence[str]) -> Terminal:
    """A program on a terminal of the size that the bars are about."""
    return Terminal(argv, SIZE, {**SETTINGS, **BYTECODE})


def warm(config: Path, job: str) -> None:
    """One start of each program that is not measured, with every screen seen: it writes what is compiled."""
    for argv in (EMPTY, EMPTY_TABLE):
        first_paint(argv)
    with open_terminal(console(config)) as terminal:
        terminal.shows(WORD, job)
        for key in SCREENS:
            terminal.quiet(QUIET * 2)
            terminal.send(key)
        terminal.during(2.0)
        terminal.end()


@dataclass(frozen=True, slots=True)
class Paint:
    """Seconds from the start until a frame with a word is there, and the process's own until it was seen."""

    seconds: float
    cpu: float


def first_paint(argv: Sequence[str], word: str = WORD) -> Paint:
    """How long a program takes until it is seen."""
    with open_terminal(argv) as terminal:
        terminal.shows(word)
        used = psutil.Process(terminal.process.pid).cpu_times()
        seconds = terminal.pieces[-1].at - terminal.began
        terminal.end()
        return Paint(seconds, used.user + used.system)


@dataclass
class Keys:
    """Seconds from a key to the first byte, and the bytes that it made."""

    seconds: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def press(self, terminal: Terminal, key: str, quiet: float = QUIET / 2) -> None:
        """Press when all is quiet, and wait until it is quiet again."""
        terminal.quiet(QUIET)
        before = terminal.count
        self.seconds.append(terminal.first(key))
        terminal.quiet(quiet)
        self.counts.append(terminal.count - before)

    def percentile(self, part: float) -> float:
        """Of the seconds."""
        ranked = sorted(self.seconds)
        return ranked[min(len(ranked) - 1, int(part * len(ranked)))]


def together(several: Iterable[Keys]) -> Keys:
    """All of them as one."""
    found = Keys()
    for one in several:
        found.seconds += one.seconds
        found.counts += one.counts
    return found


def moves_in_turns(config: Path, job: str, number: int) -> tuple[Keys, Keys]:
    """Cursor moves of the console and of the empty app, key by key in turns: what else the machine does hits both."""
    ours, floor = Keys(), Keys()
    with open_terminal(console(config)) as terminal, open_terminal(EMPTY_TABLE) as empty:
        terminal.shows(WORD, job)
        empty.shows(WORD, "cell 0 7")
        terminal.during(3.0)
        terminal.send("g")  # rows change places until a key is pressed: a move beyond the last one moves nothing
        terminal.quiet(QUIET)
        both = ((ours, terminal), (floor, empty))
        for each in range(number):
            for keys, where in both if each % 2 else reversed(both):
                keys.press(where, "jk"[each // 8 % 2])
        terminal.end()
    return ours, floor


@dataclass
class Seen:
    """One console, measured from start to end."""

    first_data: float
    idle: Used
    paused: Used
    switches: Keys
    rss_first: int
    rss_all: int
    sigterm: float


def measure(config: Path, job: str, seconds: float, keys: int) -> Seen:
    """A console over a store that changes: look, type, pause, end."""
    with open_terminal(console(config)) as terminal:
        terminal.shows(WORD, job)
        first_data = terminal.pieces[-1].at - terminal.began
        terminal.during(3.0)
        idle = terminal.during(seconds)
        switches = Keys()
        for key in "jjkk":
            terminal.first(key)
            terminal.quiet(QUIET)
        for key in "21":
            switches.press(terminal, key, QUIET * 2)
        rss_first = terminal.memory()
        for number in range(keys // 2):
            switches.press(terminal, SCREENS[number % len(SCREENS)], QUIET * 2)
        terminal.send("1")
        terminal.quiet(QUIET)
        rss_all = terminal.memory()
        terminal.send("f")
        terminal.during(1.5)
        paused = terminal.during(max(PAUSED, seconds / 3))
        terminal.send("f")
        terminal.quiet(QUIET)
        return Seen(first_data, idle, paused, switches, rss_first, rss_all, terminal.end())


@dataclass
class Floor:
    """What Textual takes without us: idling and memory with one word, keys with two screens of one table each."""

    idle: Used
    rss: int
    switches: Keys


def floor(keys: int) -> Floor:
    """The empty apps."""
    with open_terminal(EMPTY) as terminal:
        terminal.shows(WORD)
        terminal.during(1.0)
        idle, rss = terminal.during(5.0), terminal.memory()
    switches = Keys()
    with open_terminal(EMPTY_TABLE) as terminal:
        terminal.shows(WORD, "cell 0 7")
        for number in range(keys // 2):
            switches.press(terminal, "21"[number % 2], QUIET * 2)
    return Floor(idle, rss, switches)


def many_rows(config: Path, seconds: float) -> Used:
    """One job with very many DNs, all of them changing, its detail open."""
    with open_terminal(console(config)) as terminal:
        terminal.shows(WORD, "orders_01_rt")
        terminal.send("2")
        terminal.shows("[2 Jobs]")
        terminal.quiet(QUIET)
        terminal.send("\r")
        terminal.shows("> orders_01_rt", "dn_6")
        terminal.during(5.0)
        return terminal.during(seconds)


def ends(config: Path, job: str) -> dict[str, float]:
    """Seconds until the console is gone, by what ends it."""
    found = {}
    for name in ("SIGTERM", "SIGHUP"):
        with open_terminal(console(config)) as terminal:
            terminal.shows(WORD, job)
            found[name] = terminal.end(signal.Signals[name])
    with open_terminal(console(config)) as terminal:
        terminal.shows(WORD, job)
        at = time.monotonic()
        terminal.hang_up()
        terminal.process.wait(30)
        found["terminal closed"] = time.monotonic() - at
    return found
