"""The watches of a job survive any answer: a watch that ended would report its last state permanently."""

from __future__ import annotations

import threading

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.engine.driver import upkeep
from slotkeeper.core.engine.driver.upkeep import LocksAt, LockWatch, Pinged, Pulse
from tests.support.waiting import until


class Odd:
    """A server whose answer raises an error in the watch while `odd` is set."""

    def __init__(self) -> None:
        self.odd = threading.Event()
        self.texts: list[str] = []
        self.waits: tuple[LockWait, ...] = ()

    def ask(self) -> None:
        if self.odd.is_set():
            raise ZeroDivisionError("secret")

    def read(self, now: float) -> tuple[LockWait, ...]:
        self.ask()
        return self.waits


def nothing() -> None:
    """Do nothing: no call hangs here."""


def test_a_pulse_tells_of_an_answer_that_breaks_it_and_of_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("EVERY", 0.01), ("SAID_AFTER", 0.05), ("_TURN", 0.01)):
        monkeypatch.setattr(upkeep, name, value)
    server = Odd()
    asked = Pinged("sink", "sink mart", "sink mart (h:1)", server.ask, nothing)
    running = Pulse([asked], SystemClock(), lambda text, _: server.texts.append(text))
    running.start()
    server.odd.set()
    until(lambda: any("unexpected ZeroDivisionError" in one for one in server.texts), 20, "it to be reported")
    server.odd.clear()
    until(lambda: bool(server.texts) and server.texts[-1] == "", 20, "its end to be reported")
    running.stop()
    assert not any("secret" in one for one in server.texts)


def test_a_lock_watch_says_that_it_knows_nothing_and_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "EVERY", 0.01)
    server, heard = Odd(), list[tuple[tuple[LockWait, ...], str]]()
    running = LockWatch([LocksAt(server.read, nothing)], SystemClock(), lambda *said: heard.append(said))
    server.odd.set()
    running.start()
    until(lambda: bool(heard) and "unexpected ZeroDivisionError" in heard[-1][1], 20, "it to be reported")
    server.waits = (LockWait(1, "slotkeeper/orders/7", "mart.orders", "RowExclusiveLock", 90.0),)
    server.odd.clear()
    until(lambda: heard[-1] == (server.waits, ""), 20, "the wait to be reported")
    running.stop()
