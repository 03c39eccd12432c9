"""The process that forks Spark's workers: pyspark's own, with our modules loaded, and no tracebacks at an ordinary end.

What is loaded before a fork costs no worker anything: else each of them spends a third of a second of CPU on imports,
all at once when a job's first changes come, and again after each idle minute. Spark closes the socket of a worker that
was idle for a minute, and the worker, writing its farewell, prints a BrokenPipeError each time. Started by the JVM as
`python -m slotkeeper.core.spark.daemon` (`spark.python.daemon.module`). No pyspark before the path is what it is to be.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from slotkeeper.core.config import masking
from slotkeeper.core.spark.task import KINDS

_PY4J = re.compile(r"py4j-(.+)-src\.zip")


def without_archives(path: Sequence[str]) -> list[str]:
    """The same search path without the archives whose installed package it has, of the same release.

    Spark sets `python/lib/pyspark.zip` of its own folder at the head of PYTHONPATH. Python keeps no compiled files of
    an archive, so each process that imports it compiles all of it again: half a second of CPU. Where that folder is the
    installed package, both are the same files.

    One stays where Python would take another package of that name before it: PYTHONPATH comes before what is installed.
    """
    return [entry for entry in path if not _is_installed(Path(entry), path)]


def _is_installed(archive: Path, path: Sequence[str]) -> bool:
    package = archive.parents[2] if len(archive.parents) > 2 else archive
    if archive.parent != package / "python" / "lib" or str(package.parent) not in path:
        return False
    if archive.name == "pyspark.zip":
        return package.name == "pyspark" and _first("pyspark", package.parent, path)
    release = _PY4J.fullmatch(archive.name)
    there = release is not None and (package.parent / f"py4j-{release[1]}.dist-info").is_dir()
    return there and _first("py4j", package.parent, path)


def _first(package: str, site: Path, path: Sequence[str]) -> bool:
    """Whether that package is there, and in no folder that comes before."""
    folders = [Path(entry) for entry in path[: path.index(str(site)) + 1]]
    return [one for one in folders if (one / package / "__init__.py").is_file()] == [site]


Work = Callable[[socket.socket, bool], int]


def silent(work: Work) -> Work:
    """pyspark's worker; one whose socket was closed ends without a word."""

    def worker(sock: socket.socket, authenticated: bool) -> int:
        try:
            return int(work(sock, authenticated))
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)

    return worker


def preload(kinds: str) -> None:
    """Load what tasks use, with a job's kinds of source and sink ("dws postgres"); opens nothing.

    What cannot be loaded is left to the task that needs it: it says what is missing, and where.
    """
    for module in ("pyspark.worker", "slotkeeper.core.wiring.worker"):
        with suppress(Exception):
            import_module(module)
    for registry, kind in zip(
        ("slotkeeper.core.sources.registry", "slotkeeper.core.sinks.registry"), kinds.split(), strict=False
    ):
        with suppress(Exception):
            import_module(registry).open(kind)


def main() -> None:
    """Fork a worker whenever Spark asks for one, until it closes standard input."""
    sys.path[:] = without_archives(sys.path)
    from pyspark import daemon  # not before the path is what it is to be

    masking.mask_tracebacks()
    preload(os.environ.get(KINDS, ""))
    daemon.worker = silent(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
