"""The end of a copy: every chunk is complete, each state follows the right one, and a long end loses no slot."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.drivers import pg
from slotkeeper.core.engine.driver.job import JobEnd
from slotkeeper.core.errors import Refused, TooLarge, Trouble, TroubleName
from slotkeeper.core.sinks.postgres.session import SETTINGS
from slotkeeper.core.wiring import worker
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.standin import run
from tests.support.waiting import until

TABLE, TARGET = "ods.t", "mart.t"


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    """A table of 100 rows, copied in two chunks."""
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'row ' || n FROM generate_series(1, 100) n")
    mirror = make_mirror(warehouse, TABLE, TARGET)
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, full_sync_binlog_batch_read_size=50))
    return mirror


def replacing(mirror: Mirror) -> Mirror:
    """The same table with a target that holds two rows."""
    mirror.at_sink(
        "CREATE SCHEMA mart",
        f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v text)",
        f"INSERT INTO {TARGET} VALUES (1, 'older'), (-5, 'not in the source')",
    )
    mirror.job = replace(mirror.job, on_existing="replace")
    return mirror


def sink_older(mirror: Mirror) -> None:
    error = mirror.wait_error(30)
    assert isinstance(error, Trouble), error
    assert error.name is TroubleName.SINK_OLDER, error


@pytest.mark.parametrize(
    "fallen", ["one chunk is planned again", pytest.param("the chunk table is empty", marks=pytest.mark.chaos)]
)
def test_a_sink_that_fell_back_during_the_copy_is_noticed_at_its_end(mirror: Mirror, fallen: str) -> None:
    back = ("UPDATE slotkeeper_chunks SET state = 'planned' WHERE number = 0", f"DELETE FROM {TARGET} WHERE id <= 50")
    empty = ("DELETE FROM slotkeeper_chunks", f"DELETE FROM {TARGET} WHERE id <= 50")
    mirror.capacity, statements = 2, back if fallen.startswith("one") else empty
    last = At("after_chunk_commit", lambda: mirror.at_sink(*statements), nth=2)
    mirror.start(last)
    sink_older(mirror)
    assert last.done.is_set()


def test_a_sink_that_fell_back_behind_the_copys_end_takes_no_step(mirror: Mirror) -> None:
    mirror.start().wait_running().wait_equal()
    mirror.at_sink("UPDATE slotkeeper_progress SET state = 'copying'", f"DELETE FROM {TARGET} WHERE id <= 50")
    run(mirror.warehouse, f"UPDATE {TABLE} SET v = 'later' WHERE id > 90")
    sink_older(mirror)


@pytest.mark.chaos
def test_a_sink_that_fell_back_behind_the_copys_end_takes_no_empty_step(mirror: Mirror) -> None:
    mirror.start().wait_running().wait_equal()
    mirror.at_sink("UPDATE slotkeeper_progress SET state = 'creating'", f"DELETE FROM {TARGET} WHERE id <= 50")
    mirror.warehouse.create_table("ods.other", "id bigint NOT NULL", ("id",))
    run(mirror.warehouse, "SELECT pgxc_register_full_sync_point('ods.other', 'other')")

    def moved() -> bool:
        run(mirror.warehouse, "INSERT INTO ods.other SELECT coalesce(max(id), 0) + 1 FROM ods.other")
        return mirror.ended()

    until(moved, 30, "the job to meet its row over an empty range")
    sink_older(mirror)


def test_running_is_reached_from_catching_up_only(mirror: Mirror) -> None:
    """The sink falls back between the copy's end and the turn: a lane that lags is not reported RUNNING."""

    def write() -> None:
        run(mirror.warehouse, f"UPDATE {TABLE} SET v = 'beside' WHERE id > 90")

    def fall() -> None:
        mirror.at_sink("UPDATE slotkeeper_progress SET state = 'copying'", f"DELETE FROM {TARGET} WHERE id <= 50")

    falling = At("after_commit", fall, nth=1)
    writing = At("before_chunk_commit", write)

    def both(point: str) -> None:
        writing(point)
        falling(point)

    mirror.start(both)
    sink_older(mirror)
    assert falling.done.is_set()


def test_running_is_not_said_of_a_row_that_is_back_before_its_noted_point(mirror: Mirror) -> None:
    """The driver saw the lane beyond that point, and then the sink fell back to a moment in catching up."""
    mirror.start().wait_running().wait_equal()
    mirror.stop()
    mirror.at_sink("UPDATE slotkeeper_progress SET state = 'catching up', noted_end = noted_end || '000000'")
    rows = mirror.rows()
    with closing(worker.open_progress(mirror.job, "test", worker.who(mirror.job, "test"))) as progress:
        turn = Turn(rows[0].epoch, len(rows), (LaneState.CATCHING_UP,), LaneState.RUNNING)
        with pytest.raises(Trouble, match="but was already beyond") as raised:
            progress.set_state(turn)
    assert raised.value.name is TroubleName.SINK_OLDER
    assert {row.state for row in mirror.rows()} == {LaneState.CATCHING_UP}


def test_running_is_reached_from_copying_without_a_stream_only(mirror: Mirror) -> None:
    """A streaming job gets `binlog = false`: the copy would mark rows as caught up that are not."""
    replacing(mirror).start().wait_running().wait_equal()
    mirror.stop()
    states = {row.key.shard: row.state for row in mirror.rows()}
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, binlog=False))
    error = mirror.start().wait_error(30)
    assert isinstance(error, Refused)
    assert "the progress rows belong to a streaming job" in error.message
    assert {row.key.shard: row.state for row in mirror.rows()} == states


