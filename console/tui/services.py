"""The interface of the app (`Host`) and its services, as used by screens, commands and history.

These modules refer to `Host` and never to the app itself. The services are in one class, so that tests can replace
them. Modules that are slow to import are imported on first use.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from slotkeeper.console.cli.context import NOTE, Invocation
from slotkeeper.console.monitor.poller import Collector, SlotPoller
from slotkeeper.console.monitor.sink_pollers import LockPoller, SinkQuarantines, Sinks
from slotkeeper.console.monitor.snapshot import Level, Local, MonitorState, Tables
from slotkeeper.console.tui.settings_file import FILE, SettingsFile
from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.config.load import default_path, default_state_dir
from slotkeeper.core.config.model import Loaded, NoConfig
from slotkeeper.core.errors import ConfigError, SlotkeeperError

if TYPE_CHECKING:
    from textual.timer import Timer

    from slotkeeper.console.actions.commands import Doing, Part
    from slotkeeper.console.actions.own import Own
    from slotkeeper.console.actions.runner import Runner
    from slotkeeper.console.monitor.series import JobSeries, Wanted
    from slotkeeper.console.monitor.store_reader import Reader
    from slotkeeper.console.tui.write_mode import Arming, Instant
    from slotkeeper.console.views.slots import SlotFacts
    from slotkeeper.core.domain.access import Right
    from slotkeeper.core.domain.inspection import Ask, Page
    from slotkeeper.core.judgement.facts import SlotSeen
    from slotkeeper.core.launch.access import Access

OWN_FILE = "console.toml"
INTERVALS = (1.0, 2.0, 5.0, 10.0, 30.0)
"""The poll intervals in seconds."""
Said = tuple[Level, str]


class Meant(Protocol):
    """The part of the current screen that typed verbs use."""

    def jobs_meant(self) -> list[str]: ...
    def row_meant(self) -> dict[str, str]: ...
    def slot_meant(self) -> SlotFacts | None: ...


class Host(Protocol):
    """The interface of the app that screens, commands and history use."""

    SCREEN_KEYS: ClassVar[dict[str, tuple[str, str]]]
    """The mode and label of each screen, by its key."""
    services: Services
    ascii_only: bool
    read_only: bool
    has_sources: bool
    ends: tuple[tuple[str, ...], tuple[str, ...]]
    """The names of the configured sources and sinks."""
    every: float
    said: Said | None
    """The current message."""
    touched: Instant
    """The time of the last key press."""
    typed_ahead: bool
    """Whether the current key was typed before the screen it acts on had shown its content."""
    shown: MonitorState
    counts: dict[str, int]
    """The numbers shown for screens in the first rows, by screen key."""
    critical: set[str] | None
    """The critical alerts; None before the first read."""
    job_shown: str
    own: Own | None
    """The user's own commands and contexts; None until their file has been read."""
    paused: bool
    mouse_on: bool
    mouse_used: bool

    # State

    @property
    def frame(self) -> Meant | None: ...

    @property
    def environments(self) -> list[str]: ...

    @property
    def stand_in(self) -> bool: ...

    @property
    def armed(self) -> Arming | None: ...

    @property
    def in_history(self) -> bool: ...

    @property
    def now(self) -> datetime: ...
    def now_real(self) -> datetime: ...
    def instant(self) -> Instant: ...
    def is_stale(self, at: datetime) -> bool: ...

    # Messages and drawing

    def say(self, text: str, level: Level = Level.FINE) -> None: ...
    def arrived(self) -> None: ...
    def copy_to_clipboard(self, text: str) -> None: ...
    def press(self, name: str) -> None: ...
    def release_keys(self) -> None: ...
    def drop_keys(self) -> int: ...
    def skip_key(self, key: str) -> None: ...
    def arm(self, reason: str) -> None: ...
    def disarm(self) -> None: ...
    def wear(self, name: str) -> None: ...
    def redrawn(self) -> None: ...
    def poll_every(self, seconds: float) -> None: ...

    # Screens and keys

    def open(self, screen: str, *of: object) -> None: ...
    def open_job_menu(self, names: Sequence[str], verb: str = "") -> None: ...
    def open_slot_menu(self, slots: Sequence[SlotFacts], verb: str = "") -> None: ...
    def plan_again(self, doing: Doing, typed: Mapping[Part, str] | None = None, over: bool = False) -> None: ...
    def action_go(self, mode: str) -> None: ...
    def action_keys(self) -> None: ...
    def action_palette(self, typed: str = "") -> None: ...
    def action_freeze(self) -> None: ...
    def action_renew(self) -> None: ...
    def action_mouse(self) -> None: ...

    # History, own commands and contexts

    def action_own(self, name: str) -> None: ...
    def action_history(self) -> None: ...
    def open_context(self, name: str) -> None: ...
    def show_past(self, moment: str = "") -> None: ...
    def show_moment(self, local: Local, tables: Tables) -> None: ...
    def leave_history(self) -> None: ...

    # Background work

    def run_worker(
        self, work: Coroutine[Any, Any, None], *, group: str, exclusive: bool, exit_on_error: bool
    ) -> object: ...
    def set_interval(self, interval: float, callback: Callable[[], object]) -> Timer: ...


