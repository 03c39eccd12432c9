"""What the screens of an action share: nothing below them hears a key, texts scroll, and who may change anything.

An action is a command of the command line, run apart from the console: these screens only collect what it asks for and
show what became of it.
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
from slotkeeper.console.views.fitting import wrapped
from slotkeeper.console.views.rows import plain
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import SlotkeeperError

if TYPE_CHECKING:
    from slotkeeper.console.tui.services import Host

CANCELLED = "cancelled"
ALL_SEEN = "all its lines are seen"
READ_ONLY = "RO: nothing can be applied; `:rw reason` arms for ten minutes"


class Sheet(Panel, inherit_bindings=False):
    """Lines that scroll, as many as there is room for; it has the focus first. Letters of menus are left alone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "down", id="act-down", key_display="j"),
        Binding("k,up", "move(-1)", "up", id="act-up", key_display="k"),
        Binding("home", "jump(0)", "first line", id="act-first", key_display="Home"),
        Binding("end", "jump(1)", "last line", id="act-last", key_display="End"),
        Binding("pagedown", "page(1)", "page down", id="act-page-down", key_display="PgDn"),
        Binding("pageup", "page(-1)", "page up", id="act-page-up", key_display="PgUp"),
    ]

    class Scrolled(Message):
        """Other lines are shown."""

    def __init__(self) -> None:
        super().__init__("act-sheet", 1)
        self.can_focus = True

    def fill(self, about: object, lines: Iterable[Text]) -> None:
        """These lines; the focus stays where it is, scrolled or not."""
        super().fill(about, list(lines))
        self.can_focus = True

    def on_resize(self, event: events.Resize) -> None:
        if event.size.height and event.size.height != self.room:
            self.room = event.size.height
            self.action_move(0)
            self.post_message(self.Scrolled())


class ActScreen(Frame, ModalScreen[None]):
    """A screen over the one that the action was asked for on."""

    DEFAULT_CSS = """
    ActScreen { background: $background; }
    ActScreen #tabs { display: none; }
    ActScreen #act-sheet { height: 1fr; min-height: 1; width: 100%; }
    ActScreen #act-head, ActScreen #act-tail, ActScreen #act-title { width: 100%; height: auto; }
    """

    subject = False

    def body(self) -> Iterator[Widget]:
        yield Line("act-title")
        yield Sheet()

    def on_mount(self) -> None:
        super().on_mount()
        self.set_focus(self.first())  # at once: `focus()` waits its turn, and a field may be there by then

    def first(self) -> Widget:
        """What has the keys first: the lines."""
        return self.sheet

    @property
    def runs(self) -> Runner:
        """What sets commands going."""
        return self.console.services.runs

    @property
    def origin(self) -> Origin:
        """The configuration and the folder that the commands are to use."""
        services = self.console.services
        config = str(services.loaded.path.absolute()) if services.loaded else ""
        return Origin(config, str(Path(services.folder).resolve()))

    @property
    def sheet(self) -> Sheet:
        """The lines that scroll."""
        return self.query_one(Sheet)

    def set_going(self, order: Order) -> str | None:
        """Begin a command; says why where it was refused."""
        try:
            return self.runs.start(order)
        except SlotkeeperError as error:
            self.console.say(f"{error}" + (f"; {error.hint}" if error.hint else ""), Level.CRITICAL)
            return None

    def may_change(self) -> bool:
        """Whether this console is armed; says so where it is not."""
        if self.console.armed is None:
            self.console.say(READ_ONLY, Level.WARNING)
            return False
        return True

    def copied(self, words: Sequence[str]) -> None:
        """Copy a command; it names the configuration where another than the default one is meant."""
        shared = () if self.console.services.config else self.origin.shared
        self.console.copy_to_clipboard(shell_text(words[len(shared) :] if tuple(words[:1]) == shared else words))

    def panes(self) -> list[Widget]:
        """Lines, fields in the order of typing, then what they are typed for and Cancel; Cancel first without any."""
        fields, buttons = list(self.query(Input)), list(self.query(".act-press"))
        return [*self.query(Sheet), *fields, *(reversed(buttons) if fields else buttons)]

    def on_descendant_focus(self) -> None:
        self.say("keys", self._keys())

    def headline(self, words: str, step: int = 0) -> int:
        """The title in a rule; of a screen of several its step among them, and then the title is wrapped, never cut.

        Returns how many rows it takes.
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
        self.say("act-title", Text("", end="").join([title, apart, steps]), layout=True)
        return len(above) + 1 + (room < 1)

    def say_lines(self, id: str, lines: Sequence[Text]) -> None:
        """Put lines into a line of this screen, which has no row without any."""
        self.query_one(f"#{id}").display = bool(lines)
        self.say(id, Text("\n", no_wrap=True, end="").join(lines), layout=True)


STEPS = ("Plan", "Confirm", "Result")
LETTERS = "letters act on the plan; Enter goes to the fields"
NO_PASTE = "type it: what is pasted was not read"
TYPED_AHEAD = "Enter was typed before the plan was shown: press it again"
_LABEL = 9


class Press(Static, can_focus=True):
    """A button of one row; Enter presses it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "press", "press", id="act-press", show=False)]
    KEYS_IN_TURN = ("enter", "escape", "tab", "shift+tab")

    class Pressed(Message):
        """It was pressed; `ahead`: by a key that was typed before there was anything to read."""

        def __init__(self, id: str, ahead: bool) -> None:
            super().__init__()
            self.id = id
            self.ahead = ahead

    def __init__(self, words: str, id: str) -> None:
        super().__init__(f"[ {words} ]", id=id, classes="act-press", markup=False)

    def action_press(self) -> None:
        self.post_message(self.Pressed(self.id or "", cast("Host", self.app).typed_ahead))


