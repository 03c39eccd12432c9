"""Each remedy on the screen fixes its fault if a user follows it word for word and reads nothing else.

The eleven faults of `test_told_in_time` and all incidents run over a real job, with the console in a terminal of 80x24:
--config names its configuration for the eleven, $SLOTKEEPER_CONFIG for the incidents. The record's step performs a
manual action of the screen; everything else is typed as shown. The table of a run is written to
reports/remedies-<date>.md.

The person on call has the terminal, a shell where `slotkeeper` is on the path (the product's own command, with threads
where a job would start Spark), psql as an administrator at each server, and a colleague for manual actions. The test
knows no rule, no error name and no remedy.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from slotkeeper.core.config.load import CONFIG_VARIABLE
from slotkeeper.core.domain.job import JobEvent, JobState
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.binaries import find_binaries
from slotkeeper.demo.incidents import play
from slotkeeper.demo.incidents.record import Incident, World
from slotkeeper.demo.incidents.registry import INCIDENTS
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.run import JOB, SINK_DATABASE
from tests.chaos.test_told_in_time import ROWS, Row, Watched
from tests.support.hands import SHELL, Hands, Typed, Walk
from tests.support.local_driver import LOCAL
from tests.support.printed import paragraphs
from tests.support.product import Product
from tests.support.report import Page
from tests.support.scenes import ALERTS, NOT_TO_BE_HAD, MakeWorld, alerts_soon, manual_acts
from tests.support.terminal import ROOT, Terminal, console
from tests.support.told import Watcher
from tests.support.waiting import until

_PROGRAM = """\
#!{python}
import sys

sys.path.insert(0, {root!r})
from slotkeeper.core.launch import control, launch
from tests.support.local_driver import LOCAL


class Local:
    parse = launch.Launch.parse

    def __new__(cls):
        return LOCAL


control.Launch = Local
from slotkeeper.console.__main__ import main

sys.exit(main())
"""


def shell(home: Path, **more: str) -> Mapping[str, str]:
    """The variables of a shell in which `slotkeeper` is a command; none of them names a configuration."""
    programs = home / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    program = programs / "slotkeeper"
    program.write_text(_PROGRAM.format(python=sys.executable, root=str(ROOT)), encoding="utf-8")
    program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLOTKEEPER", "PG"))}
    return {**kept, "PATH": f"{programs}{os.pathsep}{kept.get('PATH', '')}", "HOME": str(home), **more}


def desk(server: Server, database: str) -> str:
    """The command by which the server's administrator types SQL: it reads stdin and stops at an error."""
    psql = shutil.which("psql") or find_binaries().program("psql")
    password = f"PGPASSWORD=$(cat {shlex.quote(str(server.password_file))})"
    return (
        f"{password} {psql} -X -q -v ON_ERROR_STOP=1 -h {shlex.quote(str(server.host))} -p {server.port}"
        f" -U {server.superuser} {shlex.quote(database)}"
    )


CALM = "No problems"
_TAB = re.compile(r"[ \[](\d) Alerts")
_UPPER, _LOWER = (
    re.compile("^[\u256d+][\u2500-] \\S.*[\u2500-][\u256e+]$"),
    re.compile("^[\u2570+][\u2500-].*[\u2500-][\u256f+]$"),
)
_SCROLL = re.compile(r" (\d+)-(\d+) of (\d+) Tab ")
_FIRST = re.compile(r"^Action +1 +(.*) \((?:loses|copies)[^()]*\)$")
_OVERVIEW = "1"
_LASTS = re.compile(r", \d+ (?:s|min|h)\b")
ROUNDS = 8
STILL = 90.0
"""Seconds after which an unchanged fault counts as not fixed by the action."""
COMMAND = 300.0


