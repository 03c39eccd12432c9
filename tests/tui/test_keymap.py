"""The page of keys agrees with the bindings, and each key has one meaning."""

from __future__ import annotations

from pathlib import Path

from bench.keymap_page import page, screens, two_meanings
from slotkeeper.console.tui.app import ConsoleApp
from slotkeeper.console.tui.base_app import Shell
from slotkeeper.console.tui.keymap import own
from slotkeeper.console.tui.screens.base import Frame
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.console.tui.widgets.line import Panel
from slotkeeper.console.tui.widgets.live_table import LiveTable

PAGE = Path(__file__).parents[2] / "docs" / "keymap.md"
EVERYWHERE = (ConsoleApp, Shell, LiveTable, Panel)


def test_the_page_is_what_the_bindings_say() -> None:
    assert PAGE.read_text("utf-8") == page(), "make docs"


def test_no_key_means_one_thing_here_and_another_there() -> None:
    assert two_meanings() == []


def test_a_key_with_two_meanings_would_be_found() -> None:
    class Wrong(TableScreen):
        BINDINGS = [("p", "purge", "purge")]  # noqa: RUF012  as Textual reads it

    assert own(Wrong) == []  # a binding without a name belongs to Textual
    Wrong.BINDINGS = [next(one for one in own(TableScreen) if one.id == "mark").with_key("p")]
    try:
        Wrong.__module__ = "slotkeeper.console.tui.screens.wrong"
        assert any("Wrong: p is pause and mark" in one for one in two_meanings())
    finally:
        Wrong.__module__ = __name__


def test_every_binding_has_a_name_of_its_own_and_words() -> None:
    for kind in (*screens(), *EVERYWHERE):
        names = [one.id for one in own(kind)]
        assert all(names) and len(set(names)) == len(names), kind
        assert all(one.description for one in own(kind)), kind


def test_the_keys_row_of_every_screen_names_keys_that_there_are() -> None:
    for kind in screens():
        assert issubclass(kind, Frame)
        lineage = [*kind.__mro__, *ConsoleApp.__mro__, LiveTable]
        known = {one.id for each in lineage if each.__module__.startswith("slotkeeper.console.") for one in own(each)}
        assert set(kind.keys_shown) <= known, (kind, set(kind.keys_shown) - known)
