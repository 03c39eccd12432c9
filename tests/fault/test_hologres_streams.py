"""Failures of the binlog streams of Hologres: connections, messages, limits, and a replaced binlog."""

from __future__ import annotations

import io
import random
from contextlib import closing

import pytest

from slotkeeper.core.domain.spec import TableAsked
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError, Trouble, TroubleName, Unreachable
from slotkeeper.core.sources.hologres import catalog
from slotkeeper.core.sources.hologres.kind import HoloConnection
from slotkeeper.core.sources.hologres.position import HoloPosition, ours
from slotkeeper.demo.hologres.faults import FOREIGN_LSN, StreamFault
from tests.fault.test_hologres import followed, trouble
from tests.support.hologres import TABLE, HoloPair, hang_one_shard
from tests.support.waiting import until

HARMLESS = [fault for fault in StreamFault if fault is not StreamFault.VERSION]


@pytest.fixture
def stream_pair(holo_pair: HoloPair) -> HoloPair:
    """A job by stream, with updates in its binlog."""
    holo_pair.options(read_by="stream", binlog_read_batch_size=6)
    for turn in range(3):
        holo_pair.write(*((key, turn) for key in range(1, 21)))
    return holo_pair


@pytest.mark.parametrize("fault", HARMLESS)
def test_a_message_that_is_cut_or_comes_twice_or_in_parts_costs_nothing(
    stream_pair: HoloPair, fault: StreamFault
) -> None:
    stream_pair.options(read_by="sql")
    by_sql, _ = stream_pair.read()
    stream_pair.options(read_by="stream")
    stream_pair.hologres.faults.arm(fault, 3)
    found, errors = stream_pair.read(width=5, forgiven=3)
    assert found == by_sql
    assert stream_pair.hologres.faults.met[fault] == 3
    assert [type(one) for one in errors] == ([Unreachable] * 3 if fault is StreamFault.DROP else [])


def test_heartbeats_are_passed_over_and_a_range_may_end_at_one(stream_pair: HoloPair) -> None:
    stream_pair.options(read_by="sql")
    by_sql, _ = stream_pair.read()
    stream_pair.options(read_by="stream")
    for shard in range(4):
        stream_pair.hologres.heartbeat(TABLE, shard)
    found, errors = stream_pair.read()
    assert (found, errors) == (by_sql, [])
    stream_pair.write(*((key, 9) for key in range(1, 21)))
    assert all(len(rows) >= len(by_sql[shard]) for shard, rows in stream_pair.read(width=4)[0].items())


def test_rows_of_a_version_that_no_catalog_has_are_a_changed_schema(stream_pair: HoloPair) -> None:
    stream_pair.hologres.faults.arm(StreamFault.VERSION)
    with pytest.raises(Trouble) as told:
        stream_pair.read()
    assert told.value.name is TroubleName.SCHEMA_CHANGED and "have table version 2" in told.value.message
    assert not stream_pair.read()[1], "the next message belongs to the known one"


def test_a_version_with_the_same_columns_continues(stream_pair: HoloPair) -> None:
    shard = stream_pair.shard_of(1)
    with closing(stream_pair.connection()) as session:
        source = session.table(TableAsked.of(stream_pair.mirror.job)).source
        at = HoloPosition(0)
        for turn in range(2):
            (status,) = source.read_status(shard)
            assert source.copy_changes(shard, at, status.latest, io.BytesIO()) > 0
            at = ours(status.latest)
            stream_pair.hologres.raise_version(TABLE)
            stream_pair.write((1, 70 + turn))
        assert len(stream_pair.hologres.faults.streams) == 1


def test_a_new_column_is_a_changed_schema(stream_pair: HoloPair) -> None:
    shard = stream_pair.shard_of(1)
    with closing(stream_pair.connection()) as session:
        source = session.table(TableAsked.of(stream_pair.mirror.job)).source
        (status,) = source.read_status(shard)
        source.copy_changes(shard, HoloPosition(0), status.latest, io.BytesIO())
        stream_pair.hologres.add_column(TABLE, "more text")
        stream_pair.write((1, 8))
        (newest,) = source.read_status(shard)
        with pytest.raises(Trouble) as told:
            source.copy_changes(shard, status.latest, newest.latest, io.BytesIO())
        assert told.value.name is TroubleName.SCHEMA_CHANGED


def test_a_server_without_a_walsender_left_is_busy_and_streams_make_way(stream_pair: HoloPair) -> None:
    faults = stream_pair.hologres.faults
    faults.senders = 0
    with pytest.raises(Busy, match="too many wal senders already"):
        stream_pair.read()
    faults.senders = 1
    errors: list[SlotkeeperError] = []

    def through() -> bool:
        # an ended stream stays in the server's list for a moment
        found, met = stream_pair.read(forgiven=50)
        errors.extend(met)
        return len(found) == 4

    until(through, 60, "four shards over one walsender")
    assert errors and {type(one) for one in errors} == {Busy}


