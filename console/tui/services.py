"""What the screens are given besides the picture: one place, so that tests can give something else.

Modules that are costly to load are loaded when they are first used.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from slotkeeper.console.cli.context import Invocation
from slotkeeper.console.monitor.poller import Collector, SlotPoller
from slotkeeper.console.monitor.sink_pollers import LockPoller, SinkQuarantines, Sinks
from slotkeeper.console.views.fitting import Chosen
from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.config.load import default_state_dir
from slotkeeper.core.config.model import Loaded, NoConfig

if TYPE_CHECKING:
    from slotkeeper.console.actions.runner import Runner
    from slotkeeper.console.monitor.snapshot import Local
    from slotkeeper.console.monitor.store_reader import Reader
    from slotkeeper.console.tui.graph_feed import GraphFeed
    from slotkeeper.core.domain.inspection import Ask, Page
    from slotkeeper.core.judgement.facts import SlotSeen

Peeker = Callable[[Loaded, str, str, "Ask", bool], "Page"]
"""Reads binlog rows of (source, table); the last argument asks for masked values."""


def peek(loaded: Loaded, source: str, table: str, ask: Ask, unmask: bool) -> Page:
    """The real peeker."""
    from slotkeeper.core.services import binlog_rows

    return binlog_rows.rows(loaded, source, table, ask, unmask)


def whoami() -> str:
    """Who sits here, on which host, in short."""
    import getpass

    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        name = str(os.getuid())
    return f"{name}@{socket.gethostname().partition('.')[0]}"


Actions = Callable[[Path, Clock], "Runner"]
"""Makes what sets commands going, over a state folder."""


def detached(folder: Path, clock: Clock) -> Runner:
    """The real one."""
    from slotkeeper.console.actions.runner import Runner

    return Runner(folder, clock)


@dataclass
class Services:
    """`loaded` is None where there is no configuration; `folder` is the state folder; `who` is user@host.

    `config` is the configuration that was typed as --config, empty where none was.
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

    columns: dict[str, Chosen] = field(default_factory=dict)
    """Which columns a person wants to see, by screen, as long as this console is open."""

    @cached_property
    def runs(self) -> Runner:
        """What sets commands going; made when it is first asked for."""
        return self.actions(self.folder, self.clock)

    @cached_property
    def graphs(self) -> GraphFeed:
        """What reads the recorded frames for graphs; made when it is first asked for."""
        from slotkeeper.console.tui.graph_feed import GraphFeed

        return GraphFeed(self.folder, self.clock)

    def close(self) -> None:
        """Read no more."""
        self.feed.stop()
        if "graphs" in vars(self):
            self.graphs.close()

    @cached_property
    def sinks(self) -> Sinks:
        """What asks sinks for the numbers of their quarantines; made when it is first asked for."""
        return Sinks(self.loaded, self.clock, self.quarantines)


class LateReader:
    """A reader whose modules are loaded by the thread that reads, once the first frame is seen."""

    def __init__(self, loaded: Loaded | None, folder: Path, clock: Clock) -> None:
        self._over = loaded, folder, clock
        self._reader: Reader | None = None

    def local(self, job: str = "") -> Local:
        """What the state store says."""
        if self._reader is None:
            from slotkeeper.console.monitor.query_poller import QueryPoller
            from slotkeeper.console.monitor.store_reader import Reader

            loaded, _, clock = self._over
            self._reader = Reader(*self._over, QueryPoller(loaded, clock))
        return self._reader.local(job)

    def remember(self, found: list[SlotSeen]) -> None:
        """What was seen of slots; before the store was read for the first time there is nowhere to keep it."""
        if self._reader is not None:
            self._reader.remember(found)

    def close(self) -> None:
        """Give the state store back."""
        if self._reader is not None:
            self._reader.close()


def services_for(shared: Invocation) -> Services:
    """The real ones; raises ConfigError where the configuration is wrong."""
    try:
        loaded: Loaded | None = shared.load()
    except NoConfig:
        loaded = None
    folder = loaded.state_dir if loaded else default_state_dir(shared.env)
    clock = SystemClock()
    feed = Collector(LateReader(loaded, folder, clock), SlotPoller(loaded, clock))
    return Services(feed, clock, loaded, folder, str(shared.config.absolute()) if shared.config else "")