SLOW = "CHECK (mart.slow(id))"
SLEEPS = (
    "CREATE FUNCTION mart.slow(id bigint) RETURNS boolean LANGUAGE sql SET search_path = pg_catalog"
    " AS 'SELECT true FROM pg_sleep(0.012)'"
)


@pytest.mark.parametrize("way", ["a chunk", "the exchange"])
def test_a_copy_may_take_longer_than_the_sessions_limit(
    mirror: Mirror, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETTINGS, "statement_timeout", "600ms")
    rows = 50 if way == "a chunk" else 100
    run(mirror.warehouse, f"DELETE FROM {TABLE} WHERE id > {rows}")
    mirror.at_sink("CREATE SCHEMA mart", SLEEPS, f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v text)")
    if way == "the exchange":
        mirror.at_sink(f"INSERT INTO {TARGET} VALUES (-5, 'not in the source')")
    mirror.at_sink(f"ALTER TABLE {TARGET} ADD {SLOW}")
    mirror.job = replace(mirror.job, on_existing="replace", channels=(ChannelSpec(TABLE, TARGET),))
    mirror.start().wait_running().wait_equal()
    mirror.stop()


@pytest.mark.chaos
@pytest.mark.parametrize("way", ["a chunk", "the exchange"])
def test_a_copy_that_takes_too_long_says_which_limit_to_raise(
    mirror: Mirror, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotkeeper.core.sinks.postgres.session.COPY_LIMIT_MS", 100)
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, full_sync_binlog_read_timeout=100))
    replacing(mirror)
    if way == "a chunk":
        mirror.at_sink(f"DELETE FROM {TARGET}")
    mirror.at_sink(SLEEPS, f"ALTER TABLE {TARGET} ADD {SLOW} NOT VALID")
    error = mirror.start().wait_error(30)
    assert isinstance(error, TooLarge)
    assert "full_sync_binlog_read_timeout" in error.hint


def exchanging(mirror: Mirror) -> pg.Connection:
    """Start a replacing copy whose exchange waits for the reader that is returned."""
    replacing(mirror)
    reader = mirror.sink_server.connect(mirror.sink_database, autocommit=False)
    with reader.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {TARGET}")
    mirror.start()
    until(lambda: waiting(mirror), 30, "the exchange to wait for the target")
    return reader


def waiting(mirror: Mirror) -> bool:
    """Whether a session waits for a lock on the target."""
    statement = f"SELECT 1 FROM pg_locks WHERE relation = '{TARGET}'::regclass AND NOT granted"
    assert not mirror.ended(), mirror.error
    return bool(mirror.query(mirror.sink, statement))


def test_an_exchange_that_takes_longer_than_the_ttl_loses_no_slot(mirror: Mirror) -> None:
    mirror.keepalive = 0.2
    with closing(exchanging(mirror)) as reader:
        ttl = 8  # on a busy host a driver can wait for seconds, which this test does not check
        run(mirror.warehouse, f"UPDATE dws.tab SET ttl_s = {ttl}", "CREATE TABLE moment AS SELECT clock_timestamp() t")
        past = f"SELECT clock_timestamp() - t > interval '{ttl} s 200 ms' FROM moment"
        until(lambda: mirror.query(mirror.warehouse.connect, past)[0][0], 20, "the TTL to be over")
        assert waiting(mirror), "only the reader ends the exchange"
        reader.rollback()
    mirror.wait_running().wait_equal()
    mirror.stop()


@pytest.mark.parametrize("wanted", [WantedState.STOP, pytest.param(WantedState.PAUSE, marks=pytest.mark.chaos)])
def test_a_wish_during_the_exchange_takes_it_back_and_it_is_made_again(mirror: Mirror, wanted: WantedState) -> None:
    mirror.keepalive = 0.2
    with closing(exchanging(mirror)) as reader:
        mirror.wanted = wanted
        if wanted is WantedState.STOP:
            until(mirror.ended, 9, "the job to end although the exchange waits")
            assert (mirror.error, mirror.end) == (None, JobEnd.STOPPED)
        else:
            mirror.pause(9)
        until(lambda: not mirror.query(mirror.sink, "SELECT 1 FROM pg_locks WHERE NOT granted"), 9, "it to be over")
        assert len(mirror.target_rows()) == 2, "the old content remains until the new content is complete"
        reader.rollback()
    if wanted is WantedState.STOP:
        mirror.start()
    else:
        mirror.wanted = WantedState.RUN
    mirror.wait_running().wait_equal()
    mirror.stop()


@pytest.mark.chaos
def test_an_exchange_whose_session_ends_is_made_again(mirror: Mirror) -> None:
    with closing(exchanging(mirror)) as reader:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'mart.t'::regclass AND NOT granted"
        assert mirror.query(mirror.sink, ended) == [(True,)]
        until(lambda: mirror.heard.retries, 20, "the end of the copy to be tried again")
        assert len(mirror.target_rows()) == 2
        reader.rollback()
    mirror.wait_running().wait_equal()
    mirror.stop()


def test_a_slot_that_is_lost_during_the_exchange_leaves_the_old_content(mirror: Mirror) -> None:
    mirror.keepalive = 0.2
    with closing(exchanging(mirror)) as reader:
        run(mirror.warehouse, f"SELECT pgxc_binlog_clear_target_slot('{TABLE}', '{mirror.job.slot}')")
        error = mirror.wait_error(20)
        assert isinstance(error, Trouble)
        assert error.name is TroubleName.SLOT_LOST
        until(lambda: not mirror.query(mirror.sink, "SELECT 1 FROM pg_locks WHERE NOT granted"), 9, "it to be over")
        assert len(mirror.target_rows()) == 2
        reader.rollback()
