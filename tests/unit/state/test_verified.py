"""Results of comparisons, stored per job."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from slotkeeper.core.domain.row_counts import Verified, in_a_phrase
from slotkeeper.core.state.observed import KEPT, last, record
from slotkeeper.core.state.sqlite import Store

AT = datetime(2026, 11, 21, 2, 28, tzinfo=timezone.utc)
EQUAL = Verified("orders", AT, "equal", 0, 0, 1, 9, 9, 1.5, "li.wei")


def test_the_last_comparison_of_each_job_is_found_also_as_of_then(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        different = replace(EQUAL, at=AT + timedelta(hours=1), verdict="different", differences=3)
        for one in (EQUAL, different, replace(EQUAL, job="stock")):
            record(store, one)
        assert last(store) == {"orders": different, "stock": replace(EQUAL, job="stock")}
        assert last(store, AT)["orders"] == EQUAL
        assert last(store, AT - timedelta(seconds=1)) == {}


def test_the_oldest_are_dropped_and_hostile_names_made_visible(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        for number in range(KEPT + 5):
            record(store, replace(EQUAL, at=AT + timedelta(minutes=number), by_whom="\x1b[2J"))
        (row,) = store.read("SELECT count(*) AS number FROM verifies")
        assert row["number"] == KEPT
        assert last(store)["orders"].by_whom == "\\x1b[2J"


def test_a_reset_ends_what_was_compared_before_it_and_while_it_went_on(tmp_path: Path) -> None:
    later = AT + timedelta(minutes=5)
    with Store.open(tmp_path) as store:
        record(store, EQUAL)
        record(store, Verified.void("orders", later, "r1"))
        found = last(store)["orders"]
        assert found.is_void and found.by_whom == "reset r1"
        assert in_a_phrase(found, later + timedelta(minutes=2)) == "not verified since the reset 2m00s ago"
        assert last(store, AT)["orders"] == EQUAL, "what was known then remains"
        under_way = replace(EQUAL, at=later + timedelta(seconds=1))
        assert not record(store, under_way), "it had begun before the reset"
        assert last(store)["orders"] == found
        after = replace(under_way, at=later + timedelta(seconds=9))
        assert record(store, after) and last(store)["orders"] == after
