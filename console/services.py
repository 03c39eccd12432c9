"""What the screens are given besides the picture: one place, so that tests can give something else.

Modules that are costly to load are loaded when they are first used. Next door: `console.app` hands this to screens.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from console.collector import Collector, Feed
from console.invocation import Invocation
from console.looker import Looker
from console.reader import Reader
from core.clock import Clock, SystemClock
from core.config.load import default_state_dir
from core.config.model import Loaded, NoConfig


@dataclass
class Services:
    """`loaded` is None where there is no configuration; `folder` is the state folder."""

    feed: Feed
    clock: Clock
    loaded: Loaded | None
    folder: Path
    config: str = ""


def services_for(shared: Invocation) -> Services:
    """The real ones; raises ConfigError where the configuration is wrong."""
    try:
        loaded: Loaded | None = shared.load()
    except NoConfig:
        loaded = None
    folder = loaded.state_dir if loaded else default_state_dir(shared.env)
    clock = SystemClock()
    feed = Collector(Reader(loaded, folder, clock), Looker(loaded, clock))
    return Services(feed, clock, loaded, folder, str(shared.config or ""))
