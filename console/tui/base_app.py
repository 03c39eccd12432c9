"""Functions common to all screens: messages, questions, arming, poll interval, theme, mouse, copying, quitting.

This module knows nothing about jobs and slots; `slotkeeper.console.tui.app` adds them. `PatchedApp` avoids work that
Textual repeats more often than this console needs. Because it uses private parts of App, textual is pinned.
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
from typing import TYPE_CHECKING, Any, ClassVar

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

if TYPE_CHECKING:
    from slotkeeper.core.domain.audit import AuditLine

_SWITCH_SECONDS = 0.005
_LOAD_EVERY = 0.3
_MOUSE_MODES = (1000, 1002, 1006)
"""Modes for buttons and wheel, moves with a pressed button, and positions as numbers (xterm, "Mouse Tracking")."""
_NEW_OBJECTS = 10_000
"""The number of new objects between two garbage collections. Drawing 2,000 rows creates that many, none of it
garbage."""


class PatchedApp(App[int]):
    """The base of the console's app."""

    _parsed_for = 0
    """The number of the theme for which all styles were last parsed."""

    def __init__(self) -> None:
        super().__init__()
        self._ending = threading.Event()

    def wear_first(self, theme: Theme) -> None:
        """Set the first theme without making Textual parse all styles once more."""
        self.set_reactive(App.theme, theme.name)
        for one in self._filters:
            if isinstance(one, ANSIToTruecolor):  # created for Textual's default theme
                one.enabled = not theme.ansi
        self.stylesheet.set_variables(self.get_css_variables())

    def refresh_css(self, animate: bool = True) -> None:
        """Parse styles only if the theme has changed. Textual also parses them for each new screen."""
        if self._parsed_for != self._css_update_count:
            self._parsed_for = self._css_update_count
            super().refresh_css(animate)
            return
        try:
            screen = self.screen
        except ScreenError:  # before the first screen
            return
        is_new = screen._css_update_count < 0  # its widgets get their styles when they are mounted
        if not is_new and screen._css_update_count != self._css_update_count:
            self.stylesheet.update(screen, animate=animate)
        screen._css_update_count = self._css_update_count

    def on_mount(self) -> None:
        """Enable garbage collection after the first frame; objects that exist by then are never collected."""
        self.call_after_refresh(_collect_garbage)

    def load_later(self, modules: Sequence[str]) -> None:
        """Import modules one by one in the background, so that their screens open without delay."""

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
        """Send the drawn update in as few bytes as possible."""
        drawn: Any = Sparing(renderable) if isinstance(renderable, ChopsUpdate | LayoutUpdate) else renderable
        super()._display(screen, drawn)

    def delay_update(self, delay: float = _SWITCH_SECONDS) -> None:
        """Hide a new screen only until it is requested to draw itself, not for 50 ms."""
        super().delay_update(delay)


def _collect_garbage() -> None:
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(_NEW_OBJECTS, 5, 2)
        gc.enable()


MESSAGE_SECONDS = 8.0
MOST_KEYS = 500
"""The maximum number of queued keys, more than a field accepts. Further pasted keys are dropped."""


