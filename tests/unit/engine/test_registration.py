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
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.engine.driver.registration import Registration, register, register_at
from slotkeeper.core.errors import Busy, Trouble, TroubleName, Unreachable
from slotkeeper.core.ports.source import NEUTRAL, Confirmation, SourceTable
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints, ours

DN, RENAMED = Shard("dn_1", 1), Shard("dn_one", 1)
KEPT = SyncPoints(10, 10, 5)


class Server:
    """The source and the progress rows; no registration is allowed."""

    generation = cleared_for = 1
    row, others = 10, ()
    """The positions of the lane's row, and of the rows of other channels."""
    kept, ends = KEPT, True
    asked: Confirmation | None = None

    def __init__(self, shard: Shard = RENAMED) -> None:
        self.shard = shard

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        return [SlotStatus(self.shard, self.kept, DwsPosition(20, None, 5), "i")]

    def end_sessions(self) -> bool:
        return self.ends

    def confirm(self, first: SlotStatus, asked: Confirmation) -> SyncPoints:
        self.asked = asked
        raise Unreachable("no answer")

    @contextmanager
    def pinned(self) -> Iterator[None]:
        yield

    @contextmanager
    def registration(self, key: LaneKey, epoch: int, others: tuple[LaneKey, ...] = ()) -> Iterator[Any]:
        rows = [SimpleNamespace(position=DwsPosition(one)) for one in (self.row, *self.others)]
        yield SimpleNamespace(row=rows[0], others=rows[1:], record=lambda registered, seen: None)


KEY = LaneKey("dws1", "ods.t", "s", DN.name)


def wanted(**more: Any) -> Registration:
    return Registration(
        **{**dict(zip(NAMES, (KEY, DN, 1, exactly(KEPT, "i"), DwsPosition(10), KEPT), strict=True)), **more}
    )


NAMES = ("key", "shard", "epoch", "expected", "position", "before")


def table(server: Server) -> SourceTable:
    made = cast("Any", server)
    return SourceTable(made, made, made, NEUTRAL, made.pinned)


def registered(server: Server, **more: Any) -> DwsPosition:
    """The position that the source was asked to confirm."""
    with pytest.raises(Unreachable, match="no answer"):
        register(table(server), cast("Any", server), wanted(**more), SystemClock())
    assert server.asked is not None
    return ours(server.asked.position)


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


@pytest.mark.parametrize(
    ("row", "others", "committed"),
    [(9, (), None), (10, (9,), None), (10, (), 11)],
    ids=["its row", "another's", "lost"],
)
def test_a_row_behind_the_slot_or_behind_what_was_committed_registers_nothing(
    row: int, others: tuple[int, ...], committed: int | None
) -> None:
    server = Server(DN)
    server.row, server.others = row, others  # type: ignore[assignment]
    with pytest.raises(Trouble) as caught:
        done = DwsPosition(committed) if committed else None
        register(table(server), cast("Any", server), wanted(committed=done), SystemClock())
    assert (caught.value.name, server.asked) == (TroubleName.SINK_OLDER, None)


def test_a_position_that_channels_share_is_confirmed_up_to_the_row_that_is_furthest_behind() -> None:
    server = Server(DN)
    server.row, server.others = 18, (14, 16)  # type: ignore[assignment]
    place = DwsPosition(18)
    assert registered(server, position=place) == place
    assert registered(server, position=place, others=(KEY,)) == DwsPosition(14)


def test_behind_a_new_sink_session_other_registrars_are_ended_once_or_waited_for() -> None:
    server = Server(DN)
    server.generation, server.ends = 2, False
    with pytest.raises(Busy, match="an older registration may still be in progress"):
        register(table(server), cast("Any", server), wanted(), SystemClock())
    server.generation, server.ends = 3, True
    assert registered(server) == DwsPosition(10)
    server.ends = False
    assert registered(server) == DwsPosition(10)


@pytest.mark.parametrize("ends", [True, False])
def test_a_registration_without_an_answer_is_certain_only_if_its_sessions_have_ended(ends: bool) -> None:
    server = Server(DN)
    server.ends = ends
    lane = Lane(KEY, DN, DwsPosition(10), KEPT, exactly(KEPT, "i"), 100)
    found = register_at(table(server), cast("Any", server), lane, 1, DwsPosition(10), SystemClock(), lambda _: None)
    assert (found.sent, found.certain, type(found.error)) == (True, ends, Unreachable)
