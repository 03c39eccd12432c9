"""The class-data archive that halves the JVM's start: which one fits, and making it as a by-product of a run.

The JVM writes it at its own exit under a temporary name; we rename it then. Whatever goes wrong costs only the gain.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slotkeeper.core.spark.java import Java

_KEPT = 4
"""Archives in the cache (70 MB each): one per Java and Spark that this user's environments really use."""
_LEAST_BYTES = 1_000_000
"""Anything smaller is damaged, and would be passed over by every later JVM in silence."""
_STALE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """An archive to use (`fresh` is None), one that this run makes under the name `fresh`, or none at all."""

    path: Path | None = None
    fresh: Path | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """The JVM's options; its log is off because a mismatch is reported there, on the driver's stdout."""
        if self.path is None:
            return ()
        quiet = ("-Xlog:disable", "-Xlog:all=off")
        if self.fresh is not None:
            return (f"-XX:ArchiveClassesAtExit={self.fresh}", *quiet)
        return ("-Xshare:auto", f"-XX:SharedArchiveFile={self.path}", *quiet)

    def finish(self, clean: bool) -> None:
        """After the JVM's end: keep what it wrote if it ended by itself, else throw it away."""
        if self.fresh is None or self.path is None:
            return
        with suppress(OSError):
            if clean and self.fresh.stat().st_size >= _LEAST_BYTES:
                self.fresh.replace(self.path)
                _prune(self.path.parent)
            else:
                self.fresh.unlink()


def class_archive(java: Java, spark_version: str, spark_home: Path, cache: Path) -> ClassArchive:
    """The archive for this JDK build and this Spark; the JVM itself checks that class path and build agree."""
    path = cache / f"classes-{_key(java, spark_version, spark_home)}.jsa"
    with suppress(OSError):
        if path.stat().st_size >= _LEAST_BYTES:
            os.utime(path)
            return ClassArchive(path, None)
    return ClassArchive(path, path.with_suffix(f".{os.getpid()}.new"))


def _key(java: Java, spark_version: str, spark_home: Path) -> str:
    parts = [str(java.home), java.version, spark_version, str(spark_home), str(os.geteuid())]
    for file in (java.home / "release", java.home / "lib" / "modules", spark_home / "jars"):
        with suppress(OSError):
            seen = file.stat()
            parts.append(f"{seen.st_size} {seen.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _prune(cache: Path) -> None:
    by_use = sorted(cache.glob("classes-*.jsa"), key=lambda p: p.stat().st_mtime, reverse=True)
    stale = [p for p in cache.glob("classes-*.new") if p.stat().st_mtime < time.time() - _STALE_SECONDS]
    for path in by_use[_KEPT:] + stale:
        with suppress(OSError):
            path.unlink()
