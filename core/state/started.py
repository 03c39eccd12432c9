"""The configuration that a run was started with, kept for its life: a driver that is started again reads this text.

Somebody may edit the file while the job runs; what they leave half done must not end a job whose driver crashed. It
holds references to secrets, never one itself; a command's arguments may be secret all the same, so that only its
owner may read it, also in a team's folder.
"""

from __future__ import annotations

import os
from pathlib import Path

from slotkeeper.core.state.folder import StateFolder

_OWN = 0o600


def keep(folder: StateFolder, run: str, text: str) -> None:
    """Keep the text of a run's configuration. Raises OSError."""
    path = _path(folder, run)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _OWN), "wb") as writing:
        writing.write(text.encode("utf-8"))
    new.replace(path)


def kept(folder: StateFolder, run: str) -> str | None:
    """The text that was kept for a run; None where there is none that can be read."""
    try:
        return _path(folder, run).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def drop(folder: StateFolder, run: str) -> None:
    """Take it away; safe where there is none."""
    _path(folder, run).unlink(missing_ok=True)


def _path(folder: StateFolder, run: str) -> Path:
    return folder.path / f"started.{os.geteuid()}" / f"{run}.toml"
