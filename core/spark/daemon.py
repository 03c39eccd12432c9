"""Fork Spark's workers: pyspark's daemon, with Slotkeeper's modules preloaded and without tracebacks at a normal exit.

Modules that are loaded before the fork cost a worker no time. Otherwise each worker spends a third of a second of CPU
time on imports: all workers at once when a job's first changes arrive, and again after each idle minute. Spark closes
the socket of a worker that was idle for a minute, and the worker's last write then prints a BrokenPipeError each time.
The JVM starts this module as `python -m slotkeeper.core.spark.daemon` (`spark.python.daemon.module`). pyspark is not
imported until the module search path is final.
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
    """Return the module search path without archives of packages that are also installed in the same release.

    Spark puts `python/lib/pyspark.zip` of its own folder first on PYTHONPATH. Python stores no compiled files for an
    archive, so each process that imports the archive compiles all of it again, which takes half a second of CPU time.
    If that folder is the installed package, the archive and the package contain the same files.

    An archive is kept if Python would otherwise import another package of that name (PYTHONPATH comes first).
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
    """Whether the package is in `site` and not in a folder before `site` on the path."""
    folders = [Path(entry) for entry in path[: path.index(str(site)) + 1]]
    return [one for one in folders if (one / package / "__init__.py").is_file()] == [site]


Work = Callable[[socket.socket, bool], int]


def silent(work: Work) -> Work:
    """Return pyspark's worker function, changed to exit silently if its socket was closed."""

    def worker(sock: socket.socket, authenticated: bool) -> int:
        try:
            return int(work(sock, authenticated))
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)

    return worker


def preload(kinds: str) -> None:
    """Import the modules that tasks need, and those of a job's source and sink kinds ("dws postgres"); opens nothing.

    If a module cannot be imported, the error is ignored here; the task that needs the module reports it.
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
    """Fork a worker whenever Spark requests one, until Spark closes standard input."""
    sys.path[:] = without_archives(sys.path)
    from pyspark import daemon  # not imported before the path is final

    masking.mask_tracebacks()
    preload(os.environ.get(KINDS, ""))
    daemon.worker = silent(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
