"""The process that forks Spark's workers: pyspark's own, with our modules loaded, and no tracebacks at an ordinary end.

What is loaded before a fork costs no worker anything: else each of them spends a third of a second of CPU on imports,
all at once when a job's first changes come, and again after each idle minute. Spark closes the socket of a worker that
was idle for a minute, and the worker, writing its farewell, prints a BrokenPipeError each time. Started by the JVM as
`python -m slotkeeper.core.spark.daemon` (`spark.python.daemon.module`).
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from slotkeeper.core.config import masking
from slotkeeper.core.spark.installed import without_archives
from slotkeeper.core.spark.task import KINDS

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
