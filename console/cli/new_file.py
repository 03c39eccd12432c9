"""A file that must not be there yet, for its owner alone."""

from __future__ import annotations

import os
from pathlib import Path

_RIGHTS = 0o600


def write_new(path: Path, content: str) -> None:
    """Write it; raises FileExistsError where there is one."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, _RIGHTS), "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        file.write(content)