Peeker = Callable[[Loaded, str, str, "Ask", bool], "Page"]
"""Reads binlog rows for (source, table); the last argument requests unmasked values."""


def peek(loaded: Loaded, source: str, table: str, ask: Ask, unmask: bool) -> Page:
    """Read binlog rows from the source; without the right `reveal`, their values are masked."""
    from slotkeeper.core.config.model import job_at
    from slotkeeper.core.domain.access import Right
    from slotkeeper.core.services import binlog_rows

    access, job = access_of(loaded, loaded.state_dir), job_at(loaded, table, source=source)
    if unmask:
        access.require(binlog_rows.ACTION, Right.REVEAL, job)
    hides = bool(access.missing(Right.REVEAL, job)[0])
    return binlog_rows.rows(loaded, source, table, ask, unmask, hides=hides)


def access_of(loaded: Loaded | None, folder: Path) -> Access:
    """Return the access rules for a state folder and for a configuration, whose file is read again."""
    from slotkeeper.core.config.load import load_access
    from slotkeeper.core.launch.access import Access

    if loaded is None:
        return Access(None, folder, os.environ)
    rules = loaded.access
    with suppress(ConfigError):
        rules, _ = load_access(loaded.path, os.environ)
    return Access(rules, folder, os.environ, str(loaded.path.absolute()))


def whoami() -> str:
    """Return user@host of this process, with the short host name."""
    import getpass

    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        name = str(os.getuid())
    return f"{name}@{socket.gethostname().partition('.')[0]}"


Actions = Callable[[Path, Clock], "Runner"]
"""Creates the command runner for a state folder."""


def detached(folder: Path, clock: Clock) -> Runner:
    """Return the runner of detached commands."""
    from slotkeeper.console.actions.runner import Runner

    return Runner(folder, clock)


@dataclass
class Services:
    """The services: `loaded` is None without a configuration; `folder` is the state folder; `who` is user@host.

    `config` is the value of --config, empty if it was not given.
    """

    feed: Collector
    clock: Clock
    loaded: Loaded | None
    folder: Path
    config: str = ""
    who: str = field(default_factory=whoami)
    peeker: Peeker = peek
    actions: Actions = detached
    quarantines: SinkQuarantines = field(default_factory=SinkQuarantines)
    locks: LockPoller = field(default_factory=LockPoller)

    own_file: Path | None = None
    """The file with the user's own commands and contexts, which may be missing."""
    settings: SettingsFile = field(default_factory=SettingsFile)
    """The user's settings, stored in a file."""
    note: tuple[str, ...] = ()
    """Notes for the Overview: the first line is shown in the crumb, the others in the panel of the selected row."""

    @cached_property
    def runs(self) -> Runner:
        """The command runner; created on first use."""
        return self.actions(self.folder, self.clock)

    @cached_property
    def access(self) -> Access:
        """The access rules for menus; their files are read on first use, and every command reads them again."""
        return access_of(self.loaded, self.folder)

    def require(self, action: str, right: Right, job: str = "") -> None:
        """Raise Refused, after a line in the audit, if this user lacks a right according to the current files."""
        access_of(self.loaded, self.folder).require(action, right, job)

    def barred(self, right: Right, job: str) -> str:
        """Return why this user lacks a right on a job; "" if the user has it."""
        try:
            return self.access.missing(right, job)[0]
        except SlotkeeperError as error:
            return f"the access rules cannot be read: {error}"

    @cached_property
    def graphs(self) -> GraphFeed:
        """The reader of recorded frames for graphs; created on first use."""

        return GraphFeed(self.folder, self.clock)

    def close(self) -> None:
        """Stop all readers."""
        self.feed.stop()
        self.settings.close()
        if "graphs" in vars(self):
            self.graphs.close()

    @cached_property
    def sinks(self) -> Sinks:
        """The poller for the sinks' quarantines; created on first use."""
        return Sinks(self.loaded, self.clock, self.quarantines)


