"""Files below a state folder, opened and replaced so that no link leads elsewhere and nobody is waited for.

In a team's folder every member can put a link or a FIFO where a file of ours belongs. So every name is opened relative
to the folder that it lies in (openat(2)), none is followed, and what is no regular file is refused.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slotkeeper.core.state.faults import PLANTED, StateError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_FILE = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.ENXIO)
"""What open(2) says of a link that is not followed (FreeBSD: EMLINK), of one instead of a folder, of a FIFO."""


def opened(folder: Path, path: Path, flags: int, mode: int = 0) -> int:
    """A descriptor of a regular file below a folder; raises StateError for anything else there, OSError as open."""
    *above, name = path.relative_to(folder).parts
    with _place(folder, above, path) as place:
        return _regular(name, path, flags, mode, place)


def opened_alone(path: Path) -> int:
    """The same to read a file whose folder was checked before; its last name is not followed."""
    return _regular(str(path), path, os.O_RDONLY, 0, None)


def replaced(folder: Path, path: Path, content: bytes, mode: int) -> None:
    """Write a file under another name, flush it, rename it, flush its folder: a crash leaves the old or the new."""
    *above, name = path.relative_to(folder).parts
    with _place(folder, above, path) as place:
        draft = f".{name}.{os.getpid()}.{secrets.token_hex(4)}"
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
    """Take a file away and flush its folder; nothing where there is none."""
    *above, name = path.relative_to(folder).parts
    with suppress(FileNotFoundError), _place(folder, above, path) as place:
        os.unlink(name, dir_fd=place)
        os.fsync(place)


def flushed(folder: Path) -> None:
    """Bring what was made or renamed in a folder to the disk."""
    descriptor = os.open(folder, _FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _place(folder: Path, above: list[str], path: Path) -> Iterator[int]:
    """A descriptor of the folder that a file lies in."""
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
        raise _refused(path)
    os.set_blocking(descriptor, True)
    return descriptor


def _no_file(path: Path, error: OSError) -> OSError | StateError:
    return _refused(path) if error.errno in _NO_FILE else error


def _refused(path: Path) -> StateError:
    return StateError(f"{path} is a link or no regular file, which nothing of ours is", PLANTED)
