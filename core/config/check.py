"""One table of a file against its keys: values read, defaults filled in, everything else refused in one sentence.

Messages say where, which key and which rule; they never hold the value, because a secret may stand in any wrong place.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path as FilePath
from typing import Any, TypeVar

from slotkeeper.core.config.keys import REQUIRED, Key, Section, snake
from slotkeeper.core.config.model import Layer, Origin, Path, Setting, nearest_line
from slotkeeper.core.config.values import BadValue, Reader, show_duration
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.spec import BinlogOptions, RetryOptions, SinkOptions, SyncOptions
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import ConfigError

_LITERAL_SECRETS = frozenset(
    {"password", "passwd", "passphrase", "pass", "pwd", "pw", "secret", "token", "sslpassword"}
)
MASK = "***"
SECRET_KINDS = ("file", "env", "command")
"""The ways to write a secret: `password_file`, `password_env`, `password_command`."""
Table = dict[str, object]
_Options = TypeVar("_Options", BinlogOptions, SinkOptions, SyncOptions, RetryOptions)


@dataclass(slots=True)
class Reading:
    """A configuration while it is being read: the raw tree, the origins of its parts, and the values so far."""

    file: FilePath
    tree: Table
    lines: dict[Path, int]
    overrides: dict[Path, Origin] = field(default_factory=dict)
    settings: list[Setting] = field(default_factory=list)

    def origin(self, path: Path) -> Origin:
        """Where a given value came from."""
        if path in self.overrides:
            return self.overrides[path]
        line = nearest_line(self.lines, path)
        return Origin(Layer.FILE, f"{safe(self.file)}:{line}" if line else safe(self.file))

    def error(self, path: Path, what: str, hint: str = "") -> ConfigError:
        """An error about the thing at `path`, which starts with its place."""
        origin = self.origin(path)
        place = origin.place if origin.layer is Layer.FILE else f"{origin.layer.value} {origin.place}"
        return ConfigError(f"{place}: {what}", hint)

    def note(self, path: Path, value: object, origin: Origin, private: bool = False) -> None:
        """Remember an effective value for `config show`."""
        shown = MASK if private and value is not None else value
        if not isinstance(shown, str | int | bool | None):
            shown = str(shown)
        self.settings.append(Setting(dotted(path), shown, origin))


def dotted(path: Path) -> str:
    """A path in words.

    >>> dotted(("jobs", "x", "channels", 0, "from"))
    'jobs.x.channels[0].from'
    """
    words = ""
    for part in path:
        words += f"[{part}]" if isinstance(part, int) else f".{safe(part, 80)}"
    return words.removeprefix(".")


def as_table(reading: Reading, path: Path, raw: object) -> Table:
    """The thing at `path`, which must be a table."""
    if not isinstance(raw, dict):
        raise reading.error(path, f"{dotted(path)} must be a table", f"write [{dotted(path)}] on a line of its own")
    return raw


def table_at(reading: Reading, path: Path) -> Table:
    """The table at `path` as it is written, which is there."""
    found: object = reading.tree
    for length, part in enumerate(path):
        found = as_table(reading, path[:length], found)[str(part)]
    return as_table(reading, path, found)


def read_section(
    reading: Reading, path: Path, raw: object, section: Section, tables: Iterable[str] = ()
) -> dict[str, Any]:
    """The values of all keys of a table, defaults filled in; `tables` are the names of tables below it."""
    given = as_table(reading, path, raw)
    for name in given:
        if name not in section and name not in tables:
            raise unknown_key(reading, path, name, section, tables)
    missing = [key.name for key in section.values() if key.default is REQUIRED and key.name not in given]
    if missing:
        raise reading.error(path, f"[{dotted(path)}] lacks {', '.join(missing)}")
    return {
        key.name: _read_key(reading, (*path, key.name), key, given)
        for key in section.values()
        if key.name in given or not key.because
    }


def _read_key(reading: Reading, path: Path, key: Key, given: Table) -> object:
    if key.name not in given:
        value = key.read(key.default) if key.read and key.default is not None else key.default
        reading.note(path, _spelled(key, value), Origin(Layer.DEFAULT))
        return value
    if key.because:
        raise reading.error(path, f"{dotted(path)} has no meaning here: {key.because}", "remove the key")
    if key.read is None:
        return given[key.name]
    origin = reading.origin(path)
    value = read_value(reading, path, lambda raw: _read(key, raw, origin), given[key.name])
    reading.note(path, _spelled(key, value), origin, key.private)
    return value


def as_fields(made: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is set of a dataclass's fields, which are named like the keys."""
    return {field.name: given[field.name] for field in fields(made) if given.get(field.name) is not None}


