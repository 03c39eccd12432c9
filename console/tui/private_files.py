"""Files that the console leaves behind: only their owner can read them, and none is led elsewhere by a link.

Next door: `console.tui.clipboard` and `console.tui.export` write with this.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from core.state.folder import StateFolder

_RIGHTS = 0o600


@dataclass(frozen=True, slots=True)
class Result:
    """What was done, in one line, or why it was not."""

    ok: bool
    text: str


def put(folder: Path, name: str, content: str) -> Path:
    """Write a file of that name in the state folder, below it where the name says so; raises OSError, StateError."""
    place = StateFolder.open(folder).path / name
    place.parent.mkdir(mode=0o700, exist_ok=True)
    fresh = place.with_name(f".{place.name}.{os.getpid()}")
    write_new(fresh, content)
    fresh.replace(place)
    return place


def write_new(path: Path, content: str) -> None:
    """Write a file that must not be there yet; raises FileExistsError where it is."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, _RIGHTS), "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        file.write(content)
