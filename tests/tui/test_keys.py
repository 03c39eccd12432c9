"""Every key of the console does what its help says, over a real store and planted slots."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from slotkeeper.console.tui.app import ConsoleApp
from slotkeeper.console.tui.screens.base import Frame
from slotkeeper.console.tui.screens.help import HelpScreen
from slotkeeper.console.tui.screens.jobs import JobScreen
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.core.errors import Unreachable
from tests.tui.filled import Filled, console, drive, driven, flowing, press, screen


def table_keys(app: ConsoleApp) -> list[str]:
    assert isinstance(app.screen, TableScreen)
    return app.screen.table.keys()


def cursor(app: ConsoleApp) -> str | None:
    assert isinstance(app.screen, TableScreen)
    return app.screen.table.cursor_key


@driven()
async def test_the_overview_is_first_and_names_the_worst_job_with_no_key(made: Filled, pilot: Pilot[int]) -> None:
    shown = screen(made.app)
    assert table_keys(made.app)[:2] == ["stock_rt", "invoice_rt"]
    assert table_keys(made.app)[-1] in ("legacy_rt", "orders", "second")
    assert shown.count("SLOT LOST: the registered point of dn_1 is gone") == 1, "the panel does not repeat the verdict"
    assert "Action   reset slot [3 a] plans a new snapshot" in shown
    row = next(line for line in shown.splitlines() if " invoice_rt " in line and "RUNNING" in line)
    assert "\u25cf?\u25b2" in row, "its third DN retries; the newest point of its second DN is unknown"


@pytest.mark.parametrize("opens", [lambda _: JobScreen("orders_rt", "2"), HelpScreen], ids=["job", "help"])
@driven()
async def test_a_key_typed_before_a_screen_has_its_parts_does_nothing_there(
    made: Filled, pilot: Pilot[int], opens: Callable[[Frame], Frame]
) -> None:
    below = made.app.screen
    assert isinstance(below, Frame)
    opening = opens(below)
    made.app.push_screen(opening)
    without_parts = opening.without_parts
    assert without_parts
    actions = ("back", "pane(1)", "filter", "copy", "act", "ack")
    for action in actions:
        assert not await made.app.run_action(action, opening)
    await opening.on_event(events.Key("x", "x"))
    await opening.on_event(events.Mount())
    await pilot.pause()
    assert made.app.screen is opening and not opening.without_parts and made.app.defect is None
    await made.app.pop_screen()
    for action in actions:
        assert not await made.app.run_action(action, opening), "closed"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("1", "[1 Overview]"),
        ("2", "[2 Jobs]"),
        ("3", "[3 Slots]"),
        ("4", "[4 Errors 1]"),
        ("5", "[5 Binlog]"),
        ("6", "[6 Alerts "),
        ("7", "reason: INC-1"),
    ],
)
@driven()
async def test_a_digit_opens_its_screen(made: Filled, pilot: Pilot[int], key: str, words: str) -> None:
    await press(pilot, key)
    assert words in screen(made.app)
    assert f"[{key} " in screen(made.app)


@driven()
async def test_j_k_g_and_G_move_the_cursor(made: Filled, pilot: Pilot[int]) -> None:
    keys = table_keys(made.app)
    where = []
    for key in ("j", "down", "k", "G", "g", "end", "home"):
        await press(pilot, key)
        where.append(keys.index(cursor(made.app) or ""))
    last = len(keys) - 1
    assert where == [1, 2, 1, last, 0, last, 0]


@driven()
async def test_enter_opens_a_job_with_its_dns_errors_and_log_and_esc_goes_back(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "enter", "r")
    shown = screen(made.app)
    assert "Overview > stock_rt" in shown and "no process" in shown
    assert "02:28:01 stopped" in shown and shown.count("point of dn_1 is gone") == 1, "the error is the verdict's"
    assert made.feed.job == "stock_rt"
    await press(pilot, "escape", "j", "enter", "r")
    assert table_keys(made.app) == ["dn_3", "dn_2", "dn_1"]  # with a fault, unknown, fine
    assert "retrying 2, next in 4 s" in screen(made.app)
    await press(pilot, "backspace")
    assert cursor(made.app) == "invoice_rt"


@driven()
async def test_enter_opens_a_slot_dn_by_dn(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "3", "r")
    assert "ABSENT" in screen(made.app) and "external" in screen(made.app)
    await press(pilot, "enter")
    assert "Slots > orders_slot" in screen(made.app)
    assert table_keys(made.app) == ["dn_1", "dn_2"]
    await press(pilot, "escape")
    assert "[3 Slots]" in screen(made.app)


@driven()
async def test_a_filter_works_while_it_is_typed_and_an_exclamation_mark_inverts_it(
    made: Filled, pilot: Pilot[int]
) -> None:
    every = set(table_keys(made.app))
    await press(pilot, "slash", *"_rt")
    assert set(table_keys(made.app)) == {"stock_rt", "invoice_rt", "orders_rt", "legacy_rt"}
    made.app.screen.query_one(Input).value = "!_rt"
    await pilot.pause()
    assert set(table_keys(made.app)) == every - {"stock_rt", "invoice_rt", "orders_rt", "legacy_rt"}
    assert cursor(made.app) is None  # the filter hides its row, and no other row gets the cursor
    await press(pilot, "enter")
    assert cursor(made.app) == table_keys(made.app)[0]
    assert "filter !_rt" in screen(made.app)
    await press(pilot, "escape")
    assert set(table_keys(made.app)) == every


@driven()
async def test_q_in_a_filter_is_a_letter(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "slash", "q", "2", "p")
    assert made.app.is_running and not made.app.paused
    assert made.app.screen.query_one(Input).value == "q2p"


@driven()
async def test_z_leaves_faults_only(made: Filled, pilot: Pilot[int]) -> None:
    every = table_keys(made.app)
    await press(pilot, "Z")
    assert table_keys(made.app) == ["stock_rt", "invoice_rt"]
    await press(pilot, "Z")
    assert table_keys(made.app) == every


@driven()
async def test_a_frozen_screen_does_not_change_while_collecting_continues(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "f")
    before = screen(made.app)
    assert "paused 02:31:08Z" in before
    made.store.register_job("later", "c.toml")
    made.clock.at += timedelta(seconds=30)
    await press(pilot, "r")
    assert screen(made.app) == before
    await press(pilot, "f")
    assert "later" in table_keys(made.app) and "paused" not in screen(made.app)


@driven()
async def test_r_reads_now_and_old_values_are_called_stale(made: Filled, pilot: Pilot[int]) -> None:
    made.clock.at += timedelta(seconds=20)
    made.app.screen.redraw()  # type: ignore[attr-defined]
    await pilot.pause()
    assert "data 20s STALE" in screen(made.app)
    await press(pilot, "r")
    assert "data 0s" in screen(made.app) and "STALE" not in screen(made.app)


@driven(lambda folder: console(folder, environment="DEMO"))
async def test_the_first_row_says_that_the_source_is_a_stand_in(made: Filled, pilot: Pilot[int]) -> None:
    first = screen(made.app).splitlines()[0]
    assert " DEMO stand-in " in first and first.endswith("02:31:08Z")


@driven()
async def test_slots_are_asked_for_only_while_they_are_shown(made: Filled, pilot: Pilot[int]) -> None:
    for key in "136":
        before = made.feed.statuses
        await press(pilot, key, "r")
        assert made.feed.statuses > before
    before = made.feed.statuses
    for key in ("2", "r", "7", "r", "4", "r", "5", "r"):
        await press(pilot, key)
    assert made.feed.statuses == before
    await press(pilot, "1")
    assert "NEXT EXPIRY" in screen(made.app) and " 48 m 0 s " in screen(made.app)


@driven()
async def test_a_source_that_does_not_answer_leaves_the_last_look_and_says_so(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "3", "r")
    made.polled["dws1", "ods.orders"] = Unreachable("connection refused", where="source")
    made.clock.at += timedelta(seconds=90)
    await press(pilot, "r", "g")
    shown = screen(made.app)
    assert "seen 1m30s ago" in shown and "connection refused" in shown


@pytest.mark.parametrize("size", [(59, 24), (80, 14), (30, 5)])
def test_a_terminal_that_is_too_small_shows_a_message(size: tuple[int, int], tmp_path: Path) -> None:
    made = console(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        shown = flowing(screen(made.app))
        assert "too small" in shown and "slotkeeper status" in shown
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "stock_rt" in screen(made.app)

    drive(made, do, size)


@driven(size=(60, 15))
async def test_between_small_and_full_the_table_is_there(made: Filled, pilot: Pilot[int]) -> None:
    assert "stock_rt" in screen(made.app) and "PROD" in screen(made.app)


@driven()
async def test_a_store_that_fails_later_leaves_the_last_values_which_grow_old(
    made: Filled, pilot: Pilot[int], tmp_path: Path
) -> None:
    await press(pilot, "1")
    made.feed.reader.close()
    (tmp_path / "state").chmod(0o777)
    made.clock.at += timedelta(seconds=30)
    await press(pilot, "r")
    shown = screen(made.app)
    assert "stock_rt" in shown and "the state store cannot be read" in shown and "STALE" in shown


def test_an_empty_store_says_what_to_try(tmp_path: Path) -> None:
    made: Filled = console(tmp_path, filled=False)
    made.app.has_sources = False

    async def do(pilot: Pilot[int]) -> None:
        assert "never started" in screen(made.app)

    drive(made, do)
