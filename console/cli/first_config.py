"""The text of a first configuration, from the few things that only its writer knows. Pure.

Everything else is the default; `config.example.toml` names it all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from slotkeeper.core.errors import ConfigError
from slotkeeper.core.sources import registry as sources

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
# Written by `slotkeeper init`. What else may stand here, with every default: config.example.toml
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is and as whom."""

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
    """How the place of a server of that kind is typed.

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
    """The file."""
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
