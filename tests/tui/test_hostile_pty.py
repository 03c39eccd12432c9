"""A hundred hostile texts in every field, and the real console on a real terminal: no control byte gets through.

The walk opens every screen and every page below it, at 80x24, with colours and with `--ascii`.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.state.sqlite import FILE_NAME
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.warehouse import Warehouse
from tests.support import polling, pty_plant
from tests.support.pty_plant import PAYLOADS, TABLE, TERMINAL, WIDE, tag, tagged
from tests.support.standin import drop_database
from tests.support.terminal import Screen, Terminal, console
from tests.unit.config.samples import VALID

DATABASE = "warehouse_hostile"
FIRST_ROW = "job_000"
"""Shown once the state store was read; the clock in the first row of the screen ends in Z, too."""
ESCAPE = "\x1b[27u"
"""Esc as terminals with the kitty protocol send it: after a single Esc byte the console waits for more."""
DOWN = "\x1b[6~"
PAGES = 30
PLACE = re.compile(r"\b(\d+) of (\d+)\b")
"""The row of the cursor, or the last row, and the number of rows."""
RAW = [one.encode() for one in tagged()[: len(TERMINAL)]]
OPEN = dict.fromkeys(("1049", "1004", "2004", "1000", "1002", "1006"), True) | {"25": False, "7": False}
"""The modes that the console sets, and no others."""
FORMULA = ("=", "+", "-", "@")
NUMBER = re.compile(r"[+-]?[\d.,]+[%smhdkMG]?|-")
"""A number, or the mark for no value: no spreadsheet evaluates these."""
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@dataclass(frozen=True, slots=True)
class Planted:
    """The folder and the server with the hostile texts, and the texts that the source accepted."""

    config: Path
    folder: Path
    rows: list[str]


@pytest.fixture(scope="module")
def planted(pg_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    """A state folder and a stand-in full of hostile texts."""
    folder = tmp_path_factory.mktemp("hostile")
    warehouse = Warehouse.install(pg_server, 1, database=DATABASE)
    rows = pty_plant.source(warehouse)
    place = warehouse.endpoint()
    job = polling.job(WIDE, "wide_slot", TABLE, "mart.hostile")
    config = polling.config(folder, replace(place, name="dws1"), replace(place, name="mart"), job)
    with pty_plant.living() as holder:
        pty_plant.state(folder / "state", holder)
        pty_plant.frames(folder / "state")
        yield Planted(config, folder / "state", rows)
    drop_database(pg_server, DATABASE)


@dataclass
class Walk:
    """A console under a walk, and everything that each screen showed."""

    terminal: Terminal
    pages: int
    shown: dict[str, str] = field(default_factory=dict)

    def open(self, name: str, *keys: str, wait: str = "") -> None:
        for key in keys:
            self.terminal.send(key)
            self.terminal.quiet(0.08)
        if wait:
            self.terminal.shows(wait)
        self.note(name)

    def note(self, name: str) -> None:
        self.shown[name] = self.shown.get(name, "") + "\n" + self.terminal.screen.text

    def page_down(self, name: str, panel: str = "") -> None:
        """Go to the last row if the screen numbers its rows, else until another page changes nothing; at most
        `pages`. With `panel`, a page is shown when the line of the panel with this text has changed as well."""
        for _ in range(self.pages):
            at = PLACE.search("\n".join(_body(self.terminal.screen)))
            if at and at[1] == at[2]:
                return
            before = _body(self.terminal.screen, panel)
            self.terminal.send(DOWN)
            if not self._changed(before, panel, 10.0 if at else 0.7):
                return
            self.terminal.quiet(0.05)
            self.note(name)

    def _changed(self, before: list[str], panel: str, within: float) -> bool:
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            if _body(self.terminal.screen, panel) != before:
                return True
            self.terminal.read()
        return False

    def below(self, name: str) -> None:
        self.terminal.send("g")
        self.terminal.quiet(0.08)
        self.terminal.send("\r")
        self.terminal.until(lambda: " > " in self.terminal.screen.lines()[-2], f"what lies below {name}")
        self.open(f"{name} below", "j", "\t", "j")
        self.terminal.send(ESCAPE)
        self.terminal.until(lambda: " > " not in self.terminal.screen.lines()[-2], f"back at {name}")

    def missing(self, name: str) -> list[str]:
        """The texts that the screen did not show, by their tags."""
        return [repr(one) for number, one in enumerate(PAYLOADS) if tag(number) not in self.shown[name]]


def _body(screen: Screen, holding: str = "") -> list[str]:
    return [line for line in screen.lines()[2:] if holding in line]


def _walk(walk: Walk) -> None:
    for name, key in {"overview": "1", "jobs": "2", "errors": "4", "alerts": "6", "audit": "7"}.items():
        walk.open(name, key, wait=f"[{key} ")
        walk.page_down(name)
        if name != "audit":
            walk.below(name)
        walk.open(f"{name} help", "?", wait="Help: ")
        walk.open(name, ESCAPE, wait="? help")
    walk.open("slots", "3", wait=TABLE.partition(".")[2])
    walk.page_down("slots", panel=f"dws1 {TABLE} ")
    walk.below("slots")
    walk.open("palette", ":", "slot ", "\x1b[A", "\t", wait=":slot ")
    walk.open("palette", ESCAPE, wait="? help")
    walk.open("binlog", "5", wait="READ BY")
    walk.open("binlog", "\r", wait=f"> {TABLE}")
    walk.open("binlog", wait=" I  ")
    walk.page_down("binlog")
    walk.open("binlog below", "g", "j", "\t", "j", "K")
    walk.open("binlog below", ESCAPE, ESCAPE)
    walk.open("detail", "2", wait="[2 ")
    walk.open("detail", "/", "wide", "\r", wait="? help")
    walk.open("detail", "\r", wait=f"> {WIDE}")
    walk.page_down("detail")
    walk.open("detail", "\t", "l")
    walk.page_down("detail")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ascii_only", "pages"),
    [pytest.param(False, 3, marks=pytest.mark.chaos), (True, 3), pytest.param(False, PAGES, marks=pytest.mark.chaos)],
    ids=["colours", "ascii", "every page"],
)
def test_no_hostile_text_reaches_the_terminal_raw_or_does_anything(
    planted: Planted, ascii_only: bool, pages: int
) -> None:
    before = pty_plant.harm(planted.folder)
    with Terminal(console(planted.config, *(["--ascii"] if ascii_only else []))) as terminal:
        terminal.shows("Overview", FIRST_ROW)
        walk = Walk(terminal, pages)
        _walk(walk)
        assert terminal.children() == []
        assert terminal.process.poll() is None, terminal.screen.text
        walk.open("end", "1", wait="[1 Overview]")
        assert terminal.screen.modes == OPEN
        terminal.end()
        assert terminal.process.returncode == 0, terminal.screen.text
        assert terminal.screen.foreign == []
        assert [one for one in RAW if one in terminal.content] == []
        if ascii_only:
            assert max(terminal.content) < 0x80
    assert pty_plant.harm(planted.folder) == before
    for name in ("errors", "audit", "slots", "binlog", "detail"):
        assert len(PAYLOADS) - len(walk.missing(name)) >= (60 if pages == PAGES else 5), (name, walk.missing(name))


COMMANDS = {
    "jobs list": False,
    f"jobs show {WIDE}": True,
    f"jobs logs {WIDE}": True,
    "status": False,
    "audit list": True,
    f"slots list {TABLE}": True,
    f"slots show {TABLE} wide_slot": False,
    f"slots peek {TABLE} --limit 200": True,
}
"""The typed commands, and whether each shows the texts."""


@pytest.mark.parametrize("typed", COMMANDS)
def test_what_commands_print_holds_no_control_byte(
    planted: Planted, typed: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for more in ([], ["--json"], ["--ascii"]):
        if more == ["--json"] and "logs" in typed:
            continue
        main(["--config", str(planted.config), *typed.split(), *more])
        said = capfdbinary.readouterr()
        assert said.out, said.err
        for stream in (said.out, said.err):
            assert [one for one in stream.decode("utf-8").replace("\n", "") if not _harmless(one)] == []
        if more:
            assert max(said.out) < 0x80
        if more == ["--json"]:
            json.loads(said.out)
        if COMMANDS[typed]:
            assert sum(tag(number).encode() in said.out for number in range(len(PAYLOADS))) >= 30


def test_what_is_exported_is_visible_text_and_no_formula(planted: Planted) -> None:
    with Terminal(console(planted.config)) as terminal:
        terminal.shows("Overview", FIRST_ROW)
        for key in "12467":
            terminal.send(key)
            terminal.shows(f"[{key} ")
            terminal.quiet(0.1)
            terminal.send("e")
            terminal.shows("exported")
        terminal.end()
        assert terminal.screen.foreign == []
    written = sorted((planted.folder / "exports").iterdir())
    assert {path.name.partition("-")[0] for path in written} >= {"jobs", "errors", "alerts", "audit"}
    assert {path.suffix for path in written} == {".csv", ".json"}
    for path in written:
        text = path.read_bytes().decode("utf-8")
        assert [one for one in text.replace("\n", "").replace("\r\n", "") if not _harmless(one) and one != "\r"] == []
        if path.suffix == ".csv":
            cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
            assert [one for one in cells if one.lstrip().startswith(FORMULA) and not NUMBER.fullmatch(one)] == []


def test_the_log_holds_hostile_text_as_visible_text(planted: Planted) -> None:
    lines = (planted.folder / "logs" / f"{WIDE}.log").read_bytes().split(b"\n")
    ours = [one.decode("utf-8") for one in lines if b" supervisor " in one]
    assert len(ours) == len(PAYLOADS)
    assert [one for one in ours if not all(map(_harmless, one))] == []


def test_a_job_with_an_unchecked_name_is_shown_and_its_log_rejected_with_an_error(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with pty_plant.living() as holder:
        pty_plant.state(state, holder)
    with sqlite3.connect(state / FILE_NAME) as sql:
        for text in TERMINAL:
            sql.execute(
                "INSERT INTO jobs SELECT ?, 'FAILED', wanted, config, reason, trouble, safe, '', changed_at FROM jobs"
                f" WHERE name = '{WIDE}'",
                (f"Z{text}",),
            )
    sql.close()
    config = tmp_path / "slotkeeper.toml"
    config.write_text(VALID.replace("[state]", f'[state]\ndir = "{state}"'), encoding="utf-8")
    with Terminal(console(config)) as terminal:
        terminal.shows("Overview", "\u2716 Z")
        for key in "247612":
            terminal.send(key)
            terminal.shows(f"[{key} ")
            terminal.quiet(0.1)
        terminal.send("g")
        terminal.send("\r")
        terminal.shows("> Z")
        terminal.send("l")
        terminal.shows("is invalid")
        assert terminal.process.poll() is None
        terminal.end()
        assert terminal.screen.foreign == []


def _harmless(character: str) -> bool:
    return unicodedata.category(character) not in HIDDEN
