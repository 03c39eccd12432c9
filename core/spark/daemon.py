"""The process that forks Spark's workers: pyspark's own, without its tracebacks at an ordinary end.

Spark closes the socket of a worker that was idle for a minute, and the worker, writing its farewell, prints a
BrokenPipeError each time. Started by the JVM as `python -m core.spark.daemon` (`spark.python.daemon.module`).
"""

from __future__ import annotations

import os
import socket

from pyspark import daemon

from core.config import masking

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """pyspark's worker; one whose socket was closed ends without a word."""
    try:
        return int(_worker(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        os._exit(0)


if __name__ == "__main__":
    masking.mask_tracebacks()
    daemon.worker = worker
    daemon.manager()
