"""What comparisons found, kept per job."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from core.domain.verified import Verified
from core.state.sqlite import Store
from core.state.verified import KEPT, last, record

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
