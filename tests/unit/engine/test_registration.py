"""A registration on a DN that has another name by now fails in words, and as something that passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.clock import SystemClock
from core.domain.advance import XminChoice
from core.domain.position import Position
from core.domain.progress import LaneKey
from core.domain.slot import Shard, SlotPoints, SlotStatus
from core.domain.watch import Expected
from core.engine.driver.registration import Registration, register
from core.errors import Busy

DN, RENAMED = Shard("dn_1", 1), Shard("dn_one", 1)
POINTS = Expected(frozenset({10}), frozenset({10}), "i")


class Server:
    """The source, and the rows beside it; nothing may be registered."""

    generation = cleared_for = 1

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        return [SlotStatus(RENAMED, SlotPoints(10, 10), 20, 5, "i")]

    @contextmanager
    def pinned(self) -> Iterator[None]:
        yield

    @contextmanager
    def registration(self, key: LaneKey, epoch: int) -> Iterator[Any]:
        yield SimpleNamespace(row=SimpleNamespace(position=Position(10)))


def test_a_dn_under_another_name_is_said_and_not_a_broken_iteration() -> None:
    server = cast("Any", Server())
    wanted = Registration(LaneKey("dws1", "ods.t", "s", DN.name), DN, 1, POINTS, 10, XminChoice(5, None, 5))
    with pytest.raises(Busy, match="dn_1 does not answer under its name"):
        register(server, server, wanted, SystemClock())
