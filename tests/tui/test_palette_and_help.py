"""Commands are typed after a colon; the help lists keys and commands, and can run them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from slotkeeper.console.tui.commands import COMMANDS, PaletteScreen, completions, wrong
from slotkeeper.console.tui.keymap import bindings_of
from slotkeeper.console.tui.screens.help import HelpScreen
from slotkeeper.console.tui.screens.table import TableScreen
from tests.tui.filled import LARGE, SMALL, Filled, console, drive, driven, on_screen, press, screen
from tests.tui.planted import typed as keys
from tests.tui.test_shell_keys import place, typed


@pytest.mark.parametrize("key", ["colon", "ctrl+p"])
@driven()
async def test_the_palette_opens_completes_and_closes(made: Filled, pilot: Pilot[int], key: str) -> None:
    await press(pilot, key, "j", "o")
    assert ":jobs" in screen(made.app) and ":job " in screen(made.app)
    await press(pilot, "down", "down", "tab")
    assert made.app.screen.query_one(Input).value == ":job "
    assert ":job stock_rt" in screen(made.app)
    await press(pilot, *"led", "tab", "enter")
    assert "Jobs > ledger_full" in screen(made.app)
    await press(pilot, key, "q", "escape")
    assert not isinstance(made.app.screen, PaletteScreen) and made.app.is_running


@pytest.mark.parametrize("size", [SMALL, LARGE, (60, 15)])
def test_every_command_is_listed_and_fits_the_screen(size: tuple[int, int], tmp_path: Path) -> None:
    made = console(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "colon")
        seen = screen(made.app)
        for _ in COMMANDS:
            await press(pilot, "down")
            seen += screen(made.app)
            assert all(len(line) <= size[0] for line in screen(made.app).splitlines())
        assert [name for name in COMMANDS if f":{name}" not in seen] == []
        await press(pilot, "up")
        assert made.app.screen.query_one(Input).region.bottom == size[1]

    drive(made, do, size)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slots", "[3 Slots]"),
        ("over", "[1 Overview]"),
        (":audit", "[7 Audit]"),
        ("job orders_rt", "Jobs > orders_rt"),
        ("slot orders_slot", "Slots > orders_slot"),
        ("freeze", "paused 02:31:08Z"),
        ("faults", "faults only"),
        ("wide", "wide"),
        ("help", "Help: Slots"),
    ],
)
@driven()
async def test_a_command_does_what_it_says(made: Filled, pilot: Pilot[int], text: str, words: str) -> None:
    await press(pilot, "3", "r")
    await typed(pilot, text)
    await pilot.pause()
    assert words in screen(made.app)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slts", "did you mean :slots?"),
        ("xyzzy", "unknown command :xyzzy; Tab lists them"),
        ("rw", "missing argument: :rw REASON"),
    ],
)
@driven()
async def test_what_is_wrong_with_a_command_is_said_in_one_line_and_can_be_mended(
    made: Filled, pilot: Pilot[int], text: str, said: str
) -> None:
    await typed(pilot, text)
    assert said in screen(made.app) and isinstance(made.app.screen, PaletteScreen)
    await press(pilot, "escape")
    assert not isinstance(made.app.screen, PaletteScreen)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("job ordersrt", "unknown job ordersrt; did you mean orders_rt?"),
        ("slot x", "unknown slot x"),
        ("refresh 3", "one of 1, 2, 5, 10, 30 seconds"),
    ],
)
@driven()
async def test_what_is_wrong_with_an_argument_is_said_where_one_is(
    made: Filled, pilot: Pilot[int], text: str, said: str
) -> None:
    await typed(pilot, text)
    assert said in place(made)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rw INC-1 slot lost", " :rw INC-1 slot lost  REASON: allow changes for ten minutes"),
        ("at -15m", " :at -15m           TIME: show a past time"),
        ("pause orders_rt invoice_rt", "no completion; Enter runs the command as typed"),
        ("xyzzy 1", "no command matches; Esc closes"),
    ],
)
@driven()
async def test_a_command_with_a_free_text_is_shown_with_its_meaning_while_it_is_typed(
    made: Filled, pilot: Pilot[int], text: str, said: str
) -> None:
    await press(pilot, "colon")
    await keys(pilot, text)
    shown = screen(made.app)
    assert said in shown
    assert ("no command matches" in shown) is (text == "xyzzy 1")


def test_a_part_of_a_name_is_enough_where_only_one_command_begins_so(tmp_path: Path) -> None:
    assert wrong("q") == "" and wrong("al") == "" and "did you mean" in wrong("qit")
    assert wrong("a").startswith("unknown command")
    made = console(tmp_path)
    assert [typed for typed, _ in completions(made.app, "hi")] == ["history"]
    made.store.close()


async def _help(made: Filled, pilot: Pilot[int], *keys: str) -> str:
    await press(pilot, *keys, "question_mark")
    assert isinstance(made.app.screen, HelpScreen)
    return screen(made.app)


@driven(size=(60, 15))
async def test_the_chosen_line_is_seen_also_where_lines_before_it_are_long(made: Filled, pilot: Pilot[int]) -> None:
    await _help(made, pilot)
    for _ in range(24):
        await press(pilot, "down")
        found = on_screen(made.app, HelpScreen)
        chosen = found._every[found._chosen]
        assert chosen.words[:20] in screen(made.app)


@pytest.mark.parametrize("size", [SMALL, LARGE, (60, 15)])
def test_help_lists_every_key_and_command_and_scrolls(size: tuple[int, int], tmp_path: Path) -> None:
    made = console(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        below = made.app.frame
        assert below is not None
        seen = await _help(made, pilot)
        for key in ("down", *["pagedown"] * 18):
            await press(pilot, key)
            seen += screen(made.app)
            assert len(screen(made.app).splitlines()) <= size[1]
        assert [b.binding.id for b in bindings_of(below) if b.binding.description not in seen] == []
        assert [name for name in COMMANDS if f":{name}" not in seen] == []
        for words in ("x critical", "Shift+drag", "clip.txt", ":rw REASON", "EVERYWHERE"):
            assert words in seen
        await press(pilot, *["pageup"] * 18, "up")
        assert "THESE CAN CHANGE JOBS" in screen(made.app)

    drive(made, do, size)


@driven()
async def test_typing_searches_help_and_enter_does_it_on_the_screen_below(made: Filled, pilot: Pilot[int]) -> None:
    shown = await _help(made, pilot)
    assert "Help: Overview" in shown and "read-only" in shown
    assert "THESE CAN CHANGE JOBS, SLOTS OR SESSIONS; EACH ASKS FIRST" in shown
    await press(pilot, *"faults")
    found = screen(made.app)
    assert "show only rows with a fault" in found and "mouse" not in found
    await press(pilot, "enter")
    assert isinstance(made.app.screen, TableScreen) and made.app.screen.faults_only
    await _help(made, pilot)
    await press(pilot, *"nosuchthing")
    assert "no key or command matches" in screen(made.app)
    await press(pilot, "enter", "escape")
    assert made.app.screen is made.app.frame and "[1 Overview]" in screen(made.app)
    await _help(made, pilot)
    await press(pilot, *":job", "enter")
    on_screen(made.app, PaletteScreen)


@driven()
async def test_help_says_that_changes_are_armed(made: Filled, pilot: Pilot[int]) -> None:
    await typed(pilot, "rw INC-2304")
    assert "armed: INC-2304" in await _help(made, pilot)


@driven()
async def test_a_message_and_a_tick_before_a_screen_is_composed_change_nothing(made: Filled, pilot: Pilot[int]) -> None:
    assert made.app.frame is not None
    opening = HelpScreen(made.app.frame)
    made.app.push_screen(opening)
    made.app.say("said while it opens")
    opening.tick()
    await pilot.pause()
    assert made.app.screen is opening and "said while it opens" in screen(made.app)


@driven()
async def test_the_time_below_an_open_prompt_continues(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "colon")
    assert "02:31:08Z" in screen(made.app)
    made.clock.at += timedelta(seconds=30)
    made.app.tick()
    await pilot.pause()
    assert "02:31:38Z" in screen(made.app) and isinstance(made.app.screen, PaletteScreen)