def test_an_lsn_of_the_frames_moves_nothing_here_and_there_is_no_slot_to_move(stream_pair: HoloPair) -> None:
    faults = stream_pair.hologres.faults
    assert faults.frame_lsn == FOREIGN_LSN
    with closing(stream_pair.connection()) as session:
        source = session.table(TableAsked.of(stream_pair.mirror.job)).source
        shard = stream_pair.shard_of(1)
        at = HoloPosition(0)

        def told() -> bool:
            nonlocal at
            stream_pair.write((1, at.lsn))
            (status,) = source.read_status(shard)
            source.copy_changes(shard, at, status.latest, io.BytesIO())
            at = ours(status.latest)
            return FOREIGN_LSN in faults.flushed

        until(told, 30, "the driver to tell the keepalive's LSN")
    stream_pair.mirror.start().wait_running()
    stream_pair.write((1, 500))
    stream_pair.mirror.wait_equal()
    stream_pair.mirror.stop()
    assert all(ours(row.position).lsn < FOREIGN_LSN for row in stream_pair.mirror.rows() if row.position)
    assert all("SLOT null" in command for command in faults.streams)


def test_records_that_went_before_they_were_read_stop_the_job(stream_pair: HoloPair) -> None:
    """The server streams on from its oldest record without an error, so that the statuses around a range have to detect
    it.
    """
    pair = followed(stream_pair)
    pair.mirror.stop()
    pair.write(*((key, 7) for key in range(1, 41)))
    for number in range(4):
        lsns = [lsn for shard, lsn, _ in pair.hologres.log(TABLE) if shard == number]
        pair.hologres.cut(TABLE, number, lsns[-2])
    pair.mirror.start()
    assert "the binlog starts at" in trouble(pair, TroubleName.SLOT_LOST).message


def test_a_table_that_is_made_again_under_an_open_stream_is_another_one(stream_pair: HoloPair) -> None:
    pair = followed(stream_pair)
    pair.hologres.rebuild(TABLE)
    pair.write(*((key, 7) for key in range(1, 41)))
    trouble(pair, TroubleName.SCHEMA_CHANGED)


def test_a_removed_shard_is_another_topology(stream_pair: HoloPair) -> None:
    with closing(stream_pair.connection()) as session:
        source = session.table(TableAsked.of(stream_pair.mirror.job)).source
        source.identify()
        stream_pair.hologres.reshard(TABLE, 2)
        with pytest.raises(Trouble) as told:
            source.copy_changes(catalog.shard_of(3), HoloPosition(0), HoloPosition(9), io.BytesIO())
    assert told.value.name is TroubleName.TOPOLOGY_CHANGED


def test_a_login_without_select_is_refused_by_name(stream_pair: HoloPair) -> None:
    shard = stream_pair.shard_of(1)
    with closing(stream_pair.connection()) as session:
        source = session.table(TableAsked.of(stream_pair.mirror.job)).source
        (status,) = source.read_status(shard)
        stream_pair.hologres.rows(f"REVOKE SELECT ON {TABLE} FROM etl; SELECT 1")
        with pytest.raises(SlotkeeperError, match="permission denied for table"):
            source.copy_changes(shard, HoloPosition(0), status.latest, io.BytesIO())


def test_an_unknown_event_is_never_passed_over(stream_pair: HoloPair) -> None:
    stream_pair.hologres.rows(f'UPDATE hg_log."{TABLE}" SET hg_binlog_event_type = 9 RETURNING 1')
    with pytest.raises(Refused, match="unknown type 9"):
        stream_pair.read()


@pytest.mark.chaos
def test_a_job_through_a_storm_of_faults_applies_each_record_once(stream_pair: HoloPair, seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    pair, faults = stream_pair, stream_pair.hologres.faults
    before = len(pair.hologres.log(TABLE))
    pair.mirror.start().wait_running()
    for turn in range(60):
        faults.arm(chance.choice(HARMLESS), chance.randint(1, 3))
        faults.senders = chance.choice([None, None, 2])
        some = chance.sample(range(1, 90), chance.randint(1, 12))
        pair.write(*((key, None if chance.random() < 0.3 else turn) for key in some))
        if turn % 6 == 5:
            faults.senders = None
            pair.mirror.wait_equal()
    faults.disarm()
    faults.senders = None
    records = len(pair.hologres.log(TABLE)) - before
    pair.wait_applied(records, 90)
    pair.mirror.stop()
    print(f"{records} records, faults met: {dict(faults.met)}, streams: {len(faults.streams)}")
    assert sum(pair.mirror.changes().values()) == records
    assert pair.mirror.difference() == (0, 0)


@pytest.mark.chaos
def test_a_shard_whose_stream_hangs_does_not_keep_the_others_back(stream_pair: HoloPair) -> None:
    hang_one_shard(followed(stream_pair))


def test_a_session_that_reads_no_more_gives_its_walsenders_back_to_others(
    stream_pair: HoloPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HoloConnection, "idle_seconds", 2.0)
    faults = stream_pair.hologres.faults
    faults.senders = 4
    with closing(stream_pair.connection()) as idle:
        whole = {}
        source = idle.table(TableAsked.of(stream_pair.mirror.job)).source
        for status in source.read_status(None):
            out = io.BytesIO()
            source.copy_changes(status.shard, HoloPosition(0), status.latest, out)
            whole[status.shard.name] = out.getvalue()
        assert faults.running == 4
        until(lambda: faults.running == 0, 20, "the idle streams to end")
        assert stream_pair.read() == (whole, [])
        again = io.BytesIO()
        status = source.read_status(None)[0]
        source.copy_changes(status.shard, HoloPosition(0), status.latest, again)
        assert again.getvalue() == whole[status.shard.name], "it starts over when it is requested again"
