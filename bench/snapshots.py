"""`python -m bench.snapshots`: takes the pictures of the console under `docs/pictures`, from a real run in tmux.

The demo's servers, its job and its writers run; a second slot is created, the job is paused and resumed, and a DN fails
temporarily. Meanwhile every screen of the console is opened at every size, and at the usual size also in a light theme
and in ASCII. At the end, an animation is recorded: the console names a lock, and a slot is reset and the reset undone.
Every picture is checked before it is stored, and everything that was started is stopped.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import FrameType

from bench import pictures
from bench.__main__ import say
from bench.console_fill import ROOT
from bench.tmux import Tmux
from slotkeeper.core.domain.job import JobState
from slotkeeper.demo.orders import TABLE
from slotkeeper.demo.run import JOB, Demo, DemoOptions
from slotkeeper.demo.warehouse import Warehouse

FOLDER = ROOT / "docs" / "pictures"
USUAL = (80, 24)
SIZES = (USUAL, (100, 30), (160, 45), (200, 60))
SECOND = "orders_dr"
USER = "dba"


@dataclass(frozen=True, slots=True)
class Stop:
    """A picture: its name, the keys that open the screen, the strings to wait for, and the keys that return."""

    name: str
    keys: tuple[str, ...]
    waits: tuple[str, ...]
    back: tuple[str, ...] = ()


WHILE_A_DN_FAILS = (
    Stop("01-overview", ("1",), ("[1 ", JOB, "dn_3: pooler", "Impact ")),
    Stop("02-jobs", ("2",), ("[2 ", JOB)),
    Stop("03-job-detail", ("Enter",), (f"> {JOB}", "dn_1"), ("Escape",)),
    Stop("06-errors", ("4",), ("[4 ", JOB)),
    Stop("08-alerts", ("6",), ("[6 ", "Problem")),
)
WHEN_ALL_IS_WELL = (
    Stop("04-slots", ("3",), ("[3 ", SECOND)),
    Stop("05-slot-detail", ("Enter",), ("dn_1", "dn_4"), ("Escape",)),
    Stop("07-binlog", ("5", "Enter"), (f"> {TABLE}", "POINT", "COLUMN"), ("Escape",)),
    Stop("09-audit", ("7",), ("[7 ", "slots create")),
    Stop("10-help", ("3", "?"), ("Help",), ("Escape",)),
    Stop("11-reset-target", ("3", "/", JOB, "Enter", "a", "r"), ("earliest", "skips nothing")),
    Stop("12-reset-preview", ("Enter",), ("Positions", "plan again"), ("Escape", "Escape", "Escape", "Escape")),
)
AT_THE_END = (
    Stop("14-overview-well", ("1",), ("[1 ", JOB)),
    Stop("13-graphs", ("2", "h"), ("> graphs", "lag", "rate", "UTC"), ("Escape",)),
)
"""Pictures taken last: the graphs then have a history, including the failing DN, and the target was verified."""


class Look(Enum):
    """The console's theme; the value is the suffix of its folder's name."""

    DARK = ""
    LIGHT = "-light"
    ASCII = "-ascii"


VIEWS = [*((size, Look.DARK) for size in SIZES), (USUAL, Look.LIGHT), (USUAL, Look.ASCII)]


class Photographer:
    """Opens screens of a console and stores their pictures."""

    def __init__(self, tmux: Tmux, folder: Path, names: dict[str, str], look: Look = Look.DARK) -> None:
        self._tmux = tmux
        self._look = look
        self._folder = folder
        self._names = names
        self.wrong: list[str] = []

    def walk(self, stops: Sequence[Stop]) -> None:
        """Take the pictures one after another."""
        for stop in stops:
            for key in stop.keys:
                self._tmux.send(key)
                self._tmux.still(3.0)
            self._tmux.shows(*stop.waits)
            self._tmux.still()
            self._keep(stop.name)
            for key in stop.back:
                self._tmux.send(key)
                self._tmux.still(3.0)

    def _keep(self, name: str) -> None:
        size, coloured = self._tmux.size, pictures.renamed(self._tmux.coloured(), self._names)
        text = pictures.renamed(self._tmux.text(), self._names)
        view = f"{size[0]}x{size[1]}{self._look.value}"
        self.wrong += [f"{view} {name}: {one}" for one in pictures.wrong(text, size)]
        self.wrong += [f"{view} {name}: a byte above 0x7F"] if self._look is Look.ASCII and not text.isascii() else []
        place = self._folder / view
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.txt").write_text("\n".join(line.rstrip() for line in text.split("\n")), encoding="utf-8")
        if self._look is not Look.ASCII:
            drawn = pictures.svg([(coloured, 1.0)], size, f"slotkeeper: {name[3:]}")
            (place / f"{name}.svg").write_text(drawn, encoding="utf-8")
        say(f"{view} {name}")


def names_of(run: Demo) -> dict[str, str]:
    """Return this host's names, with the names that replace them in the pictures."""
    host = socket.gethostname()
    shown = "ops" if len(host.partition(".")[0]) > 2 else "h1"
    found = {f"{USER}@{name}": f"{USER}@{shown}" for name in (host, host.partition(".")[0])}
    folder = str(run.folder)
    # Same length as the original: padding with blanks would leave a gap inside a command.
    return {**found, folder: "/srv/slotkeeper-demo-".ljust(len(folder), "0"), tempfile.gettempdir(): "/tmp"}


