"""Fork Spark's workers: pyspark's daemon with Slotkeeper's modules loaded, and no tracebacks at a normal exit.

Modules loaded before a fork cost a worker nothing. Otherwise each worker spends a third of a second of CPU on imports,
all at once when a job's first changes arrive, and again after each idle minute. Spark closes the socket of a worker
that was idle for a minute, and the worker's last write then prints a BrokenPipeError each time. The JVM starts this
module as `python -m slotkeeper.core.spark.daemon` (`spark.python.daemon.module`). pyspark is not imported before the
path is final.
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
    """Return the search path without archives of packages that it also has installed, in the same release.

    Spark puts `python/lib/pyspark.zip` of its own folder first on PYTHONPATH. Python stores no compiled files for an
    archive, so each process that imports it compiles all of it again: half a second of CPU. If that folder is the
    installed package, both are the same files.

    An archive stays if Python would otherwise import another package of that name: PYTHONPATH comes before installed
    packages.
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
    """Whether the package is in `site`, and in no folder before it."""
    folders = [Path(entry) for entry in path[: path.index(str(site)) + 1]]
    return [one for one in folders if (one / package / "__init__.py").is_file()] == [site]


Work = Callable[[socket.socket, bool], int]


def silent(work: Work) -> Work:
    """Return pyspark's worker, which exits silently if its socket was closed."""

    def worker(sock: socket.socket, authenticated: bool) -> int:
        try:
            return int(work(sock, authenticated))
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)

    return worker


def preload(kinds: str) -> None:
    """Import the modules of tasks, with a job's kinds of source and sink ("dws postgres"); opens nothing.

    A module that cannot be imported is left to the task that needs it, which reports what is missing, and where.
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
    from pyspark import daemon  # imported only once the path is final

    masking.mask_tracebacks()
    preload(os.environ.get(KINDS, ""))
    daemon.worker = silent(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