class LateReader:
    """A reader with modules that the reading thread imports after the first frame."""

    def __init__(self, loaded: Loaded | None, folder: Path, clock: Clock) -> None:
        self._over = loaded, folder, clock
        self._reader: Reader | None = None

    def local(self, job: str = "") -> Local:
        """Return the contents of the state store."""
        if self._reader is None:
            from slotkeeper.console.monitor.query_poller import QueryPoller
            from slotkeeper.console.monitor.store_reader import Reader

            loaded, _, clock = self._over
            self._reader = Reader(*self._over, QueryPoller(loaded, clock))
        return self._reader.local(job)

    def remember(self, found: list[SlotSeen]) -> None:
        """Record the observed slots; until the store has been read for the first time, they are discarded."""
        if self._reader is not None:
            self._reader.remember(found)

    def close(self) -> None:
        """Close the state store."""
        if self._reader is not None:
            self._reader.close()


def services_for(shared: Invocation, state_dir: Path | None = None) -> Services:
    """Return the services for a command line; with `state_dir`, for a state folder without a configuration.

    Raises ConfigError if the configuration is invalid.
    """
    loaded: Loaded | None = None
    if state_dir is None:
        with suppress(NoConfig):
            loaded = shared.load()
    folder = state_dir or (loaded.state_dir if loaded else default_state_dir(shared.env))
    from slotkeeper.core.domain.access import Right

    access_of(loaded, folder).require("console", Right.READ, any_job=True)
    clock = SystemClock()
    feed = Collector(LateReader(loaded, folder, clock), SlotPoller(loaded, clock))
    config = str(shared.config.absolute()) if shared.config else ""
    settings = SettingsFile(default_path(shared.env).with_name(FILE))
    own_file = default_path(shared.env).with_name(OWN_FILE)
    note = tuple(shared.env.get(NOTE, "").splitlines())
    return Services(feed, clock, loaded, folder, config, settings=settings, own_file=own_file, note=note)


_Stretch = tuple[str, timedelta, int]


class GraphFeed:
    """The graphs of one state store, read in a separate thread; `fault` is the error of the last read.

    Recent graphs are cached, so that drawing them again reads nothing.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        from concurrent.futures import ThreadPoolExecutor

        from slotkeeper.console.monitor.history import SeriesReader

        self._reader = SeriesReader(folder, clock)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="slotkeeper-graphs")
        self._found: dict[_Stretch, tuple[int, JobSeries]] = {}
        self._reading: Wanted | None = None
        self.fault = ""

    def ask(self, wanted: Wanted, done: Callable[[], object]) -> JobSeries | None:
        """Return the cached series of that time range. If it is outdated, a thread reads it and calls `done`."""
        key = (wanted.job, wanted.span, wanted.points)
        number, series = self._found.get(key, (None, None))
        if number != wanted.number and self._reading is None:
            self._reading = wanted
            self._thread.submit(self._read, key, wanted, done)
        return series

    def knows(self, wanted: Wanted) -> bool:
        """Return whether that time range is cached and can be shown immediately."""
        return (wanted.job, wanted.span, wanted.points) in self._found

    def close(self) -> None:
        """Stop reading."""
        self._thread.shutdown(wait=False)

    def _read(self, key: _Stretch, wanted: Wanted, done: Callable[[], object]) -> None:
        try:
            found = self._reader.read(wanted)
            self._found = {**dict(list(self._found.items())[-7:]), key: (wanted.number, found)}
            self.fault = ""
        except Exception as error:  # top level of a thread: any error must be shown
            from slotkeeper.console.monitor.store_reader import message_of

            self.fault = message_of(error)
        finally:
            self._reading = None
        done()
