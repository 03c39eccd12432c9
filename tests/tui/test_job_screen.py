"""One job: its DNs with lag and rate, its log in full, its settings."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.console.tui.screens.jobs import JobScreen
from slotkeeper.console.tui.screens.log import LogScreen
from tests.tui.filled import LARGE, NOW, SMALL, Filled, begin, console, drive, driven, lane, lines, press, screen
from tests.tui.recorded import live


def running(folder: Path, ascii_only: bool = False) -> Filled:
    made = console(folder, ascii_only, filled=False)
    made.clock.at = NOW
    begin(made.store, "orders_rt", lane("dn_1", 88_512_330))
    lanes = (lane("dn_1", 88_512_330), lane("dn_2", 88_512_330 - 2_400))
    live(made.store, made.clock, "orders_rt", NOW + timedelta(minutes=11), *lanes)
    return made


async def at_its_job(made: Filled, pilot: Pilot[int], *keys: str) -> str:
    made.feed.now()
    await press(pilot, "g", "enter", *keys)
    return screen(made.app)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_the_worst_dn_is_on_top_with_its_lag_and_rate(tmp_path: Path, size: tuple[int, int]) -> None:
    made = running(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        shown = await at_its_job(made, pilot)
        first = next(line for line in shown.splitlines() if "dn_2 " in line and "idle" in line)
        assert "1 m 0 s      500 " in first and (size == SMALL or "\u2585" * 8 in first)
        assert first.rstrip(" \u2502").endswith("  2400")  # a missing ETA is blank
        assert "busy with: source 16 % / sink 81 % / registration 3 %   bottleneck: sink" in shown
        assert "RUNNING since 11-21 02:31:07 (11m00s)" in shown
        assert "next risk: slot orders_slot: unless confirmed" in shown

    drive(made, do, size)


def test_lanes_of_several_tables_say_their_table_and_those_of_one_do_not(tmp_path: Path) -> None:
    made = console(tmp_path, filled=False)
    tables = {"ods.orders": "orders", "ods.lines": "lines"}
    lanes = [
        lane(dn, 88_512_330 - behind, source_table=table, target=f"mart.{name}", label=f"{table} {dn}")
        for behind, (table, name) in enumerate(tables.items())
        for dn in ("dn_1", "dn_2")
    ]
    begin(made.store, "orders_rt", *lanes)

    async def do(pilot: Pilot[int]) -> None:
        shown = await at_its_job(made, pilot)
        assert " TABLE " in shown
        assert [line.split()[1:3] for line in shown.splitlines() if " dn_" in line and "idle" in line] == [
            ["ods.lines", "dn_1"],
            ["ods.lines", "dn_2"],
            ["ods.orders", "dn_1"],
            ["ods.orders", "dn_2"],
        ]

    drive(made, do, LARGE)


@driven(running, size=LARGE)
async def test_lanes_of_one_table_do_not_say_it(made: Filled, pilot: Pilot[int]) -> None:
    assert " TABLE " not in await at_its_job(made, pilot)


@driven(lambda folder: running(folder, ascii_only=True), size=LARGE)
async def test_sparklines_are_ascii_where_the_terminal_is(made: Filled, pilot: Pilot[int]) -> None:
    shown = await at_its_job(made, pilot)
    assert shown.isascii()
    assert "500   33333333" in shown


def test_the_log_follows_until_one_scrolls_and_says_how_much_is_new(tmp_path: Path) -> None:
    made = running(tmp_path)
    log = made.store.folder.log("orders_rt")
    log.write_text("".join(f"line {n} INFO\n" for n in range(100)), encoding="utf-8")

    async def do(pilot: Pilot[int]) -> None:
        shown = await at_its_job(made, pilot, "l")
        assert "follow on" in shown and "line 99 " in shown
        await press(pilot, "k", "k")
        with log.open("a", encoding="utf-8") as writing:
            writing.write("line 100 ERROR gave up\nline 101 INFO\n")
        await press(pilot, "r")
        shown = screen(made.app)
        assert "follow off, 2 new" in shown and "line 100 " not in shown
        await press(pilot, "G")
        assert "follow on" in screen(made.app) and "line 101 " in screen(made.app)
        await press(pilot, "g")
        assert "line 0 " in screen(made.app)
        await press(pilot, "escape")
        assert isinstance(made.app.screen, JobScreen)

    drive(made, do)


def test_the_log_is_filtered_by_words_and_by_level(tmp_path: Path) -> None:
    made = running(tmp_path)
    made.store.folder.log("orders_rt").write_text("a INFO\nb WARN slow\nc ERROR gone\n", encoding="utf-8")

    async def do(pilot: Pilot[int]) -> None:
        await at_its_job(made, pilot, "l", "z")
        assert "level >= WARN" in screen(made.app) and "a INFO" not in screen(made.app)
        await press(pilot, "z")
        assert "b WARN" not in screen(made.app) and "c ERROR" in screen(made.app)
        await press(pilot, "z", "slash", *"slow", "enter")
        assert "b WARN slow" in screen(made.app) and "c ERROR" not in screen(made.app)
        await press(pilot, "escape")
        assert isinstance(made.app.screen, LogScreen)
        assert "c ERROR" in screen(made.app)

    drive(made, do)


@driven(running)
async def test_the_settings_of_a_job_say_where_they_come_from(made: Filled, pilot: Pilot[int]) -> None:
    shown = await at_its_job(made, pilot, "d")
    assert "Settings of orders_rt" in shown
    slot = next(line for line in shown.splitlines() if " slot " in line)
    assert '"orders_slot"' in slot and "file c.toml:" in slot
    await press(pilot, "slash", *"password", "enter")
    assert "password_file" in screen(made.app)
    await press(pilot, "escape", "escape")
    assert isinstance(made.app.screen, JobScreen)


def _many(folder: Path) -> Filled:
    made = console(folder, ascii_only=True, filled=False)
    begin(made.store, "orders_rt", *(lane(f"dn_{number:02}", 88_512_330) for number in range(64)))
    return made


@driven(_many, (100, 30))
async def test_of_many_dns_one_row_has_a_cell_for_each(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "2", "enter")
    (strip,) = (line for line in lines(made.app) if line.startswith(" DNs  "))
    assert len(strip.split()[1]) == 64 and set(strip.split()[1]) <= set(".o#?")
