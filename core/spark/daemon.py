"""The process that forks Spark's workers: pyspark's own, with our modules loaded, and no tracebacks at an ordinary end.

What is loaded before a fork costs no worker anything: else each of them spends a third of a second of CPU on imports,
all at once when a job's first changes come, and again after each idle minute. Spark closes the socket of a worker that
was idle for a minute, and the worker, writing its farewell, prints a BrokenPipeError each time. Started by the JVM as
`python -m core.spark.daemon` (`spark.python.daemon.module`). Next door: `settings` passes the kinds, `task` has
what the workers run.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from importlib import import_module

from pyspark import daemon

from core.config import masking
from core.spark.task import KINDS

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """pyspark's worker; one whose socket was closed ends without a word."""
    try:
        return int(_worker(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        os._exit(0)


def preload(kinds: str) -> None:
    """Load what tasks use, with a job's kinds of source and sink ("dws postgres"); opens nothing.

    What cannot be loaded is left to the task that needs it: it says what is missing, and where.
    """
    with suppress(Exception):
        import_module("core.wiring.worker")
    for registry, kind in zip(("core.sources.registry", "core.sinks.registry"), kinds.split(), strict=False):
        with suppress(Exception):
            import_module(registry).open(kind)


if __name__ == "__main__":
    masking.mask_tracebacks()
    preload(os.environ.get(KINDS, ""))
    daemon.worker = worker
    daemon.manager()
