"""A mirror of the workload's table `ods.orders`, with writers that book what they change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from slotkeeper.core.engine.worker.step import Probe, nothing
from slotkeeper.demo import workload
from slotkeeper.demo.orders import TABLE, load
from slotkeeper.demo.plans import Mix
from slotkeeper.demo.warehouse import Warehouse
from slotkeeper.demo.workload import Workload
from tests.support.mirror import MakeMirror, Mirror
from tests.support.waiting import until

ROWS = 400


def orders(make_mirror: MakeMirror, warehouse: Warehouse, seed: int, rows: int = ROWS) -> Mirror:
    """A mirror of `ods.orders` with `rows` orders and an empty ledger; not started."""
    workload.create(warehouse)
    connection = warehouse.connect(False)
    load(connection, rows, seed)
    connection.close()
    return make_mirror(warehouse, TABLE)


def writers(mirror: Mirror, seed: int, number: int = 3, rate: float = 300) -> Workload:
    """Writers on the mirror's source; not started."""
    return Workload(mirror.warehouse.connect, number, rate, seed, Mix(rows=ROWS))


@contextmanager
def written(mirror: Mirror, seed: int, changes: int = 100, number: int = 3, rate: float = 300) -> Iterator[Workload]:
    """Writers that write beside the block, and at least `changes` changes in all; they have ended after it."""
    work = writers(mirror, seed, number, rate)
    work.start()
    try:
        yield work
        until(lambda: work.failed or work.changes >= changes, 30, f"{changes} changes to be written")
    finally:
        work.stop()


def as_superuser(mirror: Mirror) -> Mirror:
    """The mirror, reading its source with a login that sees other sessions."""
    source = replace(mirror.warehouse.endpoint("postgres"), name=mirror.job.source.name)
    mirror.job = replace(mirror.job, source=source)
    return mirror


def both(first: Probe, second: Probe = nothing) -> Probe:
    """A probe that calls two."""

    def call(point: str) -> None:
        first(point)
        second(point)

    return call
