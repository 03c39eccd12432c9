"""Quarantined rows on the screens: where they are shown, each of their keys, and the queries to the sink for them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from textual.pilot import Pilot

from slotkeeper.console.tui.app import ConsoleApp
from slotkeeper.console.tui.history_mode import HistoryMode
from slotkeeper.console.tui.screens.actions.confirm import EntryConfirm
from slotkeeper.console.tui.screens.actions.menu import EntryMenu
from slotkeeper.console.tui.screens.alerts import ErrorsScreen
from slotkeeper.console.tui.screens.quarantine import PAGE, QuarantineEntryScreen, QuarantineScreen
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.core.domain.quarantine import EntryState
from slotkeeper.core.errors import Unreachable
from tests.tui.filled import LARGE, SMALL, Filled, console, drive, driven, flowing, lines, press, screen
from tests.tui.planted import arm, plant, typed, until, until_asked
from tests.tui.quarantined import PlantedQuarantines, entries, entry, holding, retained, tell

TINY = (60, 15)
KEY = "quarantined\x1forders_rt\x1f"


def shown(app: ConsoleApp, kind: type[TableScreen]) -> TableScreen:
    assert isinstance(app.screen, kind), app.screen
    return app.screen


async def errors(pilot: Pilot[int], made: Filled) -> TableScreen:
    """The Errors screen with the cursor on the held rows of orders_rt, after the sink has answered."""
    await press(pilot, "4")
    await until(pilot, made.app, "orders_rt", "bad rows")
    await until_asked(pilot, lambda: bool(made.app.shown.sinks))
    found = shown(made.app, ErrorsScreen)
    found.table.move_to(KEY)
    await pilot.pause()
    return found


async def listed(pilot: Pilot[int], made: Filled) -> TableScreen:
    """The entries, after they have been read."""
    await errors(pilot, made)
    await press(pilot, "enter")
    await until(pilot, made.app, "SINCE UTC", " 4809 ")
    return shown(made.app, QuarantineScreen)


def keys_of(found: TableScreen) -> list[str]:
    return found.table.keys()


def cells(found: TableScreen) -> list[str]:
    return [" ".join(found.table.words(place)) for place in range(found.table.row_count)]


# -- where they are shown
# ---------------------------------------------------------------------------------------------


@driven(lambda folder: holding(folder, *entries()))
async def test_the_first_screens_say_that_a_target_lacks_rows_without_asking_a_sink(
    made: Filled, quarantines: PlantedQuarantines, pilot: Pilot[int]
) -> None:
    text = screen(made.app)
    assert "3 rows in quarantine (orders_rt)" in text and "[1 Overview]" in text
    for digit in ("1", "2"):
        await press(pilot, digit)
        shown(made.app, TableScreen).table.move_to("orders_rt")
        await pilot.pause()
        text = screen(made.app)
        assert "the target: 3 rows in quarantine" in text
        assert "Action quarantine [4 Enter] shows the rows" in flowing(text)
        below = "tab", "G"  # of a panel that is shorter than its text
        await press(pilot, *(() if "Target " in text else below))
        assert "Target   mart.orders, never verified, except for 3 rows in quarantine" in screen(made.app)
        await press(pilot, *(() if "Target " in text else below[:1]))
    await press(pilot, "enter")
    assert "quarantine [4 Enter] shows the rows" in flowing(screen(made.app))
    assert quarantines.asked == []


@driven(lambda folder: holding(folder, *entries()))
async def test_the_errors_of_a_job_show_its_rows_and_enter_opens_them(
    made: Filled, _: object, pilot: Pilot[int]
) -> None:
    shown(made.app, TableScreen).table.move_to("orders_rt")
    await press(pilot, "enter", "E")
    text = await until(pilot, made.app, "3 rows in quarantine, oldest 11-21 01:53 UTC, limit 100")
    assert "Errors > orders_rt" in text and "stock_rt" not in text
    await press(pilot, "enter")
    await until(pilot, made.app, "Quarantine orders_rt 4")
    await press(pilot, "escape", "escape")
    assert getattr(made.app.screen, "job", "") == "orders_rt"


@driven(lambda folder: holding(folder, *entries()))
async def test_an_alert_fires_and_enter_opens_the_rows(made: Filled, _: object, pilot: Pilot[int]) -> None:
    await press(pilot, "6", "r")
    found = shown(made.app, TableScreen)
    key = next(one for one in keys_of(found) if one.startswith("rows_quarantined"))
    assert not any("job_retrying" in one and "orders_rt" in one for one in cells(found))
    found.table.move_to(key)
    await pilot.pause()
    text = screen(made.app)
    assert "3 rows in quarantine: the target" in flowing(text)
    assert "more than 100 such rows in a table" in flowing(text)
    await press(pilot, "x")
    assert "1 acknowledged" in screen(made.app)
    tell(made, 4)
    await press(pilot, "r")
    assert "0 acknowledged" in screen(made.app), "another row is news"
    found.table.move_to(next(one for one in keys_of(found) if one.startswith("rows_quarantined")))
    await press(pilot, "enter")
    await until(pilot, made.app, "Quarantine orders_rt 4")


@driven(lambda folder: holding(folder, *entries()))
async def test_a_line_is_acknowledged_until_its_number_changes(
    made: Filled, quarantines: PlantedQuarantines, pilot: Pilot[int]
) -> None:
    await errors(pilot, made)
    assert "[4 Errors 2]" in screen(made.app)
    await press(pilot, "x")
    assert "[4 Errors 1]" in screen(made.app) and "acked" in screen(made.app)
    quarantines.rows.insert(0, entry(43, "4999"))
    made.clock.at += timedelta(seconds=1)
    await until_asked(pilot, lambda: made.clock.monotonic() > 0)
    made.app.services.sinks._sinks[0].asked = float("-inf")
    await press(pilot, "r")
    await until(pilot, made.app, "[4 Errors 2]", "4 rows in quarantine")


@pytest.mark.parametrize("size", [TINY, SMALL, LARGE], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("ascii_only", [True, False])
def test_nothing_is_cut_at_any_size(ascii_only: bool, size: tuple[int, int], tmp_path: Path) -> None:
    made, _ = holding(tmp_path, *entries(), ascii_only=ascii_only)

    async def do(pilot: Pilot[int]) -> None:
        await listed(pilot, made)
        for keys in ("A", "w", "G enter", "a", "d"):
            await press(pilot, *keys.split())
            drawn = lines(made.app)
            assert all(len(line) == size[0] for line in drawn) and len(drawn) == size[1], keys
            assert not ascii_only or "".join(drawn).isascii(), keys
            if isinstance(made.app.screen, TableScreen):
                assert made.app.screen.table.max_scroll_x == 0, keys

    drive(made, do, size)


# -- the entries -----------------------------------------------------------------------------------------------------


@driven(lambda folder: holding(folder, *entries()), size=(110, 30))
async def test_entries_say_what_was_refused_why_and_what_moves_with_them(
    made: Filled, _: object, pilot: Pilot[int]
) -> None:
    found = await listed(pilot, made)
    assert [one.split()[1] for one in cells(found)] == ["42", "41", "40", "39"]
    assert "! 42 11-21 01:56 ods.orders dn_1 88512342/3 U 4712 22003 amount 1 #41" in " ".join(cells(found)[0].split())
    text = screen(made.app)
    assert "22003   column amount   numeric field overflow" in text
    assert "pair    #41, the old key 4711: both are handled together" in text
    await press(pilot, "j")
    assert "removes the row of the old key from mart.orders" in screen(made.app)
    await press(pilot, "j")
    assert "23514   constraint orders_amount_check   new row violates it" in screen(made.app)
    await press(pilot, "j")
    assert "copied row of ods.orders" in screen(made.app) and "read    all 88512339" in screen(made.app)


@driven(lambda folder: holding(folder, *entries()))
async def test_A_lists_what_is_over_and_filter_and_order_work(
    made: Filled, quarantines: PlantedQuarantines, pilot: Pilot[int]
) -> None:
    found = await listed(pilot, made)
    await press(pilot, "A")
    await until(pilot, made.app, "superseded", " 4713 ")
    assert quarantines.asked[-1].states == ()  # type: ignore[attr-defined]
    await press(pilot, "Z")
    assert len(found.table.keys()) == 4, "only held rows count as a fault"
    await press(pilot, "Z", "G")
    text = screen(made.app)
    assert "has no effect: the entry is superseded" in text and "superseded 11-21 02:31:07 UTC by 88512329/2" in text
    await press(pilot, "slash", *"4809", "enter")
    assert found.table.keys() == ["40"]
    await press(pilot, "escape", "s", "S")
    assert found.table.keys()[0] == "12", "by id"
    await press(pilot, "A")
    await until_asked(pilot, lambda: len(found.table.keys()) == 4)


def test_f_reads_the_entries_before_these_and_two_thousand_scroll(tmp_path: Path) -> None:
    many = [entry(number, f"k{number}") for number in range(2_000, 0, -1)]
    made, quarantines = holding(tmp_path, *many)

    async def do(pilot: Pilot[int]) -> None:
        await errors(pilot, made)
        await press(pilot, "enter")
        await until(pilot, made.app, f"Quarantine orders_rt {PAGE}", "f shows more")
        found = shown(made.app, QuarantineScreen)
        for pages in (2, 3, 4):
            await press(pilot, "f")
            await until_asked(pilot, lambda pages=pages: found.table.row_count == PAGE * pages)  # type: ignore[misc]
        await press(pilot, "G")
        assert " k1 " in screen(made.app) and found.table.cursor_key == "1"
        asked = len(quarantines.asked)
        rows = found.rows()
        await press(pilot, *["k"] * 5, "pageup", "g")
        assert len(quarantines.asked) == asked and found.rows() is rows, "moving queries no sink and adds no rows"
        await press(pilot, "f")
        await until_asked(pilot, lambda: "f shows more" not in screen(made.app))
        await press(pilot, "f")
        assert "no more entries" in screen(made.app)

    drive(made, do)


@driven(lambda folder: holding(folder, *entries()))
async def test_one_entry_whole_with_its_values_and_its_neighbours(
    made: Filled, quarantines: PlantedQuarantines, pilot: Pilot[int]
) -> None:
    await listed(pilot, made)
    await press(pilot, "enter")
    text = await until(pilot, made.app, "12345.60", "entry 42 quarantined")
    found = shown(made.app, QuarantineEntryScreen)
    assert "* amount" in text and "note          NULL" in text
    await press(pilot, "j", "j")
    assert "amount = 12345.60" in screen(made.app)
    await press(pilot, "right_square_bracket")
    await until(pilot, made.app, "entry 41 quarantined", "12345.60")
    assert made.app.screen is not found and quarantines.asked[-1] == (41, False)
    await press(pilot, "escape")
    assert shown(made.app, QuarantineScreen).table.cursor_key == "41"


def test_v_hides_values_and_masked_ones_are_read_again(tmp_path: Path) -> None:
    made, quarantines = holding(tmp_path, *entries())
    quarantines.masked = True

    async def do(pilot: Pilot[int]) -> None:
        await listed(pilot, made)
        await press(pilot, "enter")
        text = await until(pilot, made.app, "***", "masked")
        assert "12345.60" not in text and "NULL" in text and "4712" in text, "the key is shown"
        await press(pilot, "v")
        await until(pilot, made.app, "12345.60")
        assert quarantines.asked[-1] == (42, True)
        number = len(quarantines.asked)
        await press(pilot, "v")
        assert "12345.60" not in screen(made.app) and len(quarantines.asked) == number
        await press(pilot, "escape", "enter")
        await until(pilot, made.app, "***")
        assert quarantines.asked[-1] == (42, False)

    drive(made, do)


# -- queries to the sink
# -----------------------------------------------------------------------------------------------


def test_a_sink_is_asked_while_errors_is_seen_and_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, quarantines = holding(tmp_path, *entries())
    now = [100.0]
    monkeypatch.setattr(made.clock, "monotonic", lambda: now[0])

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "1", "2", "6", "7", "r", "1", "r")
        assert quarantines.asked == []
        await errors(pilot, made)
        asked = ((1.9, "r", 1), (2.1, "7 4", 1), (2.1, "r", 2), (12.0, "7 4", 2), (12.2, "7", 2), (12.2, "4", 3))
        for seconds, keys, number in asked:
            now[0] = 100.0 + seconds
            await press(pilot, *keys.split())
            await until_asked(pilot, lambda number=number: len(quarantines.asked) >= number)  # type: ignore[misc]
            assert quarantines.asked == ["counts"] * number, (seconds, keys)

    drive(made, do)


def test_a_sink_that_does_not_answer_is_one_line_and_holds_nothing_up(tmp_path: Path) -> None:
    made, quarantines = holding(tmp_path, *entries())
    tell(made, None)
    quarantines.fault = Unreachable("sink mart (h2:5432/mart): connection refused")

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "4")
        text = await until(pilot, made.app, "rows in quarantine: unknown")
        assert "fatal" in text and "stock_rt" in text, "the errors are still shown"
        shown(made.app, ErrorsScreen).table.move_to(KEY)
        await pilot.pause()
        assert "connection refused" in flowing(screen(made.app))
        tell(made, 3)
        await press(pilot, "r")
        await until(pilot, made.app, "3 rows in quarantine, as last reported")
        await press(pilot, "enter")
        await until(pilot, made.app, "connection refused", "outdated")

    drive(made, do)


def test_a_sink_that_hangs_is_asked_once_and_the_console_ends_without_it(tmp_path: Path) -> None:
    made, _ = holding(tmp_path, *entries())
    going, asked = threading.Event(), []

    class Hanging(PlantedQuarantines):
        def _note(self, what: object) -> None:
            asked.append(what)
            going.wait(30)

    made.app.services.quarantines = Hanging()

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "4")
        await until_asked(pilot, lambda: bool(asked))
        for one in made.app.services.sinks._sinks:
            one.asked = float("-inf")
        await press(pilot, "r", "1", "4")
        shown(made.app, ErrorsScreen).table.move_to(KEY)
        await pilot.pause()
        assert asked == ["counts"] and "3 rows in quarantine, as last reported" in screen(made.app)

    drive(made, do)
    going.set()


@driven(lambda folder: holding(folder, *entries()))
async def test_what_was_counted_stays_where_the_sink_goes_away(
    made: Filled, quarantines: PlantedQuarantines, pilot: Pilot[int]
) -> None:
    await errors(pilot, made)
    quarantines.fault = Unreachable("gone")
    for one in made.app.services.sinks._sinks:
        one.asked = float("-inf")
    await press(pilot, "r")
    text = await until(pilot, made.app, "the sink has not answered since 11-21 02:31:08: gone")
    assert "3 rows in quarantine, oldest" in text


@driven(lambda folder: holding(folder, *entries()))
async def test_the_past_shows_what_was_recorded_and_asks_no_sink(
    made: Filled, quarantines: PlantedQuarantines, pilot: Pilot[int]
) -> None:
    await listed(pilot, made)
    number = len(quarantines.asked)
    local = made.app.shown.local
    assert local.at is not None
    made.app.history = planted = cast(HistoryMode, _Past())
    made.app.show_moment(local, {})
    await press(pilot, "r", "A")
    assert "not recorded" in screen(made.app) and shown(made.app, QuarantineScreen).rows() == []
    await press(pilot, "escape")
    text = await until(pilot, made.app, "3 rows in quarantine, as last reported")
    assert "[4 Errors" in text and len(quarantines.asked) == number
    assert planted is made.app.history
    made.app.leave_history()
    await until(pilot, made.app, "3 rows in quarantine, oldest")


class _Past:
    """A replay that does not advance."""

    local = None

    def renew(self) -> None:
        return

    def close(self) -> None:
        return


# -- actions ---------------------------------------------------------------------------------------
# -------------------


def words(runs: Any) -> list[Sequence[str]]:
    return [one.words[1:] for one in runs.done]


def test_marked_rows_are_replayed_with_one_key_and_told_row_by_row(tmp_path: Path) -> None:
    made, quarantines = holding(tmp_path, *entries())
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await listed(pilot, made)
        await press(pilot, "j", "j", "space", "space", "a", "r")
        assert "REPLAY 2 ENTRIES of job orders_rt" in screen(made.app) and "entries #39, #40" in screen(made.app)
        await press(pilot, "enter")
        assert not runs.orders, "Enter cancels"
        await press(pilot, "a", "r", "y")
        assert words(runs) == [("errors", "replay", "--json", "--reason=INC-2304", "orders_rt", "39", "40")]
        quarantines.rows = [one for one in quarantines.rows if one.id != 39]
        found = [
            {"id": 39, "state": "replayed", "outcome": "replayed", "sqlstate": ""},
            {
                "id": 40,
                "state": "quarantined",
                "outcome": "rejected again: 23514 new row violates it",
                "sqlstate": "23514",
            },
        ]
        runs.end(next(iter(runs.actions)), 1, {"entries": found})
        text = await until(pilot, made.app, "1 replayed, 1 still rejected")
        rows = [line for line in text.splitlines() if "#" in line]
        assert rows == [" #40  rejected again: 23514 new row violates it", " #39  replayed"]
        await press(pilot, "escape")
        await until(pilot, made.app, "Quarantine orders_rt 3")

    drive(made, do)


def test_all_of_a_job_is_replayed_from_its_line(tmp_path: Path) -> None:
    made, _ = holding(tmp_path, *entries())
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await errors(pilot, made)
        await press(pilot, "a")
        assert "replay all quarantined rows, 4 entries" in screen(made.app)
        await press(pilot, "r", "y")
        assert words(runs) == [("errors", "replay", "--json", "--reason=INC-2304", "--all", "orders_rt")]
        runs.end(next(iter(runs.actions)), 0, {"entries": []})
        await until(pilot, made.app, "no rows are quarantined")

    drive(made, do)


def test_discarding_asks_for_a_reason_the_job_and_the_number_of_rows(tmp_path: Path) -> None:
    made, _ = holding(tmp_path, *entries())
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app, "no more")
        await listed(pilot, made)
        await press(pilot, "a", "d", "y", "backspace")
        assert isinstance(made.app.screen, EntryConfirm) and not runs.orders
        await typed(pilot, "orders_rt")
        await press(pilot, "enter", "4", "enter", "enter")
        assert "still required: rows" in screen(made.app) and not runs.orders
        await press(pilot, "shift+tab", "backspace", "1", "enter", "enter")
        expected = ("--reason=no more", "--confirm=orders_rt", "--rows=1", "orders_rt", "42")
        assert words(runs) == [("errors", "discard", "--json", "--execute", *expected)]
        runs.end(next(iter(runs.actions)), 3, None, "slotkeeper: 2 entries would be discarded\n  --rows 2\n")
        await until(pilot, made.app, "refused: 2 entries would be discarded", "next: --rows 2")

    drive(made, do)


def test_the_menus_letters_act_on_what_was_chosen_and_never_on_what_is_over(tmp_path: Path) -> None:
    made, _ = holding(tmp_path, *entries())
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await listed(pilot, made)
        await press(pilot, "A")
        await until(pilot, made.app, " 4713 ")
        await press(pilot, "G", "a", "r")
        assert isinstance(made.app.screen, EntryMenu) and "r: already resolved" in screen(made.app)
        await press(pilot, "d")
        assert isinstance(made.app.screen, EntryMenu) and not runs.orders
        await press(pilot, "R")
        assert "REPLAY 4 ENTRIES" in screen(made.app)
        await press(pilot, "escape", "a", "D")
        assert "DISCARD 4 ENTRIES" in screen(
            made.app
        ) and "all entries that are quarantined when the action runs" in screen(made.app)
        await press(pilot, "escape", "enter")
        await until(pilot, made.app, "entry 12 superseded")
        await press(pilot, "a", "r")
        assert isinstance(made.app.screen, EntryMenu) and "r: already resolved" in screen(made.app)
        await press(pilot, "o")
        assert "Actions 0" in screen(made.app)

    drive(made, do)


def test_a_read_only_console_rehearses(tmp_path: Path) -> None:
    made, _ = holding(tmp_path, *entries())
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await listed(pilot, made)
        await press(pilot, "a", "r", "y")
        assert "read-only: `:rw REASON`" in screen(made.app) and not runs.orders

    drive(made, do)


def test_rows_of_a_job_that_is_not_configured_here_are_seen_and_left_alone(tmp_path: Path) -> None:
    made = console(tmp_path)
    retained(made, *(replace(one, slot="other", job="foreign_rt") for one in entries()))

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "4")
        await until(pilot, made.app, "foreign_rt", "3 rows in quarantine")
        found = shown(made.app, ErrorsScreen)
        found.table.move_to(next(key for key in keys_of(found) if "foreign_rt" in key))
        await press(pilot, "a", "r")
        assert "this job is not in the configuration" in screen(made.app)
        await press(pilot, "escape", "enter")
        await until(pilot, made.app, "Quarantine foreign_rt 4")
        await press(pilot, "enter")
        await until(pilot, made.app, "12345.60")

    drive(made, do)


@driven(lambda folder: holding(folder, entry(1, state=EntryState.REPLAYED)))
async def test_an_error_has_nothing_that_could_be_done_to_it(made: Filled, _: object, pilot: Pilot[int]) -> None:
    await press(pilot, "4", "a")
    assert "Enter opens the job of an error" in screen(made.app) and "1 kind, 1 occurrence" in screen(made.app)
    assert "quarantine" not in screen(made.app).replace("quarantined rows of one job", "")
