"""The base of the action screens: they receive all keys, scroll their lines, and check whether changes are allowed.

An action is a Slotkeeper command that runs separately from the console. These screens only collect the confirmations
for a command and show its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from slotkeeper.console.actions.commands import Origin, Part, Want, shell_text
from slotkeeper.console.actions.runner import Order, Runner
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.boxes import Box, lower, upper
from slotkeeper.console.tui.screens.base import Frame, Line
from slotkeeper.console.tui.widgets.line import Panel
from slotkeeper.console.tui.write_mode import Arming
from slotkeeper.console.views.fitting import wrapped
from slotkeeper.console.views.rows import plain
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import SlotkeeperError

if TYPE_CHECKING:
    from slotkeeper.console.tui.services import Host

CANCELLED = "cancelled"
ALL_SEEN = "all lines are visible"
READ_ONLY = "read-only: `:rw REASON` allows changes for ten minutes"
PAST = "actions are not available in history; `:history` leaves it"


class Sheet(Panel, inherit_bindings=False):
    """Scrolling lines that fill the available height. It has the initial focus, and binds no letters that menus use."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "down", id="act-down", key_display="j"),
        Binding("k,up", "move(-1)", "up", id="act-up", key_display="k"),
        Binding("home", "jump(0)", "first line", id="act-first", key_display="Home"),
        Binding("end", "jump(1)", "last line", id="act-last", key_display="End"),
        Binding("pagedown", "page(1)", "page down", id="act-page-down", key_display="PgDn"),
        Binding("pageup", "page(-1)", "page up", id="act-page-up", key_display="PgUp"),
    ]

    class Scrolled(Message):
        """The scroll position has changed."""

    def __init__(self) -> None:
        super().__init__("act-sheet", 1)
        self.can_focus = True

    def fill(self, about: object, lines: Iterable[Text]) -> None:
        """Show these lines; the focus stays unchanged whether they scroll or not."""
        super().fill(about, list(lines))
        self.can_focus = True

    def on_resize(self, event: events.Resize) -> None:
        if event.size.height and event.size.height != self.room:
            self.room = event.size.height
            self.action_move(0)
            self.post_message(self.Scrolled())


class ActScreen(Frame, ModalScreen[None]):
    """A screen shown over the screen from which the action was requested."""

    DEFAULT_CSS = """
    ActScreen { background: $background; }
    ActScreen #tabs { display: none; }
    ActScreen #act-sheet { height: 1fr; min-height: 1; width: 100%; }
    ActScreen #act-head, ActScreen #act-tail, ActScreen #act-title { width: 100%; height: auto; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("colon,ctrl+p", "app.palette", "command", id="palette", key_display=":", tooltip="in a field: ctrl+p"),
    ]
    subject = False

    def body(self) -> Iterator[Widget]:
        yield Line("act-title")
        yield Sheet()

    def on_mount(self) -> None:
        super().on_mount()
        self.set_focus(self.first())  # not with `focus()`, which is deferred: a field may exist by then

    def first(self) -> Widget:
        """Return the widget that has the initial focus: the lines."""
        return self.sheet

    @property
    def runs(self) -> Runner:
        """The runner that starts commands."""
        return self.console.services.runs

    @property
    def origin(self) -> Origin:
        """The configuration and the state folder that the commands use."""
        services = self.console.services
        config = str(services.loaded.path.absolute()) if services.loaded else ""
        return Origin(config, str(Path(services.folder).resolve()))

    @property
    def sheet(self) -> Sheet:
        """The scrolling lines."""
        return self.query_one(Sheet)

    def set_going(self, order: Order) -> str | None:
        """Start a command and return its id; if it is refused, show the reason."""
        try:
            return self.runs.start(order)
        except SlotkeeperError as error:
            self.console.say(f"{error}" + (f"; {error.hint}" if error.hint else ""), Level.CRITICAL)
            return None

    def may_change(self) -> bool:
        """Return whether this console is armed; show a message if it is not."""
        why = PAST if self.console.in_history else self.read_only if self.console.armed is None else ""
        if why:
            self.console.say(why, Level.WARNING)
        return not why

    @property
    def read_only(self) -> str:
        """How to arm a read-only console from this screen."""
        return READ_ONLY + (" (in a field: ctrl+p)" if self.query(Typing) else "")

    def copied(self, words: Sequence[str]) -> None:
        """Copy a command; it includes the configuration if that is not the default."""
        shared = () if self.console.services.config else self.origin.shared
        self.console.copy_to_clipboard(shell_text(words[len(shared) :] if tuple(words[:1]) == shared else words))

    def panes(self) -> list[Widget]:
        """Return the lines, the fields in typing order, Apply and Cancel; without fields, Cancel precedes Apply."""
        fields, buttons = list(self.query(Input)), list(self.query(".act-press"))
        return [*self.query(Sheet), *fields, *(reversed(buttons) if fields else buttons)]

    def on_descendant_focus(self) -> None:
        self.say("keys", self._keys())

    def headline(self, words: str, step: int = 0) -> int:
        """Draw the title in a rule. On a screen with steps, it includes the step and is wrapped, never truncated.

        Returns the number of rows.
        """
        if not step:
            self.say("act-title", self.rule(words))
            return 1
        *above, last = wrapped(plain(words, self.console.ascii_only), self.app.size.width - 1, " ", "   ")
        title = Text("\n".join([*above, last]), self.style("strong"))
        steps = Text(end="")
        for number, name in enumerate(STEPS, 1):
            steps.append(f"  {number} {name}", self.style("here" if number == step else "dim"))
        room = self.app.size.width - cell_len(last) - cell_len(steps.plain) - 1
        apart = Text("\n" if room < 1 else " " * room)
        self.say("act-title", Text("", no_wrap=True, end="").join([title, apart, steps]), layout=True)
        return len(above) + 1 + (room < 1)

    def say_lines(self, id: str, lines: Sequence[Text]) -> None:
        """Show lines in a widget of this screen; the widget takes no row if there are no lines."""
        self.query_one(f"#{id}").display = bool(lines)
        self.say(id, Text("\n", no_wrap=True, end="").join(lines), layout=True)


STEPS = ("Plan", "Confirm", "Result")
LETTERS = "letter keys act on the plan; Enter goes to the fields"
NOT_HERE = "letter keys have no effect on a button; Tab goes to the fields"
NO_PASTE = "type the text: pasted text is not accepted"
TYPED_AHEAD = "Enter was pressed before the plan was shown: press it again"
_LABEL = 9


class Press(Static, can_focus=True):
    """A button of one row; Enter presses it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "press", "press", id="act-press", show=False)]
    KEYS_IN_TURN = ("enter", "escape", "tab", "shift+tab", "colon", "ctrl+p")

    class Pressed(Message):
        """The button was pressed; `ahead` means by a key that was typed before the screen had shown its content."""

        def __init__(self, id: str, ahead: bool) -> None:
            super().__init__()
            self.id = id
            self.ahead = ahead

    def __init__(self, words: str, id: str) -> None:
        super().__init__(f"[ {words} ]", id=id, classes="act-press", markup=False)

    def action_press(self) -> None:
        self.post_message(self.Pressed(self.id or "", cast("Host", self.app).typed_ahead))


