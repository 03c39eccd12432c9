"""The slot screens: texts about a slot beside its figures, and the keys to other screens."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot

from slotkeeper.console.tui.screens.audit import SlotHistoryScreen
from slotkeeper.console.tui.screens.binlog import BinlogRowsScreen
from slotkeeper.console.tui.screens.slots import SlotScreen
from slotkeeper.core.domain.audit import Actor, AuditLine, Phase
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.reset_files import MARKS
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.files import ResetFiles
from tests.tui.filled import (
    LARGE,
    NOW,
    Filled,
    begin,
    console,
    drive,
    driven,
    flowing,
    lane,
    lines,
    on_screen,
    polled,
    press,
    screen,
    slot,
)
from tests.tui.pages import PlantedPeeker


def shown(made: Filled) -> str:
    return flowing(screen(made.app))


@driven(size=LARGE)
async def test_holder_with_state_deadline_and_bar_are_shown(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "3", "r")
    text = screen(made.app)
    assert "job RUN" in text and "job never" in text and "external" in text and "OF TTL" in text
    assert "\u2588" + "\u2591" * 7 in text and "read by job orders_rt: RUNNING" in text
    assert all(len(line) == LARGE[0] for line in lines(made.app))


def test_an_unfinished_reset_comes_first_with_the_command_that_ends_it(tmp_path: Path) -> None:
    made = console(tmp_path)
    mark = '{"job": "x", "table": "ods.orders", "slot": "orders_dr"}'
    ResetFiles(made.store.folder).save(MARKS, "r1", mark)

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "3", "r", "slash", *"orders_dr", "enter")
        assert "slotkeeper slots reset --resume ods.orders orders_dr" in shown(made)
        assert lines(made.app)[5][2:].startswith("\u2716 ods.orders/orders_dr")

    drive(made, do)


def test_b_opens_the_binlog_where_this_slot_stands_on_the_dn_under_the_cursor(tmp_path: Path) -> None:
    made, peeker = console(tmp_path), PlantedPeeker()
    made.app.services.peeker = peeker

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "3", "r", "b")
        assert isinstance(made.app.screen, BinlogRowsScreen)
        assert (made.app.screen.ask.slot, made.app.screen.ask.dn) == ("orders_slot", "")
        await press(pilot, "escape", "enter", "j", "b")
        assert isinstance(made.app.screen, BinlogRowsScreen)
        assert (made.app.screen.ask.slot, made.app.screen.ask.dn) == ("orders_slot", "dn_2")
        await press(pilot, "escape")
        assert isinstance(made.app.screen, SlotScreen)

    drive(made, do)


def test_h_shows_what_was_done_to_this_slot_from_here(tmp_path: Path) -> None:
    made = console(tmp_path)
    actor = Actor("li.wei", "host1", 7)
    what = "dws1 ods.orders slot orders_slot"
    Audit(made.store.folder).append(AuditLine(NOW, actor, "slots drop", "a9", Phase.INTENT, what, "INC-9"))
    folder = made.store.folder.path / "backups"
    folder.mkdir()
    (folder / "broken.json").write_text("{}", encoding="utf-8")

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "3", "r", "h")
        assert isinstance(made.app.screen, SlotHistoryScreen)
        assert "reason: INC-9" in shown(made) and "slots drop" in shown(made)
        await press(pilot, "escape", "enter", "h", "escape")
        on_screen(made.app, SlotScreen)
        assert "last operation" in shown(made) and "INC-9" in shown(made)

    drive(made, do)


@driven()
async def test_the_sql_for_psql_is_below_and_says_that_it_bypasses_the_guards(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "3", "r", "enter", "j", "tab", "G")
    text = shown(made)
    assert "bypasses every guard" in text and "n.node_name = 'dn_2';" in text


@driven()
async def test_the_siblings_of_a_slot_are_the_slots_as_listed(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "3", "r", "enter", "right_square_bracket")
    assert "Slots > second" in screen(made.app)
    await press(pilot, "left_square_bracket")
    assert "Slots > orders_slot" in screen(made.app)


def _lost(folder: Path) -> Filled:
    made = console(folder, ascii_only=True, filled=False)
    made.polled["dws1", "ods.orders"] = polled(
        "ods.orders", slot("orders_slot", 0.0, 0, "orders_rt"), slot("other", 12.5, 0)
    )
    begin(made.store, "orders_rt", lane("dn_1", 88_512_330))
    made.store.set_state("orders_rt", JobState.FAILED, "ods.orders: the points of dn_1 are gone", "SLOT LOST", "copy")
    return made


@driven(_lost)
async def test_a_lost_slot_is_marked_on_every_screen_and_has_no_time_left(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "3", "r")
    row = next(line for line in screen(made.app).splitlines() if "/orders_slot " in line)
    assert row[2:].startswith("x ") and " LOST " in row and "23h" not in row and "24h" not in row
    await press(pilot, "g")
    shown = screen(made.app)
    assert "LOST: its unread changes are no longer in any binlog" in shown and "unless confirmed" not in shown
    await press(pilot, "1", "r")
    assert " 1 LOST " in screen(made.app), "the figure NEXT EXPIRY"
    await press(pilot, "g", "enter")
    shown = screen(made.app)
    assert "LOST: its unread changes" in flowing(shown) and "left)" not in shown
