"""A registration that finds its DN under another name, or is too late, fails as transient with a clear message."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.engine.driver.registration import Registration, register
from slotkeeper.core.errors import Busy
from slotkeeper.core.ports.source import NEUTRAL, Confirmation, SourceTable
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints

DN, RENAMED = Shard("dn_1", 1), Shard("dn_one", 1)
KEPT = SyncPoints(10, 10, 5)


class Server:
    """The source and the progress rows; no registration is allowed."""

    generation = cleared_for = 1

    def __init__(self, shard: Shard = RENAMED) -> None:
        self.shard = shard

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        return [SlotStatus(self.shard, KEPT, DwsPosition(20, None, 5), "i")]

    @contextmanager
    def pinned(self) -> Iterator[None]:
        yield

    @contextmanager
    def registration(self, key: LaneKey, epoch: int, others: tuple[LaneKey, ...] = ()) -> Iterator[Any]:
        yield SimpleNamespace(row=SimpleNamespace(position=DwsPosition(10)), others=())


def wanted() -> Registration:
    key, expected = LaneKey("dws1", "ods.t", "s", DN.name), exactly(KEPT, "i")
    return Registration(key, DN, 1, expected, DwsPosition(10), KEPT)


def test_a_dn_under_another_name_is_said_and_not_a_broken_iteration() -> None:
    server = cast("Any", Server())
    with pytest.raises(Busy, match="dn_1 does not answer under its name"):
        register(SourceTable(server, server, server, NEUTRAL, server.pinned), server, wanted(), SystemClock())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how long a machine was suspended")
def test_a_registration_whose_machine_was_suspended_behind_the_lock_sends_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Suspended(Server):
        """Suspended for a minute between the lock and the call; CLOCK_MONOTONIC does not advance meanwhile."""

        def confirm(self, first: SlotStatus, asked: Confirmation) -> SyncPoints:
            since = time.clock_gettime(time.CLOCK_BOOTTIME)
            monkeypatch.setattr(time, "clock_gettime", lambda number: since + 60)
            asked.check()
            raise AssertionError("it was sent")

    server = cast("Any", Suspended(DN))
    with pytest.raises(Busy, match="too long after taking its lock"):
        register(SourceTable(server, server, server, NEUTRAL, server.pinned), server, wanted(), SystemClock())