class Typing(Input):
    """A field for one confirmation."""

    KEYS_IN_TURN = ("enter", "escape", "tab", "shift+tab", "ctrl+p")
    """Keys that the app processes completely before it sends the next key to the widget that then has the focus."""

    class Refused(Message):
        """Text was pasted."""

    def __init__(self, want: Want, value: str) -> None:
        about = "" if want.answer else want.about
        id = f"act-{want.part.name.lower()}"
        super().__init__(value, about, id=id, select_on_focus=False, max_length=500)
        self.want = want
        self.cursor_blink = False

    async def action_submit(self) -> None:
        """Move the focus to the next field, or from the last field to Apply. Enter has no other effect.

        The focus moves immediately, because text that follows Enter, for example in the same packet over a slow
        connection, belongs to the next field.
        """
        stops: list[Widget] = [*self.screen.query(Typing), self.screen.query_one("#act-apply", Press)]
        self.screen.set_focus(stops[stops.index(self) + 1])

    def _on_paste(self, event: events.Paste) -> None:
        if not self.want.pasted:
            event.prevent_default()
            event.stop()
            self.post_message(self.Refused())

    def action_paste(self) -> None:
        if self.want.pasted:
            super().action_paste()
        else:
            self.post_message(self.Refused())


class Fields(Vertical):
    """The fields in typing order, then Cancel and Apply. A required name is shown in full below its field."""

    DEFAULT_CSS = """
    Fields { height: auto; width: 100%; }
    Fields Horizontal { height: 1; width: 100%; }
    Fields #act-inner { height: auto; width: 100%; padding: 0 1; }
    Fields #act-inner.-framed { border-left: round $role-frame; border-right: round $role-frame; }
    Fields #act-inner.-framed.-ascii { border-left: ascii $role-frame; border-right: ascii $role-frame; }
    Fields .act-label { width: 9; height: 1; color: $role-dim; text-style: $role-dim-style; }
    Fields Input, Fields Input:focus { height: 1; width: 1fr; border: none; padding: 0; background: $role-bar; }
    Fields .act-press { width: auto; height: 1; margin: 0 2 0 1; }
    Fields .act-press:focus { text-style: reverse; }
    Fields .act-off { text-style: dim; }
    Fields .act-off:focus { text-style: reverse dim; }
    """

    def __init__(self, wants: Sequence[Want], does: str, typed: Mapping[Part, str], back: str = "Cancel") -> None:
        super().__init__(id="act-fields")
        self._back = back
        self._wants = tuple(wants)
        self._does = does
        self._given = typed

    def compose(self) -> ComposeResult:
        armed = cast("Host", self.app).armed
        given = {**({Part.REASON: armed.reason} if armed else {}), **self._given}
        yield Line("act-above")
        with Vertical(id="act-inner"):
            for want in self._wants:
                said = Static(f"{want.part.value:<{_LABEL}}", classes="act-label", markup=False)
                yield Horizontal(said, Typing(want, given.get(want.part, "")))
                if want.answer:
                    yield Line(f"act-asks-{want.part.name.lower()}")
            yield Horizontal(Press(f"{self._back}  Esc", "act-cancel"), Press(self._does, "act-apply"))
        yield Line("act-below")

    @property
    def typed(self) -> dict[Part, str]:
        """The contents of the fields."""
        return {one.want.part: one.value for one in self.query(Typing)}

    def enable(self, on: bool) -> None:
        """Show whether Apply is available."""
        self.query_one("#act-apply").set_class(not on, "act-off")


