"""Plans, backups and marks of unfinished resets as files of the state folder, flushed to the disk with their folder.

A mark lies there from before the first change until after the last, so that every command can tell without a network.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from slotkeeper.core.bounded import text_in
from slotkeeper.core.domain.reset import OpenReset
from slotkeeper.core.domain.reset_files import MARKS
from slotkeeper.core.state import entry
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import StateFolder

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ResetFiles:
    """The files of one state folder; implements `slotkeeper.core.slots.reset_plan.Files`."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder

    def save(self, kind: str, name: str, text: str) -> None:
        """Write a file under another name, flush it, rename it, flush the folder; StateError where that fails."""
        self._folder.replace(self._path(kind, name), text.encode("utf-8"))

    def load(self, kind: str, name: str) -> str | None:
        """The text of a file, or None where there is none."""
        if not _NAME.fullmatch(name):
            return None
        path = self._path(kind, name)
        try:
            return self._folder.read(path).decode("utf-8")
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise StateError(f"{path} cannot be read: it is not UTF-8 text") from error

    def remove(self, kind: str, name: str) -> None:
        """Take a file away; nothing where there is none."""
        self._folder.remove(self._path(kind, name))

    def names(self, kind: str) -> list[str]:
        """The names of all files of a kind."""
        return names(self._folder.path, kind)

    def _path(self, kind: str, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise StateError(f"{name!r} is no id of a plan or backup")
        return self._folder.path / kind / f"{name}.json"


def names(folder: Path, kind: str) -> list[str]:
    """The names of all files of a kind in a state folder, which may not exist."""
    return sorted(path.stem for path in (folder / kind).glob("*.json"))


def marks(folder: Path) -> list[OpenReset]:
    """The unfinished resets of a state folder; a damaged mark is one all the same."""
    return [OpenReset.parse(name, _content(folder, folder / MARKS / f"{name}.json")) for name in names(folder, MARKS)]


def _content(folder: Path, path: Path) -> str:
    try:
        with os.fdopen(entry.opened(folder, path, os.O_RDONLY), "rb") as stream:
            return text_in(stream)
    except (OSError, ValueError, StateError):
        return ""
