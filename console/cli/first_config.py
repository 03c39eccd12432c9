"""A first configuration: its text from what only its writer knows, targets that no job writes, and its new file.

Everything else is the default; `config.example.toml` names it all. Jobs of another user or of another host are not
seen here.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from slotkeeper.core.config.load import default_path, default_state_dir, find, load_usable
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.endpoint import Endpoint, loopback
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.errors import ConfigError, SlotkeeperError
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.state.sqlite import Store

NAMES = {"source": "warehouse", "sink": "mart"}
"""What the two servers are called in the file."""
FORM = "user@host:port/database"
BARE_FORM = "user@host:port"
"""Of a source whose login is for all databases of a server."""
_SECTION = """\
[{kind}s.{name}]
{what} = {value}
host = {host}
port = {port}
{database}user = {user}
password_file = {password}
"""
_JOB = """\
[jobs.{name}]
source = "warehouse"
sink = "mart"
start = "initial"

[[jobs.{name}.channels]]
from = {table}
into = {target}
create_target = true

[jobs.{name}.binlog]
binlog = true
"""
_HEAD = """\
# Written by `slotkeeper init`. Every other key, with its default: config.example.toml
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a server, and the login."""

    host: str
    port: int
    database: str
    user: str


@dataclass(frozen=True, slots=True)
class Server:
    """A server with the files that belong to its login; `root_certificate` is None where there is none.

    `kind` is its name in the registry of sources, or of sinks.
    """

    kind: str
    place: Place
    password_file: Path
    root_certificate: Path | None = None


def form_of(kind: str) -> str:
    """The form in which the place of such a server is typed.

    >>> form_of("dws"), form_of("mysql")
    ('user@host:port/database', 'user@host:port')
    """
    return FORM if sources.traits(kind).server_keys == "server" else BARE_FORM


def place_of(text: str, form: str = FORM) -> Place:
    """A typed place; raises ConfigError.

    >>> place_of("etl@source.example.com:8000/gaussdb")
    Place(host='source.example.com', port=8000, database='gaussdb', user='etl')
    >>> place_of("etl@source.example.com:3306", BARE_FORM).database
    ''
    """
    try:
        parts = urlsplit(f"//{text.strip()}")
        found = Place(parts.hostname or "", parts.port or 0, unquote(parts.path[1:]), unquote(parts.username or ""))
    except ValueError as error:
        raise ConfigError(f"{error}", f"as in {form}") from None
    if parts.password is not None:
        raise ConfigError("a password does not belong there", "it is asked for, and kept in a file of its own")
    if (
        not (found.host and found.port and found.user)
        or bool(found.database) != (form == FORM)
        or "/" in found.database
        or parts.query
        or parts.fragment
    ):
        raise ConfigError(f"{text!r} does not name a server", f"as in {form}")
    return found


def text_of(source: Server, sink: Server, job: str, table: str, target: str) -> str:
    """The text of the configuration file."""
    parts = [
        _HEAD + _server("source", "dialect", source),
        _server("sink", "kind", sink),
        _JOB.format(name=job, table=_quoted(table), target=_quoted(target)),
    ]
    return "\n".join(parts)


def _server(kind: str, what: str, server: Server) -> str:
    place = server.place
    text = _SECTION.format(
        kind=kind,
        name=NAMES[kind],
        what=what,
        value=_quoted(server.kind),
        host=_quoted(place.host),
        port=place.port,
        database=f"database = {_quoted(place.database)}\n" if place.database else "",
        user=_quoted(place.user),
        password=_quoted(str(server.password_file)),
    )
    if server.root_certificate is not None:
        text += f'sslmode = "verify-full"\nsslrootcert = {_quoted(str(server.root_certificate))}\n'
    return text


def _quoted(value: str) -> str:
    """A TOML basic string: JSON's, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


_UNREADABLE = (SlotkeeperError, OSError, ValueError)
"""What is passed over: a broken configuration, and a path that this system refuses or that is closed to this user."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A job that writes a target, and the configuration that has it."""

    job: str
    config: Path


