"""Check one table of a file against its keys: read values, fill in defaults, and reject everything else.

Each error is one sentence that names the location, the key and the rule, but never the value, because a misplaced value
may be a secret.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path as FilePath
from typing import Any, TypeVar

from slotkeeper.core.config.keys import REQUIRED, Key, Section, snake
from slotkeeper.core.config.model import DEFAULT, Layer, Origin, Path, Setting, Shown, find_lines, nearest_line
from slotkeeper.core.config.values import BadValue, Reader, show_duration
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.spec import (
    BinlogOptions,
    Computed,
    Constant,
    RetryOptions,
    RoundOptions,
    SinkOptions,
    SoftDelete,
    SyncOptions,
)
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import ConfigError

_LITERAL_SECRETS = frozenset(
    {"password", "passwd", "passphrase", "pass", "pwd", "pw", "secret", "token", "sslpassword"}
)
MASK = "***"
UNDECIDED = "undecided"
"""The table in which `slotkeeper import` lists options that need a decision; it is an error wherever it occurs."""
SECRET_KINDS = ("file", "env", "command")
"""The ways to reference a secret: `password_file`, `password_env`, `password_command`."""
Table = dict[str, object]
_Options = TypeVar("_Options", BinlogOptions, SinkOptions, SyncOptions, RetryOptions, RoundOptions)


@dataclass(slots=True)
class Reading:
    """A configuration being read: the raw tree, the origins of its parts, and the values read so far."""

    file: FilePath
    tree: Table
    text: str = ""
    """The text of `tree`; its lines are found when the first origin in the file is requested."""
    overrides: dict[Path, Origin] = field(default_factory=dict)
    noted: list[tuple[Path, Shown, Origin | None]] = field(default_factory=list)
    """The effective values; the origin None is a line of the file."""
    _lines: dict[Path, int] | None = None

    def origin(self, path: Path) -> Origin:
        if path in self.overrides:
            return self.overrides[path]
        if self._lines is None:
            self._lines = find_lines(self.text)
        line = nearest_line(self._lines, path)
        return Origin(Layer.FILE, f"{safe(self.file)}:{line}" if line else safe(self.file))

    def error(self, path: Path, what: str, hint: str = "") -> ConfigError:
        """Return an error about the item at `path`; the message starts with its location."""
        origin = self.origin(path)
        place = origin.place if origin.layer is Layer.FILE else f"{origin.layer.value} {origin.place}"
        return ConfigError(f"{place}: {what}", hint)

    def note(self, path: Path, value: object, origin: Origin | None, private: bool = False) -> None:
        """Record an effective value for `config show`; the origin None is the value's line in the file."""
        shown = MASK if private and value is not None else value
        if not isinstance(shown, str | int | bool | None):
            shown = str(shown)
        self.noted.append((path, shown, origin))

    def settings(self) -> tuple[Setting, ...]:
        """Return the effective values that were read so far, as shown to users."""
        return tuple(Setting(dotted(path), shown, at or self.origin(path)) for path, shown, at in self.noted)


def dotted(path: Path) -> str:
    """Return a path as dotted text.

    >>> dotted(("jobs", "x", "channels", 0, "from"))
    'jobs.x.channels[0].from'
    """
    words = ""
    for part in path:
        words += f"[{part}]" if isinstance(part, int) else f".{safe(part, 80)}"
    return words.removeprefix(".")


def as_table(reading: Reading, path: Path, raw: object) -> Table:
    """Return the item at `path`, which must be a table."""
    if not isinstance(raw, dict):
        raise reading.error(path, f"{dotted(path)} must be a table", f"write [{dotted(path)}] on its own line")
    return raw


def table_at(reading: Reading, path: Path) -> Table:
    found: object = reading.tree
    for length, part in enumerate(path):
        found = as_table(reading, path[:length], found)[str(part)]
    return as_table(reading, path, found)


