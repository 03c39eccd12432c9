"""Every screen at every size: only ASCII in ASCII mode, no cut text beside free space, a row counter, no empty half."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.console.tui.widgets.live_table import SIDES, LiveTable
from slotkeeper.core.domain.job import JobState
from tests.tui.filled import Filled, console, drive, lines, press, screen
from tests.tui.planted import until

CAUSE = "sink mart: the database system is shutting down, 4 of 4 DNs wait, and no one knows for how long that will be"
SIZES = [(60, 15), (80, 24), (100, 30), (132, 43), (160, 50), (200, 60)]
_PAUSES = 20
"""Turns of the event loop after which a screen is redrawn."""
WALK = {"overview": "1 r", "jobs": "2", "job": "enter", "slots": "3 r", "slot": "enter", "errors": "4", "alerts": "6"}


def failing(folder: Path, ascii_only: bool) -> Filled:
    made = console(folder, ascii_only)
    made.store.set_state("orders_rt", JobState.FAILED, CAUSE, "no room")
    made.store.record_event("orders_rt", "failed", CAUSE)
    return made


def cut_beside_room(table: LiveTable) -> list[str]:
    """The columns that are cut although a neighbouring text column, or the end of the row, has room."""
    columns = table._fields
    seen = [table.words(place) for place in range(table.row_count)]
    widest = {one.key: max([len(row[n].rstrip()) for row in seen], default=0) for n, one in enumerate(columns)}
    needed = {
        one.key: max([len(table._rows[n].cells.get(one.key, "")) for n in range(table.row_count)], default=0)
        for one in columns
    }
    cut = [one.key for one in columns if needed[one.key] > one.width]
    spare = [
        one.key
        for one in columns
        if not one.right and one.label and one.width > max(needed[one.key], len(one.label), widest[one.key])
    ]
    free = table.size.width - SIDES * table._framed - sum(one.width + 1 for one in columns)
    return cut if cut and (spare or free > 0) else []


@pytest.mark.parametrize("ascii_only", [False, True], ids=["utf8", "ascii"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_screen_uses_its_room(size: tuple[int, int], ascii_only: bool, tmp_path: Path) -> None:
    made = failing(tmp_path, ascii_only)
    wrong: list[str] = []

    async def do(pilot: Pilot[int]) -> None:
        for name, keys in WALK.items():
            await press(pilot, *keys.split())
            await until(pilot, made.app, " ")
            shown = lines(made.app)
            wrong.extend(f"{name}: not as wide as {size}" for line in shown if len(line) != size[0])
            if ascii_only and not screen(made.app).isascii():
                wrong.append(f"{name}: a byte above 0x7F")
            table = made.app.screen.query_one(LiveTable)
            wrong.extend(f"{name}: {key} is cut beside room" for key in cut_beside_room(table))
            edges = [line for line in shown if line.startswith(("- ", "\u2500 ", "+--", "\u2570"))]
            if table.row_count and not any(f" of {table.row_count} " in edge for edge in edges):
                wrong.append(f"{name}: no counter of rows: {edges}")

    drive(made, do, size)
    assert wrong == []


@pytest.mark.parametrize("name", ["overview", "jobs", "job"])
def test_a_large_terminal_has_no_empty_half(name: str, tmp_path: Path) -> None:
    made = failing(tmp_path, True)

    async def do(pilot: Pilot[int]) -> None:
        for each, keys in WALK.items():
            await press(pilot, *keys.split())
            if each == name:
                break
        made.clock.at = made.clock.at.replace(minute=59)
        made.app.screen.query_one(LiveTable).post_message(LiveTable.Moved())
        await until(pilot, made.app, "h graphs")
        shown = [line.strip() for line in lines(made.app)]
        runs = "".join("." if line else "#" for line in shown).split(".")
        assert max(len(run) for run in runs) < 20, "\n".join(shown)

    drive(made, do, (200, 60))


def test_after_a_resize_each_screen_is_what_it_is_at_that_size(tmp_path: Path) -> None:
    """No part stays blank or keeps the old size, whether the screen grew or shrank."""

    def masked(made: Filled) -> list[str]:
        return [re.sub(r"rss +\d+M", "rss", line) for line in lines(made.app)]

    def folder(number: int) -> Path:
        made = tmp_path / f"{number:03}"
        made.mkdir()
        return made

    drawn: dict[tuple[int, int], dict[str, list[str]]] = {}
    for size in SIZES[:-1]:
        made = failing(folder(size[0]), False)
        drawn[size] = {}

        async def at_once(pilot: Pilot[int], made: Filled = made, here: dict[str, list[str]] = drawn[size]) -> None:
            for name, keys in WALK.items():
                await press(pilot, *keys.split())
                here[name] = masked(made)

        drive(made, at_once, size)
    made = failing(folder(0), False)
    wrong: list[str] = []

    async def resized(pilot: Pilot[int]) -> None:
        for name, keys in WALK.items():
            await press(pilot, *keys.split())
            for size in (*SIZES[:-1], *reversed(SIZES[:-2])):
                await pilot.resize_terminal(*size)
                then = drawn[size][name]
                for _ in range(_PAUSES):
                    await pilot.pause()
                    now = masked(made)
                    if now[1:] == then[1:]:
                        break
                assert len(now) == len(then), (name, size)
                differ = [pair for pair in zip(now[1:], then[1:], strict=True) if pair[0] != pair[1]]
                wrong.extend(f"{name} at {size}:\n{one[0]}\n{one[1]}" for one in differ)

    drive(made, resized, SIZES[0])
    assert not wrong, "\n".join(wrong[:12])