@dataclass
class OnCall(Hands):
    """`shell` is the environment of commands; `desks` are commands of the shell that take SQL on stdin, by server."""

    terminal: Terminal
    shell: Mapping[str, str]
    desks: Mapping[str, str]
    home: Path

    def until_calm(self) -> Walk:
        """Read, act and check again until the Overview counts no fault; raise AssertionError if it never does."""
        began = time.monotonic()
        for _ in range(ROUNDS):
            if self._calm():
                self.walk.seconds = time.monotonic() - began
                return self.walk
            remedy = self.read()
            if remedy:
                self.walk.read.append(remedy)
                self.do(remedy)
                self._until_another(remedy)
        raise AssertionError(f"not cured by {self.walk}; the screen:\n{self.terminal.screen.text}")

    # Reading

    def read(self) -> str:
        """The first remedy of the worst fault on the Alerts screen; "" if no fault fires any more."""
        self._press(self._alerts_key())
        self.terminal.until(lambda: "FOR" in self.terminal.screen.text, "the table of alerts", 30)
        self._press("g")
        said, again = self._said(), self._said()
        while said != again:  # a busy host may draw a row and its title at two different moments
            said, again = again, self._said()
        found = next((match[1] for one in said if (match := _FIRST.match(one))), "")
        assert found or any("Each alert is listed here" in one or "has ended" in one for one in said), said
        return found

    def _said(self) -> list[str]:
        return [_LASTS.sub("", one) for one in paragraphs(self.panel())]

    def panel(self) -> list[str]:
        """All rows of the panel below the table, scrolled through with the keys that its title names."""
        for _ in range(5):
            rows, whole = self._scrolled()
            if whole:
                return rows
        raise AssertionError(f"the panel never stood still:\n{self.terminal.screen.text}")

    def _scrolled(self) -> tuple[list[str], bool]:
        title, shown = self._panel_now()
        found = _SCROLL.search(title)
        if not found:
            return shown, True
        self._into_panel(found[0])
        lines: dict[int, str] = {}
        number = int(found[3])
        for _ in range(number):
            title, shown = self._panel_now()
            now = _SCROLL.search(title)
            if not now or int(now[3]) != number:
                break
            lines |= {int(now[1]) + place: row for place, row in enumerate(shown)}
            if int(now[2]) >= number:
                break
            self.terminal.send("j")
            self._until_title(f" {int(now[1]) + 1}-{int(now[2]) + 1} of ")
        self._press("g")
        self._press("\t")
        return [lines[place] for place in sorted(lines)], sorted(lines) == list(range(1, number + 1))

    def _into_panel(self, where: str) -> None:
        """Press `Tab`; if the panel already had the focus, press `Tab` again."""
        for _ in range(2):
            self._press("\t")
            self.terminal.send("g")
            self.terminal.send("j")
            self._until_title(" 2-")
            if where not in self._panel_now()[0]:
                break
        self._press("g")

    def _until_title(self, words: str) -> None:
        """Wait until the panel's title shows the text and drawing has ended."""
        end = time.monotonic() + 5.0
        while words not in self._panel_now()[0] and time.monotonic() < end:
            self.terminal.read(0.2)
        self.terminal.quiet()

    def _panel_now(self) -> tuple[str, list[str]]:
        rows = self.terminal.screen.lines()
        upper, lower = (max(place for place, row in enumerate(rows) if edge.match(row)) for edge in (_UPPER, _LOWER))
        inside = [row.strip("\u2502|").rstrip() for row in rows[upper + 1 : lower]]
        return rows[lower], [row for row in inside if row]

    def _calm(self) -> bool:
        self._press(_OVERVIEW)
        self.terminal.until(lambda: "STREAMING" in self.terminal.screen.text, "the overview", 30)
        return CALM in self.terminal.screen.text

    def _alerts_key(self) -> str:
        found = _TAB.search(self.terminal.screen.text)
        assert found, self.terminal.screen.text
        return found[1]

    def _press(self, key: str) -> None:
        self.terminal.send(key)
        self.terminal.quiet()

    def _until_another(self, remedy: str) -> None:
        """Wait until another fault is the worst, or no fault remains."""
        end = time.monotonic() + STILL
        while time.monotonic() < end:
            if self._calm() or self.read() != remedy:
                return

    # Doing

    def run(self, text: str, where: str) -> Typed:
        """Type it in a separate shell, or at a desk."""
        at_desk = where != SHELL
        ended = subprocess.run(
            ["/bin/bash", "-c", self.desks[where] if at_desk else text],
            env=dict(self.shell),
            cwd=self.home,
            input=f"{text};\n" if at_desk else "",
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND,
        )
        self.terminal.read(0)
        return Typed(where, text, ended.returncode, ended.stdout + ended.stderr)


IN_MAKE_TEST = ("a colleague pauses the job",)
SHOWN = 120.0
_SHORT = re.compile(r"--config [^\s`]+")
_numbers = count(1)


def _fits_again(watched: Watched) -> None:
    watched.product.at_sink(f"ALTER TABLE mart.{watched.job.name} DROP CONSTRAINT told; SELECT 1")


OTHERS_ACTS = {"a row does not fit": _fits_again}
"""The colleague's actions where the row of `test_told_in_time` has no fix."""
NOT_HIS = ("somebody locks the target",)
"""The colleague cannot be reached, so the alternative on the screen is carried out."""


def _params(names: list[tuple[str, object]]) -> list[object]:
    return [
        pytest.param(one, id=name.replace(" ", "_"), marks=() if name in IN_MAKE_TEST else pytest.mark.chaos)
        for name, one in names
    ]


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(
        "remedies",
        "Remedies done word for word",
        "A program that reads the console at 80x24 and nothing else, and does what the worst fault's remedy says until"
        " no fault is left; each job a real one (tasks in threads) over the stand-in on PostgreSQL.",
        ("fault", "read on the screen", "manual", "typed", "calm after, s", "tables equal"),
    )


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    made = Product(tmp_path_factory.mktemp("remedies") / "product", rows=2_000, chunk=2_000)
    yield made
    made.close()


