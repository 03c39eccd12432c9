"""What is there on every screen: messages, questions, arming, how often to look, theme, mouse, copying, leaving.

Knows no picture of jobs and slots; `slotkeeper.console.tui.app` adds those. `PatchedApp` does once what Textual does
more often than this console needs: it uses private parts of App, which is why textual is pinned.
"""

from __future__ import annotations

import gc
import importlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from textual import events
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.actions import ActionParseResult
from textual.app import App, ScreenError
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.filter import ANSIToTruecolor, LineFilter
from textual.screen import Screen
from textual.theme import Theme
from textual.timer import Timer

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui import write_mode
from slotkeeper.console.tui.keymap import bindings_of
from slotkeeper.console.tui.output import Sparing
from slotkeeper.console.tui.screens.base import Frame
from slotkeeper.console.tui.services import INTERVALS, Said, Services
from slotkeeper.console.tui.theme import DARK, MONO, THEMES, NoColour
from slotkeeper.console.tui.widgets.line import Panel
from slotkeeper.console.tui.widgets.live_table import LiveTable
from slotkeeper.console.tui.write_mode import Arming, Instant
from slotkeeper.core.domain.text import safe

_SWITCH_SECONDS = 0.005
_LOAD_EVERY = 0.3
_MOUSE_MODES = (1000, 1002, 1006)
"""Buttons and wheel, moves while a button is down, places as numbers (xterm, "Mouse Tracking")."""
_NEW_OBJECTS = 10_000
"""Garbage is collected after this number: a picture of two thousand rows has as many, and none is garbage yet."""


