"""Folders that only this user can read: the cache, the folder of a run, and a folder with a short path for Unix
sockets.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from slotkeeper.core.ownership import complaint, follow, make_folder

SOCKET_PATH_LIMIT = 103
"""Maximum length of a Unix socket's path that works on every system (macOS: 104 bytes including the final zero)."""
_SOCKET_NAME = len("/.") + 36 + len(".sock")
_PREFIX = "slotkeeper-"
_STALE_SECONDS = 3600.0


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


@dataclass(frozen=True, slots=True)
class SocketFolder:
    """A folder with mode 0700 and a short path. `lock` is held for the lifetime of the folder, so that a later run can
    detect a leftover folder.
    """

    path: Path
    lock: int

    def remove(self) -> None:
        """Delete the folder; can be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self.lock)


def socket_folder() -> SocketFolder | None:
    """Create a folder for Unix sockets; return None if every candidate's path is too long or not writable.

    A run's own folder and TMPDIR can have long paths, so the system's short paths are tried too.
    """
    for parent in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):  # noqa: S108  made with mkdtemp below
        if len(os.fsencode(parent)) + len(f"/{_PREFIX}12345678") + _SOCKET_NAME > SOCKET_PATH_LIMIT:
            continue
        _sweep(parent)
        try:
            path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            return SocketFolder(path, _locked(path))
        except OSError:
            continue
    return None


def _locked(folder: Path) -> int:
    """Lock a socket folder and return its lock file's descriptor; raises OSError if another process holds the lock."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _sweep(parent: Path) -> None:
    """Remove the folders of killed drivers, detected by their locks: a pid is not valid in another container."""
    newest = time.time() - _STALE_SECONDS
    for folder in parent.glob(_PREFIX + "????????"):
        with suppress(OSError):
            seen = folder.stat(follow_symlinks=False)
            ours = stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid()
            if ours and seen.st_mtime < newest and (folder / "lock").exists():
                descriptor = _locked(folder)
                shutil.rmtree(folder, ignore_errors=True)
                os.close(descriptor)