@pytest.fixture
def watched(product: Product, row: Row) -> Iterator[Watched]:
    job = product.job(f"cured_{next(_numbers)}")
    job.launch = job.launch if row.spark else LOCAL
    with job.config.open("a", encoding="utf-8") as file:
        file.write(ALERTS)
    job.start()
    job.wait_state(JobState.RUNNING)
    with ExitStack() as ends, Terminal(console(job.config, "--ascii")) as terminal:
        terminal.shows(CALM)
        product.write(rate=60.0)
        yield Watched(product, job, Watcher(terminal, product.store, job.config), ends)
    product.quiet()
    job.stop()
    product.store.apply(job.name, JobEvent.CANCELLED, "over")


@pytest.mark.parametrize("row", _params([(row.name, row) for row in ROWS]))
def test_a_faults_remedy_cures_it(row: Row, watched: Watched, page: Page, tmp_path: Path) -> None:
    terminal, product = watched.watcher.terminal, watched.product

    def colleague(words: str) -> bool:
        act = OTHERS_ACTS.get(row.name, row.cure)
        if act is None or row.name in NOT_HIS:
            return False
        act(watched)
        return True

    row.make(watched)
    terminal.until(lambda: CALM not in terminal.screen.text, f"{row.name} to show", SHOWN)
    desks = {
        "sink": desk(product.sink, SINK_DATABASE),
        "source": desk(product.warehouse.server, product.warehouse.database),
    }
    walk = _walked(OnCall(colleague, terminal, shell(tmp_path), desks, tmp_path), row.name, page)
    product.quiet()
    until(lambda: watched.job.view().state is JobState.RUNNING, 60, f"{watched.job.name} to be RUNNING")
    until(lambda: watched.job.compare().equal, 60, f"equal tables after {walk}")
    _told(page, row.name, walk, "yes")


@pytest.mark.parametrize("incident", _params([(one.name, one) for one in INCIDENTS]))
def test_an_incidents_remedy_cures_it(incident: Incident, make_world: MakeWorld, tmp_path: Path, page: Page) -> None:
    with make_world(incident) as made:
        alerts_soon(made)
        named = {CONFIG_VARIABLE: str(made.config)}  # not with --config, which the rows above use
        with Terminal([sys.executable, "-m", "slotkeeper.console.__main__", "--ascii"], env=named) as terminal:
            terminal.shows(CALM)
            play.make(made, incident)
            play.run(made, incident.signal.command)
            terminal.until(lambda: CALM not in terminal.screen.text, f"{incident.name} to show", SHOWN)
            desks = {
                "sink": desk(made.sink, made.sink_database),
                "source": desk(made.warehouse.server, made.warehouse.database),
            }
            someone = _colleague(incident, made)
            walk = _walked(OnCall(someone, terminal, shell(tmp_path, **named), desks, tmp_path), incident.name, page)
            _running(made)
            equal = made.run(("verify", JOB))
            assert equal.code == 0, (equal, walk)
            _told(page, incident.name, walk, "yes")


def _colleague(incident: Incident, made: World) -> Callable[[str], bool]:
    """Perform the record's acts, if it has acts that no Slotkeeper command does."""
    acts = [] if incident.name == NOT_TO_BE_HAD else manual_acts(incident, made)

    def asked(words: str) -> bool:
        done = bool(acts)
        while acts:
            acts.pop(0)()
        return done

    return asked


def _running(made: World) -> None:
    with Store.open(made.state) as store:
        until(lambda: observe(store, JOB).state is JobState.RUNNING, 60, "the job to be RUNNING")


def _walked(on_call: OnCall, name: str, page: Page) -> Walk:
    try:
        return on_call.until_calm()
    except AssertionError:
        _told(page, name, on_call.walk, "NOT CURED")
        raise


def _told(page: Page, name: str, walk: Walk, equal: str) -> None:
    read = "<br>".join(dict.fromkeys(walk.read))
    typed = "<br>".join(f"{_where(one)}`{one.text}` ({one.code})" for one in walk.typed)
    shown = [_SHORT.sub("--config FILE", text) for text in (read, typed or "-")]
    page.add(name, shown[0], "<br>".join(walk.manual_acts) or "-", shown[1], f"{walk.seconds:.0f}", equal)


def _where(one: Typed) -> str:
    """Where it was typed, unless that is a shell."""
    return "" if one.where == SHELL else f"at the {one.where}: "