class PatchedApp(App[int]):
    """The app below all of this console."""

    _parsed_for = 0
    """The number of the theme that all styles were last parsed for."""

    def __init__(self) -> None:
        super().__init__()
        self._ending = threading.Event()

    def wear_first(self, theme: Theme) -> None:
        """The theme to begin with; set as others are, it would make Textual parse all styles once more."""
        self.set_reactive(App.theme, theme.name)
        for one in self._filters:
            if isinstance(one, ANSIToTruecolor):  # made for the theme that Textual begins with
                one.enabled = not theme.ansi
        self.stylesheet.set_variables(self.get_css_variables())

    def refresh_css(self, animate: bool = True) -> None:
        """Parse styles where the theme is another one; Textual does so for each screen that is first seen."""
        if self._parsed_for != self._css_update_count:
            self._parsed_for = self._css_update_count
            super().refresh_css(animate)
            return
        try:
            screen = self.screen
        except ScreenError:  # before the first one
            return
        is_new = screen._css_update_count < 0  # its widgets get their styles when they are mounted
        if not is_new and screen._css_update_count != self._css_update_count:
            self.stylesheet.update(screen, animate=animate)
        screen._css_update_count = self._css_update_count

    def on_mount(self) -> None:
        """Once the first frame is seen, garbage is collected again, and what is there by then stays."""
        self.call_after_refresh(_collect_garbage)

    def load_later(self, modules: Sequence[str]) -> None:
        """Load modules one by one while no user waits for them: their screens are there at the first key then."""

        def load() -> None:
            for module in modules:
                self._ending.wait(_LOAD_EVERY)
                if self._ending.is_set():
                    return
                importlib.import_module(module)

        threading.Thread(target=load, name="slotkeeper-load", daemon=True).start()

    def on_unmount(self) -> None:
        self._ending.set()

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Send what is drawn, as few bytes."""
        drawn: Any = Sparing(renderable) if isinstance(renderable, ChopsUpdate | LayoutUpdate) else renderable
        super()._display(screen, drawn)

    def delay_update(self, delay: float = _SWITCH_SECONDS) -> None:
        """Hide another screen only until it has been asked to draw itself, not for 50 ms."""
        super().delay_update(delay)


def _collect_garbage() -> None:
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(_NEW_OBJECTS, 5, 2)
        gc.enable()


MESSAGE_SECONDS = 8.0
MOST_KEYS = 500
"""Keys that wait at most, more than a field takes; what a terminal pastes as keys beyond them is dropped."""


class Shell(PatchedApp):
    """The app without its picture."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "p", "pause", "pause job", id="pause", tooltip="or resume it: this row's, or the marked ones; asks first"
        ),
        Binding("f", "freeze", "freeze", id="freeze", tooltip="the picture stops; collecting continues"),
        Binding("r", "renew", "refresh", id="refresh", tooltip="read now"),
        Binding(
            "plus", "interval(1)", "slower", id="slower", key_display="+", tooltip="poll less often: 1 2 5 10 30 s"
        ),
        Binding("minus", "interval(-1)", "faster", id="faster", key_display="-", tooltip="poll more often"),
        Binding("m", "mouse", "mouse", id="mouse", tooltip="on or off; off, the terminal selects without Shift"),
        Binding("T", "theme", "theme", id="theme", tooltip="dark, light, contrast, ansi, mono"),
        Binding("colon,ctrl+p", "palette", "command", id="palette", key_display=":", tooltip="typed, Tab completes"),
        Binding(
            "question_mark", "keys", "help", id="help", key_display="?", tooltip="the keys of this screen; runs them"
        ),
        Binding("q,ctrl+q", "quit", "quit", id="quit", key_display="q", tooltip="asks if armed or an action runs"),
        Binding("ctrl+c", "help_quit", "copy selection", id="interrupt", tooltip="never quits"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, services: Services, ascii_only: bool = False, mono: bool = False, read_only: bool = False):
        with _own_idea_of_no_color():
            super().__init__()
        self.services = services
        self.ascii_only = ascii_only
        self.read_only = read_only
        self.every = INTERVALS[1]
        self.said: Said | None = None
        self.defect: Exception | None = None
        self.touched = Instant(services.clock.utc(), services.clock.monotonic())
        self._arming: Arming | None = None
        self._question: Callable[[], object] | None = None
        self._forgetting: Timer | None = None
        self.mouse_on = False
        self.mouse_used = False
        """Whether it was used once; kept settings can say so from the start."""
        self._keys: deque[tuple[events.Key, bool]] = deque()
        self.typed_ahead = False
        """Whether the key that acts was typed before there was anything to read."""
        self._without_colour = NoColour()
        for theme in THEMES:
            self.register_theme(theme)
        self.wear_first(MONO if mono else DARK)

    # What screens are told, and draw

    def redrawn(self) -> None:
        """Everything that is seen is drawn again."""
        raise NotImplementedError

    def action_palette(self, typed: str = "") -> None:
        """Type a command."""
        raise NotImplementedError

    @property
    def frame(self) -> Frame | None:
        """The console's screen that is seen, or lies below a palette."""
        return next((one for one in reversed(self.screen_stack) if isinstance(one, Frame)), None)

    def press(self, name: str) -> None:
        """What the key of that name does on the screen that is seen."""
        every = bindings_of(self.frame) if self.frame is not None else ()
        bound = next((one for one in every if one.binding.id == name), None)
        if bound is None:
            self.say(f"{name} does nothing on this screen")
        else:
            self.call_later(self.run_action, bound.binding.action, bound.node)

    # Messages

    def message_shown(self) -> None:
        """The line of the screen that is seen says what was said last, or where one is."""
        if self.frame is not None:
            self.frame.draw_crumb()

    def say(self, text: str, level: Level = Level.FINE) -> None:
        """One line where one is, until the next key or for eight seconds."""
        self._quiet()
        self.said = level, safe(text, 300)
        self._forgetting = self.set_timer(MESSAGE_SECONDS, self._forget)
        self.message_shown()

    def ask(self, question: str, then: Callable[[], object]) -> None:
        """A question in that line: `y` does it, any other key does not and is not taken for anything else."""
        self._quiet()
        self._question = then
        self.said = Level.WARNING, safe(f"{question}  y does it, any other key stays", 300)
        self.message_shown()

    def _quiet(self) -> None:
        if self._forgetting is not None:
            self._forgetting.stop()
            self._forgetting = None
        self.said, self._question = None, None

    def _forget(self) -> None:
        self._quiet()
        self.message_shown()

    async def on_event(self, event: events.Event) -> None:
        """Every key comes by here first: it ends a message, answers a question, and says that somebody is here."""
        if not isinstance(event, events.Key) or event.is_forwarded:
            if isinstance(event, events.MouseDown):
                self.touched = self.instant()
                if not self.mouse_used:
                    self.mouse_used = True
                    if self.frame is not None:
                        self.frame.draw_crumb()
            await super().on_event(event)
            return
        self.touched = self.instant()
        if not self._kept(event):
            await self._typed_now(event)

    def _kept(self, event: events.Key) -> bool:
        """Whether a key waits for the screen that it is for, and for those typed before it; Esc waits for no answer."""
        awaits = self._waits_for
        if awaits and event.key in ("escape", "ctrl+c"):
            self._keys.clear()
            return False
        if awaits is None and not self._keys:
            return False
        if len(self._keys) < MOST_KEYS:
            self._keys.append((event, bool(awaits)))
        if awaits is None:
            self.release_keys()
        return True

    @property
    def _waits_for(self) -> bool | None:
        """Whether the screen that is seen waits for an answer, False where it only opens; None where keys act now."""
        top = self.screen_stack[-1] if self.screen_stack else None
        if not isinstance(top, Frame) or not (top.without_parts or top.awaits):
            return None
        return not top.without_parts

    def release_keys(self) -> None:
        """Keys that waited act now, in the order in which they were typed."""
        if self._keys:
            self.call_later(self._release)

    def drop_keys(self, unless: str = "") -> int:
        """Forget the keys that wait, unless this is the first of them; how many there were."""
        number = 0 if self._keys and self._keys[0][0].key == unless else len(self._keys)
        if not number:
            return 0
        self._keys.clear()
        return number

    async def _release(self) -> None:
        while self._keys and self._waits_for is None:
            event, self.typed_ahead = self._keys.popleft()
            await self._typed_now(event)
        self.typed_ahead = False

    async def _typed_now(self, event: events.Key) -> None:
        then = self._question
        if self.said is not None:
            self._forget()
        if then is not None:
            if event.key == "y":
                then()
        elif not await self._acted(event.key):
            await super().on_event(event)

    async def _acted(self, key: str) -> bool:
        """Keys of a table act one after the other: what is typed fast behind a `:` must not act on the table."""
        focused = self.focused
        in_turn = isinstance(focused, LiveTable | Panel) or key in getattr(focused, "KEYS_IN_TURN", ())
        if not in_turn or not self.screen.is_mounted:
            return False
        return await self._check_bindings(key, priority=True) or await self._check_bindings(key)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """No key acts on a screen that has no parts, or none any more: it is opening, or was closed meanwhile."""
        if isinstance(default_namespace, Frame) and default_namespace.without_parts:
            return False
        return await super().run_action(action, default_namespace, namespaces)

    # Arming

    def instant(self) -> Instant:
        """Now, for what is armed and for when the last key was pressed."""
        return Instant(self.services.clock.utc(), self.services.clock.monotonic())

    @property
    def armed(self) -> Arming | None:
        """Who may change something from here, until when; None while this console only reads. Pausing stops nothing."""
        one, now = self._arming, self.instant()
        return one if one is not None and not one.ended(now, self.touched) else None

    def arm(self, reason: str) -> None:
        """Allow changes for ten minutes."""
        refused = write_mode.refusal(reason, self.read_only)
        if refused:
            self.say(refused, Level.WARNING)
            return
        self._arming = write_mode.armed(reason, self.instant())
        self._note_armed(self._arming)
        self.say("armed for ten minutes; `:ro` ends it, so does no key for five minutes", Level.WARNING)
        self.redrawn()

    def disarm(self) -> None:
        """Only read again."""
        self._arming = None
        self._note_armed(None)
        self.say("read-only again")
        self.redrawn()

    def _note_armed(self, arming: Arming | None) -> None:
        """For the other consoles of this state folder."""
        from slotkeeper.core.launch import armed  # what reads files is not loaded before it is needed

        if arming is None:
            armed.forget(self.services.folder)
        else:
            armed.note(self.services.folder, arming.reason, arming.since.utc + write_mode.LASTS)

    def check_write_mode(self) -> bool:
        """Whether a countdown is shown; says so where it ended."""
        one = self._arming
        if one is None:
            return False
        why = one.ended(self.instant(), self.touched)
        if why:
            self._arming = None
            self._note_armed(None)
            self.say(why, Level.WARNING)
            self.redrawn()
        return not why

    # How it looks and how often it looks

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without colours nothing but bold, dim, underline and reverse reaches the terminal."""
        return [self._without_colour] if self.theme == MONO.name else super().get_line_filters()

    def wear(self, name: str) -> None:
        """Put on a theme, now and at the next start."""
        self.theme = name
        self.services.settings.change(name.partition("-")[2], "theme")
        self.redrawn()

    def action_theme(self) -> None:
        names = [one.name for one in THEMES]
        name = names[(names.index(self.theme) + 1) % len(names)]
        self.wear(name)
        self.say(f"theme {name.partition('-')[2]}")

    def poll_every(self, seconds: float) -> None:
        """How often the store is read, and sources are asked while they are shown."""
        self.every = seconds
        self.services.feed.set_every(seconds)
        self.say(f"looks every {seconds:g} s")
        self.redrawn()

    def action_interval(self, step: int) -> None:
        place = INTERVALS.index(self.every) + step
        self.poll_every(INTERVALS[min(max(place, 0), len(INTERVALS) - 1)])

    def turn_mouse(self, on: bool) -> bool:
        """Mouse on or off; whether this terminal has one. A move without a button is never asked for: it is traffic."""
        if not self._set_mouse(on):
            return False
        if self.is_running and isinstance(self.screen, Frame):
            self.screen.draw_crumb()
        return True

    def _set_mouse(self, on: bool) -> bool:
        """Tell the terminal, and draw nothing: a defect may be in what draws."""
        driver = self._driver
        if driver is None or not hasattr(driver, "_disable_mouse_support"):
            return False
        driver.write("".join(f"\x1b[?{mode}{'h' if on else 'l'}" for mode in _MOUSE_MODES))
        driver.flush()
        self.mouse_on = driver._mouse = on
        return True

    def exit(self, result: int | None = None, return_code: int = 0, message: object = None) -> None:
        """The mouse is given back first: Textual does not know all of its modes."""
        if self.mouse_on:
            self.turn_mouse(False)
        super().exit(result, return_code)

    def action_mouse(self) -> None:
        if not self.turn_mouse(not self.mouse_on):
            self.say("this terminal has no mouse", Level.WARNING)
            return
        self.say("mouse on: select text with Shift+drag" if self.mouse_on else "mouse off")

    # Copying and leaving

    @property
    def busy(self) -> list[str]:
        """What was started from here and has not ended: it continues, but its end should be seen."""
        made = "runs" in vars(self.services)
        return [one.record.what for one in self.services.runs.running()] if made else []

    def copy_to_clipboard(self, text: str) -> None:
        """Wherever this person can paste from; says where that was."""
        self.run_worker(partial(self._copied, text), thread=True, exclusive=True, group="copy", exit_on_error=False)

    def _copied(self, text: str) -> None:
        from slotkeeper.console.tui.export import copied

        def to_terminal() -> None:
            self.call_from_thread(super(Shell, self).copy_to_clipboard, text)

        result = copied(text, self.services.folder, os.environ, to_terminal)
        self.call_from_thread(self.say, result.text, Level.FINE if result.ok else Level.WARNING)

    def action_help_quit(self) -> None:
        """Ctrl+c with nothing selected: people press it to leave, or to copy."""
        self.say("nothing is selected; q leaves, y copies the row")

    async def action_quit(self) -> None:
        reasons = [*(["changes are armed"] if self.armed else []), *self.busy]
        if reasons:
            self.ask(f"{', '.join(reasons[:2])}: leave?", self.exit)
        else:
            self.exit()

    def _handle_exception(self, error: Exception) -> None:
        """A defect ends the console as it ends a command: Textual would print values, which may be secrets.

        A screen that is closed while it opens gets no parts, and Textual reports it as mounted all the same: a user
        who leaves that fast has met no defect.
        """
        if isinstance(error, NoMatches) and not self.is_running:
            return
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self.defect = self.defect or error
        if self.mouse_on:
            self._set_mouse(False)
        self._close_messages_no_wait()

    def now_real(self) -> datetime:
        """The time of day, which no pause stops."""
        return self.services.clock.utc()


@contextmanager
def _own_idea_of_no_color() -> Iterator[None]:
    """Textual makes greys of NO_COLOR, which are colours: it must not see it. We have `mono` for it."""
    value = os.environ.pop("NO_COLOR", None)
    try:
        yield
    finally:
        if value is not None:
            os.environ["NO_COLOR"] = value
