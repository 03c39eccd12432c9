"""The order of the queries, and the handling of their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from slotkeeper.core.domain.slot import RegisteredPoint, TableAnswer, UnreadRows
from slotkeeper.core.domain.spec import TableAsked
from slotkeeper.core.domain.ttl import Ttl
from slotkeeper.core.errors import Refused, SlotkeeperError, Unreachable
from slotkeeper.core.slots.status import COUNT_SLOWEST, NO_TIME, OwnLane, StatusPoller
from slotkeeper.core.sources.dws.position import place
from slotkeeper.core.sources.dws.words import WORDS

NOW = datetime(2026, 11, 21, 2, 31, tzinfo=timezone.utc)
TTL = Ttl(600)


@dataclass
class Source:
    """Answers at once, or after `slow` seconds for counts; records the queries."""

    at: float = 0.0
    slow: float = 0.0
    lists: bool = True
    counts: bool = True
    count_fault: SlotkeeperError | None = None
    ttl: Ttl | None = TTL
    asked: list[tuple[float, str, str]] = field(default_factory=list)
    _known: bool = False

    def table(self, asked: TableAsked) -> Any:
        read, unread = partial(self.read, asked.table), partial(self.unread, asked.table)
        return SimpleNamespace(inspector=SimpleNamespace(read=read, unread=unread, purge=None))

    def read(self, table: str) -> TableAnswer | None:
        self.asked.append((self.at, "points", table))
        if not self.lists and not self._known:
            self._known = True
            return None
        at = NOW - timedelta(seconds=60)
        points = [RegisteredPoint("dn_1", "s", flag, place(7), at, 5) for flag in (False, True)]
        return TableAnswer(NOW, self.ttl, 3_600, points if self.lists else None)

    def unread(self, table: str) -> Sequence[UnreadRows] | None:
        self.asked.append((self.at, "count", table))
        self.at += self.slow
        if self.count_fault is not None:
            raise self.count_fault
        return [UnreadRows("dn_1", "s", flag, 4) for flag in (False, True)] if self.counts else None

    def close(self) -> None:
        self.asked.append((self.at, "close", ""))


def watched(source: Source, *tables: str, ours: Callable[..., Sequence[OwnLane]] = lambda *given: ()) -> StatusPoller:
    return StatusPoller(
        cast(Any, source),
        WORDS,
        "dws1",
        {table: {"mine": "job"} for table in tables},
        ours,
        lambda: source.at,
        lambda: NOW,
    )


def run(source: Source, watch: StatusPoller, seconds: float) -> None:
    """Take turns as the collector does: two seconds after the end of the last one."""
    end = source.at + seconds
    while source.at < end:
        watch.turn()
        source.at += 2.0


def test_each_table_is_seen_before_any_is_counted_and_none_starves() -> None:
    source = Source()
    tables = [f"t{number:02}" for number in range(12)]
    run(source, watched(source, *tables), 240)
    first = [(kind, table) for _, kind, table in source.asked[:24]]
    assert first == [("points", table) for table in tables] + [("count", table) for table in tables]
    shares = Counter((kind, table) for _, kind, table in source.asked)
    assert min(shares[kind, table] for table in tables for kind in ("points", "count")) >= 2
    assert max(shares.values()) - min(v for (kind, _), v in shares.items() if kind == "points") <= 2


def test_points_are_asked_about_five_times_as_often_as_counts() -> None:
    source = Source()
    run(source, watched(source, "t"), 120)
    shares = Counter(kind for _, kind, _ in source.asked)
    assert shares["points"] >= 4 * shares["count"] and shares["count"] >= 8


def test_a_count_that_takes_long_is_asked_for_less_often() -> None:
    source = Source(slow=2.0)
    run(source, watched(source, "t"), 200)
    times = [at for at, kind, _ in source.asked if kind == "count"]
    assert len(times) <= 6 and times[2] - times[1] >= 40


def test_a_count_that_times_out_causes_no_fault_and_doubles_its_interval() -> None:
    source = Source(slow=3.0, count_fault=Unreachable("statement timeout").after_limit())
    watch = watched(source, "t")
    watch.turn()
    turn = watch.turn()
    assert turn.error is None and turn.seen is not None and turn.seen.counted_at is None
    assert NO_TIME in turn.seen.slots.untold and turn.seen.slots.slots[1].unread is None
    run(source, watch, 1_500)
    times = [at for at, kind, _ in source.asked if kind == "count"]
    assert times[-1] - times[-2] >= COUNT_SLOWEST
    source.count_fault = None
    source.at += 1_000
    for _ in range(2):
        turn = watch.turn()
    assert turn.seen is not None and turn.seen.counted_at == NOW and NO_TIME not in turn.seen.slots.untold


def test_answers_are_put_together_as_a_look_does() -> None:
    watch = watched(Source(), "t")
    before = watch.turn().seen
    after = watch.turn().seen
    assert before is not None and after is not None
    assert [slot.unread for slot in before.slots.slots] == [None, None] and before.slots.untold == ()
    assert {slot.name: (slot.job, slot.exists, slot.unread) for slot in after.slots.slots} == {
        "mine": ("job", False, None),
        "s": (None, True, 4),
    }
    left = after.retained.slot("s").left
    assert left is not None and left.seconds == 540 and after.retained.consume_timeout == 3_600


def test_a_kernel_that_lists_nothing_is_asked_for_the_rest_and_our_sink_seldom() -> None:
    asked: list[str] = []

    def ours(table: str, slot: str, now: datetime) -> list[OwnLane]:
        asked.append(slot)
        return [OwnLane("dn_1", place(9), place(9), now)]

    source = Source(lists=False, counts=False)
    watch = watched(source, "t", ours=ours)
    assert watch.turn().seen is None
    run(source, watch, 60)
    seen = watch.turn().seen
    assert seen is not None and seen.slots.untold == (WORDS.no_list, WORDS.no_count)
    assert [one.live for one in seen.retained.slot("mine").shards] == [place(9)]
    assert 2 <= len(asked) <= 3


def test_a_table_that_is_gone_is_its_own_fault_and_a_server_that_is_down_is_everybodys() -> None:
    source = Source(ttl=None)
    turn = watched(source, "t").turn()
    assert isinstance(turn.error, Refused) and not turn.everywhere and turn.seen is None
    source = Source(count_fault=Unreachable("connection refused", code="08006"))
    watch = watched(source, "t")
    watch.turn()
    turn = watch.turn()
    assert turn.everywhere and turn.seen is not None
    watch.close()
    assert source.asked[-1][1] == "close"
