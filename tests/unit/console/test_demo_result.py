"""The table at the end of a demo."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from slotkeeper.core.state.rows import EventRow
from slotkeeper.demo.result import copy_rate

AT = datetime(2026, 11, 23, 9, 58, tzinfo=timezone.utc)


def events(*named: tuple[str, float]) -> list[EventRow]:
    made = [EventRow(n, AT + timedelta(seconds=at), "orders_rt", name, "") for n, (name, at) in enumerate(named)]
    return made[::-1]


@pytest.mark.parametrize(
    ("named", "rate"),
    [
        ([("copy began", 0.0), ("copy done", 5.0)], 4_000.0),
        ([("copy began", 0.0), ("driver began", 2.0), ("copy began", 3.0), ("copy done", 5.0)], 10_000.0),
        ([("copy began", 0.0)], None),
        ([("copy done", 1.0), ("copy began", 3.0)], None),
        ([("copy began", 1.0), ("copy done", 1.0)], None),
        ([], None),
    ],
)
def test_the_speed_of_a_copy_is_by_its_own_begin_and_end(named: list[tuple[str, float]], rate: float | None) -> None:
    assert copy_rate(events(*named), 20_000) == rate
