"""Commands and the console with servers behind a connection that is cut, slow, half-open or silent at any time."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slotkeeper.demo.warehouse import Warehouse
from tests.support import polling
from tests.support.mirror import MakeMirror, Mirror, orders
from tests.support.proxy import Line, Proxy, proxy
from tests.support.report import Page
from tests.support.silent_place import COMMANDS, JOB, SLOT, TABLE, bare_interrupt, begun, ended
from tests.support.terminal import Terminal, console
from tests.support.waiting import until

pytestmark = pytest.mark.chaos
AT_ONCE = 2
ENDS_WITHIN = 60.0
"""Seconds for the slowest command, which asks two servers one after the other, on a busy host."""
LEFT_WITHIN = 2.0
INTERRUPTED = 130
CTRL_C_WITHIN = 1.0
"""Seconds, plus twice the time of an interpreter that only waits."""
QUESTION = b"SELECT"
"""Part of the first message after a login and its settings."""
FROM_LOGIN, FROM_QUESTION = "the login", "the first question"
BROKEN = [
    (line, since) for line in (Line.CUT, Line.HALF_OPEN, Line.BLACK_HOLE) for since in (FROM_LOGIN, FROM_QUESTION)
]
SLOW = [(Line.SLOW, FROM_LOGIN)]


@dataclass
class Lines:
    """A configuration that reaches its servers through two proxies, which change their behaviour at a given moment."""

    config: Path
    both: tuple[Proxy, Proxy]

    def become(self, line: Line, since: str) -> None:
        """Break the connections now, or as soon as a server is queried."""
        for one in self.both:
            one.set(Line.THROUGH)
            one.on_sent = lambda data: None
            if since == FROM_LOGIN:
                one.set(line)
            else:
                one.on_sent = lambda data, one=one: one.set(line) if QUESTION in data else None  # type: ignore[misc]


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, seed: int) -> Mirror:
    """A job that has copied its table and was stopped."""
    made = orders(make_mirror, warehouse, seed)
    made.start().wait_running()
    made.stop()
    return made


@contextmanager
def lines(mirror: Mirror, folder: Path) -> Iterator[Lines]:
    """The mirror's servers as in a configuration, each behind its own proxy."""
    folder.mkdir()
    with proxy(mirror.job.source.port) as source, proxy(mirror.job.sink.port) as sink:
        text = ""
        for kind, endpoint, line in (("sources", mirror.job.source, source), ("sinks", mirror.job.sink, sink)):
            through = replace(endpoint, host="127.0.0.1", port=line.port)
            text += polling.server(kind, through, ['connect_timeout = "2s"'])
        config = folder / "slotkeeper.toml"
        job = polling.job(JOB, SLOT, TABLE, "mart.orders")
        config.write_text(f'{text}{job}[state]\ndir = "{folder / "state"}"\n', encoding="utf-8")
        yield Lines(config, (source, sink))


@pytest.fixture(scope="module")
def page() -> Page:
    about = (
        "Source and sink are right servers, each behind a line that breaks, with the login or with the first question"
        f" behind it; two commands run at once. CUT: reset. HALF_OPEN: {Line.HALF_OPEN.value}. BLACK_HOLE:"
        f" {Line.BLACK_HOLE.value}. SLOW: {Line.SLOW.value}. After Ctrl-C: from the signal to the end of the process."
    )
    columns = ["line", "breaks with", "command", "exit", "seconds", "said", "a traceback", "seconds after Ctrl-C"]
    return Page("lines", "Every command over lines that break", about, columns)


@dataclass(frozen=True)
class Found:
    code: int
    seconds: float
    said: str
    bad: bool


def over(mirror: Mirror, line: Line, since: str, name: str, folder: Path) -> Found:
    with lines(mirror, folder) as place:
        place.become(line, since)
        began = time.monotonic()
        code, out, err = ended(begun(place.config, COMMANDS[name]), ENDS_WITHIN)
        took = time.monotonic() - began
        told = out + err
        named = [one.strip() for one in told.splitlines() if "dws1 (" in one or "mart (" in one]
        said = named[0] if named else ""
        for one in place.both:
            said = said.replace(str(one.port), "PORT")
        return Found(code, took, said, "Traceback" in told or "defect" in told)


def after_ctrl_c(mirror: Mirror, line: Line, since: str, name: str, folder: Path) -> float | None:
    """Return the seconds from Ctrl-C to the command's end; None if it ended before it queried a server."""
    with lines(mirror, folder) as place:
        place.become(line, since)
        command = begun(place.config, COMMANDS[name])
        asked = [one.asked for one in place.both]
        until(lambda: command.poll() is not None or any(one.is_set() for one in asked), ENDS_WITHIN, f"{name} to ask")
        if command.poll() is not None:
            ended(command)
            return None
        return interrupted(command, name)


def interrupted(command: subprocess.Popen[str], name: str) -> float:
    """Seconds that a command takes to end after Ctrl-C."""
    began = time.monotonic()
    command.send_signal(signal.SIGINT)
    code, _, err = ended(command, ENDS_WITHIN)
    assert code == INTERRUPTED and "Traceback" not in err, (name, code, err)
    return time.monotonic() - began


@pytest.mark.parametrize(("line", "since"), [*BROKEN, *SLOW])
def test_every_command_ends_in_its_time_over_a_line_that_breaks(
    mirror: Mirror, line: Line, since: str, page: Page, tmp_path: Path
) -> None:
    waits = line in (Line.HALF_OPEN, Line.BLACK_HOLE)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ran = {c: pool.submit(over, mirror, line, since, c, tmp_path / f"{n}") for n, c in enumerate(COMMANDS)}
        found = {name: one.result() for name, one in ran.items()}
        asked = {
            name: pool.submit(after_ctrl_c, mirror, line, since, name, tmp_path / f"c{n}")
            for n, name in enumerate(COMMANDS if waits and since == FROM_LOGIN else ())
        }
        beside = [pool.submit(bare_interrupt) for _ in range(AT_ONCE if asked else 0)]
        after = {name: one.result() for name, one in asked.items()}
        bare = max((one.result() for one in beside), default=0.0)
    wrong = []
    for name, one in found.items():
        late = after.get(name)
        shown = "" if late is None else f"{late:.2f}"
        page.add(line.name, since, name, one.code, one.seconds, one.said, "NO" if one.bad else "no", shown)
        silent = line is not Line.SLOW and not (one.code and one.said)
        if one.bad or silent or one.seconds >= ENDS_WITHIN or (late is not None and late >= CTRL_C_WITHIN + 2 * bare):
            wrong.append((name, one, late))
    assert not wrong


@pytest.mark.parametrize(("line", "since"), BROKEN)
def test_the_console_says_that_a_line_broke_and_is_left_at_once(
    mirror: Mirror, line: Line, since: str, tmp_path: Path
) -> None:
    with lines(mirror, tmp_path / "p") as place:
        place.become(line, since)
        with Terminal(console(place.config), (120, 30)) as terminal:
            terminal.shows("Overview")
            terminal.send("3")
            terminal.shows("source dws1 (127.0.0.1:")
            terminal.send("?")
            terminal.shows("leave")
            terminal.shows("leave")
            terminal.send("\x1b[27u")
            terminal.shows("source dws1 (127.0.0.1:")
            began = time.monotonic()
            terminal.send("q")
            assert terminal.gone() == 0
            assert time.monotonic() - began < LEFT_WITHIN
