"""The CPU time of short commands and of a large configuration, in turns with a Python that loads only libraries."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.console_fill import ROOT, Writer
from bench.console_measure import BYTECODE, Paint, first_paint
from bench.console_report import Bar
from tests.support.terminal import console

JOBS, TABLES, DNS = 40, 200, 24
"""The large configuration."""
STARTS = 7
ROWS = "_rt"
"""A part of each job's name, which the first rows contain."""
_OURS = (sys.executable, "-m", "slotkeeper.console")
NOTHING = (sys.executable, "-c", "pass")
LIBRARIES = (sys.executable, "-c", "import typer, sqlite3, psutil, tomllib")
VERSION = (*_OURS, "--version")
STATUS = (*_OURS, "status", "--json")
CHECK = (*_OURS, "config", "check", "--json")


@dataclass
class Commands:
    """CPU seconds by command: those of the small commands, those with the large configuration, and its first rows."""

    small: dict[Sequence[str], list[float]] = field(default_factory=dict)
    large: dict[Sequence[str], list[float]] = field(default_factory=dict)
    rows: list[Paint] = field(default_factory=list)

    def round(self, config: Path, folder: Path) -> None:
        """Measure each command several times, in turns; the first turn writes the bytecode."""
        _in_turns(self.small, config, NOTHING, LIBRARIES, VERSION, STATUS)
        with Writer.start(folder, JOBS, DNS, tables=TABLES) as writer:
            _in_turns(self.large, writer.config, STATUS, CHECK)
            self.rows += [first_paint(console(writer.config), ROWS) for _ in range(3)]

    def values(self) -> dict[str, list[float]]:
        """Return all CPU seconds as values for the JSON file, by command line."""
        every = [("", self.small), (", large", self.large)]
        return {
            " ".join(command[1:]) + size: [round(one, 4) for one in seconds]
            for size, commands in every
            for command, seconds in commands.items()
        }


def bars(found: Commands) -> list[Bar]:
    """Return the figures with their limits."""
    small = {command: median(seconds) for command, seconds in found.small.items()}
    large = {command: median(seconds) for command, seconds in found.large.items()}
    fastest = min(found.rows, key=lambda one: one.seconds)
    size = f"CPU, {JOBS} jobs of {TABLES} tables"
    return [
        Bar("`--version`, CPU to `python -c pass`", small[VERSION] / small[NOTHING], 3, "x", _of(small[VERSION])),
        Bar("`status --json`, CPU to its libraries", small[STATUS] / small[LIBRARIES], 2, "x", _of(small[STATUS])),
        Bar("`status --json`, large configuration", large[STATUS], 0.8, "s", size),
        Bar("`config check`, large configuration", large[CHECK], 0.8, "s", size),
        Bar("first rows, large configuration", fastest.seconds, 1.5, "s", f"from the start; CPU {fastest.cpu:.2f} s"),
    ]


def _of(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms, median"


def _in_turns(found: dict[Sequence[str], list[float]], config: Path, *commands: Sequence[str]) -> None:
    env = {**os.environ, **BYTECODE, "SLOTKEEPER_CONFIG": str(config)}
    for turn in range(STARTS + 1):
        for command in commands:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found.setdefault(command, []).extend([used] if turn else [])
