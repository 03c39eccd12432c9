"""A session at the source waits for a job's slot: this is reported until the slot has read its changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.source_waits import VACUUM_FULL, SourceWait
from slotkeeper.core.drivers import pg
from slotkeeper.core.engine.driver import upkeep
from slotkeeper.core.engine.driver.upkeep import LockWatch
from slotkeeper.core.errors import Refused
from slotkeeper.core.wiring.driver import source_waits_at
from slotkeeper.demo import facts, scaling
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror, orders, written
from tests.support.waiting import until


@dataclass
class Answers:
    """All reports of waits at the source."""

    all: list[tuple[SourceWait, ...]] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)

    def hear(self, waits: tuple[SourceWait, ...], untold: str) -> None:
        self.all.append(waits)
        self.untold.append(untold)

    @property
    def now(self) -> tuple[SourceWait, ...]:
        return self.all[-1] if self.all else ()


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, seed: int) -> Iterator[Mirror]:
    facts.sees_statistics(warehouse)
    yield orders(make_mirror, warehouse, seed)
    facts.sees_statistics(warehouse, False)


@pytest.fixture
def answers(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    monkeypatch.setattr(upkeep, "EVERY", 0.05)
    monkeypatch.setattr(upkeep, "LEAST", 0.0)
    made = Answers()
    watch = LockWatch(source_waits_at(mirror.job), SystemClock(), made.hear)
    watch.start()
    yield made
    watch.stop()


def test_a_vacuum_full_that_waits_for_a_stopped_job_is_reported_until_the_job_has_read(
    mirror: Mirror, answers: Answers, seed: int
) -> None:
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    with written(mirror, seed, changes=60):
        pass
    table = mirror.job.channel.source_table
    locked = threading.Event()
    with closing(mirror.warehouse.connect(autocommit=False)) as eve:

        def vacuum() -> None:
            with suppress(pg.DriverError, Refused), pg.transaction(eve) as cursor:
                scaling.vacuum_full(cursor, table, 300, locked.set)

        thread = threading.Thread(target=vacuum)
        thread.start()
        try:
            assert locked.wait(20)
            (wait,) = until(lambda: answers.now, 20, "the wait to be told")
            assert (wait.what, wait.table, wait.waiter.pid) == (VACUUM_FULL, table, eve.info.backend_pid)
            assert [(one.slot, one.job) for one in wait.slots] == [(mirror.job.slot, mirror.job.name)]
            mirror.start().wait_running()
            until(lambda: not answers.now, 20, "its end to be told")
        finally:
            with suppress(pg.DriverError):
                pg.cancel(eve)
            thread.join()
    mirror.wait_equal()
    mirror.stop()
    assert not any(answers.untold)
