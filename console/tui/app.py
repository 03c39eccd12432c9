"""The console: seven screens that show one monitor state, and the navigation between them.

The collector refreshes the state in the background.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.screen import Screen

from slotkeeper.console.cli.context import NOTE, Invocation
from slotkeeper.console.monitor.poller import EVERY, LocalSeen, SlotsSeen
from slotkeeper.console.monitor.sink_pollers import SinkPolled
from slotkeeper.console.monitor.snapshot import Level, Local, MonitorState, Tables
from slotkeeper.console.tui import terminal
from slotkeeper.console.tui.base_app import Shell
from slotkeeper.console.tui.screens.base import Frame
from slotkeeper.console.tui.screens.jobs import JobsScreen, OverviewScreen
from slotkeeper.console.tui.services import Host, Services, services_for
from slotkeeper.console.tui.theme import ANSI, DARK, THEMES
from slotkeeper.console.views.rows import STALE_SECONDS
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.elapsed import is_older

if TYPE_CHECKING:
    from textual.timer import Timer

    from slotkeeper.console.actions.commands import Doing, Part
    from slotkeeper.console.actions.own import Context, Own
    from slotkeeper.console.tui.history_mode import HistoryMode
    from slotkeeper.console.views.slots import SlotFacts

NO_JOB = "no job is selected: p pauses a job, f freezes the screen"
ONE_SLOT = "select one slot only: u unmarks, then a acts on the row at the cursor"


def lazily(module: str, name: str, *args: object) -> Callable[[], Screen[None]]:
    """Return a factory of a screen whose module is imported when first shown, so that the console starts quickly."""
    return lambda: cast("Screen[None]", getattr(importlib.import_module(module), name)(*args))


class Navigation(Shell):
    """The app with its screens, without their data."""

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
        "errors": lazily("slotkeeper.console.tui.screens.alerts", "ErrorsScreen"),
        "binlog": lazily("slotkeeper.console.tui.screens.binlog", "BinlogScreen"),
        "alerts": lazily("slotkeeper.console.tui.screens.alerts", "AlertsScreen"),
        "audit": lazily("slotkeeper.console.tui.screens.audit", "AuditScreen"),
    }
    DEFAULT_MODE = "overview"
    LATER: ClassVar[list[str]] = [
        "slotkeeper.console.tui.screens.slots",
        "slotkeeper.console.tui.screens.alerts",
        "slotkeeper.console.tui.screens.audit",
        "slotkeeper.console.tui.screens.binlog",
        "slotkeeper.console.tui.screens.help",
        "slotkeeper.console.tui.commands",
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, f"go('{mode}')", label, id=mode) for key, (mode, label) in SCREEN_KEYS.items()
    ]

    OPENED: ClassVar[dict[str, tuple[str, str]]] = {
        "job": ("slotkeeper.console.tui.screens.jobs", "JobScreen"),
        "graphs": ("slotkeeper.console.tui.screens.graphs", "GraphsScreen"),
        "log": ("slotkeeper.console.tui.screens.log", "LogScreen"),
        "slot": ("slotkeeper.console.tui.screens.slots", "SlotScreen"),
        "slot-history": ("slotkeeper.console.tui.screens.audit", "SlotHistoryScreen"),
        "errors": ("slotkeeper.console.tui.screens.alerts", "ErrorsScreen"),
        "quarantine": ("slotkeeper.console.tui.screens.quarantine", "QuarantineScreen"),
        "quarantine-menu": ("slotkeeper.console.tui.screens.actions.menu", "EntryMenu"),
        "locks": ("slotkeeper.console.tui.screens.locks", "LocksScreen"),
        "views": ("slotkeeper.console.tui.screens.sql_views", "ViewsScreen"),
        "rebuild-view": ("slotkeeper.console.tui.screens.actions.ending", "ViewConfirm"),
        "end-session": ("slotkeeper.console.tui.screens.actions.ending", "SessionConfirm"),
        "actions": ("slotkeeper.console.tui.screens.actions.progress", "ActionsScreen"),
        "welcome": ("slotkeeper.console.tui.screens.welcome", "WelcomeScreen"),
    }
    """The modules and classes of screens that open over another one; `open` passes its arguments to the class."""

    def open(self, screen: str, *of: object) -> None:
        """Open a screen of OPENED over the current screen."""
        self.push_screen(lazily(*self.OPENED[screen], *of)())

    # Actions: their objects are fixed when the key is pressed, because rows can move afterwards

    def open_job_menu(self, names: Sequence[str], verb: str = "") -> None:
        """Open the menu of these jobs; with a verb, choose the verb's line immediately."""
        if names:
            self._open_menu(lazily("slotkeeper.console.tui.screens.actions.menu", "JobMenu", names)(), verb)
        else:
            self.say("no job is selected", Level.WARNING)

    def open_slot_menu(self, slots: Sequence[SlotFacts], verb: str = "") -> None:
        """Open the menu of this slot; with a verb, choose the verb's line immediately. Several slots are rejected."""
        if len(slots) == 1:
            self._open_menu(lazily("slotkeeper.console.tui.screens.actions.menu", "SlotMenu", slots[0])(), verb)
        else:
            self.say(ONE_SLOT if slots else "no slot is selected", Level.WARNING)

    def _open_menu(self, menu: Any, verb: str) -> None:
        """Open a menu. After it is drawn, choose the verb's line, as its key would do."""

        def choose() -> None:
            key = next((entry.key for entry in menu.entries() if entry.what == verb), "")
            if key and self.screen in (menu,):
                menu.action_choose(key)
            else:
                self.say(f"{verb} is not available here", Level.WARNING)

        self.push_screen(menu)
        if verb:
            menu.call_after_refresh(choose)

    def plan_again(self, doing: Doing, typed: Mapping[Part, str] | None = None, over: bool = False) -> None:
        """Show a new plan for the current state instead of the current screen, or over it; `typed` fills its fields."""
        plan = lazily("slotkeeper.console.tui.screens.actions.preview", "SlotPlan", doing, typed)()
        if over:
            self.push_screen(plan)
        else:
            self.switch_screen(plan)

    # Keys

    def action_go(self, mode: str) -> None:
        """Switch to a screen's list, and close all screens that were opened over it or over the current screen."""
        while len(self.screen_stack) > 1 and (mode == self.current_mode or not getattr(self.screen, "subject", True)):
            self.pop_screen()
        self.switch_mode(mode)
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def action_keys(self) -> None:
        if isinstance(self.screen, Frame) and self.screen.subject:
            self.push_screen(lazily("slotkeeper.console.tui.screens.help", "HelpScreen", self.screen)())

    def action_palette(self, typed: str = "") -> None:
        from slotkeeper.console.tui import commands
        from slotkeeper.console.tui.commands import PaletteScreen

        def run(said: str | None) -> None:
            if said:
                commands.run(cast("Host", self), said)

        self.push_screen(PaletteScreen(typed), run)


