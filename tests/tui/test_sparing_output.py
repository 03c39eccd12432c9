"""Output to the terminal: as few bytes as possible, and everything that is shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

from slotkeeper.console.tui.commands import COMMANDS
from slotkeeper.console.tui.output import Sparing
from slotkeeper.console.tui.widgets.line import Line
from tests.support.terminal import _PLACE, _TOKEN, plain
from tests.tui.filled import LARGE, SMALL, Filled, console, drive, driven, press

WIDTH = 12
Cells = dict[tuple[int, int], tuple[str, frozenset[str]]]
_ON_BLANKS = frozenset({"is 4", "is 7", "is 9"})
"""Underlined, reversed and struck out: without these, a blank looks the same in every colour and weight."""
_TAKEN = {"22": "12", "23": "3", "24": "4", "27": "7", "29": "9"}


def _drawn(cells: Cells, sent: str) -> Cells:
    """The cells after this output, each as (character, style); output starts and ends without a style."""
    pen: dict[str, str] = {}
    row = column = 0
    for token in (found[0] for found in _TOKEN.finditer(sent)):
        if place := _PLACE.fullmatch(token):
            row, column = int(place[1]) - 1, int(place[2]) - 1
        elif token[0] == "\x1b":
            words = iter(token[2:-1].split(";"))
            for word in words:
                if word in ("38", "48"):
                    pen[word[0]] = ";".join(next(words) for _ in range({"5": 1, "2": 3}[next(words)]))
                elif word in ("", "0"):
                    pen.clear()
                elif word in _TAKEN:
                    for each in _TAKEN[word]:
                        pen.pop(f"is {each}", None)
                elif len(word) == 1:
                    pen[f"is {word}"] = ""
                elif word in ("39", "49"):
                    pen.pop(word[0], None)
                else:
                    pen["3" if word[0] in "39" else "4"] = word
        elif token == "\n":
            row += 1
        else:
            look = frozenset(f"{part} {value}" for part, value in pen.items())
            bare = look if pen.keys() & _ON_BLANKS else frozenset(one for one in look if one.startswith("4"))
            for offset, character in enumerate(token):
                cells[row, column + offset] = character, bare if character == " " else look
            column += len(token)
    assert not pen
    return cells


def _styles() -> st.SearchStrategy[Style | None]:
    flags = st.sampled_from([True, False, None])
    colour = st.sampled_from([None, "red", "default", "#102030", "color(123)"])
    return st.one_of(
        st.none(),
        st.builds(Style, color=colour, bgcolor=colour, bold=flags, dim=flags, underline=flags, reverse=flags),
    )


def _strips(number: int) -> st.SearchStrategy[list[Strip]]:
    line = st.lists(_styles(), min_size=WIDTH, max_size=WIDTH)
    letters = st.text("ab ", min_size=WIDTH, max_size=WIDTH)

    def made(text: str, styles: list[Style | None]) -> Strip:
        return Strip([Segment(one, style) for one, style in zip(text, styles, strict=True)])

    return st.lists(st.builds(made, letters, line), min_size=number, max_size=number)


@given(_strips(3), st.lists(st.tuples(st.integers(0, 2), st.integers(0, WIDTH), st.integers(1, WIDTH)), min_size=1))
def test_every_cell_that_was_asked_for_looks_as_when_all_is_drawn_and_no_other_is_sent(
    strips: list[Strip], asked: list[tuple[int, int, int]]
) -> None:
    on = Console(color_system="truecolor")
    whole = LayoutUpdate([[one] for one in strips], Region(0, 0, WIDTH, len(strips)))
    every = _drawn({}, whole.render_segments(on))
    assert _drawn({}, Sparing(whole).render_segments(on)) == every
    spans = [(row, first, min(WIDTH, first + width)) for row, first, width in asked]
    halves = [{0: strip.crop(0, 5), 5: None, 7: strip.crop(7)} for strip in strips]
    sent = Sparing(ChopsUpdate(halves, spans, [[5, 7, WIDTH]] * len(strips))).render_segments(on)
    wanted = {(row, cell) for row, first, end in spans for cell in range(first, end) if cell not in (5, 6)}
    assert _drawn({}, sent) == {place: every[place] for place in wanted}


def test_a_style_costs_what_differs_from_the_one_before() -> None:
    words = [("a", "bold red on blue"), ("b", "bold red on blue"), ("c", "green on blue"), ("d", "")]
    strip = Strip([Segment(text, Style.parse(style)) for text, style in words])
    update = Sparing(LayoutUpdate([[strip]], Region(0, 0, 4, 1)))
    assert update.render_segments(Console(color_system="standard")) == "\x1b[1;1H\x1b[1;31;44mab\x1b[22;32mc\x1b[md"


def _recorded(sent: list[str], app: App[int], screen: object, renderable: Any) -> None:
    if renderable is not None:
        sent.append(renderable.render_segments(app.console))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The output to the terminal, one text for each frame."""
    found: list[str] = []
    monkeypatch.setattr(App, "_display", lambda app, screen, renderable: _recorded(found, app, screen, renderable))
    return found