class Typing(Input):
    """A field for one thing that is asked for."""

    KEYS_IN_TURN = ("enter", "escape", "tab", "shift+tab")
    """Keys that the app acts on before it gives the next one to whatever has the focus then."""

    class Refused(Message):
        """Something was pasted."""

    def __init__(self, want: Want, value: str) -> None:
        about = "" if want.answer else want.about
        id = f"act-{want.part.name.lower()}"
        super().__init__(value, about, id=id, select_on_focus=False, max_length=500)
        self.want = want
        self.cursor_blink = False

    async def action_submit(self) -> None:
        """Enter leads to the next field, from the last one to Apply; it does nothing else.

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
        if self.want.pasted:
            super().action_paste()
        else:
            self.post_message(self.Refused())


class Fields(Vertical):
    """What is asked for, in the order of typing, then Cancel and Apply; a name stands below its field, in full."""

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
        yield Line("act-above")
        with Vertical(id="act-inner"):
            for want in self._wants:
                said = Static(f"{want.part.value:<{_LABEL}}", classes="act-label", markup=False)
                yield Horizontal(said, Typing(want, self._given.get(want.part, "")))
                if want.answer:
                    yield Line(f"act-asks-{want.part.name.lower()}")
            yield Horizontal(Press(f"{self._back}  Esc", "act-cancel"), Press(self._does, "act-apply"))
        yield Line("act-below")

    @property
    def typed(self) -> dict[Part, str]:
        """What stands in the fields."""
        return {one.want.part: one.value for one in self.query(Typing)}

    def enable(self, on: bool) -> None:
        """Show whether Apply would do anything."""
        self.query_one("#act-apply").set_class(not on, "act-off")


class FieldsScreen(ActScreen):
    """A screen with fields: the first empty one has the keys, and what is to be read scrolls beside it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pagedown", "lines(1)", "its lines", id="act-lines-down", key_display="PgDn", tooltip="from a field"),
        Binding("pageup", "lines(-1)", "lines back", id="act-lines-up", key_display="PgUp", tooltip="from a field"),
    ]
    TYPING: ClassVar[dict[str, str]] = {
        "back": "cancel",
        "pane": "next",
        "pane-before": "before it",
        "act-lines-down": "",
    }
    """The keys to show while something is typed, with their words."""

    def keys_now(self) -> Mapping[str, str]:
        return self.TYPING if isinstance(self.focused, Typing) else super().keys_now()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The lines have these keys themselves while they have the focus."""
        if action == "lines":
            return isinstance(self.focused, Typing)
        return super().check_action(action, parameters)

    def action_lines(self, by: int) -> None:
        if self.sheet.too_long:
            self.sheet.action_page(by)
        else:
            self.console.say(ALL_SEEN)

    def draw_fields(self, wants: Sequence[Want], hint: str = "") -> int:
        """Below each field what has to be typed into it, wrapped and never cut; all in a frame where there is room.

        Returns how many rows that takes.
        """
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
        """The first field in which nothing stands; the last one where each has something; None without any."""
        fields = list(self.query(Typing))
        return next((one for one in fields if not one.value), fields[-1] if fields else None)

    def action_back(self) -> None:
        super().action_back()
        self.console.say(CANCELLED)

    def enable(self) -> None:
        """Show whether Apply would do anything."""
        raise NotImplementedError

    def apply(self) -> None:
        """The button was pressed."""
        raise NotImplementedError

    def on_input_changed(self) -> None:
        self.enable()

    def on_key(self, event: events.Key) -> None:
        """A letter that means nothing here is said to have landed nowhere: somebody types a name."""
        if event.is_printable and self.query(Typing) and not isinstance(self.focused, Typing):
            self.console.say(LETTERS, Level.WARNING)

    def on_typing_refused(self) -> None:
        self.console.say(NO_PASTE, Level.WARNING)

    async def on_press_pressed(self, event: Press.Pressed) -> None:
        """What was typed before the button was pressed is in its field first."""
        while any(one.message_queue_size for one in self.query(Typing)):
            await asyncio.sleep(0)
        if event.ahead:
            self.console.say(TYPED_AHEAD, Level.WARNING)
        elif event.id == "act-cancel":
            self.action_back()
        else:
            self.apply()
