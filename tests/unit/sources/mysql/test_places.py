"""Positions that are too large for 32 bits, or wrongly ordered if compared as text."""

from __future__ import annotations

import pickle
import tracemalloc
from random import Random
from uuid import UUID

import pytest

from slotkeeper.core.domain.position import Order
from slotkeeper.core.sources.mysql import stream
from slotkeeper.core.sources.mysql.events import Parser
from slotkeeper.core.sources.mysql.faults import GoneBack
from slotkeeper.core.sources.mysql.position import (
    FIRST_OFFSET,
    MysqlPosition,
    MysqlSet,
    PendingXa,
    parse_gtids,
    parse_position,
)
from slotkeeper.core.sources.mysql.transactions import Transactions
from tests.support import mysql_bytes as made


def test_a_file_behind_number_999999_comes_later() -> None:
    """Doris compared names as text, so that a name with a seventh digit appeared to be earlier."""
    assert MysqlPosition("b.999999", 900).order(MysqlPosition("b.1000000", 4)) is Order.BEFORE


def test_a_step_of_more_than_2_gib_is_one_forward() -> None:
    """Doris cast the difference to an int of 32 bits."""
    assert MysqlPosition("b.000001", 4).order(MysqlPosition("b.000001", 3 << 30)) is Order.BEFORE


def test_a_place_beyond_4_gib_is_read_from_the_files_begin() -> None:
    """The dump command has 32 bits for its offset."""
    far = MysqlPosition("b.000001", 5 << 30)
    assert stream._dumped_from(far) == MysqlPosition("b.000001", FIRST_OFFSET)
    assert stream._dumped_from(MysqlPosition("b.000001", 3 << 30)).offset == 3 << 30


def test_a_position_is_read_back_with_all_that_it_carries() -> None:
    gtids = parse_gtids("3-77-200,4-1-5")
    pending = (PendingXa("1-6162-", 3, 900), PendingXa("7--", 4, 17))
    for one in (
        MysqlPosition("b.000004", 1234, gtids, born=(1_700_000_000, 77), pending=pending),
        MysqlPosition("b.000004", 1234, None, born=(1_700_000_000, 77)),
        MysqlPosition("b.000004", 1234, None, pending=pending),
        MysqlPosition("b.000004", 1234, gtids),
    ):
        again = parse_position(one.text)
        assert (again, again.born, again.pending) == (one, one.born, one.pending)
        assert parse_position(one.plain) == one
    for wrong in ("b.000004/1234|x", "b.000004/1234@5", "b.000004/1234@5-"):
        with pytest.raises(ValueError):
            parse_position(wrong)


def taken(start: MysqlPosition, *packets: bytes) -> Transactions:
    transactions, parser = Transactions(start, [("s", "t")]), Parser()
    for packet in packets:
        transactions.take(parser.parse(packet))
    return transactions


GTIDS = parse_gtids("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7")


def test_a_mysql_file_that_was_created_at_another_time_is_another_file() -> None:
    """Its GTIDs may be the same: after RESET MASTER, MySQL counts from 1 again."""
    start = MysqlPosition("binlog.000001", 1234, GTIDS, born=(1_700_000_000, 1))
    assert taken(start, made.format_description(created=1_700_000_000)).here == start
    with pytest.raises(GoneBack, match=r"binlog\.000001 was created 2023-11-14 22:13:25"):
        taken(start, made.format_description(created=1_700_000_005))


def test_a_position_of_an_earlier_version_takes_the_creation_that_it_finds() -> None:
    start = MysqlPosition("binlog.000001", 1234, GTIDS)
    found = taken(start, made.format_description(created=1_700_000_005))
    assert found.here.born == found.last.born == (1_700_000_005, 1)
    unknown = taken(MysqlPosition("binlog.000001", 1234, born=(1_700_000_000, 1)), made.format_description())
    assert unknown.here.born == (1_700_000_000, 1)


def test_the_next_file_is_created_later_and_belongs_to_the_same_server() -> None:
    start = MysqlPosition("binlog.000001", 1234, GTIDS, born=(1_700_000_000, 1))
    rotate = made.event(4, (4).to_bytes(8, "little") + b"binlog.000002", flags=0x20)
    first = made.format_description(created=1_700_000_000)
    found = taken(start, first, rotate, made.format_description(created=1_700_009_999))
    assert found.last == MysqlPosition("binlog.000002", 4, GTIDS) and found.last.born == (1_700_009_999, 1)


@pytest.mark.parametrize("writers", [1, 3, 200])
def test_the_sets_of_many_transactions_share_their_entries(writers: int, seed: int) -> None:
    """8,192 sets of 200 servers: a separate dict for each takes 9 KiB, and 77 MB in total."""
    draw = Random(seed)
    print(f"seed {seed}")
    uuids = [UUID(int=draw.getrandbits(128)) for _ in range(200)]
    alone = {(uuid, ""): ((1, 1),) for uuid in uuids}
    sets = [MysqlSet(dict(alone))]
    tracemalloc.start()
    try:
        for _ in range(8192):
            uuid = draw.choice(uuids[:writers])
            alone[uuid, ""] = ((1, alone[uuid, ""][0][1] + 1),)
            sets.append(sets[-1].after(uuid, alone[uuid, ""][0][1]))
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    print(f"{writers} servers write: {size / 1e6:.1f} MB")
    assert sets[-1] == MysqlSet(alone)
    assert sets[-1].text == MysqlSet(alone).text
    assert pickle.loads(pickle.dumps(sets[-9:])) == sets[-9:]
    assert len(pickle.dumps(sets[-100:])) < 200_000
    assert size < 18_000_000
