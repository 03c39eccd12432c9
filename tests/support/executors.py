"""The executors of a job on a cluster: which one has a session at the sink, killing it, and the sessions it leaves.

An executor is known as what runs below a process that the test started (the job's JVM, or a cluster's worker), never
by its name alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import psutil

from slotkeeper.core.drivers import pg
from slotkeeper.demo.run import SINK_DATABASE
from tests.support.mirrored import Mirrored
from tests.support.waiting import until

_BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def executors(parents: Iterable[int]) -> list[psutil.Process]:
    """The executors among the children of these processes."""
    return [one for parent in parents for one in _children(parent) if _is_executor(one)]


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children()
    except psutil.Error:
        return []


def _is_executor(process: psutil.Process) -> bool:
    try:
        return _BACKEND in process.cmdline()
    except psutil.Error:  # gone, or a zombie that nobody has waited for
        return False


@dataclass(frozen=True)
class HeldStep:
    """An executor whose worker waits at the sink, in mid-transaction, behind a lock of the test."""

    executor: psutil.Process
    backend: int


@contextmanager
def held_in_a_step(job: Mirrored, parents: Iterable[int]) -> Iterator[HeldStep]:
    """Lock the target until a step waits for it, its progress row changed and not committed; released at the end."""
    with closing(job.product.sink.connect(SINK_DATABASE, autocommit=False)) as connection:
        with connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLE mart.{job.name} IN SHARE MODE")
        yield until(lambda: _held(job, list(parents)), 30, "a step to wait for the target")


def _held(job: Mirrored, parents: list[int]) -> HeldStep | None:
    waiting = job.product.at_sink(
        "SELECT pid, client_port FROM pg_stat_activity WHERE application_name LIKE %s AND wait_event_type = 'Lock'",
        (f"slotkeeper/{job.name}/%",),
    )
    ports = {int(port): int(pid) for pid, port in waiting}
    for executor in executors(parents):
        with contextlib.suppress(psutil.Error):
            for process in executor.children(recursive=True):
                for socket in process.net_connections("tcp"):
                    if socket.laddr and socket.laddr.port in ports:
                        return HeldStep(executor, ports[socket.laddr.port])
    return None


def backend_lives(job: Mirrored, backend: int) -> bool:
    """Whether the sink still has that session."""
    with contextlib.suppress(pg.DriverError):
        return bool(job.product.at_sink("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (backend,)))
    return False
