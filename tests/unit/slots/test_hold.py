"""What slots hold back, computed from the answers of the server and the sink."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from slotkeeper.core.domain.slot import RegisteredPoint, UnreadRows
from slotkeeper.core.domain.ttl import Behind, Severity, Ttl
from slotkeeper.core.slots.status import KnownBy, OwnLane, TableRetained, put_together
from slotkeeper.core.sources.dws.position import place
from slotkeeper.core.sources.dws.words import WORDS

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
TTL = Ttl(100)


def point(shard: str, slot: str, durable: bool, at: int | None, age: int | None = 10) -> RegisteredPoint:
    moment = None if age is None else NOW - timedelta(seconds=age)
    return RegisteredPoint(shard, slot, durable, place(at), moment, 1)


def both(shard: str, slot: str, live: int, durable: int, age: int = 10) -> list[RegisteredPoint]:
    return [point(shard, slot, False, live, age), point(shard, slot, True, durable, age)]


def listed(*points: RegisteredPoint, unread: list[UnreadRows] | None = None, ttl: Ttl = TTL) -> TableRetained:
    return put_together(ttl, 3600, NOW, points, unread, {}, WORDS)


def test_the_point_further_back_and_the_oldest_reader_are_named_per_dn() -> None:
    found = listed(
        *both("dn_1", "a", 12, 10), *both("dn_2", "a", 20, 20), *both("dn_1", "b", 11, 11), *both("dn_2", "b", 5, 9)
    )
    first, second = found.slot("a").shards
    assert (first.behind, first.point, first.oldest) == (Behind.DURABLE, place(10), True)
    assert (second.behind, second.point, second.oldest) == (Behind.BOTH, place(20), False)
    assert [found.oldest_reader(shard) for shard in ("dn_1", "dn_2", "dn_9")] == ["a", "b", None]
    back = found.slot("b").furthest_back
    assert back is not None and (back.shard, back.behind) == ("dn_2", Behind.LIVE)


def test_the_point_that_was_registered_longest_ago_is_cleared_first() -> None:
    found = listed(point("dn_1", "a", False, 5, 10), point("dn_1", "a", True, 5, 90), *both("dn_2", "a", 5, 5, 20))
    left = found.slot("a").left
    assert left is not None and (left.seconds, left.severity) == (10, Severity.CRITICAL)
    assert left.expires_at == NOW + timedelta(seconds=10)
    assert [one.known_by for one in found.slot("a").shards] == [KnownBy.SERVER, KnownBy.SERVER]


def test_what_one_point_does_not_tell_is_unknown_for_the_dn_and_the_slot() -> None:
    found = listed(point("dn_1", "a", False, 5), point("dn_1", "a", True, None, None), *both("dn_2", "a", 5, 5))
    first, second = found.slot("a").shards
    assert (first.behind, first.point, first.left, first.oldest) == (None, None, None, None)
    assert second.oldest is True
    assert found.slot("a").left is None and found.slot("a").furthest_back is None
    assert any("registration time and time left are unknown for a" in text for text in found.untold)


def test_unread_rows_are_those_of_the_point_further_back_and_unknown_where_one_is() -> None:
    rows = [UnreadRows("dn_1", "a", False, 3), UnreadRows("dn_1", "a", True, 7), UnreadRows("dn_2", "a", False, None)]
    found = listed(*both("dn_1", "a", 12, 10), *both("dn_2", "a", 1, 1), unread=rows)
    assert [one.unread for one in found.slot("a").shards] == [7, None]
    assert [one.unread for one in listed(*both("dn_1", "a", 1, 1)).slot("a").shards] == [None]


def test_where_the_server_lists_nothing_ours_is_marked_as_ours() -> None:
    lanes = {"a": [OwnLane("dn_1", place(8), place(8), NOW - timedelta(seconds=70))], "b": []}
    found = put_together(TTL, None, NOW, None, None, lanes, WORDS)
    (one,) = found.slot("a").shards
    assert (one.known_by, one.live, one.oldest, one.unread) == (KnownBy.OURS, place(8), None, None)
    assert one.left is not None and (one.left.seconds, one.left.severity) == (30, Severity.WARN)
    assert {WORDS.own_times, WORDS.no_timeout} <= set(found.untold)
    assert any("registration time and time left are unknown for b" in text for text in found.untold)
    assert found.slot("nobody").left is None


def test_options_that_cannot_be_read_and_records_with_a_ttl_are_said() -> None:
    assert WORDS.no_ttl in listed(*both("dn_1", "a", 1, 1), ttl=Ttl(None)).untold
    assert listed(*both("dn_1", "a", 1, 1), ttl=Ttl(None)).slot("a").left is None
    assert WORDS.ages in listed(*both("dn_1", "a", 1, 1), ttl=Ttl(100, by_record=True)).untold
