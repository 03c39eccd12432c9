"""How one gets from screen to screen: by number, by opening a thing or its menu of actions, by help, by typing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.screen import Screen

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.base_app import Shell
from slotkeeper.console.tui.screens.base import Frame
from slotkeeper.console.tui.screens.jobs import JobScreen, JobsScreen, OverviewScreen

if TYPE_CHECKING:
    from slotkeeper.console.actions.commands import Doing, Part
    from slotkeeper.console.tui.host import Host
    from slotkeeper.console.views.quarantine import Choice
    from slotkeeper.console.views.slots import SlotFacts

ONE_SLOT = "one slot at a time: u unmarks, then a acts on the row under the cursor"


def lazily(module: str, name: str, *args: object) -> Callable[[], Screen[None]]:
    """A screen whose module is imported when it is first seen: a console that starts fast."""
    return partial(_made, module, name, *args)


def _made(module: str, name: str, *args: object) -> Screen[Any]:
    made = getattr(importlib.import_module(module), name)
    return cast("Screen[Any]", made(*args))


class Navigation(Shell):
    """The app with its screens, without what they show."""

    SCREEN_KEYS: ClassVar[dict[str, tuple[str, str]]] = {
        "1": ("overview", "Overview"),
        "2": ("jobs", "Jobs"),
        "3": ("slots", "Slots"),
        "4": ("errors", "Errors"),
        "5": ("binlog", "Binlog"),
        "6": ("alerts", "Alerts"),
        "7": ("audit", "Audit"),
    }
    MODES: ClassVar[dict[str, str | Callable[[], Screen[None]]]] = {
        "overview": OverviewScreen,
        "jobs": JobsScreen,
        "slots": lazily("slotkeeper.console.tui.screens.slots", "SlotsScreen"),
        "errors": lazily("slotkeeper.console.tui.screens.errors", "ErrorsScreen"),
        "binlog": lazily("slotkeeper.console.tui.screens.binlog", "BinlogScreen"),
        "alerts": lazily("slotkeeper.console.tui.screens.alerts", "AlertsScreen"),
        "audit": lazily("slotkeeper.console.tui.screens.audit", "AuditScreen"),
    }
    DEFAULT_MODE = "overview"
    LATER: ClassVar[list[str]] = [
        "slotkeeper.console.tui.screens.slots",
        "slotkeeper.console.tui.screens.errors",
        "slotkeeper.console.tui.screens.alerts",
        "slotkeeper.console.tui.screens.audit",
        "slotkeeper.console.tui.screens.binlog",
        "slotkeeper.console.tui.screens.help",
        "slotkeeper.console.tui.screens.command_line",
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, f"go('{mode}')", label, id=mode) for key, (mode, label) in SCREEN_KEYS.items()
    ]

    def open_job(self, name: str, number: str = "2") -> None:
        """One job DN by DN, as a screen of that number."""
        self.push_screen(JobScreen(name, number))

    def open_graphs(self, job: str, number: str = "2", lane: str = "") -> None:
        """Lag and rate of a job over time; those of a DN first where one is named."""
        self.push_screen(lazily("slotkeeper.console.tui.screens.graphs", "GraphsScreen", job, number, lane)())

    def open_slot(self, key: str) -> None:
        """One slot DN by DN."""
        self.push_screen(lazily("slotkeeper.console.tui.screens.slots", "SlotScreen", key)())

    def open_quarantine(self, job: str, key: str = "") -> None:
        """The rows of a job that are in quarantine; the key tells jobs of one name at several sinks apart."""
        self.push_screen(lazily("slotkeeper.console.tui.screens.quarantine", "QuarantineScreen", job, key)())

    def open_welcome(self) -> None:
        """What this is, and the three ways to begin."""
        self.push_screen(lazily("slotkeeper.console.tui.screens.welcome", "WelcomeScreen")())

    def open_locks(self) -> None:
        """Who waits for a lock at a sink, and who is in front."""
        self.push_screen(lazily("slotkeeper.console.tui.screens.locks", "LocksScreen")())

    def open_actions(self) -> None:
        """What was set going from here, and how it ended."""
        self.push_screen(lazily("slotkeeper.console.tui.screens.actions.progress", "ActionsScreen")())

    def open_errors(self, job: str) -> None:
        """The errors of one job."""
        self.push_screen(lazily("slotkeeper.console.tui.screens.errors", "ErrorsScreen", job)())

    # Actions: what is acted upon is given here, at the key press; rows may move afterwards

    def open_job_menu(self, names: Sequence[str], verb: str = "") -> None:
        """What can be done to these jobs; a verb is chosen at once."""
        if names:
            self._open_menu(lazily("slotkeeper.console.tui.screens.actions.menu", "JobMenu", names)(), verb)
        else:
            self.say("no job is chosen", Level.WARNING)

    def open_slot_menu(self, slots: Sequence[SlotFacts], verb: str = "") -> None:
        """What can be done to this slot, a verb at once; several are refused."""
        if len(slots) == 1:
            self._open_menu(lazily("slotkeeper.console.tui.screens.actions.menu", "SlotMenu", slots[0])(), verb)
        else:
            self.say(ONE_SLOT if slots else "no slot is chosen", Level.WARNING)

    def _open_menu(self, menu: Any, verb: str) -> None:
        """A menu; the line of a verb is chosen as its letter would choose it, once the menu is there."""

        def choose() -> None:
            key = next((entry.key for entry in menu.entries() if entry.what == verb), "")
            if key and self.screen in (menu,):
                menu.action_choose(key)
            else:
                self.say(f"{verb} is not offered here now", Level.WARNING)

        self.push_screen(menu)
        if verb:
            menu.call_after_refresh(choose)

    def open_quarantine_menu(self, choice: Choice) -> None:
        """What can be done to these rows in quarantine."""
        self.push_screen(lazily("slotkeeper.console.tui.screens.actions.menu", "EntryMenu", choice)())

    def plan_again(self, doing: Doing, typed: Mapping[Part, str] | None = None) -> None:
        """Another plan, of what is there now, in place of the screen that is seen; `typed` stands in its fields."""
        self.switch_screen(lazily("slotkeeper.console.tui.screens.actions.preview", "SlotPreview", doing, typed)())

    # Keys

    def action_go(self, mode: str) -> None:
        """Another screen, always its list: what was opened from it or from this one is closed."""
        while len(self.screen_stack) > 1 and (mode == self.current_mode or not getattr(self.screen, "subject", True)):
            self.pop_screen()
        self.switch_mode(mode)
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def action_keys(self) -> None:
        """The keys of this screen."""
        if isinstance(self.screen, Frame) and self.screen.subject:
            self.push_screen(lazily("slotkeeper.console.tui.screens.help", "HelpScreen", self.screen)())

    def action_palette(self, typed: str = "") -> None:
        """Type a command, and run it."""
        from slotkeeper.console.tui import commands
        from slotkeeper.console.tui.screens.command_line import PaletteScreen

        def run(said: str | None) -> None:
            if said:
                commands.run(cast("Host", self), said)

        self.push_screen(PaletteScreen(typed), run)
