"""A registration on a DN that has another name by now fails in words, and as something that passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.clock import SystemClock
from core.domain.progress import LaneKey
from core.domain.slot import Shard, SlotStatus
from core.domain.watch import exactly
from core.engine.driver.registration import Registration, register
from core.errors import Busy
from core.sources.dws.position import DwsPosition, SyncPoints

DN, RENAMED = Shard("dn_1", 1), Shard("dn_one", 1)
KEPT = SyncPoints(10, 10, 5)


class Server:
    """The source, and the rows beside it; nothing may be registered."""

    generation = cleared_for = 1

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        return [SlotStatus(RENAMED, KEPT, DwsPosition(20, None, 5), "i")]

    @contextmanager
    def pinned(self) -> Iterator[None]:
        yield

    @contextmanager
    def registration(self, key: LaneKey, epoch: int, others: tuple[LaneKey, ...] = ()) -> Iterator[Any]:
        yield SimpleNamespace(row=SimpleNamespace(position=DwsPosition(10)), others=())


def test_a_dn_under_another_name_is_said_and_not_a_broken_iteration() -> None:
    server = cast("Any", Server())
    key, expected = LaneKey("dws1", "ods.t", "s", DN.name), exactly(KEPT, "i")
    wanted = Registration(key, DN, 1, expected, DwsPosition(10), KEPT)
    with pytest.raises(Busy, match="dn_1 does not answer under its name"):
        register(server, server, wanted, SystemClock())
