"""The costs of one program on a terminal: time to first frame, idle costs, response to a key, memory, time to exit."""

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
"""The settings that `slotkeeper.console.tui.terminal` applies to the console, for the empty app."""
BYTECODE = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(ROOT / ".cache" / "bench-console" / "bytecode")}
"""Variables that make all programs use stored bytecode, as on any start after the first, regardless of the caller's
environment."""
QUIET = 0.12
PAUSED = 30.0
"""Seconds: while paused, the console reads the store every 15 s, and the system counts CPU in steps of 10 ms."""
EMPTY = [sys.executable, str(Path(__file__).with_name("console_empty.py"))]
EMPTY_TABLE = [*EMPTY, "--table"]
SCREENS = ("2", "3", "4", "5", "6", "7", "1")


def open_terminal(argv: Sequence[str]) -> Terminal:
    """Start a program on a terminal of the size for which the limits are defined."""
    return Terminal(argv, SIZE, {**SETTINGS, **BYTECODE})


def warm(config: Path, job: str) -> None:
    """Start each program once without measuring it and open every screen, so that the bytecode is written."""
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
    """Seconds from the start until a frame contains a word, and the CPU seconds of the process until then."""

    seconds: float
    cpu: float


def first_paint(argv: Sequence[str], word: str = WORD) -> Paint:
    """Measure the time until a program shows its first frame with that word."""
    with open_terminal(argv) as terminal:
        terminal.shows(word)
        used = psutil.Process(terminal.process.pid).cpu_times()
        seconds = terminal.pieces[-1].at - terminal.began
        terminal.end()
        return Paint(seconds, used.user + used.system)


@dataclass
class Keys:
    """For each key, the seconds until the first byte of output, and the number of bytes that it produced."""

    seconds: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def press(self, terminal: Terminal, key: str, quiet: float = QUIET / 2) -> None:
        """Press a key once the terminal is quiet, and wait until it is quiet again."""
        terminal.quiet(QUIET)
        before = terminal.count
        self.seconds.append(terminal.first(key))
        terminal.quiet(quiet)
        self.counts.append(terminal.count - before)

    def percentile(self, part: float) -> float:
        """Return a percentile of the seconds."""
        ranked = sorted(self.seconds)
        return ranked[min(len(ranked) - 1, int(part * len(ranked)))]


def together(several: Iterable[Keys]) -> Keys:
    """Return all measurements as one `Keys`."""
    found = Keys()
    for one in several:
        found.seconds += one.seconds
        found.counts += one.counts
    return found


def moves_in_turns(config: Path, job: str, number: int) -> tuple[Keys, Keys]:
    """Measure cursor moves of the console and the empty app, alternating per key so that other load affects both."""
    ours, floor = Keys(), Keys()
    with open_terminal(console(config)) as terminal, open_terminal(EMPTY_TABLE) as empty:
        terminal.shows(WORD, job)
        empty.shows(WORD, "cell 0 7")
        terminal.during(3.0)
        terminal.send("g")  # rows are reordered until a key is pressed; a cursor in the last row cannot move further
        terminal.quiet(QUIET)
        both = ((ours, terminal), (floor, empty))
        for each in range(number):
            for keys, where in both if each % 2 else reversed(both):
                keys.press(where, "jk"[each // 8 % 2])
        terminal.end()
    return ours, floor


@dataclass
class Seen:
    """The measurements of one console from start to end."""

    first_data: float
    idle: Used
    paused: Used
    switches: Keys
    rss_first: int
    rss_all: int
    sigterm: float


def measure(config: Path, job: str, seconds: float, keys: int) -> Seen:
    """Measure a console on a changing store: idle, keys, paused, exit."""
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
    """The costs of Textual itself: idle costs and memory with one word, keys with two screens of one table each."""

    idle: Used
    rss: int
    switches: Keys


def floor(keys: int) -> Floor:
    """Measure the empty apps."""
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
    """Measure the open detail of one job with a very large number of DNs that all change."""
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
    """Return the seconds until the console has exited, by the cause of the exit."""
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
