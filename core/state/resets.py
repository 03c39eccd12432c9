"""Plans, backups and marks of unfinished resets as files of the state folder, flushed to the disk with their folder.

A mark lies there from before the first change until after the last, so that every command can tell without a network.
Next door: `core.state.folder` checks the folder, `core.slots` says what the texts are.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from core.bounded import TooLong, text_of
from core.domain.reset import MARKS, OpenReset
from core.state.faults import StateError
from core.state.folder import StateFolder

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ResetFiles:
    """The files of one state folder; implements `core.slots.reset.context.Files`."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder

    def save(self, kind: str, name: str, text: str) -> None:
        """Write a file under another name, flush it, rename it, flush the folder; StateError where that fails."""
        path = self._path(kind, name)
        try:
            path.parent.mkdir(mode=0o770 if self._folder.shared else 0o700, exist_ok=True)
            draft = path.with_suffix(f".{os.getpid()}.draft")
            draft.unlink(missing_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, self._folder.file_mode)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            draft.rename(path)
            _flush(path.parent)
            _flush(path.parent.parent)
        except OSError as error:
            hint = "free some space or set the folder's rights"
            raise StateError(f"{path} cannot be written: {error.strerror}", hint) from error

    def load(self, kind: str, name: str) -> str | None:
        """The text of a file, or None where there is none."""
        if not _NAME.fullmatch(name):
            return None
        try:
            return text_of(self._path(kind, name))
        except FileNotFoundError:
            return None
        except TooLong as error:
            raise StateError(f"{self._path(kind, name)} has {error}, which no file of ours has") from error
        except (OSError, ValueError) as error:
            raise StateError(f"{self._path(kind, name)} cannot be read: {error}") from error

    def remove(self, kind: str, name: str) -> None:
        """Take a file away; nothing where there is none."""
        path = self._path(kind, name)
        path.unlink(missing_ok=True)
        if path.parent.exists():
            _flush(path.parent)

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
    return [OpenReset.parse(name, _content(folder / MARKS / f"{name}.json")) for name in names(folder, MARKS)]


def _content(path: Path) -> str:
    try:
        return text_of(path)
    except (OSError, ValueError):
        return ""


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
