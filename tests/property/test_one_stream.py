"""One position for the stream of all channels: never beyond a channel's committed position, and never moved back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slotkeeper.core.domain.position import Order, confirmable
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.watch import ahead_of_row, exactly, judge
from slotkeeper.core.errors import TroubleName
from tests.support.sqlite_pair.binlog import BEGIN, OneKept, SqlitePosition

FINGERPRINT = "sqlite:1:a"


def at(tx: int) -> SqlitePosition:
    return SqlitePosition("1", 1, BEGIN + 10 * tx, tx)


places = st.integers(0, 40).map(at)


@given(rows=st.lists(places, min_size=1, max_size=5), data=st.data())
def test_the_confirmed_position_is_the_least_of_all_and_in_the_end_all_of_it(
    rows: list[SqlitePosition], data: st.DataObject
) -> None:
    stands: SqlitePosition | None = None
    for _ in range(data.draw(st.integers(1, 12))):
        moved = data.draw(st.integers(0, len(rows) - 1))
        rows[moved] = max(rows[moved], data.draw(places))
        mine = data.draw(st.integers(0, len(rows) - 1))
        others = [row for number, row in enumerate(rows) if number != mine]
        # a channel may request less than its row has: the value at the time of the request
        wanted = min(rows[mine], data.draw(places))
        told = confirmable(wanted, others, stands)
        assert stands is None or told >= stands
        assert all(told <= row for row in rows)
        assert confirmable(rows[mine], others, stands) == min(rows)
        stands = told  # type: ignore[assignment]


@given(wanted=places, others=st.lists(st.none() | places, max_size=3), stands=st.none() | places)
def test_a_channel_that_has_not_begun_holds_nothing_back(
    wanted: SqlitePosition, others: list[SqlitePosition | None], stands: SqlitePosition | None
) -> None:
    told = confirmable(wanted, others, stands)
    known = [one for one in others if one is not None]
    assert told == confirmable(wanted, known, stands)
    assert told.order(max(min([wanted, *known]), stands) if stands else min([wanted, *known])) is Order.SAME


@given(registered=places, there=st.none() | places, row=places)
def test_confirmations_of_other_channels_do_not_fail_up_to_our_own_row(
    registered: SqlitePosition, there: SqlitePosition | None, row: SqlitePosition
) -> None:
    status = SlotStatus(Shard("binlog", 1), OneKept(there), at(50), FINGERPRINT)
    found = judge(status, exactly(OneKept(registered), FINGERPRINT)) or ahead_of_row(status, row)
    if there is None:
        assert found is not None and found.name is TroubleName.SLOT_LOST
    elif there < registered:
        assert found is not None and found.name is TroubleName.SLOT_MOVED
    elif there > row:
        assert found is not None and found.name is TroubleName.SINK_OLDER
    else:
        assert found is None
