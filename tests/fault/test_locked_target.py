"""A session locks the target of a running job: all attempts of the job report the lock until it is released."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.locks import Locked, LockWait, locked
from slotkeeper.core.engine.driver import upkeep
from slotkeeper.core.engine.driver.upkeep import LockWatch
from slotkeeper.core.sinks.postgres import session as sink_session
from slotkeeper.core.wiring.driver import locks_at
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror, orders, written
from tests.support.waiting import until


class Answers:
    """All reports of the locks of a job."""

    def __init__(self) -> None:
        self.all: list[tuple[LockWait, ...]] = []
        self.untold = ""

    def hear(self, waits: tuple[LockWait, ...], untold: str) -> None:
        self.all.append(waits)
        self.untold = untold

    @property
    def now(self) -> tuple[Locked, ...]:
        return locked(self.all[-1], SystemClock().utc().timestamp()) if self.all else ()


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, seed: int, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    """A job whose steps wait for a lock for 0.3 s and are then retried."""
    monkeypatch.setitem(sink_session.SETTINGS, "lock_timeout", "300ms")
    return orders(make_mirror, warehouse, seed)


@pytest.fixture
def answers(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    monkeypatch.setattr(upkeep, "EVERY", 0.05)
    monkeypatch.setattr(upkeep, "LEAST", 0.0)
    made = Answers()
    watch = LockWatch(locks_at(mirror.job), SystemClock(), made.hear)
    watch.start()
    yield made
    watch.stop()


def test_the_session_that_locks_the_target_is_reported_until_it_unlocks_and_no_attempt_clears_it(
    mirror: Mirror, answers: Answers, seed: int
) -> None:
    mirror.start().wait_running()
    with closing(mirror.sink()) as eve, eve.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"LOCK TABLE {mirror.job.channel.target} IN ACCESS EXCLUSIVE MODE")
        with written(mirror, seed, changes=60):
            until(lambda: answers.now, 20, "the lock to be told")
        first = len(answers.all) - 1
        until(lambda: len({one.pid for waits in answers.all for one in waits}) > 4, 60, "some attempts to be over")
        while_locked = answers.all[first:]
        (one,) = answers.now
        assert (one.thing, one.pid) == (mirror.job.channel.target, eve.info.backend_pid)
        assert one.cause.endswith(f": LOCK TABLE {mirror.job.channel.target} IN ACCESS EXCLUSIVE MODE")
        cursor.execute("COMMIT")
    assert all(while_locked), "no fault was reported although the target was locked"
    until(lambda: not answers.now, 20, "its end to be told")
    mirror.wait_equal()
    mirror.stop()
    assert not answers.untold
