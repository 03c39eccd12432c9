"""Which targets at a sink other jobs write, as far as this user's configurations and state folders tell.

`slotkeeper.console.commands.init` proposes none of them. Jobs of another user or of another host are not seen here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slotkeeper.console.cli.first_config import Place
from slotkeeper.core.config.load import default_path, default_state_dir, find, load_usable
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.tls import loopback
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.state.sqlite import Store

_UNREADABLE = (SlotkeeperError, OSError, ValueError)
"""What is passed over: a broken configuration, and a path that this system refuses or that is closed to this user."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A job that writes a target, and the configuration that has it."""

    job: str
    config: Path


def writers(sink: Place, env: Mapping[str, str]) -> dict[str, Writer]:
    """By target: the jobs that write to this sink, of the usual configuration and of those that jobs started from."""
    found: dict[str, Writer] = {}
    for loaded in _configurations(env):
        for job in loaded.jobs.values():
            if _same(job.sink, sink):
                for channel in job.channels:
                    found.setdefault(channel.target, Writer(job.name, loaded.path))
    return found


def free(target: str, taken: Mapping[str, Writer]) -> str:
    """The target itself, or with the first number that makes it free.

    >>> free("mart.orders", {"mart.orders": Writer("a", Path("c")), "mart.orders_2": Writer("b", Path("c"))})
    'mart.orders_3'
    """
    number, found = 1, target
    while found in taken:
        number += 1
        found = f"{target}_{number}"
    return found


def _configurations(env: Mapping[str, str]) -> Iterator[Loaded]:
    """Each that can be read; a broken one must not block a first job."""
    paths: dict[Path, None] = {}
    for usual in (partial(find, None, env), partial(default_path, env)):
        with suppress(*_UNREADABLE):
            paths[usual().absolute()] = None
    folders: dict[Path, None] = {default_state_dir(env): None}
    loads: list[Loaded] = []
    for path in paths:
        with suppress(*_UNREADABLE):
            loads.append(load_usable(path, env))
            folders[loads[-1].state_dir] = None
    yield from loads
    for folder in folders:
        for path in _started_from(folder):
            if path not in paths:
                paths[path] = None
                with suppress(*_UNREADABLE):
                    yield load_usable(path, env)


def _started_from(folder: Path) -> list[Path]:
    """The configurations of a state folder's jobs; a cancelled job never writes again."""
    with suppress(*_UNREADABLE):
        if not folder.exists():
            return []
        with Store.existing(folder) as store:
            return [Path(one.config) for one in store.jobs() if one.config and one.state is not JobState.CANCELLED]
    return []


def _same(one: Endpoint, other: Place) -> bool:
    """Whether both are the same database, as far as their names tell."""
    hosts = one.host.lower() == other.host.lower() or (loopback(one.host) and loopback(other.host))
    return hosts and (one.port, one.database) == (other.port, other.database)
