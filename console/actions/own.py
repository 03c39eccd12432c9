"""A user's own commands and contexts, as declared in `console.toml`, with a reason for each part that is not used.

Because the file runs programs, only its owner may have access to it (`slotkeeper.core.ownership.read_private`). An
argument list runs without a shell. The values of a row are passed in the environment and never in an argument.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from slotkeeper.core import ownership
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import SlotkeeperError

FILE = "console.toml"
"""Also defined in `slotkeeper.console.tui.services`, because the first frame is drawn before this module is loaded."""
MOST = 65_536
MOST_COMMANDS, MOST_WORDS, MOST_WORD = 50, 50, 4_096
ROW = ("JOB", "TABLE", "SLOT", "DN")
"""The environment variables that describe the selected row; empty if the value is unknown."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,30}")
_KEY = re.compile(r"[A-Za-z0-9]|f[1-9]|f1[0-2]|ctrl\+[a-z]")
_TERMINALS = {"ctrl+c", "ctrl+h", "ctrl+i", "ctrl+j", "ctrl+m", "ctrl+q", "ctrl+s", "ctrl+z"}
"""Keys that a terminal maps to another key or handles itself."""


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A user's own command: a name, a key ("" if there is none) and an argument list."""

    name: str
    key: str
    run: tuple[str, ...]

    @property
    def text(self) -> str:
        """The argument list as a shell command line, for display."""
        return shlex.join(self.run)

    @property
    def mark(self) -> str:
        """A hash that identifies the argument list. NUL separates the arguments, because no argument contains it."""
        return sha256("\0".join(self.run).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Context:
    """A configuration, or a state folder without a configuration, that another console can open."""

    name: str
    config: Path | None = None
    state_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class Own:
    """The valid part of the file. `faults` has one line for each part that is not used, with the reason."""

    commands: tuple[OwnCommand, ...] = ()
    contexts: tuple[Context, ...] = ()
    faults: tuple[str, ...] = ()

    def command(self, name: str) -> OwnCommand | None:
        """Return the command with that name; None if there is no such command."""
        return next((one for one in self.commands if one.name == name), None)


@dataclass(slots=True)
class _Reading:
    commands: list[OwnCommand] = field(default_factory=list)
    contexts: list[Context] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def read(path: Path, taken: Mapping[str, str] | None = None) -> Own:
    """Read a file; the result is empty if it does not exist. `taken` maps each key of the console to its action."""
    try:
        raw = ownership.read_private(path, FILE, MOST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Own()
    except SlotkeeperError as error:
        return Own(faults=(f"not used: {error.message}; {error.hint}",))
    except (OSError, ValueError) as error:
        return Own(faults=(f"not used: {FILE} cannot be read: {getattr(error, 'strerror', None) or 'invalid path'}",))
    return read_text(raw, taken or {})


def read_text(raw: bytes, taken: Mapping[str, str]) -> Own:
    """Parse the text of the file."""
    try:
        if len(raw) > MOST:
            raise ValueError(f"larger than {MOST:,} bytes")
        found = tomllib.loads(raw.decode("utf-8"))
    except RecursionError:
        return Own(faults=(f"not used: {FILE} is nested too deeply",))
    except ValueError as error:  # from parsing TOML or decoding UTF-8
        return Own(faults=(f"not used: {FILE}: {safe(error, 120)}",))
    reading = _Reading()
    reading.faults += [f"{FILE}: unknown key {safe(key, 40)}" for key in found if key not in ("command", "contexts")]
    _each(reading, found.get("command", []), lambda one: reading.commands.append(_command(one, reading, taken)))
    contexts = found.get("contexts", {})
    named = [{"name": name, "of": one} for name, one in contexts.items()] if isinstance(contexts, dict) else contexts
    _each(reading, named, lambda one: reading.contexts.append(_context(one)))
    return Own(tuple(reading.commands), tuple(reading.contexts), tuple(reading.faults))


def _each(reading: _Reading, found: object, take: Callable[[dict[str, Any]], None]) -> None:
    """Pass each table of a list to `take`. A table that `take` rejects becomes a fault; the others are still used."""
    if not isinstance(found, list) or len(found) > MOST_COMMANDS:
        reading.faults.append(f"{FILE}: expected at most {MOST_COMMANDS} [[command]] tables and one [contexts] table")
        return
    for one in found:
        try:
            take(one if isinstance(one, dict) else {})
        except (ValueError, RuntimeError) as error:  # `~` of a user without a home directory
            name = one.get("name") if isinstance(one, dict) else None
            reading.faults.append(f"{FILE}: {safe(name, 40) if name else 'unnamed entry'}: {error}; ignored")


def _command(one: dict[str, Any], reading: _Reading, taken: Mapping[str, str]) -> OwnCommand:
    name, key, run = one.get("name"), one.get("key", ""), one.get("run")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError("name can contain only letters, digits, _ . and -")
    if unknown := sorted(set(one) - {"name", "key", "run"}):
        raise ValueError(f"unknown key {safe(unknown[0], 40)}")
    if any(each.name == name for each in reading.commands):
        raise ValueError("the name is used twice")
    if not isinstance(key, str) or (key and (not _KEY.fullmatch(key) or key in _TERMINALS)):
        raise ValueError("key must be a letter, a digit, f1 to f12, or ctrl+ with a letter that no terminal uses")
    if key and key in taken:
        raise ValueError(f"key {key} is already used ({safe(taken[key], 40)})")
    if key and (other := next((each.name for each in reading.commands if each.key == key), "")):
        raise ValueError(f"key {key} is already used ({other})")
    if not isinstance(run, list) or not 0 < len(run) <= MOST_WORDS:
        raise ValueError('run must be a list of words, such as ["kubectl", "logs"]')
    if not all(isinstance(word, str) and len(word) <= MOST_WORD and "\0" not in word for word in run) or not run[0]:
        raise ValueError("run contains a word that is not a valid argument")
    if "/" in run[0] and not run[0].startswith("/"):
        raise ValueError("the program must be a name in PATH or an absolute path")
    return OwnCommand(name, key, tuple(run))


def _context(one: dict[str, Any]) -> Context:
    name, of = str(one.get("name")), one.get("of")
    if not NAME.fullmatch(name):
        raise ValueError("a context's name can contain only letters, digits, _ . and -")
    if not isinstance(of, dict) or len(of) != 1 or not set(of) <= {"config", "state_dir"}:
        raise ValueError('a context must set config = "FILE" or state_dir = "FOLDER"')
    ((key, text),) = of.items()
    if not isinstance(text, str) or not text.startswith(("/", "~/")) or "\0" in text:
        raise ValueError(f"{key} must be a path that starts with / or ~/")
    path = Path(text).expanduser()
    return Context(name, config=path) if key == "config" else Context(name, state_dir=path)
