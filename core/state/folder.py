"""The state folder: its owner, how its files are opened and replaced, and its locks.

A folder is private (0700, this user's) or a team's (2770, one of this user's groups). Any other folder that other users
can write to is rejected, because a user with write access can decide which commands run. New files have the same mode
regardless of the umask.

In a team's folder, every member can replace one of Slotkeeper's files with a link or a FIFO. Therefore every name is
opened relative to its folder (openat(2)), no link is followed, and anything except a regular file is rejected.

The kernel releases a lock when the process that holds it exits, but not when a signal stops that process. Therefore a
holder can write its identity and start time into the lock's file; if the holder was killed, the file names a process
that is no longer running. A holder removes its identity before it releases the lock, so that the next holder is not
mistaken for the previous one before it has written its own identity.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from slotkeeper.core import codec, ownership
from slotkeeper.core.bounded import TooLong, content_of
from slotkeeper.core.domain.report import Identity
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Busy
from slotkeeper.core.ownership import ROOT, TEAM_MODE, Kind, Part
from slotkeeper.core.state.faults import PLANTED, StateError, cannot_read, cannot_write

_JOB_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_PRIVATE = 0o700


@dataclass(frozen=True, slots=True)
class StateFolder:
    """A checked state folder; `shared` is true for a team's folder."""

    path: Path
    shared: bool

    @classmethod
    def open(cls, path: Path, group: str = "") -> StateFolder:
        """Return the folder, created with 0700 (or 2770 for `group`) if missing; raises StateError if it is unsafe."""
        named = path.expanduser().absolute()
        try:
            if not named.exists():
                _create(named, group)
        except OSError as error:
            raise cannot_write(named, error, "state folder ") from error
        folder = cls._judged(named)
        for name in ("locks", "logs"):
            folder.subfolder(name)
        return folder

    @classmethod
    def existing(cls, path: Path) -> StateFolder | None:
        """Return the existing folder, or None; creates nothing. Raises StateError if it is unsafe."""
        named = path.expanduser().absolute()
        try:
            return cls._judged(named) if named.exists() else None
        except OSError as error:
            raise cannot_read(named, error) from error

    @classmethod
    def looked_at(cls, path: Path) -> StateFolder:
        """Return the folder for a command that only reads; a missing folder is returned without being created."""
        return cls.existing(path) or cls(path.expanduser().absolute(), False)

    @classmethod
    def _judged(cls, named: Path) -> StateFolder:
        try:
            parts = ownership.follow(named)
        except OSError as error:
            raise cannot_read(named, error) from error
        end = parts[-1]
        if end.kind is not Kind.FOLDER:
            raise StateError(f"state folder {named} is not a folder", "set [state] dir to another folder")
        folder = cls(Path(end.path), end.mode == TEAM_MODE)
        _refuse_foreign(parts, folder.shared)
        return folder

    @property
    def file_mode(self) -> int:
        return 0o660 if self.shared else 0o600

    @property
    def umask(self) -> int:
        return 0o007 if self.shared else 0o077

    def log(self, job: str) -> Path:
        return log_of(self.path, job)

    def lock_file(self, job: str, what: str) -> Path:
        return self.path / "locks" / f"{_checked(job)}.{what}"

    def subfolder(self, name: str) -> Path:
        """Return a subfolder with this folder's mode, created if missing; raises StateError if unsafe."""
        path = self.path / name
        try:
            try:
                path.mkdir(mode=_PRIVATE)
            except FileExistsError:
                pass
            else:
                flushed(self.path)
            self._give_rights(path)
        except OSError as error:
            raise cannot_write(path, error) from error
        return path

    def append(self, path: Path) -> int:
        """Return a descriptor that appends to one of these files, created if missing; raises StateError."""
        try:
            descriptor = opened(self.path, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, self.file_mode)
        except OSError as error:
            raise cannot_write(path, error) from error
        try:
            self._check_file(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def open_to_read(self, path: Path) -> int:
        """Return a descriptor that reads one of these files; raises FileNotFoundError if missing, else StateError."""
        try:
            return opened(self.path, path, os.O_RDONLY)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise cannot_read(path, error) from error

    def read(self, path: Path) -> bytes:
        """Return a file's content, at most 16 MiB; raises FileNotFoundError if missing, else StateError."""
        with os.fdopen(self.open_to_read(path), "rb") as stream:
            try:
                return content_of(stream)
            except TooLong as error:
                raise StateError(f"{path} has {error}, so Slotkeeper did not write it") from error

    def replace(self, path: Path, content: bytes, mode: int | None = None) -> None:
        """Replace a file, entirely or not at all, in a subfolder with this folder's mode; raises StateError.

        `mode` is for a file of a single user; the default is the mode of the folder's files.
        """
        try:
            if path.parent != self.path:
                self.subfolder(path.parent.name)
            replaced(self.path, path, content, self.file_mode if mode is None else mode)
        except OSError as error:
            raise cannot_write(path, error) from error

    def remove(self, path: Path) -> None:
        try:
            removed(self.path, path)
        except OSError as error:
            raise cannot_write(path, error) from error

    def try_lock(self, job: str, what: str) -> FolderLock | None:
        """Return the lock `what` of a job, or None while another process holds it; it ends with this process."""
        descriptor = self.append(self.lock_file(job, what))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return FolderLock(descriptor)

    def is_locked(self, job: str, what: str) -> bool:
        """Return whether a process currently holds the lock `what` of a job; creates no file."""
        try:
            descriptor = self.open_to_read(self.lock_file(job, what))
        except (OSError, StateError):
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
        """Hold the lock `what` of a job; raises Busy if it is not free within `wait` seconds."""
        deadline = time.monotonic() + wait
        while (lock := self.try_lock(job, what)) is None:
            if time.monotonic() > deadline:
                raise Busy(f"another command holds the {what} lock of job {job}", "wait until it ends, then try again")
            time.sleep(0.05)
        try:
            yield
        finally:
            lock.release()

    def _give_rights(self, path: Path) -> None:
        """Set a subfolder's mode to this folder's, regardless of the umask; reject it if this user cannot enter it."""
        rights, group = (TEAM_MODE if self.shared else _PRIVATE), self.path.stat().st_gid
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise StateError(f"{path} cannot be written: it is a link or not a folder", PLANTED)
        if found.st_uid != os.geteuid():
            if not self.shared or stat.S_IMODE(found.st_mode) != rights or found.st_gid != group:
                owner = ownership.shown_user(found.st_uid)
                shares = "ask that user to run any slotkeeper command, which shares the folder"
                hint = shares if self.shared else f"chown {path} to this user"
                raise StateError(f"{path} belongs to {owner} and is not shared like the state folder", hint)
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if self.shared and found.st_gid != group:
                os.fchown(descriptor, -1, group)
            if stat.S_IMODE(found.st_mode) != rights:
                os.fchmod(descriptor, rights)
        finally:
            os.close(descriptor)

    def _check_file(self, path: Path, descriptor: int) -> None:
        """Set a file's mode to this folder's file mode; reject hard links and other users' files."""
        found = os.fstat(descriptor)
        if self.shared and found.st_nlink > 1:
            raise StateError(f"{path} is a hard link to another file", PLANTED)
        if found.st_uid == os.geteuid():
            if stat.S_IMODE(found.st_mode) != self.file_mode:
                os.fchmod(descriptor, self.file_mode)
        elif not self.shared and found.st_uid != ROOT:
            owner = ownership.shown_user(found.st_uid)
            raise StateError(f"{path} belongs to {owner}", PLANTED)


@dataclass(frozen=True, slots=True)
class FolderLock:
    """A lock that is held until it is released or its process ends."""

    descriptor: int

    def release(self) -> None:
        os.close(self.descriptor)


def _create(path: Path, group: str) -> None:
    ownership.make_folder(path.parent)
    try:
        path.mkdir(mode=_PRIVATE)
    except FileExistsError:
        return
    if not group:
        return
    try:
        os.chown(path, -1, grp.getgrnam(group).gr_gid)
        path.chmod(TEAM_MODE)
    except (KeyError, PermissionError) as error:
        path.rmdir()
        what = f"cannot assign state folder {path} to group {safe(group)!r}"
        raise StateError(what, "name a group that you belong to") from error


def _refuse_foreign(parts: tuple[Part, ...], shared: bool) -> None:
    """Raise StateError if users other than this user, root and the team's members could change the folder's content."""
    end = parts[-1]
    what = f"state folder {end.path}"
    if shared and end.gid not in {os.getegid(), *os.getgroups()}:
        name = f"gid {end.gid}"
        with suppress(KeyError):
            name = f"{safe(grp.getgrgid(end.gid).gr_name, 80)}, gid {end.gid}"
        why = (
            f"{what} is shared by group {name}, of which this user is not a member:"
            " files of its members would run as this user"
        )
        raise StateError(why, "run as a member of the group")
    try:
        ownership.refuse(parts, what, ownership.team(parts, end.gid) if shared else None)
    except ownership.NotOurs as error:
        raise StateError(error.message, error.hint) from None


def log_of(folder: Path, job: str) -> Path:
    """Return the log file of a job in a state folder; raises StateError for a name that could lead elsewhere."""
    return folder / "logs" / f"{_checked(job)}.log"


def _checked(job: str) -> str:
    if not _JOB_NAME.fullmatch(job):
        raise StateError(f"job name {safe(job, 80)!r} is invalid", "use only letters, digits, _, - and ., at most 63")
    return job


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_FILE = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.ENXIO)
"""Errors of open(2) for links that are not followed (FreeBSD: EMLINK), links in place of folders, and FIFOs."""