@dataclass(frozen=True, slots=True)
class Known:
    """What other jobs already have: `loads` are their configurations, `jobs` the names that state folders record."""

    loads: list[Loaded]
    jobs: dict[str, Path]

    complete: bool = True
    """Whether all of them were read in time."""

    def targets(self, sink: Place) -> dict[str, Writer]:
        """By target: the jobs that write to this sink."""
        found: dict[str, Writer] = {}
        for loaded in self.loads:
            for job in loaded.jobs.values():
                if _same(job.sink, sink):
                    for channel in job.channels:
                        found.setdefault(channel.target, Writer(job.name, loaded.path))
        return found

    def names(self, source: Place) -> dict[str, Writer]:
        """By name: the jobs that have it, or a slot of it at this source. The new job's slot has its job's name."""
        found = {name: Writer(name, config) for name, config in self.jobs.items()}
        for loaded in self.loads:
            for name in loaded.jobs:
                found.setdefault(name, Writer(name, loaded.path))
            for job in loaded.jobs.values():
                if _same(job.source, source):
                    found.setdefault(job.slot, Writer(job.name, loaded.path))
        return found


READING_SECONDS = 10.0
"""How long configurations are read: a folder may have thousands, and a network folder may not answer."""


def known(env: Mapping[str, str], path: Path, seconds: float = READING_SECONDS) -> Known:
    """The jobs of the usual configuration, of those beside `path`, and of those that recorded jobs started from.

    A configuration that cannot be read is passed over, as is what is not read within `seconds`: neither must block a
    first job.
    """
    loads, jobs = list[Loaded](), dict[str, Path]()
    reading = threading.Thread(target=_read, args=(env, path, loads, jobs), name="slotkeeper-known", daemon=True)
    reading.start()
    reading.join(seconds)
    return Known(list(loads), dict(jobs), not reading.is_alive())


def _read(env: Mapping[str, str], path: Path, loads: list[Loaded], jobs: dict[str, Path]) -> None:
    """Add to `loads` and `jobs` one by one; what only lies beside `path` comes last."""
    pending: list[Path] = []
    for place in (partial(find, None, env), partial(default_path, env)):
        with suppress(*_UNREADABLE):
            pending.append(place().absolute())
    folders, seen = set[Path](), set[Path]()

    def record(folder: Path) -> None:
        if folder not in folders:
            folders.add(folder)
            recorded = _recorded(folder)
            jobs.update(recorded)
            pending.extend(recorded.values())

    record(default_state_dir(env))
    with suppress(OSError):
        pending += sorted(path.absolute().parent.glob("*.toml"))
    for config in pending:  # grows meanwhile
        if config not in seen:
            seen.add(config)
            with suppress(*_UNREADABLE):
                loads.append(load_usable(config, env))
                record(loads[-1].state_dir)


def free(name: str, taken: Collection[str]) -> str:
    """The name itself, or with the first number that makes it free.

    >>> free("mart.orders", ("mart.orders", "mart.orders_2"))
    'mart.orders_3'
    """
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def _recorded(folder: Path) -> dict[str, Path]:
    """A state folder's jobs, with the configurations they started from; a cancelled job never writes again."""
    with suppress(*_UNREADABLE):
        if folder.exists():
            with Store.existing(folder) as store:
                jobs = store.jobs()
            return {one.name: Path(one.config) for one in jobs if one.config and one.state is not JobState.CANCELLED}
    return {}


def _same(one: Endpoint, other: Place) -> bool:
    """Whether both are the same database, as far as their names tell."""
    hosts = one.host.lower() == other.host.lower() or (loopback(one.host) and loopback(other.host))
    return hosts and (one.port, one.database) == (other.port, other.database)


_RIGHTS = 0o600


def write_new(path: Path, content: str) -> None:
    """Write a new file for its owner alone; raises FileExistsError where there is one."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, _RIGHTS)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.write(content)
    except BaseException:  # what a full disk cuts off would be in the next one's way
        path.unlink(missing_ok=True)
        raise
