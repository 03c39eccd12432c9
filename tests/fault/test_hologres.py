"""Failures of Hologres when it is read with SQL: connections, pages, shards, and a replaced binlog."""

from __future__ import annotations

import io
from contextlib import closing
from dataclasses import replace

import pytest

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.spec import TableAsked
from slotkeeper.core.drivers.pipe import rows_of
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError, Trouble, TroubleName, Unreachable
from slotkeeper.core.sources.hologres import catalog
from slotkeeper.core.sources.hologres.changes import Pages, Stretch
from slotkeeper.core.sources.hologres.position import HoloPosition, ours
from slotkeeper.demo.hologres.faults import Fault
from tests.support.hologres import TABLE, HoloPair, hang_one_shard
from tests.support.waiting import until

ALL_KEYS = range(1, 60)


def followed(pair: HoloPair, count: int = 40) -> HoloPair:
    pair.write(*((key, key) for key in range(1, count + 1)))
    pair.mirror.start().wait_running()
    return pair


def trouble(pair: HoloPair, name: TroubleName) -> Trouble:
    error = pair.mirror.wait_error()
    assert isinstance(error, Trouble), error
    assert error.name is name, error
    return error


@pytest.mark.parametrize("fault", list(Fault))
def test_a_page_that_is_cut_or_comes_twice_or_empty_costs_nothing(holo_pair: HoloPair, fault: Fault) -> None:
    pair = followed(holo_pair)
    before = len(pair.hologres.log(TABLE))
    for turn in range(3):
        pair.hologres.faults.arm(fault, 2)
        pair.write(*((key, turn) for key in ALL_KEYS))
        pair.mirror.wait_equal()
    records = len(pair.hologres.log(TABLE)) - before
    until(lambda: sum(pair.mirror.changes().values()) >= records, 60, f"{records} records to be applied")
    pair.mirror.stop()
    assert sum(pair.mirror.changes().values()) == records
    assert pair.hologres.faults.met[fault] >= 3


def test_an_empty_page_before_the_end_of_a_range_is_not_believed(holo_pair: HoloPair) -> None:
    holo_pair.write((1, 1))
    shard = holo_pair.shard_of(1)
    with closing(holo_pair.connection()) as session:
        source = session.table(TableAsked.of(holo_pair.mirror.job)).source
        (status,) = source.read_status(shard)
        holo_pair.hologres.faults.arm(Fault.EMPTY)
        with pytest.raises(Busy, match="returned no record after LSN 0"):
            source.copy_changes(shard, HoloPosition(0), status.latest, io.BytesIO())
        assert source.copy_changes(shard, HoloPosition(0), status.latest, io.BytesIO()) == 1


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_page_or_a_range_that_cuts_a_3_from_its_7_loses_neither(holo_pair: HoloPair, size: int) -> None:
    holo_pair.options(binlog_read_batch_size=size)
    holo_pair.write(*((key, 0) for key in range(1, 9)))
    holo_pair.write(*((key, 1) for key in range(1, 9)))
    with closing(holo_pair.connection()) as session:
        source = session.table(TableAsked.of(holo_pair.mirror.job)).source
        for status in source.read_status(None):
            whole, pieces = io.BytesIO(), io.BytesIO()
            at: Position = HoloPosition(0)
            source.copy_changes(status.shard, at, status.latest, whole)
            while at < status.latest:
                end = source.next_range(at, status, 1)
                source.copy_changes(status.shard, at, end, pieces)
                at = end
            assert pieces.getvalue() == whole.getvalue()
            found = [row[2] for row in rows_of(io.BytesIO(whole.getvalue()))]
            assert found.count("B") == found.count("U") == found.count("I")


@pytest.mark.chaos
def test_heartbeats_are_passed_over_and_move_the_lane(holo_pair: HoloPair) -> None:
    pair = followed(holo_pair)
    applied = sum(pair.mirror.changes().values())
    for shard in range(4):
        pair.hologres.heartbeat(TABLE, shard)
    beats = {f"shard_{shard}": lsn for shard, lsn, kind in pair.hologres.log(TABLE) if kind == 27}
    until(
        lambda: all(ours(row.position).lsn >= beats[row.key.shard] for row in pair.mirror.rows() if row.position),
        60,
        "every lane to stand at its heartbeat",
    )
    pair.write((1, 77))
    pair.mirror.wait_equal()
    pair.mirror.stop()
    assert sum(pair.mirror.changes().values()) == applied + 2


def test_a_new_column_is_a_changed_schema(holo_pair: HoloPair) -> None:
    pair = followed(holo_pair)
    pair.hologres.add_column(TABLE, "more text")
    error = trouble(pair, TroubleName.SCHEMA_CHANGED)
    assert "the table was changed or recreated" in error.message


def test_a_table_that_is_made_again_is_another_one(holo_pair: HoloPair) -> None:
    pair = followed(holo_pair)
    pair.hologres.rebuild(TABLE)
    trouble(pair, TroubleName.SCHEMA_CHANGED)
    pair.mirror.start()
    error = pair.mirror.wait_error()
    assert isinstance(error, Trouble)
    assert error.name in (TroubleName.SCHEMA_CHANGED, TroubleName.SLOT_LOST), error
    assert "the table was dropped and created again" in error.message


def test_lsns_that_start_over_under_the_same_id_are_recognized_by_the_newest(holo_pair: HoloPair) -> None:
    pair = followed(holo_pair)
    pair.mirror.stop()
    pair.hologres.rebuild(TABLE, new_id=False)
    pair.write(*((key, 5) for key in range(1, 5)))
    pair.mirror.start()
    error = pair.mirror.wait_error()
    assert isinstance(error, Trouble)
    assert error.name in (TroubleName.SOURCE_OLDER, TroubleName.SLOT_LOST), error