def opened(folder: Path, path: Path, flags: int, mode: int = 0) -> int:
    """Open a regular file below a folder and return its descriptor; raises StateError for other types, or OSError."""
    *above, name = path.relative_to(folder).parts
    with _place(folder, above, path) as place:
        return _regular(name, path, flags, mode, place)


def opened_alone(path: Path) -> int:
    """Open a file for reading in a folder that was already checked; do not follow a link in the file's place."""
    return _regular(str(path), path, os.O_RDONLY, 0, None)


def replaced(folder: Path, path: Path, content: bytes, mode: int) -> None:
    """Write a file under another name, flush and rename it, flush its folder; a crash leaves the old or new file."""
    *above, name = path.relative_to(folder).parts
    with _place(folder, above, path) as place:
        draft = f".{name}.{os.getpid()}.{os.urandom(4).hex()}"
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=place)
            with os.fdopen(descriptor, "wb") as stream:
                os.fchmod(descriptor, mode)
                stream.write(content)
                stream.flush()
                os.fsync(descriptor)
            os.rename(draft, name, src_dir_fd=place, dst_dir_fd=place)
            os.fsync(place)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=place)
            raise


def removed(folder: Path, path: Path) -> None:
    """Remove a file, if it exists, and flush its folder."""
    *above, name = path.relative_to(folder).parts
    with suppress(FileNotFoundError), _place(folder, above, path) as place:
        os.unlink(name, dir_fd=place)
        os.fsync(place)