@driven(size=LARGE)
async def test_a_second_sends_the_digits_that_it_changes(made: Filled, pilot: Pilot[int], sent: list[str]) -> None:
    await pilot.pause()
    sent.clear()
    made.clock.at += timedelta(seconds=1)
    made.app.tick()
    await pilot.pause()
    assert [plain(one.encode()) for one in sent] == ["19"]


def _whole(app: App[int]) -> Cells:
    return _drawn({}, app.screen._compositor.render_full_update().render_segments(app.console))


@driven(size=LARGE)
async def test_a_cursor_move_sends_the_cells_that_differ_and_few_between_them(
    made: Filled, pilot: Pilot[int], sent: list[str]
) -> None:
    before = _whole(made.app)
    sent.clear()
    await press(pilot, "j")
    after = _whole(made.app)
    differ = [place for place in after if after[place] != before[place]]
    cells = _drawn({}, "".join(sent))
    assert set(differ) <= cells.keys()
    assert len(plain("".join(sent).encode())) == len(cells) <= 1.2 * len(differ)


@driven(size=LARGE)
async def test_the_row_under_the_cursor_is_sent_before_what_it_means(
    made: Filled, pilot: Pilot[int], sent: list[str]
) -> None:
    sent.clear()
    await press(pilot, "j")
    first, second = (_drawn({}, one) for one in sent)
    table = made.app.screen.query_one("#table").region
    assert {row for row, _ in first} <= set(range(table.y, table.bottom))
    assert {row for row, _ in second}.isdisjoint(range(table.y, table.bottom))


@driven(size=LARGE)
async def test_a_frame_renders_no_widget_that_it_does_not_change(
    made: Filled, pilot: Pilot[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    await pilot.pause()
    rendered: list[str | None] = []
    real = Widget.render_lines

    def counted(widget: Widget, crop: Region) -> list[Strip]:
        rendered.append(widget.id)
        return real(widget, crop)

    monkeypatch.setattr(Widget, "render_lines", counted)
    made.clock.at += timedelta(seconds=1)
    made.app.tick()
    await pilot.pause()
    assert set(rendered) == {"identity", made.app.screen.id}


LISTS = "j j z k 2 j j enter j h escape l escape 3 j z 4 5 6 7 1 slash i n escape question_mark escape"
PAGES = "question_mark pagedown pagedown down pageup pagedown l o escape 2 enter l pagedown pageup escape L escape 3 a"


@pytest.mark.parametrize(("keys", "size"), [(LISTS, LARGE), (PAGES, SMALL)], ids=["lists", "pages"])
def test_what_was_sent_adds_up_to_what_is_shown(
    keys: str, size: tuple[int, int], tmp_path: Path, sent: list[str]
) -> None:
    made, terminal = console(tmp_path), Cells()

    async def do(pilot: Pilot[int]) -> None:
        for key in keys.split():
            await press(pilot, key)
            _drawn(terminal, "".join(sent))
            sent.clear()
            assert terminal == _whole(made.app), key

    drive(made, do, size)


@given(st.text(max_size=40))
def test_whatever_a_widget_draws_no_control_reaches_the_terminal_and_no_cell_moves(text: str) -> None:
    strip = Strip([Segment(text)])
    sent = Sparing(LayoutUpdate([[strip]], Region(0, 0, WIDTH, 1))).render_segments(Console())
    body = sent.removeprefix("\x1b[1;1H")
    assert body.isprintable() and cell_len(body) == strip.cell_length


@driven()
async def test_hostile_names_among_the_completions_of_the_palette_are_visible_text(
    made: Filled, pilot: Pilot[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = "x\x1b]0;t\x07\x1b[2J\u202e"
    monkeypatch.setattr("slotkeeper.console.tui.commands.slots_known", lambda app: {hostile: None})
    monkeypatch.setitem(COMMANDS, "slot", replace(COMMANDS["slot"], values=lambda app: [hostile]))
    await press(pilot, "colon", *"slot", "space", "down")
    shown = made.app.screen.query_one("#offered", Line)._strips
    text = "".join(one.text for one in shown)
    assert "x\\x1b]0;t\\x07" in text and text.isprintable()