def test_truncate_leaves_no_record_and_stops_the_job(holo_pair: HoloPair) -> None:
    pair = followed(holo_pair)
    pair.hologres.rows(f"TRUNCATE {TABLE}; SELECT 1")
    trouble(pair, TroubleName.SCHEMA_CHANGED)


def test_records_that_went_before_they_were_read_stop_the_job(holo_pair: HoloPair) -> None:
    pair = followed(holo_pair)
    pair.mirror.stop()
    pair.write(*((key, 7) for key in range(1, 41)))
    for number in range(4):
        lsns = [lsn for shard, lsn, _ in pair.hologres.log(TABLE) if shard == number]
        pair.hologres.cut(TABLE, number, lsns[-2])
    pair.mirror.start()
    error = trouble(pair, TroubleName.SLOT_LOST)
    assert "the binlog starts at" in error.message


def test_unread_records_that_expired_by_their_age_stop_the_job(holo_pair: HoloPair) -> None:
    pair = followed(holo_pair)
    pair.mirror.stop()
    pair.hologres.set_property(TABLE, "binlog.ttl", "1")
    pair.write(*((key, 7) for key in range(1, 41)))
    until(lambda: pair.hologres.purge() == 0 and not pair.hologres.log(TABLE), 60, "all records to go")
    pair.write((1, 8))
    pair.mirror.start()
    trouble(pair, TroubleName.SLOT_LOST)


@pytest.mark.chaos
def test_an_idle_table_whose_records_all_went_continues(holo_pair: HoloPair) -> None:
    holo_pair.options(binlog_heart_beat_interval_ms=100)
    holo_pair.hologres.set_property(TABLE, "binlog.ttl", "15")
    pair = followed(holo_pair)
    until(lambda: pair.hologres.purge() == 0 and not pair.hologres.log(TABLE), 60, "all records to go")
    pair.write((1, 8), (2, None))
    pair.mirror.wait_equal()
    pair.mirror.stop()


def test_another_number_of_shards_stops_the_job(holo_pair: HoloPair) -> None:
    pair = followed(holo_pair)
    pair.mirror.stop()
    pair.hologres.reshard(TABLE, 5)
    pair.mirror.start()
    error = pair.mirror.wait_error()
    assert isinstance(error, Trouble)
    assert error.name in (TroubleName.TOPOLOGY_CHANGED, TroubleName.SLOT_LOST), error


def test_a_shard_that_is_not_there_is_named(holo_pair: HoloPair) -> None:
    with closing(holo_pair.connection()) as session, pytest.raises(Trouble, match="Shard ID does not exist"):
        catalog.newest(session.session, TABLE, catalog.shard_of(9))


@pytest.mark.chaos
def test_a_shard_that_hangs_does_not_keep_the_others_back(holo_pair: HoloPair) -> None:
    hang_one_shard(followed(holo_pair))


def test_a_login_without_select_is_refused_by_name(holo_pair: HoloPair) -> None:
    holo_pair.hologres.rows(f"REVOKE SELECT ON {TABLE} FROM etl; SELECT 1")
    error = holo_pair.mirror.start().wait_error()
    assert isinstance(error, Refused) and "GRANT SELECT ON ods.t" in error.hint


def test_a_proxy_that_is_gone_is_a_source_that_cannot_be_reached(holo_pair: HoloPair) -> None:
    with closing(holo_pair.connection()) as session:
        session.ping()
        holo_pair.hologres.close()
        with pytest.raises(Unreachable):
            session.ping()


def test_a_range_with_an_unknown_event_is_never_passed_over(holo_pair: HoloPair) -> None:
    holo_pair.write((1, 1), (2, 2))
    holo_pair.hologres.rows(f'UPDATE hg_log."{TABLE}" SET hg_binlog_event_type = 9 RETURNING 1')
    with closing(holo_pair.connection()) as session:
        source = session.table(TableAsked.of(holo_pair.mirror.job)).source
        (status,) = source.read_status(holo_pair.shard_of(1))
        assert source.has_changes(status.shard, HoloPosition(0), status.latest)
        with pytest.raises(Refused, match="has the unknown event type 9"):
            source.copy_changes(status.shard, HoloPosition(0), status.latest, io.BytesIO())


def test_a_place_between_two_records_is_read_from_the_next_one(holo_pair: HoloPair) -> None:
    shard = catalog.shard_of(0)
    for key in holo_pair.keys_on(shard, 9):
        holo_pair.write((key, key))
    lsns = [lsn for number, lsn, _ in holo_pair.hologres.log(TABLE) if number == 0]
    gap = next(lsn for lsn in range(lsns[0], lsns[-1]) if lsn not in lsns)
    with closing(holo_pair.connection()) as session:
        pages = Pages(session.session, TABLE, 10, None)
        found = [event.lsn for event in pages.events(Stretch(shard, gap, lsns[-1]), ())]
        assert found == [lsn for lsn in lsns if lsn > gap]
        record = catalog.first_behind(session.session, TABLE, shard, gap)
        assert record is not None and record.lsn == found[0]
        assert catalog.first_behind(session.session, TABLE, shard, lsns[-1]) is None
        with pytest.raises(SlotkeeperError, match="future"):
            catalog.first_since(session.session, TABLE, shard, "2100-01-01 00:00:00+00")
    assert replace(HoloPosition(gap), seen=1) == HoloPosition(gap).from_here
