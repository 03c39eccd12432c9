"""Ranges of a shard's stream from a server that sends indefinitely, but never the requested records."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, cast

import pytest

from slotkeeper.core.errors import Unreachable
from slotkeeper.core.sources.hologres.stream.records import ShardRanges
from slotkeeper.core.sources.hologres.stream.shard import Delivered, ShardReader

WAIT = 60.0


class Ticking:
    """A clock that advances a second with each message."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def utc(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, timezone.utc)

    def random(self) -> float:
        return 0.5


class Endless:
    """A reader whose server never stops, and sends the same message each time."""

    def __init__(self, clock: Ticking, brings: Delivered) -> None:
        self.stream = self
        self.shard = 2
        self._clock, self._brings = clock, brings

    def read(self, seconds: float) -> Delivered:
        self._clock.seconds += 1
        assert self._clock.seconds < 10 * WAIT, "it would be read indefinitely"
        return self._brings

    def close(self) -> None:
        """Do nothing: nothing is open."""


@pytest.mark.parametrize(
    "brings",
    [Delivered((), 1), Delivered((), 1, complete_us=5), Delivered((), 0)],
    ids=["rows that came before", "heartbeats", "an older place"],
)
def test_messages_without_news_do_not_count_as_an_answer_however_many_come(brings: Delivered) -> None:
    clock = Ticking()
    shard = ShardRanges(lambda after: cast("ShardReader", cast("Any", Endless(clock, brings))), WAIT, clock)
    with pytest.raises(Unreachable, match="sent nothing new within 60 s, but has a row at LSN 9"):
        list(shard.rows(1, 9))
    assert clock.seconds <= WAIT + 1
