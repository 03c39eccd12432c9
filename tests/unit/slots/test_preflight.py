"""The verdicts on maintenance and the estimated time to drain, computed from facts without a server."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from slotkeeper.core.domain.slot import RegisteredPoint, UnreadRows
from slotkeeper.core.errors import Refused
from slotkeeper.core.slots.preflight import Action, Facts, MayBegin, Rate, judge, left_by_shard, rate_between
from slotkeeper.core.sources.dws.position import place
from slotkeeper.core.sources.dws.words import WORDS

AT = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
OWNERS = {"ours": "orders"}


def facts(
    consumed: bool | None, rows: dict[str, int | None] | None, rates: tuple[Rate, ...] = (), timeout: int | None = None
) -> Facts:
    """One DN; each slot of `rows` has this number of unread rows at both points; None: the server lists nothing."""
    flags = (False, True)
    points = None if rows is None else [RegisteredPoint("dn_1", s, f, place(5), AT, 1) for s in rows for f in flags]
    unread = None if rows is None else [UnreadRows("dn_1", s, f, n) for s, n in rows.items() for f in flags]
    return Facts("dws1", "t", consumed, {"dn_1": consumed}, points, unread, OWNERS, timeout, rates, WORDS)


@pytest.mark.parametrize(
    ("given", "vacuum", "alter"),
    [
        (facts(True, {}), MayBegin.YES, MayBegin.YES),
        (facts(True, {"ours": 0}), MayBegin.YES, MayBegin.NO),
        (facts(False, {"ours": 3}), MayBegin.NO, MayBegin.NO),
        (facts(False, {"ours": None}), MayBegin.NO, MayBegin.NO),
        (facts(True, {"ours": 3}), MayBegin.YES, MayBegin.NO),
        (facts(None, {"ours": 3}), MayBegin.NO, MayBegin.NO),
        (facts(None, {"ours": 0}), MayBegin.UNKNOWN, MayBegin.NO),
        (facts(None, None), MayBegin.UNKNOWN, MayBegin.UNKNOWN),
        (facts(True, None), MayBegin.YES, MayBegin.UNKNOWN),
        (facts(False, None), MayBegin.NO, MayBegin.NO),
    ],
)
def test_the_servers_word_decides_and_alter_loses_every_slot(given: Facts, vacuum: MayBegin, alter: MayBegin) -> None:
    found = judge(given)
    assert found.answer(Action.VACUUM_FULL) is found.answer(Action.SCALE_OUT) is vacuum
    assert found.answer(Action.ALTER) is alter
    assert found.clear == (vacuum is alter is MayBegin.YES)


def test_the_reasons_name_owners_the_limit_and_the_lock() -> None:
    found = judge(facts(False, {"ours": 3, "theirs": 9}, timeout=120))
    by_action = {one.action: one.reason for one in found.verdicts}
    assert "slot theirs (external) on dn_1: both points, 9 unread rows" in by_action[Action.VACUUM_FULL]
    assert "120 s (binlog_consume_timeout)" in by_action[Action.VACUUM_FULL]
    assert "blocks DML" in by_action[Action.VACUUM_FULL]
    assert "ours (job orders), theirs (external)" in by_action[Action.ALTER]
    assert "3600 s by default" in judge(facts(False, {"ours": 3})).verdicts[0].reason
    assert any("inconsistently" in text for text in found.notes)


@pytest.mark.parametrize(
    ("given", "seconds", "said"),
    [
        (facts(True, {"ours": 0}), 0, "nothing to drain"),
        (facts(False, {"ours": 1000}, (Rate("orders", 300.0),)), 4, "about 4 s"),
        (facts(False, {"ours": 1000}, (Rate("orders", 0.0),)), None, "is not applying any changes"),
        (facts(False, {"ours": 1000}), None, "is not running here"),
        (facts(False, {"theirs": 10}, (Rate("orders", 300.0),)), None, "theirs"),
        (facts(False, {"ours": None}), None, "cannot be counted"),
        (facts(False, None), None, "cannot be counted"),
    ],
)
def test_the_time_to_drain_is_estimated_only_from_a_known_rate(given: Facts, seconds: int | None, said: str) -> None:
    found = judge(given)
    assert found.drain_seconds == seconds
    assert said in found.drain


def test_a_rate_needs_two_moments() -> None:
    assert rate_between("j", (100, AT), (400, AT + timedelta(seconds=2))) == Rate("j", 150.0)
    assert rate_between("j", (400, AT), (100, AT + timedelta(seconds=2))) == Rate("j", 0.0)
    assert rate_between("j", (100, AT), (400, AT)) is None


def test_what_is_left_of_a_drain_is_said_per_dn_and_never_guessed() -> None:
    assert left_by_shard(judge(facts(True, {"ours": 0}))) == {}
    assert left_by_shard(judge(facts(False, {"ours": 3}))) == {"dn_1": "slot ours (both points): 3 unread"}
    assert "unknown slot" in left_by_shard(judge(facts(False, None)))["dn_1"]
    with pytest.raises(Refused):
        left_by_shard(judge(facts(None, {"ours": 0})))
