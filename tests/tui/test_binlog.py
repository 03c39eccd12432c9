"""The binlog inspector: every key, opening it queries no server, and hostile values stay text."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from slotkeeper.console.tui.screens.binlog import BinlogRowsScreen, BinlogScreen
from slotkeeper.core.domain.inspection import Ask, Filter, Page
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.sources.dws.position import DwsPosition
from tests.tui.filled import LARGE, SMALL, Filled, console, drive, driven, lines, press, screen
from tests.tui.pages import PlantedPeeker, page, row

HOSTILE = [
    "\x1b]52;c;aGFjaw==\x07",
    "\x9b31m",
    "\u202egnp.exe",
    "[@click=app.quit]q[/]",
    "a\u200bb",
    "[/x]",
    "x" * 9_000,
]


def planted(folder: Path, answer: Page | Exception | None = None) -> tuple[Filled, PlantedPeeker]:
    made, peeker = console(folder), PlantedPeeker(answer or page())
    made.app.services.peeker = peeker
    return made, peeker


async def seen(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    """Wait until the requested page is shown."""
    for _ in range(500):
        if condition():
            return
        await pilot.pause(0.01)
    raise AssertionError("not seen")


async def rows_screen(made: Filled, pilot: Pilot[int]) -> BinlogRowsScreen:
    await press(pilot, "5", "enter")
    shown = made.app.screen
    assert isinstance(shown, BinlogRowsScreen)
    await seen(pilot, lambda: shown.page is not None)
    return shown


async def poll_with(shown: BinlogRowsScreen, pilot: Pilot[int], peeker: PlantedPeeker, *keys: str) -> Ask:
    """Press keys that request a page; return the request."""
    before = len(peeker.asked)
    await press(pilot, *keys)
    await seen(pilot, lambda: len(peeker.asked) > before and shown.about().startswith("peek"))
    return peeker.asked[-1][0]


@driven(planted)
async def test_opening_the_screen_queries_no_server_and_enter_queries_once_from_the_slots_position(
    made: Filled, peeker: PlantedPeeker, pilot: Pilot[int]
) -> None:
    await press(pilot, "5")
    assert isinstance(made.app.screen, BinlogScreen) and "ods.orders" in screen(made.app)
    assert peeker.asked == []
    await rows_screen(made, pilot)
    assert [unmask for _, unmask in peeker.asked] == [False] and peeker.asked[0][0].after is None
    await press(pilot, "escape")
    assert isinstance(made.app.screen, BinlogScreen)


@driven(planted)
async def test_updates_are_paired_and_what_changed_is_marked(made: Filled, _: object, pilot: Pilot[int]) -> None:
    shown = await rows_screen(made, pilot)
    text = screen(made.app)
    assert [line[2] for line in lines(made.app)[5:11]] == ["+", "<", ">", "+", "<", ">"]
    assert "''" in text and "NULL" in text
    await press(pilot, "G")
    assert "(pk only)" in screen(made.app)
    await press(pilot, "k")
    text = screen(made.app)
    assert "88512318/3 U after update, paired with B" in text and "* amount" in text and "net: deleted" in text
    await press(pilot, "enter")
    assert "before  4711" in screen(made.app)
    await press(pilot, "right_square_bracket")
    assert "88512329/2 d delete" in screen(made.app)
    await press(pilot, "escape")
    assert made.app.screen is shown


def test_nothing_is_cut_at_80_columns(tmp_path: Path) -> None:
    for size in (SMALL, LARGE):
        folder = tmp_path / str(size[0])
        folder.mkdir()
        made, _ = planted(folder)

        async def do(pilot: Pilot[int], made: Filled = made, size: tuple[int, int] = size) -> None:
            shown = await rows_screen(made, pilot)
            assert shown.table.virtual_size.width <= size[0] and shown.table.max_scroll_x == 0
            assert all(len(line) == size[0] for line in lines(made.app))

        drive(made, do, size)


@driven(planted)
async def test_K_follows_a_key_D_goes_to_the_next_dn_and_f_further(
    made: Filled, peeker: PlantedPeeker, pilot: Pilot[int]
) -> None:
    shown = await rows_screen(made, pilot)
    asked = await poll_with(shown, pilot, peeker, "g", "K")
    assert asked.filter.key == {"order_id": "4711"} and asked.after == DwsPosition(88_512_300) and not asked.slot
    assert len(shown.rows()) == 6 and "key order_id=4711" in screen(made.app)
    assert (await poll_with(shown, pilot, peeker, "D")).dn == "dn_2"
    assert (await poll_with(shown, pilot, peeker, "D")).dn == "dn_1"
    assert (await poll_with(shown, pilot, peeker, "K")).filter == Filter()
    further = await poll_with(shown, pilot, peeker, "f")
    assert further.after == DwsPosition(88_512_330) and further.dn == "dn_1"


@driven(planted)
async def test_o_goes_to_a_point_a_slot_or_the_latest_rows_and_t_to_a_time(
    made: Filled, peeker: PlantedPeeker, pilot: Pilot[int]
) -> None:
    shown = await rows_screen(made, pilot)
    assert (await poll_with(shown, pilot, peeker, "o", *"4711", "enter")).after == DwsPosition(4711)
    assert (await poll_with(shown, pilot, peeker, "o", *"dr", "enter")).slot == "dr"
    last = await poll_with(shown, pilot, peeker, "o", *"latest", "enter")
    assert (last.after, last.slot, last.time) == (None, "", "")
    assert (await poll_with(shown, pilot, peeker, "t", *"2026", "enter")).time == "2026"
    number = len(peeker.asked)
    await press(pilot, "o", *"12", "escape")
    assert made.app.screen is shown and len(peeker.asked) == number
    await press(pilot, "j")
    assert shown.focused is shown.table


def unmasked(peeker: PlantedPeeker) -> bool:
    """Whether the last page was requested with its values."""
    return peeker.asked[-1][1]


@driven(lambda folder: planted(folder, page(masked=True)))
async def test_v_hides_and_shows_and_masked_values_are_requested_again(
    made: Filled, peeker: PlantedPeeker, pilot: Pilot[int]
) -> None:
    shown = await rows_screen(made, pilot)
    text = screen(made.app)
    assert "PAID" not in text and "***" in text and "4711" in text and "amount" in text
    await poll_with(shown, pilot, peeker, "v")
    assert unmasked(peeker) is True and "PAID" in screen(made.app)
    number = len(peeker.asked)
    await press(pilot, "v")
    assert "PAID" not in screen(made.app) and len(peeker.asked) == number
    await poll_with(shown, pilot, peeker, "D")
    assert unmasked(peeker) is False and "PAID" not in screen(made.app)


@driven(planted)
async def test_a_look_that_fails_is_one_sentence_and_the_last_page_stays(
    made: Filled, peeker: PlantedPeeker, pilot: Pilot[int]
) -> None:
    shown = await rows_screen(made, pilot)
    peeker.answer = Unreachable("source dws1: statement timeout")
    await poll_with(shown, pilot, peeker, "D")
    text = screen(made.app)
    assert "statement timeout" in text and "88512318" in text


def test_a_look_that_is_left_is_forgotten_and_does_not_hold_the_console(tmp_path: Path) -> None:
    made, _ = planted(tmp_path)
    going, asked = threading.Event(), threading.Event()

    def slow(*given: Any) -> Page:
        asked.set()
        going.wait(30)
        return page()

    made.app.services.peeker = slow

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "5", "enter")
        await seen(pilot, asked.is_set)
        assert "querying" in screen(made.app)
        await press(pilot, "escape", "1")
        going.set()
        await pilot.pause()
        assert made.app.is_running and "[1 Overview]" in screen(made.app)

    drive(made, do)


def test_hostile_values_and_names_are_text(tmp_path: Path) -> None:
    made, peeker = planted(tmp_path)
    found = page(*(row(100 + n, 2, "I", str(n), text, text) for n, text in enumerate(HOSTILE)))
    peeker.answer = replace(found, shard=HOSTILE[0], notes=tuple(HOSTILE))

    async def do(pilot: Pilot[int]) -> None:
        await rows_screen(made, pilot)
        for _ in HOSTILE:
            for keys in (("enter", "G"), ("escape", "j")):
                await press(pilot, *keys)
                text = "".join(lines(made.app))
                assert not [c for c in text if c in "\x1b\x07\x9b\u202e\u200b"]
        assert made.app.is_running

    drive(made, do)