STAND_IN = "DEMO"
SHOW_SLOTS = ("1", "3", "6")
"""The screens that show the time left for slots. While one of them is shown, the slots' sources are polled."""
SHOW_QUARANTINE = "4"
"""The screen that shows the quarantine. While it is shown, the sinks are queried."""
_MISSED = 3
"""The number of missed polls after which values are stale."""


@dataclass(frozen=True, slots=True)
class Place:
    """The environments, sources and sinks shown in the first row."""

    environments: tuple[str, ...] = ()
    has_sources: bool = False
    sources: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()


class ConsoleApp(Navigation):
    """The app. `shown` is the state that is drawn; it does not change while the screen is frozen."""

    CSS_PATH = "console.tcss"
    TITLE = "slotkeeper"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("R", "history", "history", id="history", tooltip="show the recordings of the last 24 h; again: leave"),
        Binding("less_than_sign", "step(-1)", "earlier", id="earlier", key_display="<", tooltip="step back in history"),
        Binding("greater_than_sign", "step(1)", "later", id="later", key_display=">", tooltip="hold for larger steps"),
    ]

    def __init__(
        self,
        services: Services,
        place: Place,
        ascii_only: bool = False,
        live: bool = True,
        mono: bool = False,
        read_only: bool = False,
    ) -> None:
        super().__init__(services, ascii_only, mono, read_only)
        self._environments = frozenset(place.environments)
        self.has_sources = place.has_sources
        self.ends = (place.sources, place.sinks)
        self.shown = MonitorState()
        self.paused = False
        self._latest = self.shown
        self._live = live
        self.job_shown = ""
        self.counts: dict[str, int] = {}
        self.history: HistoryMode | None = None
        self.critical: set[str] | None = None
        self._stopped_at: datetime | None = None
        self._ticker: Timer | None = None
        self.own: Own | None = None
        self.own_bindings: list[Binding] = []
        self.next_context: Context | None = None

    @property
    def environments(self) -> list[str]:
        """The environments of the configured sources and of the jobs that report on this host."""
        reports = [job.report for job in self.shown.local.jobs]
        return sorted(self._environments.union(one.environment for one in reports if one and one.environment))

    @property
    def stand_in(self) -> bool:
        """Whether any source is a stand-in, according to its environment."""
        return STAND_IN in [one.upper() for one in self.environments]

    @property
    def in_history(self) -> bool:
        """Whether history is shown."""
        return self.history is not None

    @property
    def now(self) -> datetime:
        """The time of the displayed values: the selected time in history, or the time of the freeze while frozen."""
        if self.history is not None and self.history.local is not None:
            return self.history.at
        return self._stopped_at or self.now_real()

    def is_stale(self, at: datetime) -> bool:
        """Return whether a value observed at that time is older than expected."""
        return is_older(at, self.now, max(STALE_SECONDS, _MISSED * self.every))

    def on_mount(self) -> None:
        self.call_after_refresh(self.services.feed.start, self.post_message)
        if self._live:
            terminal.end_on_signals(self.exit)
            self.set_interval(terminal.POLL_SECONDS, terminal.end_without_terminal)
            self._ticker = self.set_interval(EVERY / 2, self.tick)
            self.call_after_refresh(self.turn_mouse, True)
            self.load_later(self.LATER)
            self.call_after_refresh(self.load_own)
        if self.services.loaded is None:
            self.open("welcome")
        self.services.settings.tell = lambda text: self.call_from_thread(self.say, text, Level.WARNING)
        if self.services.settings.fault:
            self.call_after_refresh(self.say, self.services.settings.fault, Level.WARNING)

    def on_unmount(self) -> None:
        self.services.settings.tell = lambda text: None  # the message line no longer exists at this point
        self.services.close()
        if self.history is not None:
            self.history.close()

    # Incoming data

    def on_local_seen(self, message: LocalSeen) -> None:
        """Show the new contents of the state store; after an error, keep the last values, which become stale."""
        local, last = message.local, self._latest.local
        if local.fault and last.at is not None:
            local = replace(last, fault=local.fault)
        self._renew(replace(self._latest, local=local))

    def on_slots_seen(self, message: SlotsSeen) -> None:
        seen = {(one.source, one.table): one for one in message.tables}
        self._renew(replace(self._latest, tables={**self._latest.tables, **seen}))

    def on_sink_polled(self, message: SinkPolled) -> None:
        """Show the new counts of a sink's quarantine; after an error, keep the last counts."""
        seen, last = message.seen, self._latest.sinks.get(message.seen.sink)
        if seen.fault and last is not None:
            seen = replace(last, fault=seen.fault)
        self._renew(replace(self._latest, sinks={**self._latest.sinks, seen.sink: seen}))

    def _renew(self, monitor: MonitorState) -> None:
        self._latest = monitor
        self._count()
        if not self.paused and self.history is None:
            self.shown = monitor
            self.redrawn()

    def _count(self) -> None:
        """Count errors and alerts for the first rows. Ring the bell for a new critical alert."""
        from slotkeeper.console.views.alerts import counts_of  # loaded after the first frame

        loaded = self.services.loaded
        self.counts, critical = counts_of(self._latest, loaded.jobs if loaded else {}, self.now_real())
        if self.critical is not None and critical - self.critical:
            self.bell()
        self.critical = critical if self._latest.local.at is not None else None

    def redrawn(self) -> None:
        """Redraw the current screen; an app that is closing has none."""
        self.arrived()
        if self.screen_stack and isinstance(self.screen, Frame):
            self.screen.redraw()

    def tick(self) -> None:
        """Update ages every second. While the screen is frozen, only the countdown of an armed console continues."""
        counting = self.check_write_mode()
        below = next((one for one in reversed(self.screen_stack) if isinstance(one, Frame)), None)
        if below is not None and below.is_mounted:
            if not self.paused and self.history is None:
                below.tick()
            elif counting:
                below.draw_identity()
            if below is not self.screen:  # Textual does not draw a screen below a prompt
                self.screen.refresh(Region(0, 0, self.size.width, 1))
        self._turn_ticker()

    def _turn_ticker(self) -> None:
        """Stop the ticks of a frozen screen, which has nothing to update but the countdown of an armed console."""
        if self._ticker is not None:
            (self._ticker.pause if self.paused and self._arming is None else self._ticker.resume)()

    def arm(self, reason: str) -> None:
        """Allow changes for ten minutes, and show the countdown."""
        super().arm(reason)
        self._turn_ticker()

    def arrived(self) -> None:
        """Collect data for the screen that is now shown."""
        subjects = [one for one in self.screen_stack if isinstance(one, Frame) and one.subject]
        subject = subjects[-1] if subjects else None
        job = str(getattr(subject, "job", ""))
        self.services.feed.want(job, subject is not None and subject.number in SHOW_SLOTS)
        if subject is not None and subject.number == SHOW_QUARANTINE and self.history is None:
            self.services.sinks.turn(self.post_message)
        before, self.job_shown = self.job_shown, job
        if job and job != before:
            self.services.feed.now()
            if self.history is not None:
                self.history.renew()

    # Keys

    def action_pause(self) -> None:
        """Ask whether to pause the selected jobs, or to resume them if all of them are paused."""
        from slotkeeper.console.actions.verbs import JobVerb  # not needed for the first frame
        from slotkeeper.console.tui.commands import PAST
        from slotkeeper.core.domain.job import JobState

        names = self.frame.jobs_meant() if self.frame is not None else []
        if self.history is not None:
            self.say(f"{PAST}; f plays", Level.WARNING)
        elif names:
            found = [self.shown.job(name) for name in names]
            resumes = all(job is not None and job.state is JobState.PAUSED for job in found)
            self.open_job_menu(names, (JobVerb.RESUME if resumes else JobVerb.PAUSE).value)
        else:
            self.say(NO_JOB, Level.WARNING)

    def action_freeze(self) -> None:
        """Freeze the screen, or show current values again. Collecting continues. In history: start or stop playback."""
        if self.history is not None:
            self.history.play()
            return
        self.paused = not self.paused
        self._stopped_at = self.now_real() if self.paused else None
        self.shown = self._latest
        self.services.feed.rest(self.paused)
        self._turn_ticker()
        self.redrawn()

    def action_renew(self) -> None:
        self.services.sinks.hurry()
        self.arrived()
        if isinstance(self.screen, Frame):
            self.screen.renewed()
        self.services.feed.now()

    # Own commands and contexts

    def load_own(self) -> None:
        """Read the file with the user's own commands in a thread, if it exists."""
        file = self.services.own_file
        if file is not None and os.path.lexists(file):
            from slotkeeper.console.tui import own

            own.load(self, file)

    def action_own(self, name: str) -> None:
        from slotkeeper.console.tui import own

        own.ask(self, name)

    def open_context(self, name: str) -> None:
        """Close this console and open one with another configuration or state folder."""
        from slotkeeper.console.tui import own

        own.switch(self, name)

    # History

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow steps in time only in history."""
        return self.history is not None if action == "step" else super().check_action(action, parameters)

    def action_history(self) -> None:
        if self.history is None:
            self.show_past()
        else:
            self.leave_history()
            self.say("showing live data again")

    def show_past(self, moment: str = "") -> None:
        """Show the newest recorded time, or the given time."""
        if self.history is not None:
            self.history.go(moment)
            return
        from slotkeeper.console.tui.history_mode import HistoryMode

        self.history = HistoryMode(self)
        self.history.begin(moment)

    def show_moment(self, local: Local, tables: Tables) -> None:
        """Show the values that were read for a time in history."""
        self.shown = MonitorState(local, tables)
        self.redrawn()

    def leave_history(self) -> None:
        """Leave history and show current values."""
        if self.history is not None:
            self.history.close()
            self.history = None
        self.shown = self._latest
        self.redrawn()

    def action_step(self, direction: int) -> None:
        if self.history is not None:
            self.history.step(direction)


def place_of(loaded: Loaded | None) -> Place:
    """Return the environments, sources and sinks of the configuration."""
    if loaded is None:
        return Place()
    words = {entry.environment for entry in loaded.sources.values() if entry.environment}
    jobs = loaded.jobs.values()
    ends = ({job.source.name for job in jobs}, {job.sink.name for job in jobs})
    return Place(tuple(sorted(words)), bool(jobs), *(tuple(sorted(each)) for each in ends))


def open_console(shared: Invocation) -> int:
    """Open the console on this terminal, and again for each context that the user switches to, until it is closed.

    Return the exit code. Raises the defect that ended it, if any.
    """
    state_dir: Path | None = None
    while True:
        code, context = _opened(shared, state_dir)
        if context is None:
            return terminal.followed(code, shared.env)
        env = {name: value for name, value in shared.env.items() if name != NOTE}  # for the previous context
        shared, state_dir = replace(shared, config=context.config, env=env), context.state_dir


def _opened(shared: Invocation, state_dir: Path | None) -> tuple[int, Context | None]:
    """Run one console until it is closed. Return its exit code, and the context that the user switched to."""
    services = services_for(shared, state_dir)
    app = ConsoleApp(services, place_of(services.loaded), shared.ascii_only, True, shared.mono, shared.read_only)
    if not shared.mono:  # with 16 colors, the user's own palette is better than the closest match to the theme
        chosen = f"slotkeeper-{services.settings.now.theme}"
        own = next((one for one in THEMES if one.name == chosen), DARK)
        app.wear_first(ANSI if app.console.color_system == "standard" else own)
    code = app.run(mouse=False)
    if app.defect is not None:
        raise app.defect
    return code or 0, app.next_context
