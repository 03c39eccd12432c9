"""The state folder: whose it is, who may look into it, and the locks and log files that lie in it.

A folder is private (0700, ours) or a team's (2770, one of our groups); anything else that others could write is
refused, because whoever writes here decides what runs. Next door: `core.state.sqlite` keeps its file here,
`core.launch` takes the locks, which the kernel frees when their holder dies.
"""

from __future__ import annotations

import fcntl
import grp
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.domain.text import safe
from core.errors import Busy
from core.state.faults import StateError

_JOB_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_TEAM = 0o2770
_PRIVATE = 0o700


@dataclass(frozen=True, slots=True)
class StateFolder:
    """A folder that was checked; `shared` is true for a team's folder."""

    path: Path
    shared: bool

    @classmethod
    def open(cls, path: Path, group: str = "") -> StateFolder:
        """The folder, made 0700 (or 2770 for `group`) where it is absent; raises StateError where it is unsafe."""
        absolute = path.expanduser().resolve()
        if not absolute.exists():
            _create(absolute, group)
        found = absolute.stat()
        if not stat.S_ISDIR(found.st_mode):
            raise StateError(f"state folder {absolute} is not a folder", "name another one with [state] state_dir")
        shared = _is_team_folder(found)
        if not shared:
            _check_private(absolute, found)
        folder = cls(absolute, shared)
        for name in ("locks", "logs"):
            folder._subfolder(name)
        return folder

    @property
    def file_mode(self) -> int:
        """The rights of every file in here."""
        return 0o660 if self.shared else 0o600

    @property
    def umask(self) -> int:
        """The umask for processes that write in here."""
        return 0o007 if self.shared else 0o077

    def log(self, job: str) -> Path:
        """The log file of a job's driver and supervisor."""
        return self.path / "logs" / f"{_checked(job)}.log"

    def append(self, path: Path) -> int:
        """A descriptor that appends to a file of ours, made with our rights where it is absent."""
        descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, self.file_mode
        )
        with_rights = os.fstat(descriptor)
        if with_rights.st_uid == os.geteuid() and stat.S_IMODE(with_rights.st_mode) != self.file_mode:
            os.fchmod(descriptor, self.file_mode)
        return descriptor

    def try_lock(self, job: str, what: str) -> FolderLock | None:
        """The lock `what` of a job, or None while somebody else holds it; it ends with its holder's life."""
        descriptor = self.append(self.path / "locks" / f"{_checked(job)}.{what}")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return FolderLock(descriptor)

    def is_locked(self, job: str, what: str) -> bool:
        """Whether somebody holds the lock `what` of a job now; makes no file."""
        try:
            descriptor = os.open(self.path / "locks" / f"{_checked(job)}.{what}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    @contextmanager
    def locked(self, job: str, what: str, wait: float) -> Iterator[None]:
        """Hold the lock `what` of a job; raises Busy where it is not free within `wait` seconds."""
        deadline = time.monotonic() + wait
        while (lock := self.try_lock(job, what)) is None:
            if time.monotonic() > deadline:
                raise Busy(f"another command holds the {what} lock of job {job}", "wait for it, then try again")
            time.sleep(0.05)
        try:
            yield
        finally:
            lock.release()

    def _subfolder(self, name: str) -> None:
        folder = self.path / name
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            folder.chmod(_TEAM if self.shared else _PRIVATE)


@dataclass(frozen=True, slots=True)
class FolderLock:
    """A lock that is held until it is released or its process ends."""

    descriptor: int

    def release(self) -> None:
        """Give the lock back."""
        os.close(self.descriptor)


def _create(path: Path, group: str) -> None:
    path.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    try:
        path.mkdir(mode=_PRIVATE)
    except FileExistsError:
        return
    if not group:
        return
    try:
        os.chown(path, -1, grp.getgrnam(group).gr_gid)
        path.chmod(_TEAM)
    except (KeyError, PermissionError) as error:
        path.rmdir()
        raise StateError(
            f"state folder {path} cannot be given to group {safe(group)!r}", "name a group that you belong to"
        ) from error


def _is_team_folder(found: os.stat_result) -> bool:
    ours = {os.getegid(), *os.getgroups()}
    return stat.S_IMODE(found.st_mode) == _TEAM and (found.st_gid in ours or found.st_uid == os.geteuid())


def _check_private(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise StateError(
            f"state folder {path} belongs to another user (uid {found.st_uid})",
            "use a folder of your own, or a team's folder with mode 2770 and a group of yours",
        )
    if stat.S_IMODE(found.st_mode) & 0o022:
        raise StateError(
            f"state folder {path} can be written by others (mode {stat.S_IMODE(found.st_mode):04o})",
            f"chmod 700 {path} (or 2770 with a team's group)",
        )


def _checked(job: str) -> str:
    if not _JOB_NAME.fullmatch(job):
        raise StateError(f"job name {safe(job, 80)!r} cannot be used", "letters, digits, _ - and . only, at most 63")
    return job
