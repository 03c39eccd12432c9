"""Where a server's files lie, and whether a process id is really the server of a folder.

Only the SETUID mode needs care: `nobody` must be able to enter every folder above data and binaries, so data go to
a folder of their own under the system's temporary folder, and binaries that it cannot reach are copied there.
Next door: `core.embedded.postgres` uses all of it.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

import psutil

from core.embedded.binaries import Binaries
from core.embedded.unprivileged import nobody
from core.errors import ConfigError

DATA_PREFIX = "slotkeeper-server-"


def everybody_may_enter(folder: Path) -> bool:
    """Whether every folder from the root down to `folder` has the search right for all."""
    resolved = folder.resolve()
    return all(place.stat().st_mode & stat.S_IXOTH for place in (resolved, *resolved.parents))


def reachable_folder(folder: Path) -> Path:
    """A folder owned by `nobody`: `folder` itself stays as it is, the new one is under the temporary folder.

    Raises ConfigError when the temporary folder is closed to other users.
    """
    place = Path(tempfile.mkdtemp(prefix=DATA_PREFIX, dir=_open_temporary_folder()))
    os.chown(place, *nobody())
    (folder / "place.txt").write_text(f"{place}\n", encoding="utf-8")
    return place


def reachable_binaries(binaries: Binaries) -> Binaries:
    """The same binaries, copied (with the libraries beside them) when `nobody` cannot reach them where they are.

    The copy is made once per version, size and time of the original, and shared by all servers.
    """
    if everybody_may_enter(binaries.folder):
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
            folder.chmod(0o755)  # whatever our umask is: somebody else runs what is in there
        # the libraries are found relative to the programs: keep both names side by side
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
    """Whether `folder` exists and only we can have written it (the name is predictable)."""
    try:
        facts = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def _open_temporary_folder() -> Path:
    folder = Path(tempfile.gettempdir())
    if not everybody_may_enter(folder):
        raise ConfigError(
            f"root cannot start a server as an ordinary user: {folder} is closed to other users",
            hint="set TMPDIR to a folder that everybody may enter, or run as an ordinary user",
        )
    return folder


def remove(folder: Path) -> None:
    """Delete a folder with everything in it; one that is not there is fine."""
    shutil.rmtree(folder, ignore_errors=True)


def works_in(pid: int, data_dir: Path) -> bool:
    """Whether process `pid` is alive and is a server of `data_dir` (a pid may have been given to another program).

    A server's working folder is its data folder; where that cannot be read, its command line has to name it.
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
