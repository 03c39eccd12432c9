"""The console: seven screens over one picture, which the collector renews in the background. It only reads.

Next door: `console.collector` collects, `console.screens` draw, `console.terminal` is what surrounds the app.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import ClassVar, cast

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from console import terminal
from console.collector import EVERY, LocalSeen, SlotsSeen
from console.invocation import Invocation
from console.picture import Picture
from console.rows import STALE_SECONDS
from console.screens.audit import AuditScreen
from console.screens.frame import Frame
from console.screens.jobs import JobScreen, JobsScreen, OverviewScreen
from console.screens.plain import HelpScreen, NotYetScreen
from console.screens.slots import SlotScreen, SlotsScreen
from console.services import Services, services_for
from console.theme import DARK
from console.widgets.live_table import LiveTable
from core.config.model import Loaded

STAND_IN = "DEMO"


@dataclass(frozen=True, slots=True)
class Place:
    """What the first row says of where we are."""

    environments: tuple[str, ...] = ()
    has_sources: bool = False


class ConsoleApp(App[int]):
    """The app; `shown` is the picture that is drawn, which stands still while paused."""

    CSS_PATH = "console.tcss"
    TITLE = "slotkeeper"
    ENABLE_COMMAND_PALETTE = False
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
        "slots": SlotsScreen,
        "errors": partial(NotYetScreen, "4"),
        "binlog": partial(NotYetScreen, "5"),
        "alerts": partial(NotYetScreen, "6"),
        "audit": AuditScreen,
    }
    DEFAULT_MODE = "overview"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"go('{mode}')", label, id=mode) for key, (mode, label) in SCREEN_KEYS.items()),
        Binding("p", "pause", "pause", id="pause"),
        Binding("r", "renew", "refresh", id="refresh"),
        Binding("question_mark", "keys", "help", id="help", key_display="?"),
        Binding("q", "quit", "quit", id="quit"),
    ]

    def __init__(self, services: Services, place: Place, ascii_only: bool = False, live: bool = True) -> None:
        super().__init__()
        self.services = services
        self.ascii_only = ascii_only
        self._environments = frozenset(place.environments)
        self.has_sources = place.has_sources
        self.shown = Picture()
        self.paused = False
        self._latest = self.shown
        self._feed = services.feed
        self._clock = services.clock
        self._live = live
        self._job = ""
        self._stopped_at: datetime | None = None
        self.register_theme(DARK)
        self.theme = DARK.name

    @property
    def environments(self) -> list[str]:
        """What the configured sources, and the jobs that report here, say of where they are."""
        reports = [job.report for job in self.shown.local.jobs] if self.shown.local else []
        return sorted(self._environments.union(one.environment for one in reports if one and one.environment))

    @property
    def stand_in(self) -> bool:
        """Whether a source is a stand-in, as its environment says."""
        return STAND_IN in [one.upper() for one in self.environments]

    @property
    def now(self) -> datetime:
        """The time of what is shown: that of the pause while paused."""
        return self._stopped_at or self._clock.utc()

    def is_stale(self, at: datetime) -> bool:
        """Whether something seen then is older than it should be."""
        return (self.now - at).total_seconds() > STALE_SECONDS

    def on_mount(self) -> None:
        """Begin to collect."""
        self._feed.start(self.post_message)
        if self._live:
            terminal.end_on_signals(self.exit)
            self.set_interval(terminal.WATCH_SECONDS, terminal.end_without_terminal)
            self.set_interval(EVERY / 2, self._tick)

    def on_unmount(self) -> None:
        """Collect no more."""
        self._feed.stop()

    def bindings_of(self, screen: Frame) -> Iterator[Binding]:
        """The keys that work on a screen, each once: its own, its table's, the app's."""
        own = [
            one for kind in type(screen).__mro__ for one in vars(kind).get("BINDINGS", ()) if issubclass(kind, Frame)
        ]
        table = LiveTable.BINDINGS if any(isinstance(each, LiveTable) for each in screen.query("*")) else []
        for binding in (*table, *own, *self.BINDINGS):
            if isinstance(binding, Binding):
                yield binding

    # What comes in

    def on_local_seen(self, message: LocalSeen) -> None:
        """The state store was read; where it could not be, the last values stay and grow old."""
        local, last = message.local, self._latest.local
        if local.fault and last is not None:
            local = replace(last, fault=local.fault)
        self._renew(replace(self._latest, local=local))

    def on_slots_seen(self, message: SlotsSeen) -> None:
        """A table's slots were looked at."""
        table = message.table
        self._renew(replace(self._latest, tables={**self._latest.tables, (table.source, table.table): table}))

    def _renew(self, picture: Picture) -> None:
        self._latest = picture
        if not self.paused:
            self.shown = picture
            self._redraw()

    def _redraw(self) -> None:
        self._tell_feed()
        if isinstance(self.screen, Frame):
            self.screen.redraw()

    def _tick(self) -> None:
        if not self.paused and isinstance(self.screen, Frame) and self.screen.is_mounted:
            self.screen.tick()

    def _tell_feed(self) -> None:
        screen = self.screen
        below = self.screen_stack[-2] if isinstance(screen, HelpScreen) and len(self.screen_stack) > 1 else screen
        job = below.job if isinstance(below, JobScreen) else ""
        self._feed.want(job, isinstance(screen, SlotsScreen | SlotScreen))
        if job and job != self._job:
            self._feed.now()
        self._job = job

    def arrived(self) -> None:
        """Another screen is seen: what it shows is collected from now on."""
        self._tell_feed()

    # Keys

    def action_go(self, mode: str) -> None:
        """Another screen; pressed again it goes back to that screen's beginning."""
        if isinstance(self.screen, HelpScreen):
            self.pop_screen()
        if mode == self.current_mode and len(self.screen_stack) > 1:
            self.pop_screen()
        self.switch_mode(mode)

    def action_pause(self) -> None:
        """Let what is shown stand still, or go on; collecting goes on either way."""
        self.paused = not self.paused
        self._stopped_at = self._clock.utc() if self.paused else None
        self.shown = self._latest
        self._redraw()

    def action_renew(self) -> None:
        """Read the state store now."""
        self._tell_feed()
        self._feed.now()

    def action_keys(self) -> None:
        """The keys of this screen."""
        if isinstance(self.screen, Frame) and not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen))


def lazily(module: str, name: str) -> Callable[[], Screen[None]]:
    """A screen whose module is imported when it is first seen: a console that starts fast."""
    return lambda: cast("Screen[None]", getattr(importlib.import_module(f"console.screens.{module}"), name)())


def place_of(loaded: Loaded | None) -> Place:
    """What the configuration says of where we are."""
    if loaded is None:
        return Place()
    words = {entry.environment for entry in loaded.sources.values() if entry.environment}
    return Place(tuple(sorted(words)), bool(loaded.jobs))


def open_console(shared: Invocation) -> int:
    """Open the console on this terminal and stay until it is left; the exit code."""
    services = services_for(shared)
    app = ConsoleApp(services, place_of(services.loaded), shared.ascii_only)
    return app.run(mouse=False) or 0
