"""Folders that only this user can read: the cache and the folder of a run."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import platformdirs

from slotkeeper.core.ownership import complaint, follow, make_folder


def private_folder(path: Path) -> bool:
    """Create `path` with mode 0700; return False if it cannot be created or written, or has another owner.

    Files in the folder are executed (the Java shim) or mapped into the JVM, so another owner is an error, not a
    warning.
    """
    try:
        make_folder(path)
        seen = path.stat(follow_symlinks=False)
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
            return False
        if seen.st_mode & 0o077:
            path.chmod(0o700)
    except OSError:
        return False
    return os.access(path, os.W_OK | os.X_OK)


def cache_folder(fallback: Path) -> Path:
    """Return the user's cache folder, or `fallback` (deleted with the run) if other users could change files in the
    home directory.
    """
    cache = Path(platformdirs.user_cache_dir("slotkeeper", appauthor=False)) / "spark"
    if private_folder(cache) and not complaint(f"cache {cache}", follow(cache), os.geteuid()):
        return cache
    private_folder(fallback)
    return fallback
