"""The last known state of each slot is shared: a process that knows less does not overwrite that of another process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slotkeeper.core.domain.ttl import Ttl
from slotkeeper.core.judgement.facts import SlotSeen
from slotkeeper.core.slots.status import SlotView, TableRetained, TableSlots, sights
from slotkeeper.core.state import observed
from slotkeeper.core.state.sqlite import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as store:
        yield store


def sight(store: Store, **more: object) -> SlotSeen:
    now = datetime.fromtimestamp(store.now(), timezone.utc)
    seen = SlotSeen("dws1", "ods.orders", "b_rt", "b", now, True, now + timedelta(hours=1), 7_200.0)
    return replace(seen, **more)  # type: ignore[arg-type]


def test_the_slot_of_a_job_stays_its_own_where_the_driver_of_another_sees_it_without_a_job(store: Store) -> None:
    mine = sight(store)
    observed.put(store, [mine])
    observed.put(store, [replace(mine, job="", exists=False)], knows_all=False)
    assert observed.all_seen(store) == (replace(mine, exists=False),)


def test_a_slot_of_a_job_that_left_the_configuration_has_no_job_once_a_process_that_knows_all_sees_it(
    store: Store,
) -> None:
    observed.put(store, [sight(store)])
    observed.put(store, [sight(store, job="")])
    assert [one.job for one in observed.all_seen(store)] == [""]


def test_a_driver_names_the_other_jobs_that_its_configuration_has_at_the_same_table(store: Store) -> None:
    at = datetime.fromtimestamp(store.now(), timezone.utc)
    slots = TableSlots("dws1", "ods.orders", (SlotView("a_rt", "a", True), SlotView("b_rt", None, True)))
    retained = TableRetained(Ttl(600), None, at, (), ())
    found = sights("dws1", "ods.orders", at, slots, retained, {"b_rt": "b"})
    assert [(one.slot, one.job) for one in found] == [("a_rt", "a"), ("b_rt", "b")]


def test_an_older_sight_replaces_none_that_is_newer_but_one_from_before_the_clock_was_set_back(store: Store) -> None:
    newer = sight(store)
    observed.put(store, [newer])
    observed.put(store, [replace(newer, at=newer.at - timedelta(seconds=30), ttl=60.0)])
    assert observed.all_seen(store) == (newer,)
    ahead = replace(newer, at=newer.at + timedelta(hours=1))
    observed.put(store, [ahead])
    observed.put(store, [newer])
    assert observed.all_seen(store) == (newer,)


AT = datetime(2026, 11, 23, 3, 0, tzinfo=timezone.utc)


def _strange(slot: str, job: str = "", table: str = "ods.orders", later: float = 0.0) -> SlotSeen:
    return SlotSeen("dws1", table, slot, job, AT + timedelta(seconds=later), True)


def test_a_strangers_slot_that_is_not_seen_any_more_is_forgotten(tmp_path: Path) -> None:
    with Store.open(tmp_path / "state") as store:
        observed.put(
            store, [_strange("orders_rt", "orders_rt"), _strange("retired"), _strange("other", table="ods.items")]
        )
        observed.put(store, [_strange("second", "second", later=1.0)])
        kept = {(one.table, one.slot) for one in observed.all_seen(store)}
    assert kept == {("ods.items", "other"), ("ods.orders", "orders_rt"), ("ods.orders", "second")}