def read_options(
    reading: Reading, path: Path, raw: Table, name: str, section: Section, made: type[_Options]
) -> _Options:
    """The table `name` of the job at `path` as its dataclass."""
    return made(**as_fields(made, read_section(reading, (*path, name), raw.get(name, {}), section)))


def refuse_below(
    reading: Reading, path: Path, options: object, high: str, low: str, least: str = "", hint: str = ""
) -> None:
    """Refuse a limit of the table at `path` that is below the other one; the error is about the one that is set."""
    if getattr(options, high) < getattr(options, low):
        here = (*path, high if high in table_at(reading, path) else low)
        raise reading.error(here, f"{dotted(path)}.{high} is below {low}{least}", hint)


def read_value(reading: Reading, path: Path, read: Reader, raw: object) -> object:
    """The value of the key at `path`; raises ConfigError."""
    try:
        return read(raw)
    except BadValue as error:
        raise reading.error(path, f"{dotted(path)} {error}") from None


def _read(key: Key, raw: object, origin: Origin) -> object:
    """Read a value; what comes from outside the file is text and may have to become a number or a truth value."""
    assert key.read is not None
    try:
        return key.read(raw)
    except BadValue:
        if origin.layer is Layer.FILE or not isinstance(raw, str):
            raise
    word = raw.strip()
    if word in ("true", "false"):
        return key.read(word == "true")
    digits = word.removeprefix("-")
    return key.read(int(word) if digits.isascii() and digits.isdigit() and len(word) < 20 else raw)


def _spelled(key: Key, value: object) -> object:
    if isinstance(value, tuple) and all(isinstance(one, str) for one in value):
        return "[" + ", ".join(f'"{one}"' for one in value) + "]"
    if isinstance(value, tuple):
        return "{ " + ", ".join(f'{source} = "{into}"' for source, into in value) + " }"
    return show_duration(value) if key.unit == "ms" and isinstance(value, int) else value


def unknown_key(
    reading: Reading, path: Path, name: str, section: Iterable[str], tables: Iterable[str] = ()
) -> ConfigError:
    """The error for a key that the table does not know, with the one that was probably meant."""
    here = (*path, name)
    place = f"[{dotted(path)}]" if path else "the file"
    shown = safe(name, 80)
    known = [*section, *tables]
    spelled = snake(name)
    if spelled in _LITERAL_SECRETS:
        word = spelled if f"{spelled}_file" in section else "secret" if "secret_file" in section else "password"
        hint = f"use {word}_file, {word}_env or {word}_command"
        return reading.error(here, f"{shown} in {place} is refused: secrets only by reference", hint)
    if spelled != name and spelled in known:
        return reading.error(here, f"unknown key {shown} in {place}; it is written {spelled} here")
    near = difflib.get_close_matches(spelled, known, n=1, cutoff=0.6)
    if near:
        return reading.error(here, f"unknown key {shown} in {place}; did you mean {near[0]}?")
    return reading.error(here, f"unknown key {shown} in {place}", f"known here: {', '.join(known) or 'nothing yet'}")


# -- secrets and paths as the file writes them ---------------------------------------------------------------------


def secret_ref(reading: Reading, path: Path, given: Mapping[str, Any], word: str = "password") -> SecretRef:
    """The reference of a table's `<word>_file`, `<word>_env` or `<word>_command`; two of them are refused."""
    used = [how for how in SECRET_KINDS if given.get(f"{word}_{how}")]
    if len(used) > 1:
        names = " and ".join(f"{word}_{how}" for how in used)
        raise reading.error((*path, f"{word}_{used[1]}"), f"[{dotted(path)}] sets {names}", "set one of them")
    if not used:
        return SecretRef()
    ref = str(given[f"{word}_{used[0]}"])
    return SecretRef(used[0], str(beside(reading.file, ref)) if used[0] == "file" else ref, word)


def beside(file: FilePath, written: str) -> FilePath:
    """A path of the configuration: `~` is the home, anything relative is relative to the file's folder."""
    path = FilePath(written)
    try:
        path = path.expanduser()
    except RuntimeError:  # no such user: the path stays as written and fails where it is opened
        pass
    return FilePath(file.absolute().parent, path)
