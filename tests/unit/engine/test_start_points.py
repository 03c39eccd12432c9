"""Where a job without a copy may start: the boundaries, with a source that answers from memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slotkeeper.core.domain.slot import FirstRecord, RegisteredPoint, Shard
from slotkeeper.core.domain.spec import EVERY_DN, StartAt, StartKind
from slotkeeper.core.domain.start import StartAction, StartDecision
from slotkeeper.core.domain.ttl import Ttl
from slotkeeper.core.engine.driver import first_start, upkeep
from slotkeeper.core.engine.driver.start import _refuse_first
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError, Trouble, TroubleName, Unreachable
from slotkeeper.core.ports.source import SlotWords, SourceTable
from slotkeeper.core.sources.dws.position import POSITIONS, DwsPosition

DN1, DN2 = Shard("dn_1", 1), Shard("dn_2", 2)
NOW = 1_800_000_000


def at(point: int) -> DwsPosition:
    return DwsPosition(point, None)


def registered(shard: str, slot: str, point: int | None, checkpoint: bool = False) -> RegisteredPoint:
    return RegisteredPoint(shard, slot, checkpoint, None if point is None else at(point), None, None)


class Starter:
    """A source with two DNs whose oldest record is at 100 and whose newest point is 200."""

    def __init__(self, *points: RegisteredPoint, retains: bool = True, ttl: int | None = 60) -> None:
        self.listed: Any = points
        self.words = SlotWords(retains=retains, ttl="the TTL")
        self.held: dict[str, FirstRecord] = {one.name: FirstRecord(at(200), at(100)) for one in (DN1, DN2)}
        self.slots: list[Any] = [SimpleNamespace(shard=one) for one in (DN1, DN2)]
        self._ttl = ttl
        self.place = POSITIONS.place

    def points(self) -> Any:
        if isinstance(self.listed, Exception):
            raise self.listed
        return self.listed

    def records(self) -> Mapping[str, FirstRecord]:
        return self.held

    def nodes(self) -> list[Shard]:
        return [DN1, DN2]

    def open_lanes(self) -> list[Any]:
        return self.slots

    def clock(self) -> tuple[float, Ttl]:
        return NOW, Ttl(self._ttl, by_record=True)

    def since(self, text: str, lowest: bool) -> None: ...


def table_of(starter: Starter) -> SourceTable:
    return SourceTable(cast(Any, starter), cast(Any, starter), cast(Any, starter), starter.words)


def context(starter: Starter) -> Any:
    sessions = SimpleNamespace(starter=lambda: table_of(starter), source=lambda why: starter)
    job = SimpleNamespace(slot="s", channel=SimpleNamespace(source_table="ods.t"))
    return SimpleNamespace(sessions=sessions, job=job)


def check(starter: Starter, *points: tuple[str, str]) -> None:
    first_start.check_start(context(starter), StartAt(StartKind.POINTS, points=points))


@pytest.mark.parametrize("point", [100, 101, 200])
def test_a_start_between_the_oldest_record_and_the_newest_point_is_possible(point: int) -> None:
    check(Starter(), (EVERY_DN, str(point)))


@pytest.mark.parametrize(
    ("point", "said", "hint"),
    [
        (99, "dn_1: unknown whether the source retains every change from point 99 on", "choose 100 or a later point"),
        (201, "dn_1: point 201 is after the newest one, 200", "choose an earlier point"),
    ],
)
def test_a_start_beside_these_is_refused(point: int, said: str, hint: str) -> None:
    with pytest.raises(Refused) as refused:
        check(Starter(), (EVERY_DN, str(point)))
    assert said in refused.value.message and hint in refused.value.hint


def test_a_slot_that_retains_more_makes_an_earlier_start_possible_on_its_dn_only() -> None:
    starter = Starter(registered("dn_1", "other", 50))
    check(starter, ("dn_1", "50"), ("dn_2", "100"))
    for first, second, wrong in (("49", "100", "dn_1"), ("50", "99", "dn_2")):
        with pytest.raises(Refused, match=f"^{wrong}: unknown whether"):
            check(starter, ("dn_1", first), ("dn_2", second))


def test_without_a_record_and_without_a_slot_no_point_is_known_to_be_retained() -> None:
    starter = Starter()
    starter.held["dn_2"] = FirstRecord(at(200), None)
    with pytest.raises(Refused, match="dn_2: unknown") as refused:
        check(starter, (EVERY_DN, "200"))
    assert "choose 200 or a later point" in refused.value.hint
    starter.held["dn_2"] = FirstRecord(None, None)
    with pytest.raises(Refused) as refused:
        check(starter, (EVERY_DN, "200"))
    assert "choose the newest point or a later point" in refused.value.hint


@pytest.mark.parametrize(("names", "wrong"), [(("dn_1",), "dn_2"), (("dn_1", "dn_2", "dn_3"), "dn_3")])
def test_a_start_names_exactly_the_dns_of_the_cluster(names: tuple[str, ...], wrong: str) -> None:
    with pytest.raises(Refused, match=rf"different DNs \({wrong}\)") as refused:
        check(Starter(), *((name, "100") for name in names))
    assert refused.value.hint == "name dn_1, dn_2"


def test_of_a_slots_points_the_lower_one_counts_and_of_slots_the_one_that_retains_most() -> None:
    points = [registered("dn_1", "a", 70), registered("dn_1", "a", 60, True), registered("dn_1", "b", 80)]
    starter = Starter(*points, registered("dn_2", "a", 0), registered("dn_2", "b", None))
    assert first_start.retained_from(table_of(starter)) == {"dn_1": at(60)}


@pytest.mark.parametrize("listed", [None, Unreachable("gone", "", "", "source")])
def test_points_that_are_not_listed_retain_nothing(listed: SlotkeeperError | None) -> None:
    starter = Starter()
    starter.listed = listed
    assert first_start.retained_from(table_of(starter)) == {}


def test_a_source_whose_slots_retain_nothing_is_not_asked_for_them() -> None:
    assert first_start.retained_from(table_of(Starter(registered("dn_1", "a", 70), retains=False))) == {}


@pytest.mark.parametrize(
    ("age", "ttl", "said"),
    [
        (0, 60, ""), (59, 60, ""), (60, 60, "is older than the TTL (60 s)"), (9_999, None, ""),
        (-1, 60, "is in the future by the source's clock"),
    ],
)  # fmt: skip
def test_a_start_time_is_not_in_the_future_and_its_records_are_still_there(
    age: int, ttl: int | None, said: str
) -> None:
    ask = StartAt(StartKind.TIME, at=datetime.fromtimestamp(NOW - age, timezone.utc))
    if not said:
        first_start.check_start(context(Starter(ttl=ttl)), ask)
        return
    with pytest.raises(Refused) as refused:
        first_start.check_start(context(Starter(ttl=ttl)), ask)
    assert said in refused.value.message


def test_a_start_time_needs_a_record_on_some_dn() -> None:
    starter, ask = Starter(), StartAt(StartKind.TIME, at=datetime.fromtimestamp(NOW - 1, timezone.utc))
    starter.held["dn_1"] = FirstRecord(at(200), None)
    first_start.check_start(context(starter), ask)
    starter.held["dn_2"] = FirstRecord(at(200), None)
    with pytest.raises(Refused, match="the binlog has no record"):
        first_start.check_start(context(starter), ask)


@pytest.mark.parametrize(
    ("age", "ttl", "error"),
    [
        (None, 60, None), (59.9, 60, None), (60.0, 60, Trouble), (61.0, 60, Trouble), (61.0, None, None),
        (0.0, 60, None), (-0.1, 60, Refused), (-0.1, None, None),
    ],
)  # fmt: skip
def test_a_table_is_read_before_its_records_are_deleted(
    age: float | None, ttl: int | None, error: type[SlotkeeperError] | None
) -> None:
    store = cast(Any, SimpleNamespace(registered_age=lambda: age))
    if error is None:
        first_start.refuse_aged(context(Starter(ttl=ttl)), store)
        return
    with pytest.raises(error, match="SLOT LOST: no registration" if error is Trouble else "clock was set back"):
        first_start.refuse_aged(context(Starter(ttl=ttl)), store)


def test_a_slot_is_on_every_dn_before_anything_starts() -> None:
    starter = Starter()
    assert first_start.poll_all_nodes(cast(Any, starter), context(starter)) == starter.slots
    del starter.slots[1]
    with pytest.raises(Busy, match="dn_2: the first registration reached no node"):
        first_start.poll_all_nodes(cast(Any, starter), context(starter))
    del starter.slots[0]
    with pytest.raises(Refused, match="the source has no position for slot s"):
        first_start.poll_all_nodes(cast(Any, starter), context(starter))


def test_a_dn_that_answers_only_direct_calls_has_not_gone() -> None:
    """It is queried only if a known DN is not in the list."""
    asked = list[None]()

    def read_status(shard: None) -> list[Any]:
        asked.append(shard)
        return [SimpleNamespace(shard=DN2)]

    source = cast(Any, SimpleNamespace(nodes=lambda: [DN1], read_status=read_status))
    assert upkeep.changed_nodes(source, [DN1]) == "" and not asked
    assert upkeep.changed_nodes(source, [DN1, DN2]) == "" and asked
    assert upkeep.changed_nodes(source, [DN2, Shard("dn_3", 3)]) == "dn_1, dn_3"
    assert upkeep.changed_nodes(source, []) == "dn_1"


def test_a_start_names_the_number_of_lanes_that_have_lost_the_slot() -> None:
    lost = StartDecision(StartAction.REFUSE, TroubleName.SLOT_LOST, "dn_1: the slot holds 0/0")
    moved = StartDecision(StartAction.REFUSE, TroubleName.SLOT_MOVED, "dn_2: the slot is ahead")
    with pytest.raises(Trouble, match=r"^SLOT LOST: dn_1 and 2 other lanes: the slot holds 0/0$"):
        _refuse_first([moved, lost, lost, lost], (TroubleName.SLOT_LOST,))
    with pytest.raises(Trouble, match=r"^SLOT MOVED: dn_2: the slot is ahead$"):
        _refuse_first([moved, moved], tuple(TroubleName))
