"""Fields that must be typed, and the two buttons below them.

A name or a number cannot be pasted: it is typed by somebody who has read it. Next door: `console.actions.rules` says
what is asked for; `confirm` and `preview` beside this have the fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from console.actions.rules import Part, Want
from console.monitor.snapshot import Level
from console.tui.screens.actions.base import ActScreen
from console.views.rows import plain
from core.domain.text import safe

NO_PASTE = "type it: what is pasted was not read"
_LABEL = 34


class Press(Static, can_focus=True):
    """A button of one row; Enter presses it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "press", "press", id="act-press", show=False)]

    class Pressed(Message):
        """It was pressed."""

        def __init__(self, id: str) -> None:
            super().__init__()
            self.id = id

    def __init__(self, words: str, id: str) -> None:
        super().__init__(f"[ {words} ]", id=id, classes="act-press", markup=False)

    def action_press(self) -> None:
        """Tell the screen."""
        self.post_message(self.Pressed(self.id or ""))


class Typing(Input):
    """A field for one thing that is asked for."""

    KEYS_IN_TURN = ("enter", "tab", "shift+tab")
    """Keys that the app acts on before it gives the next one to whatever has the focus then."""

    class Refused(Message):
        """Something was pasted."""

    def __init__(self, want: Want, value: str) -> None:
        super().__init__(value, id=f"act-{want.part.name.lower()}", select_on_focus=False, max_length=500)
        self.want = want
        self.cursor_blink = False

    async def action_submit(self) -> None:
        """Enter goes on to the next field, from the last one to Apply; it does nothing else.

        At once: what is typed next, or came over a slow line in one piece with it, belongs there.
        """
        stops: list[Widget] = [*self.screen.query(Typing), self.screen.query_one("#act-apply", Press)]
        self.screen.set_focus(stops[stops.index(self) + 1])

    def _on_paste(self, event: events.Paste) -> None:
        if not self.want.pasted:
            event.prevent_default()
            event.stop()
            self.post_message(self.Refused())

    def action_paste(self) -> None:
        """Paste what this console has copied, where that is allowed."""
        if self.want.pasted:
            super().action_paste()
        else:
            self.post_message(self.Refused())


class Fields(Vertical):
    """What is asked for, in the order of typing, then Cancel and Apply."""

    DEFAULT_CSS = """
    Fields { height: auto; width: 100%; }
    Fields Horizontal { height: 1; width: 100%; }
    Fields .act-label { width: 34; height: 1; }
    Fields Input, Fields Input:focus { height: 1; width: 1fr; border: none; padding: 0; background: $role-bar; }
    Fields .act-press { width: auto; height: 1; margin: 0 2; }
    Fields .act-press:focus { text-style: reverse; }
    Fields .act-off { text-style: dim; }
    Fields .act-off:focus { text-style: reverse dim; }
    """

    def __init__(self, wants: Sequence[Want], does: str, ascii_only: bool, typed: dict[Part, str]) -> None:
        super().__init__(id="act-fields")
        self._wants = tuple(wants)
        self._does = does
        self._ascii_only = ascii_only
        self._given = typed

    def compose(self) -> ComposeResult:
        """A row per field."""
        for want in self._wants:
            yield Horizontal(*self._row(want))
        yield Horizontal(Press("Cancel  Esc", "act-cancel"), Press(self._does, "act-apply"))

    def _row(self, want: Want) -> Iterator[Widget]:
        asked = plain(safe(want.answer or want.about, 200), self._ascii_only)
        label = f" {want.part.value:<7} {asked}"
        if len(label) > _LABEL - 3:
            label = f" {want.part.value:<7} as above: {want.about}"[: _LABEL - 3]
        yield Static(f"{label:<{_LABEL - 3}} > ", classes="act-label", markup=False)
        yield Typing(want, self._given.get(want.part, ""))

    @property
    def typed(self) -> dict[Part, str]:
        """What stands in the fields."""
        return {one.want.part: one.value for one in self.query(Typing)}

    def enable(self, on: bool) -> None:
        """Show whether Apply would do anything."""
        self.query_one("#act-apply").set_class(not on, "act-off")


class FieldsScreen(ActScreen):
    """A screen with fields."""

    def enable(self) -> None:
        """Show whether Apply would do anything."""
        raise NotImplementedError

    def apply(self) -> None:
        """The button was pressed."""
        raise NotImplementedError

    def on_input_changed(self) -> None:
        """Perhaps all is typed now."""
        self.enable()

    def on_typing_refused(self) -> None:
        """It was pasted."""
        self.console.say(NO_PASTE, Level.WARNING)

    def on_press_pressed(self, event: Press.Pressed) -> None:
        """Cancel, or Apply."""
        if event.id == "act-cancel":
            self.action_back()
        else:
            self.apply()