class Shell(PatchedApp):
    """The app without its data."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "p", "pause", "pause job", id="pause", tooltip="or resume it: this row's job or the marked jobs; asks first"
        ),
        Binding("f", "freeze", "freeze", id="freeze", tooltip="stop updating the screen; collection continues"),
        Binding("r", "renew", "refresh", id="refresh", tooltip="read the data now"),
        Binding(
            "plus", "interval(1)", "slower", id="slower", key_display="+", tooltip="poll less often: 1 2 5 10 30 s"
        ),
        Binding("minus", "interval(-1)", "faster", id="faster", key_display="-", tooltip="poll more often"),
        Binding("m", "mouse", "mouse", id="mouse", tooltip="turn it on or off; when off, select text without Shift"),
        Binding("T", "theme", "theme", id="theme", tooltip="dark, light, contrast, ansi, mono"),
        Binding("colon,ctrl+p", "palette", "command", id="palette", key_display=":", tooltip="type it; Tab completes"),
        Binding(
            "question_mark", "keys", "help", id="help", key_display="?", tooltip="keys of this screen; Enter runs one"
        ),
        Binding(
            "q,ctrl+q", "quit", "quit", id="quit", key_display="q", tooltip="asks if armed or an action is running"
        ),
        Binding("ctrl+c", "help_quit", "copy selection", id="interrupt", tooltip="does not quit"),
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
        self._armed_line: AuditLine | None = None
        self._question: Callable[[], object] | None = None
        self._forgetting: Timer | None = None
        self.mouse_on = False
        self.mouse_used = False
        """Whether the mouse was ever used; stored settings can set it at the start."""
        self._keys: deque[tuple[events.Key, bool]] = deque()
        self.typed_ahead = False
        """Whether the current key was typed before the screen it acts on had shown its content."""
        self._without_colour = NoColour()
        for theme in THEMES:
            self.register_theme(theme)
        self.wear_first(MONO if mono else DARK)

    # Overridden by the app

    def redrawn(self) -> None:
        """Redraw the current screen."""
        raise NotImplementedError

    def action_palette(self, typed: str = "") -> None:
        """Open the command palette."""
        raise NotImplementedError

    @property
    def frame(self) -> Frame | None:
        """The console's current screen, or the screen below the command palette."""
        return next((one for one in reversed(self.screen_stack) if isinstance(one, Frame)), None)

    def press(self, name: str) -> None:
        """Run the action of the key with that name on the current screen."""
        every = bindings_of(self.frame) if self.frame is not None else ()
        bound = next((one for one in every if one.binding.id == name), None)
        if bound is None:
            self.say(f"{name} has no effect on this screen")
        else:
            self.call_later(self.run_action, bound.binding.action, bound.node)

    # Messages

    def message_shown(self) -> None:
        """Draw the last message on the current screen's message line."""
        if self.frame is not None:
            self.frame.draw_crumb()

    def say(self, text: str, level: Level = Level.FINE) -> None:
        """Show a one-line message until the next key or for eight seconds."""
        self._quiet()
        self.said = level, safe(text, 300)
        self._forgetting = self.set_timer(MESSAGE_SECONDS, self._forget)
        self.message_shown()

    def ask(self, question: str, then: Callable[[], object]) -> None:
        """Ask a question in the message line. `y` runs `then`; any other key cancels and has no other effect."""
        self._quiet()
        self._question = then
        self.said = Level.WARNING, safe(f"{question}  y confirms, any other key cancels", 300)
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
        """Process keys first: a key removes the message, answers a question, and counts as user activity."""
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
        """Queue a key that must wait for its screen or earlier keys; return whether it was queued. Esc never waits."""
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
        """True while the current screen waits for an answer, False while it opens, None if keys take effect now."""
        top = self.screen_stack[-1] if self.screen_stack else None
        if not isinstance(top, Frame) or not (top.without_parts or top.awaits):
            return None
        return not top.without_parts

    def release_keys(self) -> None:
        """Process the queued keystrokes in the order in which they were typed."""
        if self._keys:
            self.call_later(self._release)

    def drop_keys(self) -> int:
        """Discard the queued keystrokes, and return their number."""
        number = len(self._keys)
        self._keys.clear()
        return number

    def skip_key(self, key: str) -> None:
        """Discard the first queued keystroke if it is this one."""
        if self._keys and self._keys[0][0].key == key:
            self._keys.popleft()

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
        """Run a table's keys one after the other, because text typed quickly after `:` must not act on the table."""
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
        """Run the action, unless the screen has no parts because it is opening or was closed in the meantime."""
        if isinstance(default_namespace, Frame) and default_namespace.without_parts:
            return False
        return await super().run_action(action, default_namespace, namespaces)

    # Arming

    def instant(self) -> Instant:
        """Return the current time, for arming and for the last key press."""
        return Instant(self.services.clock.utc(), self.services.clock.monotonic())

    @property
    def armed(self) -> Arming | None:
        """The current arming with its reason and start; None if read-only. Freezing the screen does not end it."""
        one, now = self._arming, self.instant()
        return one if one is not None and not one.ended(now, self.touched) else None

    def arm(self, reason: str) -> None:
        """Allow changes for ten minutes."""
        refused = write_mode.refusal(reason, self.read_only)
        if refused:
            self.say(refused, Level.WARNING)
            return
        if self._arming is not None:
            self._note_armed(None, "armed again")
        self._arming = write_mode.armed(reason, self.instant())
        fault = self._note_armed(self._arming)
        self.say(f"armed for ten minutes{fault or '; `:ro` or five minutes without a key end it'}", Level.WARNING)
        self.redrawn()

    def disarm(self) -> None:
        """Return to read-only."""
        self._arming = None
        self.say(f"read-only again{self._note_armed(None, 'read-only again, requested')}")
        self.redrawn()

    def _note_armed(self, arming: Arming | None, why: str = "") -> str:
        """Record the arming, or the reason for its end; return the error to show if it cannot be audited."""
        from slotkeeper.core.launch import armed  # modules that read files are loaded when needed

        folder, line = self.services.folder, self._armed_line
        if arming is None:
            self._armed_line, fault = None, armed.forget(folder, line, why)
        else:
            self._armed_line, fault = armed.note(folder, arming.reason, arming.since.utc + write_mode.LASTS)
        return fault

    def check_write_mode(self) -> bool:
        """Return whether the countdown is shown. When it has ended, show a message."""
        one = self._arming
        if one is None:
            return False
        why = one.ended(self.instant(), self.touched)
        if why:
            self._arming = None
            self.say(f"{why}{self._note_armed(None, why)}", Level.WARNING)
            self.redrawn()
        return not why

    # Appearance and poll interval

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without color, send only bold, dim, underline and reverse to the terminal."""
        return [self._without_colour] if self.theme == MONO.name else super().get_line_filters()

    def wear(self, name: str) -> None:
        """Set the theme and store it for the next start."""
        self.theme = name
        self.services.settings.change(name.partition("-")[2], "theme")
        self.redrawn()

    def action_theme(self) -> None:
        names = [one.name for one in THEMES]
        name = names[(names.index(self.theme) + 1) % len(names)]
        self.wear(name)
        self.say(f"theme {name.partition('-')[2]}")

    def poll_every(self, seconds: float) -> None:
        """Set the interval for reading the store and for polling the sources that are shown."""
        self.every = seconds
        self.services.feed.set_every(seconds)
        self.say(f"polling every {seconds:g} s")
        self.redrawn()

    def action_interval(self, step: int) -> None:
        place = INTERVALS.index(self.every) + step
        self.poll_every(INTERVALS[min(max(place, 0), len(INTERVALS) - 1)])

    def turn_mouse(self, on: bool) -> bool:
        """Turn the mouse on or off; return whether the terminal has one. Moves without a button are not reported."""
        if not self._set_mouse(on):
            return False
        if self.is_running and isinstance(self.screen, Frame):
            self.screen.draw_crumb()
        return True

    def _set_mouse(self, on: bool) -> bool:
        """Send the mouse modes to the terminal without drawing, because the drawing code may be defective."""
        driver = self._driver
        if driver is None or not hasattr(driver, "_disable_mouse_support"):
            return False
        driver.write("".join(f"\x1b[?{mode}{'h' if on else 'l'}" for mode in _MOUSE_MODES))
        driver.flush()
        self.mouse_on = driver._mouse = on
        return True

    def exit(self, result: int | None = None, return_code: int = 0, message: object = None) -> None:
        """End an arming. Disable the mouse first, because Textual does not reset all mouse modes."""
        if self._arming is not None:
            self._note_armed(None, "the console was closed")
        if self.mouse_on:
            self.turn_mouse(False)
        super().exit(result, return_code)

    def action_mouse(self) -> None:
        if not self.turn_mouse(not self.mouse_on):
            self.say("this terminal does not support the mouse", Level.WARNING)
            return
        self.say("mouse on: select text with Shift+drag" if self.mouse_on else "mouse off")

    # Copying and quitting

    @property
    def busy(self) -> list[str]:
        """The running actions started from this console. They continue without the console."""
        made = "runs" in vars(self.services)
        return [one.record.what for one in self.services.runs.running()] if made else []

    def copy_to_clipboard(self, text: str) -> None:
        """Copy the text to every place from which this user can paste it, and report these places."""
        self.run_worker(partial(self._copied, text), thread=True, exclusive=True, group="copy", exit_on_error=False)

    def _copied(self, text: str) -> None:
        from slotkeeper.console.tui.export import copied

        def to_terminal() -> None:
            self.call_from_thread(super(Shell, self).copy_to_clipboard, text)

        result = copied(text, self.services.folder, os.environ, to_terminal)
        self.call_from_thread(self.say, result.text, Level.FINE if result.ok else Level.WARNING)

    def action_help_quit(self) -> None:
        """Handle Ctrl+C with nothing selected. Users press it to quit or to copy."""
        self.say("no text selected; q quits, y copies the row")

    async def action_quit(self) -> None:
        reasons = [*(["changes are armed"] if self.armed else []), *self.busy]
        if reasons:
            self.ask(f"{', '.join(reasons[:2])}: quit anyway?", self.exit)
        else:
            self.exit()

    def _handle_exception(self, error: Exception) -> None:
        """End the console after a defect as a command would. Textual would print values, which may be secrets.

        A screen that is closed while it opens has no parts, but Textual reports it as mounted. The resulting error is
        not a defect.
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
        """Return the current time, even while the screen is frozen."""
        return self.services.clock.utc()


@contextmanager
def _own_idea_of_no_color() -> Iterator[None]:
    """Hide NO_COLOR from Textual, which would still draw in gray. The theme `mono` handles it instead."""
    value = os.environ.pop("NO_COLOR", None)
    try:
        yield
    finally:
        if value is not None:
            os.environ["NO_COLOR"] = value
