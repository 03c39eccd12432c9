"""The lock watch of a job: a wait is reported while it lasts, and its end at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.engine.driver import upkeep
from slotkeeper.core.engine.driver.upkeep import LocksAt, LockWatch
from slotkeeper.core.errors import Busy, SlotkeeperError, Unreachable
from tests.support.waiting import until

WAIT = LockWait(1, "slotkeeper/orders/7", "mart.orders", "RowExclusiveLock", 90.0)


class Server:
    """Returns the answer that a test sets, and records the reports."""

    def __init__(self) -> None:
        self.waits: tuple[LockWait, ...] = ()
        self.error: SlotkeeperError | None = None
        self.asked = 0
        self.severed = threading.Event()
        self.heard: list[tuple[tuple[LockWait, ...], str]] = []

    def read(self, now: float) -> Sequence[LockWait]:
        self.asked += 1
        if self.error:
            raise self.error
        return self.waits

    def hear(self, waits: tuple[LockWait, ...], untold: str) -> None:
        self.heard.append((waits, untold))

    def once_more(self) -> None:
        """Wait until the server was queried again and its answer was reported."""
        asked = self.asked
        until(lambda: self.asked > asked + 1, 20, "it to be asked again")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(upkeep, "EVERY", 0.01)
    made = Server()
    running = LockWatch([LocksAt(made.read, made.severed.set)], SystemClock(), made.hear)
    running.start()
    yield made
    running.stop()
    assert made.severed.is_set()


def test_a_server_where_no_session_waits_is_queried_and_nothing_is_reported(server: Server) -> None:
    server.once_more()
    assert not server.heard


def test_a_wait_is_reported_repeatedly_and_its_end_once(server: Server) -> None:
    server.waits = (WAIT,)
    until(lambda: len(server.heard) > 2, 20, "it to be told")
    server.waits = ()
    until(lambda: server.heard[-1] == ((), ""), 20, "its end to be told")
    server.once_more()
    assert server.heard.count(((), "")) == 1


def test_a_wait_of_a_moment_is_not_told_and_one_that_lasts_is(server: Server) -> None:
    server.waits = (replace(WAIT, since=SystemClock().utc().timestamp() + 3600),)
    server.once_more()
    assert not server.heard
    server.waits = (replace(WAIT, since=SystemClock().utc().timestamp() - upkeep.LEAST),)
    until(lambda: server.heard, 20, "it to be told")


def test_a_server_that_does_not_answer_has_told_no_end(server: Server) -> None:
    server.waits = (WAIT,)
    until(lambda: server.heard, 20, "it to be told")
    server.error = Unreachable("sink mart does not answer within 4 s")
    until(lambda: server.heard[-1] == ((WAIT,), "sink mart does not answer within 4 s"), 20, "why not to be told")
    server.error, server.waits = None, ()
    until(lambda: server.heard[-1] == ((), ""), 20, "both to be over")


def test_what_a_server_said_last_is_not_told_for_ever_while_it_does_not_answer(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.waits = (WAIT,)
    until(lambda: server.heard, 20, "it to be told")
    monkeypatch.setattr(upkeep, "STAYS", 0.0)
    server.error = Busy("sink mart: canceling statement due to statement timeout")
    until(lambda: server.heard[-1] == ((WAIT,), str(server.error)), 20, "a server that answers to be believed")
    server.error = Unreachable("sink mart does not answer within 4 s")
    until(lambda: server.heard[-1] == ((), str(server.error)), 20, "the wait not to be told")


def test_nothing_is_reported_after_a_stop() -> None:
    inside, go_on, heard = threading.Event(), threading.Event(), []

    class Slow:
        def read(self, now: float) -> Sequence[LockWait]:
            inside.set()
            go_on.wait(20)
            return (WAIT,)

    running = LockWatch([LocksAt(Slow().read, go_on.set)], SystemClock(), lambda *told: heard.append(told))
    running.start()
    assert inside.wait(20)
    running.stop()
    for thread in running._threads:
        thread.join(20)
    assert not heard