def read_section(
    reading: Reading, path: Path, raw: object, section: Section, tables: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the values of all keys of a table, including defaults; `tables` are the names of its subtables."""
    given = as_table(reading, path, raw)
    if isinstance(open_ := given.get(UNDECIDED), dict) and open_:
        name = next(iter(open_))
        what = f"[{dotted(path)}] needs a decision: {safe(name, 80)}"
        raise reading.error((*path, UNDECIDED, name), what, "the comment above the line has the reason; then remove it")
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
        reading.note(path, _spelled(key, value), DEFAULT)
        return value
    if key.because:
        raise reading.error(path, f"{dotted(path)} does not apply here: {key.because}", "remove the key")
    if key.read is None:
        return given[key.name]
    outside = reading.overrides.get(path)
    value = read_value(reading, path, lambda raw: _read(key, raw, outside), given[key.name])
    reading.note(path, _spelled(key, value), outside, key.private)
    return value


def as_fields(made: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are set for fields of a dataclass; the fields have the names of the keys."""
    return {field.name: given[field.name] for field in fields(made) if given.get(field.name) is not None}


def read_options(
    reading: Reading, path: Path, raw: Table, name: str, section: Section, made: type[_Options]
) -> _Options:
    """Return the table `name` of the job at `path` as an instance of the dataclass `made`."""
    return made(**as_fields(made, read_section(reading, (*path, name), raw.get(name, {}), section)))


def refuse_below(
    reading: Reading, path: Path, options: object, high: str, low: str, least: str = "", hint: str = ""
) -> None:
    """Reject a limit in the table at `path` that is below another limit; the error names the limit set in the file."""
    if getattr(options, high) < getattr(options, low):
        here = (*path, high if high in table_at(reading, path) else low)
        raise reading.error(here, f"{dotted(path)}.{high} is below {low}{least}", hint)


def read_value(reading: Reading, path: Path, read: Reader, raw: object) -> object:
    """Return the value of the key at `path`; raises ConfigError."""
    try:
        return read(raw)
    except BadValue as error:
        raise reading.error(path, f"{dotted(path)} {error}") from None


def _read(key: Key, raw: object, outside: Origin | None) -> object:
    """Read a value; a value from outside the file is a string, which is converted to a number or boolean if needed."""
    assert key.read is not None
    try:
        return key.read(raw)
    except BadValue:
        if outside is None or outside.layer is Layer.FILE or not isinstance(raw, str):
            raise
    word = raw.strip()
    if word in ("true", "false"):
        return key.read(word == "true")
    digits = word.removeprefix("-")
    return key.read(int(word) if digits.isascii() and digits.isdigit() and len(word) < 20 else raw)


def _spelled(key: Key, value: object) -> object:
    if isinstance(value, tuple) and all(isinstance(one, str) for one in value):
        return "[" + ", ".join(f'"{one}"' for one in value) + "]"
    if isinstance(value, Constant):
        return f"{{ column = {json.dumps(value.column)}, value = {json.dumps(value.value)} }}"
    if isinstance(value, tuple) and value and isinstance(value[0], Computed):
        return "{ " + ", ".join(f"{one.name} = {json.dumps(one.sql)}" for one in value) + " }"
    if isinstance(value, SoftDelete):
        return f'{{ deleted_at = "{value.deleted_at}", op = "{value.op}" }}'
    if isinstance(value, tuple):
        return "{ " + ", ".join(f'{source} = "{into}"' for source, into in value) + " }"
    return show_duration(value) if key.unit == "ms" and isinstance(value, int) else value


def unknown_key(
    reading: Reading, path: Path, name: str, section: Iterable[str], tables: Iterable[str] = ()
) -> ConfigError:
    """Return the error for an unknown key, with the most similar known key as a suggestion."""
    here = (*path, name)
    place = f"[{dotted(path)}]" if path else "the file"
    shown = safe(name, 80)
    known = [*section, *tables]
    spelled = snake(name)
    if spelled in _LITERAL_SECRETS:
        word = spelled if f"{spelled}_file" in section else "secret" if "secret_file" in section else "password"
        hint = f"use {word}_file, {word}_env or {word}_command"
        return reading.error(here, f"{shown} in {place} is rejected: set secrets only by reference", hint)
    if spelled != name and spelled in known:
        return reading.error(here, f"unknown key {shown} in {place}; write it as {spelled}")
    import difflib  # most configurations contain no unknown key

    near = difflib.get_close_matches(spelled, known, n=1, cutoff=0.6)
    if near:
        return reading.error(here, f"unknown key {shown} in {place}; did you mean {near[0]}?")
    return reading.error(here, f"unknown key {shown} in {place}", f"known: {', '.join(known) or 'none'}")


# -- secrets and paths as written in the file ---------------------------------------------------------------------


def secret_ref(reading: Reading, path: Path, given: Mapping[str, Any], word: str = "password") -> SecretRef:
    """Return the reference in `<word>_file`, `<word>_env` or `<word>_command`; raises ConfigError if two are set."""
    used = [how for how in SECRET_KINDS if given.get(f"{word}_{how}")]
    if len(used) > 1:
        names = " and ".join(f"{word}_{how}" for how in used)
        raise reading.error((*path, f"{word}_{used[1]}"), f"[{dotted(path)}] sets {names}", "set only one of them")
    if not used:
        return SecretRef()
    ref = str(given[f"{word}_{used[0]}"])
    return SecretRef(used[0], str(beside(reading.file, ref)) if used[0] == "file" else ref, word)


def beside(file: FilePath, written: str) -> FilePath:
    """Return a configured path as an absolute path; `~` is expanded, and relative paths start at `file`'s folder."""
    path = FilePath(written)
    try:
        path = path.expanduser()
    except RuntimeError:  # for an unknown user, the path stays as written, and opening it fails
        pass
    return FilePath(file.absolute().parent, path)
