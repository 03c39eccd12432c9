"""The screens as text at both sizes; SLOTKEEPER_GOLDENS=write writes the files again."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.console.tui.widgets.live_table import LiveTable
from slotkeeper.core.domain.job import TableReport, said_of
from tests.tui.filled import LARGE, NOW, SMALL, Filled, begin, console, drive, flowing, lane, lines, press
from tests.tui.planted import until
from tests.tui.quarantined import entries, holding

GOLDENS = Path(__file__).with_name("goldens")
SCREENS = {"overview": "1", "jobs": "2", "slots": "3 r", "audit": "7", "job": "1 g j enter r"}
QUARANTINED = {
    "quarantine_overview": "1",
    "errors": "4",
    "quarantine": "enter",
    "quarantine_entry": "enter",
    "quarantine_menu": "a",
}
SIZES = [SMALL, LARGE, (60, 15)]


def _walk(made: Filled, size: tuple[int, int]) -> dict[str, list[str]]:
    """The lines of every screen, in one run of the console; no table is wider than the screen."""
    drawn: dict[str, list[str]] = {}

    async def do(pilot: Pilot[int]) -> None:
        for name, keys in SCREENS.items():
            await press(pilot, *keys.split())
            drawn[name] = lines(made.app)
            table = made.app.screen.query_one(LiveTable)
            assert table.virtual_size.width <= size[0] and table.max_scroll_x == 0, name

    drive(made, do, size)
    return drawn


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_screens_look_like_their_goldens(size: tuple[int, int], tmp_path: Path) -> None:
    for name, shown in _walk(console(tmp_path), size).items():
        like_its_golden(name, shown, size)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_rows_in_quarantine_look_like_their_goldens(size: tuple[int, int], tmp_path: Path) -> None:
    made, quarantines = holding(tmp_path, *entries())
    quarantines.masked = True
    drawn: dict[str, list[str]] = {}

    async def do(pilot: Pilot[int]) -> None:
        for name, keys in QUARANTINED.items():
            await press(pilot, *keys.split())
            if name == "errors":
                await until(pilot, made.app, "bad rows")
                made.app.screen.query_one(LiveTable).move_to("quarantined\x1forders_rt\x1f")
            words = {"errors": ("bad rows",), "quarantine": (" 4809 ",), "quarantine_entry": ("***",)}.get(name, ())
            await until(pilot, made.app, *words)
            while name == "errors" and not made.app.shown.sinks:
                await pilot.pause(0.01)
            await pilot.pause()
            drawn[name] = lines(made.app)

    drive(made, do, size)
    for name, shown in drawn.items():
        like_its_golden(name, shown, size)


TABLES = ("ods.orders", "ods.items", "ods.refunds", "ods.parcels")


def _with_a_failed_table(folder: Path) -> Filled:
    """A console whose job of four tables continues with three of them."""
    made = console(folder, filled=False)
    why = "SLOT LOST: ods.items dn_1: the registered point is gone"
    lanes = [
        lane(f"dn_{n}", 88_512_330 - n, source_table=table, label=f"{table} dn_{n}") for table in TABLES for n in (1, 2)
    ]
    lanes[2:4] = [replace(one, activity="stopped", error=why) for one in lanes[2:4]]
    found = [TableReport(one, one.replace("ods.", "mart."), "RUNNING") for one in TABLES]
    cure = "`slotkeeper slots reset ods.items orders_slot` plans a new snapshot and prints the command that executes it"
    found[1] = replace(found[1], state="FAILED", reason=why, trouble="SLOT LOST", safe=cure, since=NOW.timestamp())
    begin(made.store, "orders_rt", *lanes, reason=said_of(found), tables=tuple(found))
    made.store.record_event("orders_rt", "table FAILED", f"ods.items: {why}")
    made.clock.at += timedelta(seconds=1)
    return made


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_job_with_a_failed_table_looks_like_its_goldens(size: tuple[int, int], tmp_path: Path) -> None:
    made = _with_a_failed_table(tmp_path)
    drawn: dict[str, list[str]] = {}

    async def do(pilot: Pilot[int]) -> None:
        for name, keys in {"overview": "1", "alerts": "6", "job": "1 g enter"}.items():
            await press(pilot, *keys.split())
            drawn[f"table_failed_{name}"] = lines(made.app)

    drive(made, do, size)
    assert "1 of 4 tables FAILED" in "".join(drawn["table_failed_overview"])
    assert "jobs start orders_rt --table ods.items" in flowing("\n".join(drawn["table_failed_job"]))
    for name, shown in drawn.items():
        like_its_golden(name, shown, size)


def _masked(line: str) -> str:
    """A line without the digits of a pid, padded to its old width if a frame ends it."""
    masked = re.sub(r"pid \d+", "pid N", line)
    shorter = len(line) - len(masked)
    return f"{masked[:-1]}{' ' * shorter}{masked[-1]}" if shorter and masked[-1] in "\u2502|" else masked


def like_its_golden(name: str, shown: list[str], size: tuple[int, int]) -> None:
    """Compare the lines of a screen with those of its file."""
    assert len(shown) == size[1] and all(len(line) == size[0] for line in shown)
    text = "\n".join(_masked(line.rstrip()) for line in shown) + "\n"
    text = re.sub(r"driver rss \d+M", "driver rss 77M", text)  # of this test process
    golden = GOLDENS / f"{name}_{size[0]}x{size[1]}.txt"
    if os.environ.get("SLOTKEEPER_GOLDENS") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8"), name


def test_ascii_shows_no_other_byte_and_tells_every_state(tmp_path: Path) -> None:
    made = console(tmp_path, ascii_only=True)
    made.store.record_event("legacy_rt", "d\u00e9j\u00e0 vu")
    drawn = _walk(made, SMALL)
    assert [name for name, shown in drawn.items() if not "".join(shown).isascii()] == []
    table = next(place for place, line in enumerate(drawn["overview"]) if "JOB " in line)
    assert {line[2] for line in drawn["overview"][table + 1 : table + 6]} == {"x", "!", "~", " ", "-"}
    states = ("* RUNNING", "~ SNAPSHOT", "x FAILED")
    assert [one for one in states if one not in "".join(drawn["overview"])] == []