def flushed(folder: Path) -> None:
    """Flush created and renamed entries of a folder to disk."""
    descriptor = os.open(folder, _FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _place(folder: Path, above: list[str], path: Path) -> Iterator[int]:
    """Open the folder that contains a file, and return its descriptor."""
    place = os.open(folder, _FOLDER)
    try:
        for name in above:
            try:
                inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=place)
            except OSError as error:
                raise _no_file(path, error) from error
            os.close(place)
            place = inner
        yield place
    finally:
        os.close(place)


def _regular(name: str, path: Path, flags: int, mode: int, place: int | None) -> int:
    try:
        descriptor = os.open(name, flags | _FILE, mode, dir_fd=place)
    except OSError as error:
        raise _no_file(path, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise planted(path)
    os.set_blocking(descriptor, True)
    return descriptor


def _no_file(path: Path, error: OSError) -> OSError | StateError:
    return planted(path) if error.errno in _NO_FILE else error


def planted(path: Path) -> StateError:
    """Return the error for a link or a FIFO that is in place of a file."""
    return StateError(f"{path} is a link or not a regular file, so Slotkeeper did not create it", PLANTED)


_SIGNATURE_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has held a lock since `since`, according to the clock of that process."""

    who: Identity
    since: datetime


@dataclass(frozen=True, slots=True)
class SignedLock:
    """A lock whose file names its holder for other processes; held until it is released or its process ends."""

    lock: FolderLock

    @classmethod
    def of(cls, lock: FolderLock, who: Identity | None, at: datetime) -> SignedLock:
        """Write the holder into a lock's file; if the disk accepts no data, return the lock unsigned."""
        if who is not None:
            with suppress(OSError):
                os.ftruncate(lock.descriptor, 0)
                text = codec.text_of({**codec.values_of(who), "since": at})
                os.write(lock.descriptor, text.encode("utf-8"))
        return cls(lock)

    def release(self) -> None:
        """Remove the signature, then release the lock."""
        with suppress(OSError):
            os.ftruncate(self.lock.descriptor, 0)
        self.lock.release()


def holder_of(folder: StateFolder, job: str, what: str) -> Holder | None:
    """Return the current holder of a signed lock, or None; the caller checks whether that process is running."""
    before = _read(folder, job, what)
    if before is None or not folder.is_locked(job, what) or _read(folder, job, what) != before:
        return None
    return before


def _read(folder: StateFolder, job: str, what: str) -> Holder | None:
    with suppress(OSError, StateError, ValueError, TypeError, KeyError, RecursionError):
        text = folder.read(folder.lock_file(job, what))
        if 0 < len(text) <= _SIGNATURE_BYTES:
            found = json.loads(text)
            holder = codec.record_of(Holder, {"who": found, "since": found["since"]})
            codec.aware(holder.since)
            return holder
    return None
