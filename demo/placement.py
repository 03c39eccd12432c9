"""Determines where a server's files are, and whether a process id really belongs to the server of a folder.

The location matters only for root: the server's user must be able to enter every folder above data and binaries. So
the data are in a separate folder under a temporary folder, and binaries that the user cannot reach are copied there.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
import time
from pathlib import Path

import psutil

from slotkeeper.core.errors import ConfigError
from slotkeeper.demo.binaries import Binaries
from slotkeeper.demo.unprivileged import must_drop, unused_id

DATA_PREFIX = "slotkeeper-server-"
_NOTE = "place.txt"
_REMOVAL_SECONDS = 10.0


def everybody_may_enter(folder: Path) -> bool:
    """Whether all users have search permission on every folder from the root down to `folder`."""
    resolved = folder.resolve()
    return all(place.stat().st_mode & stat.S_IXOTH for place in (resolved, *resolved.parents))


def place_for(folder: Path) -> Path:
    """Return the folder for the files of `folder`'s server: `folder`, or for root a new folder owned by an unused id.

    Only the owner can enter it. The note is written first, so that a demo killed at this point leaves no unknown
    folder. Raises ConfigError if root cannot create such a folder.
    """
    if not must_drop():
        return folder
    place = _open_folder_above(folder) / f"{DATA_PREFIX}{secrets.token_hex(8)}"
    (folder / _NOTE).write_text(f"{place}\n", encoding="utf-8")
    place.mkdir(mode=0o700)
    try:
        give(place, unused_id())
    except OSError as error:  # a container without these ids, or without the right to change owners
        place.rmdir()
        raise ConfigError(
            f"root cannot start a server as another user: cannot change the owner of {place}: {error.strerror}",
            hint="run as an ordinary user",
        ) from error
    return place


def noted_place(folder: Path) -> Path:
    """Return the folder in which `place_for` put the server of `folder`; `folder` itself if there is no note.

    A note truncated by a full disk is ignored, because its path would be deleted, and an empty path means the current
    folder.
    """
    try:
        place = Path((folder / _NOTE).read_text("utf-8").strip())
    except (OSError, ValueError):
        return folder
    return place if place.is_absolute() and place.name.startswith(DATA_PREFIX) else folder


def give(path: Path, owner: int) -> None:
    """Change the owner of `path`, and of everything in it, to this user and its group."""
    os.chown(path, owner, owner, follow_symlinks=False)
    if path.is_dir() and not path.is_symlink():
        for one in path.iterdir():
            give(one, owner)


def owner_of(place: Path) -> int:
    """Return the user whose server has its files in this folder."""
    return place.stat().st_uid


def reachable_binaries(binaries: Binaries) -> Binaries:
    """Return the binaries, copied with their libraries if not every user can reach them.

    All servers share one copy per version, size and modification time of the original.
    """
    if not must_drop() or everybody_may_enter(binaries.folder):
        return binaries
    install = binaries.folder.parent
    original = (binaries.folder / "postgres").stat()
    name = f"slotkeeper-binaries-{binaries.version}-{original.st_size}-{original.st_mtime_ns}"
    target = _open_temporary_folder() / name
    if not _is_ours(target):
        fresh = Path(tempfile.mkdtemp(prefix=name, dir=target.parent))
        package = fresh / "package"
        package.mkdir()
        for folder in (fresh, package):
            folder.chmod(0o755)  # regardless of the umask: another user runs the files in this folder
        # the libraries are found relative to the programs: keep both names next to each other
        shutil.copytree(install, package / install.name, symlinks=True)
        libraries = install.parent.with_name(install.parent.name + ".libs")
        if libraries.exists():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        try:
            fresh.rename(target)
        except OSError:
            remove(fresh)
            if not _is_ours(target):
                raise
    return Binaries(target / "package" / install.name / "bin", binaries.version, f"{binaries.source}, copied")


def _is_ours(folder: Path) -> bool:
    """Whether `folder`, whose name is predictable, exists and only this user can have written it."""
    try:
        facts = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def _open_folder_above(folder: Path) -> Path:
    """Return the nearest parent in which every user can create files, such as /dev/shm; else the temporary folder."""
    shared = stat.S_ISVTX | stat.S_IWOTH | stat.S_IXOTH
    for above in folder.resolve().parents:
        if above.stat().st_mode & shared == shared and everybody_may_enter(above):
            return above
    return _open_temporary_folder()


def _open_temporary_folder() -> Path:
    folder = Path(tempfile.gettempdir())
    if not everybody_may_enter(folder):
        raise ConfigError(
            f"root cannot start a server as another user: other users cannot access {folder}",
            hint="set TMPDIR to a folder that all users can access, or run as an ordinary user",
        )
    return folder


def remove(folder: Path) -> None:
    """Delete a folder with its contents; a missing folder is not an error.

    A process whose parent was killed, such as an initdb, can still write there: it ends when its files are deleted.
    """
    end = time.monotonic() + _REMOVAL_SECONDS
    shutil.rmtree(folder, ignore_errors=True)
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.05)
        shutil.rmtree(folder, ignore_errors=True)


def works_in(pid: int, data_dir: Path) -> bool:
    """Whether process `pid` is running and is a server of `data_dir` (a pid can have been reused by another program).

    A server's working folder is its data folder; if the working folder cannot be read, its command line has to name it.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        try:
            return Path(process.cwd()) == data_dir.resolve()
        except psutil.AccessDenied:
            return str(data_dir) in process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return False