class FieldsScreen(ActScreen):
    """A screen with fields. The first empty field has the focus, and the text above the fields scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pagedown", "lines(1)", "scroll down", id="act-lines-down", key_display="PgDn", tooltip="from a field"),
        Binding("pageup", "lines(-1)", "scroll up", id="act-lines-up", key_display="PgUp", tooltip="from a field"),
    ]
    TYPING: ClassVar[dict[str, str]] = {
        "back": "cancel",
        "pane": "next",
        "pane-before": "previous",
        "act-lines-down": "",
    }
    """The keys to show while a field has the focus, with their labels."""
    _arming: Arming | None = None
    """The arming whose reason the screen has already offered."""

    def keys_now(self) -> Mapping[str, str]:
        return self.TYPING if isinstance(self.focused, Typing) else super().keys_now()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable these keys while the lines have the focus, because the lines handle them."""
        if action == "lines":
            return isinstance(self.focused, Typing)
        return super().check_action(action, parameters)

    def action_lines(self, by: int) -> None:
        if self.sheet.too_long:
            self.sheet.action_page(by)
        else:
            self.console.say(ALL_SEEN)

    def draw_fields(self, wants: Sequence[Want], hint: str = "") -> int:
        """Show the text to type below each field, wrapped and never truncated; draw a frame if there is room.

        Returns the number of rows.
        """
        if (armed := self.console.armed) is not self._arming:
            self._arming = armed
            for field in self.query(Typing):
                if armed and field.want.part is Part.REASON and not field.value:
                    field.insert_text_at_cursor(armed.reason)
        has_frame = self.framed and bool(wants)
        taken = len(wants) + 1 + 2 * has_frame
        inner, width, below = self.query_one("#act-inner"), self.app.size.width, " " * _LABEL
        inner.set_class(has_frame, "-framed").set_class(self.console.ascii_only, "-ascii")
        for want in (one for one in wants if one.answer):
            asked = plain(f"type {safe(want.answer, 300)} to confirm: {want.about}", self.console.ascii_only)
            rows = [self.text(row, Level.REST) for row in wrapped(asked, self.inner - 1, below, below)]
            self.say_lines(f"act-asks-{want.part.name.lower()}", rows)
            taken += len(rows)
        box, given = Box("Confirm", hint=hint), (self.style, self.console.ascii_only)
        self.say_lines("act-above", [upper([box], [width], *given)] if has_frame else [])
        self.say_lines("act-below", [lower([box], [width], *given)] if has_frame else [])
        return taken

    def to_type(self) -> Typing | None:
        """Return the first empty field, the last field if all are filled, or None if there are no fields."""
        fields = list(self.query(Typing))
        return next((one for one in fields if not one.value), fields[-1] if fields else None)

    def action_back(self) -> None:
        super().action_back()
        self.console.say(CANCELLED)

    def enable(self) -> None:
        """Show whether Apply is available."""
        raise NotImplementedError

    def apply(self) -> None:
        """Apply the action after the button was pressed."""
        raise NotImplementedError

    def on_input_changed(self) -> None:
        self.enable()

    def on_key(self, event: events.Key) -> None:
        """Report a letter that has no effect here, because the user may be typing a name."""
        if event.is_printable and self.query(Typing) and not isinstance(self.focused, Typing):
            self.console.say(NOT_HERE, Level.WARNING)

    def on_typing_refused(self) -> None:
        self.console.say(NO_PASTE, Level.WARNING)

    async def on_press_pressed(self, event: Press.Pressed) -> None:
        """Wait until the fields have received all keys typed before the button was pressed."""
        while any(one.message_queue_size for one in self.query(Typing)):
            await asyncio.sleep(0)
        if event.ahead:
            self.console.say(TYPED_AHEAD, Level.WARNING)
        elif event.id == "act-cancel":
            self.action_back()
        else:
            self.apply()