def _prepare(run: Demo) -> None:
    """Start a job, create a second slot, and add audit entries."""
    run.prepare()
    run.start_job()
    run.start_writers()
    run.wait_for(lambda: run.view().state is JobState.RUNNING)
    confirm = ("--reason", "a second reader for DR", "--confirm", SECOND, "--confirm-table", TABLE)
    slotkeeper(run, "slots", "create", TABLE, SECOND, "--execute", *confirm)
    slotkeeper(run, "jobs", "pause", JOB)
    run.wait_for(lambda: run.view().state is JobState.PAUSED)
    slotkeeper(run, "jobs", "resume", JOB)
    run.wait_for(lambda: run.view().state is JobState.RUNNING)


def slotkeeper(run: Demo, *words: str) -> None:
    command = [sys.executable, "-m", "slotkeeper.console.__main__", "--config", str(run.config), *words]
    env = {**os.environ, "LOGNAME": USER}
    subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL, timeout=120)


def _fails(run: Demo) -> bool:
    report = run.view().report
    return report is not None and any(lane.retry for lane in report.lanes)


def _both(run: Demo, folder: Path) -> list[str]:
    assert isinstance(run.warehouse, Warehouse)
    wrong: list[str] = []
    for old in folder.glob("*x*"):
        shutil.rmtree(old)
    for view in VIEWS:
        with _photographer(run, folder, *view) as photographer:
            run.warehouse.dn_down("dn_3")
            try:
                run.wait_for(lambda: _fails(run))
                photographer.walk(WHILE_A_DN_FAILS)
            finally:
                run.warehouse.dn_down(None)
            run.wait_for(lambda: not _fails(run))
            photographer.walk(WHEN_ALL_IS_WELL)
            wrong += photographer.wrong
    slotkeeper(run, "verify", JOB)
    for view in VIEWS:
        with _photographer(run, folder, *view) as photographer:
            photographer.walk(AT_THE_END)
            wrong += photographer.wrong
    return wrong


@contextmanager
def console_of(run: Demo, size: tuple[int, int], look: Look) -> Iterator[Tmux]:
    """Yield a console of that size, on its first screen, with its own settings, because it stores its theme."""
    command = [sys.executable, "-m", "slotkeeper.console.__main__", "--config", str(run.config)]
    command += ["--ascii"] if look is Look.ASCII else []
    with ExitStack() as ends:
        own = ends.enter_context(tempfile.TemporaryDirectory())
        environ = {"COLORTERM": "truecolor", "XDG_CONFIG_HOME": own}
        tmux = ends.enter_context(Tmux(["env", f"LOGNAME={USER}", *command], size, environ))
        tmux.shows("1 Over", JOB)
        if look is Look.LIGHT:
            tmux.send("T")
            tmux.shows("theme light")
            tmux.send("1")
        yield tmux


@contextmanager
def _photographer(run: Demo, folder: Path, size: tuple[int, int], look: Look) -> Iterator[Photographer]:
    with console_of(run, size, look) as tmux:
        yield Photographer(tmux, folder, names_of(run), look)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Take the pictures; return 1 if one of them has an error, 2 without tmux."""
    parser = argparse.ArgumentParser(prog="python -m bench.snapshots", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the pictures go")
    parser.add_argument("--only", choices=("pictures", "film"), help="one of both; default: both")
    parser.add_argument("--rows", type=int, default=40_000, help="rows in the demo's table")
    options = parser.parse_args()
    if shutil.which("tmux") is None:
        say("the pictures require tmux, which is not installed")
        return 2
    signal.signal(signal.SIGTERM, _interrupted)
    run = Demo(DemoOptions(rows=options.rows, rate=200.0, seconds=3_600.0), say)
    try:
        _prepare(run)
        wrong = _both(run, options.folder) if options.only != "film" else []
        if options.only != "pictures":
            from bench import film

            film.take(run, options.folder / "film.svg")
    finally:
        run.close()
    for one in wrong:
        say(f"NOT AS IT SHOULD BE: {one}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
