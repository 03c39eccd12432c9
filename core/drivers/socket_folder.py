"""A folder with a short path for Unix sockets, which only this user can enter."""

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

SOCKET_PATH_LIMIT = 103
"""Maximum length of a Unix socket's path that works on every system (macOS: 104 bytes including the final zero)."""
_SOCKET_NAME = len("/.") + 36 + len(".sock")
_PREFIX = "slotkeeper-"
_STALE_SECONDS = 3600.0


@dataclass(slots=True)
class SocketFolder:
    """A folder with mode 0700 and a short path. `lock` is held for the lifetime of the folder, so that a later run can
    detect a leftover folder; None once the folder is removed.
    """

    path: Path
    lock: int | None

    def remove(self) -> None:
        """Delete the folder; can be called twice."""
        lock, self.lock = self.lock, None
        if lock is not None:  # otherwise the number can belong to another file by now
            shutil.rmtree(self.path, ignore_errors=True)
            with suppress(OSError):
                os.close(lock)


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
