"""A loaded configuration: endpoints and jobs as domain values, and the origin of every value.

Error messages need the line of a key, which the TOML parser does not report. `find_lines` runs only on text that has
already been parsed, so a small lexer is sufficient to find the lines exactly.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from slotkeeper.core.domain.access import AccessRules
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.placement import HostOptions
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.judgement.facts import AlertOptions

Path = tuple[str | int, ...]

_TOKEN = re.compile(
    r"""
    (?P<comment>\#[^\n]*)
  | (?P<long>\"{3}(?:\\.|[^\\])*?\"{3,5} | '{3}.*?'{3,5})
  | (?P<basic>"(?:\\.|[^"\\\n])*")
  | (?P<literal>'[^'\n]*')
  | (?P<newline>\n)
  | (?P<mark>[\[\]{}=.,])
  | (?P<bare>[^\s\[\]{}=.,\#"']+)
    """,
    re.VERBOSE | re.DOTALL,
)


def find_lines(text: str) -> dict[Path, int]:
    """Return the line of every table header and key, by path; entries of `[[x]]` are numbered: ("x", 0, "key").

    >>> find_lines("[a]\\nb.c = 1\\n[[d]]\\ne = 2")[("d", 0, "e")]
    4
    """
    return _Scan(text).lines


def nearest_line(lines: dict[Path, int], path: Path) -> int | None:
    """Return the line of a key, or of the closest enclosing item whose line is known."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


class _Scan:
    """One pass over the tokens, which records the lines of headers and keys and skips values."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}
        self._table: Path = ()
        self._tokens = _tokens(text)
        for kind, word, line in self._tokens:
            if kind == "mark" and word == "[":
                self._header(line)
            elif kind in ("bare", "basic", "literal"):
                self._key(kind, word, line)

    def _header(self, line: int) -> None:
        parts: list[str | int] = []
        many = False
        for kind, word, _ in self._tokens:
            if word == "[":
                many = True
            elif word == "]" or kind == "newline":
                break
            elif kind in ("bare", "basic", "literal"):
                parts.append(_plain(kind, word))
        self._skip(0)
        path: Path = self._numbered(tuple(parts[:-1])) + tuple(parts[-1:])
        if many:
            self._counts[path] = self._counts.get(path, -1) + 1
            self.lines.setdefault(path, line)
        if path in self._counts:
            path = (*path, self._counts[path])
        self._table = path
        self._note(path, 0, line)

    def _key(self, kind: str, word: str, line: int) -> None:
        parts = [_plain(kind, word)]
        for kind, word, _ in self._tokens:
            if word == "=" and kind == "mark":
                break
            if kind in ("bare", "basic", "literal"):
                parts.append(_plain(kind, word))
        self._skip(0)
        self._note(self._table + tuple(parts), len(self._table), line)

    def _skip(self, depth: int) -> None:
        """Skip a value: advance to the first line end outside all brackets."""
        for kind, word, _ in self._tokens:
            if kind == "mark":
                depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(word, 0)
            elif kind == "newline" and depth <= 0:
                return

    def _numbered(self, path: Path) -> Path:
        """Return the path with the number of the latest entry inserted after each part that is an array of tables."""
        numbered: Path = ()
        for part in path:
            numbered = (*numbered, part)
            if numbered in self._counts:
                numbered = (*numbered, self._counts[numbered])
        return numbered

    def _note(self, path: Path, known: int, line: int) -> None:
        for length in range(known + 1, len(path) + 1):
            self.lines.setdefault(path[:length], line)


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    line = 1
    for match in _TOKEN.finditer(text):
        yield match.lastgroup or "", match[0], line
        line += match[0].count("\n")


def _plain(kind: str, word: str) -> str:
    if kind == "bare":
        return word
    if kind == "literal":
        return word[1:-1]
    try:
        return str(json.loads(word, strict=False))
    except ValueError:  # the escape sequence exists only in TOML; the raw text suffices to find a line
        return word[1:-1]


class NoConfig(ConfigError):
    """The default configuration file does not exist; in this case the console offers the demo."""


class Layer(Enum):
    """The layer from which a value comes; later members override earlier ones."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    OPTION = "option"


@dataclass(frozen=True, slots=True)
class Origin:
    """A layer and the location in that layer: `config.toml:12`, a variable's or option's name, or "" for a default."""

    layer: Layer
    place: str = ""

    @property
    def text(self) -> str:
        """Return the layer and the location as text.

        >>> Origin(Layer.FILE, "config.toml:12").text
        'file config.toml:12'
        """
        return f"{self.layer.value} {self.place}".rstrip()


DEFAULT = Origin(Layer.DEFAULT)
Shown = str | int | bool | None
"""A value as shown to users: masked if it is private."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One effective value as shown to users."""

    key: str
    """The setting's dotted path."""
    value: Shown
    origin: Origin


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """An entry `[sources.X]`."""

    name: str
    dialect: str
    endpoint: Endpoint
    environment: str = ""


@dataclass(frozen=True, slots=True)
class SinkEntry:
    """An entry `[sinks.X]`."""

    name: str
    kind: str
    endpoint: Endpoint
    progress_schema: str = "public"
    store: str = ""
    """The sink that stores this sink's progress rows; empty if it stores them itself."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checked configuration."""

    path: pathlib.Path
    sources: dict[str, SourceEntry]
    sinks: dict[str, SinkEntry]
    jobs: dict[str, JobSpec]
    """The usable jobs."""
    state_dir: pathlib.Path
    settings: Callable[[], tuple[Setting, ...]] = field(compare=False)
    """Returns the effective values; only users need them, so their lines in the file are found on request."""
    warnings: tuple[str, ...] = ()
    """Warnings about settings that work but should be changed."""
    refused: Mapping[str, ConfigError] = field(default_factory=dict)
    """The jobs that cannot be used, each with its error."""
    alerts: AlertOptions = field(default_factory=AlertOptions)
    access: AccessRules | None = None
    """The rules of this file; None if it has none."""
    hosts: HostOptions | None = None
    """The table `[hosts]`; None if each job has one host."""

    def whole(self) -> Loaded:
        """Return this configuration if all jobs are usable; otherwise raise the error of the first unusable job.

        Used where all jobs are needed, because a slot without a usable job may belong to a job with an error.
        """
        for error in self.refused.values():
            raise error
        return self


def owners(loaded: Loaded, source: str, table: str) -> dict[str, str]:
    """Return the names of the configured jobs that read a table, by slot."""
    mine = [job for job in loaded.jobs.values() if job.source.name == source and job.binlog.binlog]
    return {job.slot: job.name for job in mine if any(channel.source_table == table for channel in job.channels)}


def tables(loaded: Loaded, source: str = "", table: str = "") -> list[tuple[str, str]]:
    """Return (source, table) for every table that a configured job reads; filtered by source and table if given."""
    found = {(job.source.name, channel.source_table) for job in loaded.jobs.values() for channel in job.channels}
    return sorted((one, its) for one, its in found if source in ("", one) and table in ("", its))


def job_at(loaded: Loaded, table: str, slot: str = "", source: str = "") -> str:
    """Return the name of the one configured job that reads a table, through a slot if given; "" if not exactly one."""
    found = [
        job.name
        for job in loaded.jobs.values()
        if source in ("", job.source.name) and slot in ("", job.slot)
        if any(channel.source_table == table for channel in job.channels)
    ]
    return found[0] if len(found) == 1 else ""
