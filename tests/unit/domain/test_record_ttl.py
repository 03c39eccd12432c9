"""A lane is SLOT LOST as soon as its next records may have expired, and not before; other tables are not queried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.elapsed import Curve
from slotkeeper.core.domain.lane import Lane, RecordTtls
from slotkeeper.core.sources.dws.position import DwsPosition, place
from tests.unit.domain.test_lane import lane

TABLE, TTL = "ods.t", 1_000


def at(point: int, checked: int | None = None) -> Lane:
    return replace(lane("dn_1"), position=DwsPosition(point), checked=place(checked))


def seen(*statuses: tuple[float, int], ttls: dict[str, int] | None = None) -> RecordTtls:
    ages = RecordTtls({TABLE: TTL} if ttls is None else ttls, {})
    for now, latest in statuses:
        ages.see(TABLE, "dn_1", DwsPosition(latest, None), now)
    return ages


@pytest.mark.parametrize(("now", "is_late"), [(100.0, False), (938.0, False), (941.0, True), (5_000.0, True)])
def test_a_lane_may_stay_behind_for_its_ttl_less_a_margin(now: float, is_late: bool) -> None:
    found = seen((0.0, 100), (10.0, 200)).late(at(100), now)
    assert (found is not None) is is_late
    if found is not None:
        expected = (
            f"dn_1 is {now:.0f} s behind, and the source deletes records of this table after 1000 s, even if unread"
        )
        assert expected in found.message


def test_a_lane_that_continues_is_as_far_behind_as_its_position() -> None:
    ages = seen(*((float(n), n) for n in range(0, 5_000, 10)))
    assert ages.late(at(4_100), 4_990.0) is None
    assert ages.late(at(4_000), 4_990.0) is not None


def test_a_range_that_was_found_empty_is_not_unread() -> None:
    ages = seen((0.0, 100), (3_000.0, 200))
    assert ages.late(at(100, checked=200), 3_001.0) is None
    assert ages.late(at(100), 3_001.0) is not None


def test_a_lane_that_began_below_every_look_is_behind_since_the_first() -> None:
    ages = seen((0.0, 100), (950.0, 120))
    assert ages.late(at(50), 900.0) is None
    assert ages.late(at(50), 950.0) is not None


def test_a_server_that_was_not_seen_for_longer_than_the_ttl_may_have_deleted_what_was_written_meanwhile() -> None:
    ages = seen((0.0, 100), (2_000.0, 150))
    assert ages.late(at(100), 2_000.0) is not None


def test_what_was_seen_outlives_a_pause() -> None:
    curves: dict[str, Curve] = {}
    RecordTtls({TABLE: TTL}, curves).see(TABLE, "dn_1", DwsPosition(100, None), 0.0)
    again = RecordTtls({TABLE: TTL}, curves)
    again.see(TABLE, "dn_1", DwsPosition(200, None), 990.0)
    assert again.late(at(100), 990.0) is not None


def test_tables_whose_records_wait_for_their_slot_are_never_late() -> None:
    ages = seen((0.0, 100), (10.0, 200), ttls={})
    assert not ages.any
    assert ages.late(at(1), 1e9) is None
