"""Where a slot is reset to: the safest target first, a letter each; a point, a time and a backup need their value.

Nothing is moved here: a plan is made and shown next. Next door: `preview` beside this shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from console.actions.commands import Doing, Place, SlotVerb, Target
from console.monitor.snapshot import Level
from console.tui.screens.actions.base import ActScreen, Sheet
from console.tui.screens.actions.preview import SlotPreview
from console.tui.widgets.line import Line
from core.domain.text import safe

_TARGETS = {
    "e": ("earliest", "all that is still kept is applied again; skips nothing"),
    "p": ("point", "a sync point"),
    "t": ("time", "just before the first change at or after a time"),
    "b": ("backup", "what a backup holds; `slots history` names them"),
    "s": ("snapshot", "the table is copied anew by the next start"),
    "l": ("latest", "what was not applied yet is SKIPPED"),
}
_ASKS = {
    "point": "DN=N for one DN (several with blanks between), or N for all",
    "time": "a time with its offset, as 2026-01-31T08:30:00+01:00 or with Z",
    "backup": "the backup's id",
}


class TargetForm(ActScreen):
    """A reset, and where to."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"choose('{name}')", name, id=f"act-to-{name}") for key, (name, _) in _TARGETS.items()),
        Binding(
            "enter", "choose('earliest')", "the first, which is the safest", id="act-to-first", key_display="Enter"
        ),
    ]
    its_place = "reset > to?   a plan is made next; nothing is done yet"
    keys_shown: ClassVar[tuple[str, ...]] = ("back", "act-to-first")

    def __init__(self, place: Place, wanted: str = "") -> None:
        super().__init__()
        self.place = place
        self.wanted = wanted

    def body(self) -> Iterator[Widget]:
        """The targets, and a field for a value."""
        yield Line("act-title")
        yield Sheet()
        yield Line("act-head")
        yield Input(id="act-value", select_on_focus=False, max_length=500)

    def on_mount(self) -> None:
        """A line for the value, where one is needed."""
        self.query_one(Input).cursor_blink = False
        super().on_mount()
        self._show(self.wanted)

    def first(self) -> Widget:
        """The letters; the value where its target was chosen in the menu."""
        return self.query_one(Input) if self.wanted else self.sheet

    def draw(self) -> None:
        """A line per target."""
        self.headline(f"RESET SLOT   {safe(self.place.text, 120)}   to")
        lines: list[Text] = [self.text("")]
        for key, (name, means) in _TARGETS.items():
            mark = ">" if name == (self.wanted or "earliest") else " "
            level = Level.WARNING if name == "latest" else Level.FINE
            lines += self.wrapped([(level, f"{mark} {key}  {name:<9} {means}")])
        self.sheet.fill("targets", lines)
        self.say("act-head", self.text(f" {_ASKS.get(self.wanted, '')}"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Letters choose while no value is being typed."""
        if action == "choose":
            return not isinstance(self.focused, Input)
        return super().check_action(action, parameters)

    def action_choose(self, name: str) -> None:
        """Plan at once, or ask for the value."""
        if name in _ASKS:
            self._show(name)
        else:
            self._plan(Target(name))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The value is there."""
        if event.value.strip():
            self._plan(Target(self.wanted, event.value.strip()))

    def action_back(self) -> None:
        """From the value to the targets, from there away."""
        if isinstance(self.focused, Input):
            self._show("")
        else:
            super().action_back()

    def _show(self, wanted: str) -> None:
        self.wanted = wanted
        field = self.query_one(Input)
        field.display = bool(wanted)
        self.set_focus(field if wanted else self.sheet)
        self.redraw()

    def _plan(self, target: Target) -> None:
        self.app.switch_screen(SlotPreview(Doing(SlotVerb.RESET, self.place, target)))
