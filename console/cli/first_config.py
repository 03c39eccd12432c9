"""The first configuration: its text from the user's answers, target names that no other job uses, and its file.

All other keys have their defaults; `config.example.toml` lists them. Jobs of other users or on other hosts are not
visible here.
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
"""The names of the two servers in the configuration file."""
FORM = "user@host:port/database"
BARE_FORM = "user@host:port"
"""The form for a source whose login covers all databases of a server."""
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
    """The address of a server and the login."""

    host: str
    port: int
    database: str
    user: str


@dataclass(frozen=True, slots=True)
class Server:
    """A server and the files of its login; `root_certificate` is None if there is none.

    `kind` is its name in the registry of sources or sinks.
    """

    kind: str
    place: Place
    password_file: Path
    root_certificate: Path | None = None


def form_of(kind: str) -> str:
    """Return the form in which the address of this kind of server is typed.

    >>> form_of("dws"), form_of("mysql")
    ('user@host:port/database', 'user@host:port')
    """
    return FORM if sources.traits(kind).server_keys == "server" else BARE_FORM


def place_of(text: str, form: str = FORM) -> Place:
    """Parse a typed address. Raises ConfigError.

    >>> place_of("etl@source.example.com:8000/gaussdb")
    Place(host='source.example.com', port=8000, database='gaussdb', user='etl')
    >>> place_of("etl@source.example.com:3306", BARE_FORM).database
    ''
    """
    try:
        parts = urlsplit(f"//{text.strip()}")
        found = Place(parts.hostname or "", parts.port or 0, unquote(parts.path[1:]), unquote(parts.username or ""))
    except ValueError as error:
        raise ConfigError(f"{error}", f"expected: {form}") from None
    if parts.password is not None:
        raise ConfigError(
            "the address must not contain a password", "it is requested separately and stored in its own file"
        )
    if (
        not (found.host and found.port and found.user)
        or bool(found.database) != (form == FORM)
        or "/" in found.database
        or parts.query
        or parts.fragment
    ):
        raise ConfigError(f"{text!r} is not a server address", f"expected: {form}")
    return found


def text_of(source: Server, sink: Server, job: str, table: str, target: str) -> str:
    """Return the text of the configuration file."""
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
    """Return a TOML basic string, which is identical to a JSON string except that DEL is escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


_UNREADABLE = (SlotkeeperError, OSError, ValueError)
"""The ignored errors: a broken configuration, and a path that the system rejects or this user cannot read."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A job that writes to a target, and the job's configuration file."""

    job: str
    config: Path


@dataclass(frozen=True, slots=True)
class Known:
    """The jobs found on this host: `loads` are their configurations, `jobs` the names recorded in state folders."""

    loads: list[Loaded]
    jobs: dict[str, Path]

    complete: bool = True
    """Whether all configurations were read in time."""

    def targets(self, sink: Place) -> dict[str, Writer]:
        """Return the jobs that write to this sink, by target."""
        found: dict[str, Writer] = {}
        for loaded in self.loads:
            for job in loaded.jobs.values():
                if _same(job.sink, sink):
                    for channel in job.channels:
                        found.setdefault(channel.target, Writer(job.name, loaded.path))
        return found

    def names(self, source: Place) -> dict[str, Writer]:
        """Return all jobs by name, and this source's jobs also by slot name: a new slot gets its job's name."""
        found = {name: Writer(name, config) for name, config in self.jobs.items()}
        for loaded in self.loads:
            for name in loaded.jobs:
                found.setdefault(name, Writer(name, loaded.path))
            for job in loaded.jobs.values():
                if _same(job.source, source):
                    found.setdefault(job.slot, Writer(job.name, loaded.path))
        return found


READING_SECONDS = 10.0
"""The time limit for reading configurations, because a folder can hold thousands and a network folder may hang."""


def known(env: Mapping[str, str], path: Path, seconds: float = READING_SECONDS) -> Known:
    """Return the jobs of the default configuration, of those in the folder of `path`, and of recorded jobs.

    Configurations that cannot be read, or are not read within `seconds`, are ignored, because they must not block a
    first job.
    """
    loads, jobs = list[Loaded](), dict[str, Path]()
    reading = threading.Thread(target=_read, args=(env, path, loads, jobs), name="slotkeeper-known", daemon=True)
    reading.start()
    reading.join(seconds)
    return Known(list(loads), dict(jobs), not reading.is_alive())


def _read(env: Mapping[str, str], path: Path, loads: list[Loaded], jobs: dict[str, Path]) -> None:
    """Add configurations to `loads` and jobs to `jobs` one by one. Other files in the folder of `path` come last."""
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
    for config in pending:  # the list grows during iteration
        if config not in seen:
            seen.add(config)
            with suppress(*_UNREADABLE):
                loads.append(load_usable(config, env))
                record(loads[-1].state_dir)


def free(name: str, taken: Collection[str]) -> str:
    """Return the name, or the name with the first free number appended.

    >>> free("mart.orders", ("mart.orders", "mart.orders_2"))
    'mart.orders_3'
    """
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def _recorded(folder: Path) -> dict[str, Path]:
    """Return a state folder's jobs and their configurations, except cancelled jobs, which never write again."""
    with suppress(*_UNREADABLE):
        if folder.exists():
            with Store.existing(folder) as store:
                jobs = store.jobs()
            return {one.name: Path(one.config) for one in jobs if one.config and one.state is not JobState.CANCELLED}
    return {}


def _same(one: Endpoint, other: Place) -> bool:
    """Return whether both are the same database, based on host name, port and database name."""
    hosts = one.host.lower() == other.host.lower() or (loopback(one.host) and loopback(other.host))
    return hosts and (one.port, one.database) == (other.port, other.database)


_RIGHTS = 0o600


def write_new(path: Path, content: str) -> None:
    """Write a new file that only its owner can read. Raises FileExistsError if the file exists."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, _RIGHTS)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.write(content)
    except BaseException:  # a file truncated by a full disk would block the next attempt
        path.unlink(missing_ok=True)
        raise
