"""Work that must not be done more often, or earlier, than a user sees its result: counted, not timed."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from sqlite3 import Row
from typing import Any

import pytest
from rich.segment import Segment
from textual.css.stylesheet import Stylesheet
from textual.geometry import Size
from textual.pilot import Pilot
from textual.strip import Strip

from slotkeeper.console.cli.context import FLAGS, Invocation, bare
from slotkeeper.console.commands import main
from slotkeeper.console.monitor.poller import Collector, LocalSeen, SlotPoller
from slotkeeper.console.monitor.snapshot import JobFacts, Level, Local
from slotkeeper.console.tui import startup
from slotkeeper.console.tui.widgets import live_table
from slotkeeper.console.tui.widgets.line import differing
from slotkeeper.console.views.lanes import LANE_COLUMNS, lane_rows
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobReport, JobStatus
from slotkeeper.core.launch.view import observe_all
from slotkeeper.core.state import sqlite
from slotkeeper.core.state.rows import job_from
from slotkeeper.core.state.sqlite import Store
from tests.tui.filled import NOW, Filled, StillClock, begin, console, drive, driven, lane, press
from tests.tui.test_live_table import _OneTable

ROOT = Path(__file__).parents[2]
MANY = 2_000
LATE = (
    *("typer", "pydantic", "psycopg2", "sqlite3", "psutil", "textual.widgets.data_table"),
    *(
        "slotkeeper.console.monitor.store_reader",
        "slotkeeper.console.views.alerts",
        "slotkeeper.core.slots.status",
    ),
    *(
        "slotkeeper.console.monitor.health",
        "slotkeeper.console.monitor.rates",
        "slotkeeper.core.domain.report",
        "slotkeeper.core.domain.fault",
        "hashlib",
        "html",
    ),
)


def test_what_the_first_frame_does_not_need_is_not_loaded_before_it() -> None:
    code = "import sys, slotkeeper.console.__main__, slotkeeper.console.tui.app;"
    code += f" print([m for m in {LATE!r} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.returncode) == ("[]", 0), ran.stderr


NEVER = (
    "slotkeeper.core.launch.supervisor",
    "slotkeeper.core.launch.alerting",
    "slotkeeper.core.sources.dws.probe",
    "argparse",
    "zipfile",
    "pyspark",
)
"""Modules that a read-only console does not need; earlier versions loaded each of them."""


def test_what_no_screen_needs_is_never_loaded() -> None:
    reads = "slotkeeper.console.monitor.store_reader, slotkeeper.console.monitor.sink_pollers,"
    reads += " slotkeeper.core.sources.dws.kind, slotkeeper.core.sinks.postgres.kind"
    code = (
        f"import sys, slotkeeper.console.__main__, slotkeeper.console.tui.app, {reads};"
        " from slotkeeper.console.tui.app import ConsoleApp;"
        "[__import__(m) for m in ConsoleApp.LATER]; import slotkeeper.core.state.sqlite, slotkeeper.core.sqltext;"
        "slotkeeper.core.sqltext.statements('slotkeeper.core.sources.dws');"
        f" print([m for m in {NEVER!r} if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.returncode) == ("[]", 0), ran.stderr


def test_options_alone_mean_the_same_without_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Invocation] = []

    def opens(shared: Invocation) -> int:
        opened.append(shared)
        return 0

    monkeypatch.setattr(startup, "on_a_terminal", lambda: True)
    monkeypatch.setattr(startup, "open_console", opens)
    words = (*FLAGS, "--config=a.toml", "--config")
    for number in range(4):
        for args in itertools.permutations(words, number):
            given = [each for word in args for each in ((word, "b.toml") if word == "--config" else (word,))]
            assert main.run(given) == 0
            assert bare(given) == opened.pop()


@pytest.mark.parametrize(
    "args", [["--config"], ["--config="], ["--config", "--mono"], ["-h"], ["status"], ["--ascii", "jobs"], ["--", "x"]]
)
def test_whatever_else_is_typed_is_left_to_the_parser(args: list[str]) -> None:
    assert bare(args) is None


def _job(turn: int) -> JobFacts:
    lanes = tuple(lane(f"dn_{number:04}", 88_512_330 - number - turn) for number in range(MANY))
    report = JobReport("a", "r", "RUNNING", lanes=lanes)
    return JobFacts("a", Level.FINE, JobState.RUNNING, report=report, current=True)


def test_of_two_thousand_rows_that_all_change_only_those_that_are_seen_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    real = live_table.LiveTable._text

    def counted(self: Any, value: str, column: Any) -> str:
        made.append(value)
        return real(self, value, column)

    async def run() -> None:
        async with _OneTable().run_test(size=(100, 20)) as pilot:
            table = pilot.app.query_one(live_table.LiveTable)
            columns = LANE_COLUMNS[:9]
            table.show(lane_rows(_job(0)), columns)
            await pilot.pause()
            monkeypatch.setattr(live_table.LiveTable, "_text", counted)
            rows = lane_rows(_job(1))
            table.show(rows, columns)
            await pilot.pause()
            assert 0 < len(made) <= 20 * len(columns)
            assert sum(row.cells._made is not None for row in rows) <= 20  # type: ignore[attr-defined]
            assert sum(row.order._made is not None for row in rows) == 0  # type: ignore[attr-defined]
            made.clear()
            await pilot.press("j")
            assert 0 < len(made) <= 2 * len(columns)
            table.show(rows, columns)
            await pilot.pause()
            assert len(made) <= 2 * len(columns)

    asyncio.run(run())


def test_styles_are_parsed_again_for_another_theme_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    real: Callable[[Stylesheet], None] = Stylesheet.reparse

    def counted(self: Stylesheet) -> None:
        parsed.append(1)
        real(self)

    monkeypatch.setattr(Stylesheet, "reparse", counted)
    made = console(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, *"2345671", "2", "enter", "escape")
        assert parsed == []
        await press(pilot, "T", "3", "1")
        assert len(parsed) == 1
        background = made.app.screen.query_one("#identity").styles.background
        await press(pilot, "3")
        assert made.app.screen.query_one("#identity").styles.background == background

    drive(made, do)


@driven()
async def test_a_screen_that_was_hidden_wears_the_theme_that_was_put_on_meanwhile(
    made: Filled, pilot: Pilot[int]
) -> None:
    await press(pilot, "2", "enter")
    before = made.app.screen.query_one("#identity").styles.background
    await press(pilot, "l", "T", "escape")
    assert getattr(made.app.screen, "job", "")
    after = made.app.screen.query_one("#identity").styles.background
    assert after != before
    await press(pilot, "3")
    assert made.app.screen.query_one("#identity").styles.background == after


@driven()
async def test_while_paused_the_store_is_read_seldom(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "f")
    assert made.feed.resting
    await press(pilot, "f")
    assert not made.feed.resting


def test_the_end_of_a_rest_is_a_look_at_once() -> None:
    class Counted:
        def local(self, job: str = "") -> Local:
            return Local(NOW)

        def remember(self, found: object) -> None:
            return

        def close(self) -> None:
            return

    collector = Collector(Counted(), SlotPoller(None, StillClock()), every=1_000)
    seen: list[object] = []

    async def run() -> None:
        more = asyncio.Semaphore(0)
        loop = asyncio.get_running_loop()

        def post(message: object) -> None:
            seen.append(message)
            loop.call_soon_threadsafe(more.release)

        collector.start(post)
        await asyncio.wait_for(more.acquire(), 20)
        collector.rest(True)
        assert len(seen) == 1
        collector.rest(False)
        await asyncio.wait_for(more.acquire(), 20)

    try:
        asyncio.run(run())
    finally:
        collector.stop()
    assert len(seen) >= 2 and all(isinstance(one, LocalSeen) for one in seen)


def test_each_report_is_read_once_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(row: Row) -> JobStatus:
        read.append(row["name"])
        return job_from(row)

    with Store.open(tmp_path, clock=StillClock()) as store:
        for name in ("a", "b", "c"):
            begin(store, name, lane("dn_1", 1))
        monkeypatch.setattr(sqlite, "job_from", counted)
        assert [view.name for view in observe_all(store)] == ["a", "b", "c"] == read


def test_only_runs_of_cells_that_differ_are_drawn_and_wide_characters_take_two() -> None:
    room = Size(80, 24)

    def spans(old: str, new: str) -> list[tuple[int, int]]:
        return [(one.x, one.right) for one in differing([Strip([Segment(old)])], [Strip([Segment(new)])], room)]

    assert spans("same", "same") == []
    assert spans("12:00:01", "12:00:02") == [(7, 8)]
    assert spans("a" + "-" * 30 + "b", "A" + "-" * 30 + "B") == [(0, 1), (31, 32)]
    assert spans("a" + "-" * 5 + "b", "A" + "-" * 5 + "B") == [(0, 7)]
    assert spans("\u4e2d\u6587x", "\u4e2d\u6587y") == [(4, 5)]
    assert spans("\u4e2d\u6587", "\u4e2d\u56fd") == [(2, 4)]
    assert spans("\u4e2d\u4e2dx", "x\u4e2d\u4e2d") == [(0, 5)]
    assert spans("longer", "long") == [(4, 6)]
