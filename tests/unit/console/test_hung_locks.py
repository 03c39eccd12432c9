"""Servers are queried for lock waits independently: a server that does not answer delays no other, and is queried
once."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.services import looking
from slotkeeper.core.services.looking import LocksSeen, ServerLocks
from tests.support.waiting import until


@dataclass
class Server:
    """A sink that answers at once, or when the test lets it."""

    endpoint: Endpoint
    may: threading.Event
    asking: threading.Lock = field(default_factory=threading.Lock)
    session: None = None
    reader: None = None
    asked: int = 0

    def ask(self, now: float) -> LocksSeen:
        self.asked += 1
        self.may.wait(60)
        return self.blank()

    def blank(self) -> LocksSeen:
        return LocksSeen(self.endpoint.name, "h:1")


def server(name: str, answers: bool) -> Server:
    may = threading.Event()
    if answers:
        may.set()
    return Server(Endpoint(name=name, host="h", port=1, database="d", user="u"), may)


def test_a_server_that_hangs_is_late_and_is_not_asked_in_the_same_session_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quick, hangs = server("quick", True), server("hangs", False)
    monkeypatch.setattr(looking, "_sources", lambda jobs, only: [quick, hangs])
    locks = ServerLocks(cast("Loaded", SimpleNamespace(jobs={})))
    for _ in range(3):
        first, second = locks.ask(1.0, 0.05)
        assert first.error is None and second.error is not None
        assert "hangs" in second.error.message and "does not answer" in second.error.message
    assert (quick.asked, hangs.asked) == (3, 1)
    hangs.may.set()
    until(lambda: all(one.error is None for one in locks.ask(1.0, 5.0)), 20, "it to answer")
