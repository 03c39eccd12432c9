"""Jobs that start without a copy: at the newest point, at a time, at a point per DN; and their refusals."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Busy, Refused, Trouble, TroubleName
from slotkeeper.core.services.verify import verify
from slotkeeper.demo import facts
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.spoiled import HSTORE
from tests.support.standin import MakeWarehouse, Surface, run
from tests.support.waiting import until

TABLE, TARGET = "ods.orders", "mart.orders"


def _mirror(warehouse: Warehouse, make_mirror: MakeMirror, timestamp: bool = False, ttl_s: int = 86_400) -> Mirror:
    warehouse.create_table(TABLE, "id bigint, note text", ("id",), timestamp=timestamp, ttl_s=ttl_s)
    return make_mirror(warehouse, TABLE)


def _starts(mirror: Mirror, start: str) -> Mirror:
    mirror.job = replace(mirror.job, start=start)
    return mirror.start()


def _notes(mirror: Mirror) -> list[str]:
    return sorted(str(row[0]) for row in mirror.query(mirror.sink, f"SELECT note FROM {TARGET}"))


def _refused(mirror: Mirror, start: str) -> Refused:
    error = _starts(mirror, start).wait_error()
    assert isinstance(error, Refused), error
    assert mirror.query(mirror.sink, "SELECT FROM slotkeeper_progress") == []
    assert mirror.query(mirror.warehouse.connect, f"SELECT FROM dws.slot WHERE slot_name = '{mirror.job.slot}'") == []
    return error


@pytest.mark.parametrize("switches", [Switches(), Switches(auto_create=False, latest_inclusive=True)])
def test_latest_takes_only_what_comes_and_leaves_the_target_as_it_is(
    make_warehouse: MakeWarehouse, make_mirror: MakeMirror, switches: Switches
) -> None:
    mirror = _mirror(make_warehouse(switches=switches), make_mirror)
    mirror.source(f"INSERT INTO {TABLE} SELECT n, 'old' FROM generate_series(1, 50) n")
    mirror.at_sink("CREATE SCHEMA mart", f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, note text)")
    mirror.at_sink(f"INSERT INTO {TARGET} SELECT n, 'by another tool' FROM generate_series(1, 50) n")
    _starts(mirror, "latest").wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (51, 'new')", f"UPDATE {TABLE} SET note = 'new' WHERE id = 1")
    until(lambda: _notes(mirror).count("new") == 2, 30, "both changes")
    assert _notes(mirror).count("by another tool") == 49
    assert JobEvent.COPY_BEGAN not in mirror.heard.events
    mirror.stop()
    mirror.source(f"DELETE FROM {TABLE} WHERE id = 2")
    _starts(mirror, "latest").wait_running()
    until(lambda: len(_notes(mirror)) == 50, 30, "the delete of the time in between")
    mirror.stop()


def test_latest_waits_for_transactions_whose_rows_are_not_recorded(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = _mirror(warehouse, make_mirror)
    writer = warehouse.connect(False)
    with pg.transaction(writer) as cursor:
        cursor.execute(f"INSERT INTO {TABLE} VALUES (1, 'not recorded')")
        _starts(mirror, "latest")
        until(lambda: any("waiting for transactions" in text for text in mirror.heard.retries), 30, "the wait")
        assert mirror.heard.state is None
        cursor.execute(f"INSERT INTO {TABLE} VALUES (2, 'recorded, and before the start all the same')")
    writer.close()
    mirror.wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (3, 'after')")
    until(lambda: "after" in _notes(mirror), 30, "what came after")
    assert _notes(mirror) == ["after"]
    mirror.stop()


@pytest.mark.parametrize("auto_create", [True, False])
def test_latest_is_not_begun_where_a_dn_was_left_out(
    make_warehouse: MakeWarehouse, make_mirror: MakeMirror, auto_create: bool
) -> None:
    warehouse = make_warehouse(switches=Switches(auto_create=auto_create))
    mirror = _mirror(warehouse, make_mirror)
    warehouse.partial_registration("dn_3", 2)  # both calls of the first attempt
    _starts(mirror, "latest")
    until(
        lambda: any("dn_3: DWS did not set the full-sync point" in text for text in mirror.heard.retries), 30, "the try"
    )
    mirror.wait_running()
    mirror.source(f"INSERT INTO {TABLE} SELECT n, 'new' FROM generate_series(1, 40) n")
    until(lambda: len(_notes(mirror)) == 40, 30, "the changes of every DN")
    mirror.stop()


def test_an_interrupted_start_at_latest_starts_over(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = _mirror(warehouse, make_mirror)

    def die() -> None:
        raise KeyboardInterrupt

    mirror.job = replace(mirror.job, start="latest")
    mirror.start(driver_probe=At("after_first_registration", die)).join()
    assert isinstance(mirror.error, KeyboardInterrupt)
    mirror.start().wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'new')")
    until(lambda: _notes(mirror) == ["new"], 30, "the change")
    mirror.stop()


def _recorded(warehouse: Warehouse, texts: list[str]) -> list[datetime]:
    """Rows with these notes, in separate transactions, recorded for another slot; the time before each."""
    other = Surface(warehouse)
    other.start(TABLE, "elsewhere")
    other.close()
    times = []
    for number, text in enumerate(texts):
        connection = warehouse.connect()
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            times.append(cursor.fetchall()[0][0])
            cursor.execute(f"INSERT INTO {TABLE} VALUES (%s, %s)", (number, text))
        connection.close()
    return times


def test_a_time_takes_everything_from_then_on_and_is_not_verified(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = _mirror(warehouse, make_mirror, timestamp=True)
    times = _recorded(warehouse, ["a", "b", "c", "d", "e", "f"])
    _starts(mirror, times[3].isoformat()).wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (99, 'later')")
    wanted = ["d", "e", "f", "later"]
    until(lambda: len(_notes(mirror)) >= len(wanted), 30, "the changes of every DN")
    assert _notes(mirror) == wanted
    mirror.stop()
    with pytest.raises(Refused, match="contains only the changes since the start") as refused:
        verify(mirror.job, False, lambda *_: None)
    assert "initial" in refused.value.hint


def test_after_a_start_at_a_time_a_slow_dn_brings_its_share_later_than_the_others(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    """d and e lie on dn_4, f on dn_1, the last on dn_3: nothing is promised about the order between DNs."""
    mirror = _mirror(warehouse, make_mirror, timestamp=True)
    times = _recorded(warehouse, ["a", "b", "c", "d", "e", "f"])
    mirror.at_sink("CREATE SCHEMA mart", f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, note text)")
    quarantined = mirror.sink_server.connect(mirror.sink_database, False)
    with quarantined.cursor() as cursor:
        cursor.execute(f"INSERT INTO {TARGET} VALUES (3, 'held')")  # a session that writes d waits for this session
    _starts(mirror, times[3].isoformat()).wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (99, 'later')")
    until(lambda: _notes(mirror) == ["f", "later"], 30, "the other DNs")
    quarantined.close()
    until(lambda: _notes(mirror) == ["d", "e", "f", "later"], 30, "the slow DN")
    mirror.stop()


def _overtaken(warehouse: Warehouse, *first: str) -> tuple[datetime, pg.Connection]:
    """Keys 0, 3 and 4 lie on dn_4, 1 on dn_3. A record of an earlier time gets its point after that of key 3; `first`
    are statements of a transaction that began before the returned time and is still open.
    """
    _recorded(warehouse, ["old"])
    earlier, writer = warehouse.connect(False), warehouse.connect(False)
    with earlier.cursor() as old, writer.cursor() as cursor:
        for statement in first:
            old.execute(statement)
        cursor.execute("SELECT clock_timestamp()")
        at = cursor.fetchall()[0][0]
        cursor.execute(f"INSERT INTO {TABLE} VALUES (4, 'written first, committed last')")
        run(warehouse, f"INSERT INTO {TABLE} VALUES (3, 'written last, committed first')")
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    writer.commit()
    writer.close()
    return at, earlier


def test_a_time_takes_what_was_written_later_and_committed_earlier_than_the_first_record_of_that_time(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    """dn_3 has no record of that time, but one after the point: no xmin is newer than its DN's first record."""
    mirror = _mirror(warehouse, make_mirror, timestamp=True)
    at, earlier = _overtaken(warehouse, f"INSERT INTO {TABLE} VALUES (1, 'before')")
    earlier.commit()
    earlier.close()
    warehouse.time_cursor_by_time()
    seen: list[tuple[int, int]] = []

    def read_xmins() -> None:
        seen.extend(
            mirror.query(
                warehouse.connect,
                "SELECT s.oldest_xmin, c.binlog_xmin FROM dws.slot s JOIN dws.node n ON n.ord = s.dn"
                f" JOIN pgxc_get_binlog_cursor_by_syncpoint('{TABLE}', s.sync_point, 0) c USING (node_name)"
                f" WHERE s.slot_name = '{mirror.job.slot}' AND c.binlog_xmin IS NOT NULL",
            )
        )

    mirror.job = replace(mirror.job, start=at.isoformat())
    mirror.start(driver_probe=At("after_first_registration", read_xmins)).wait_running()
    assert len(seen) == 4 and all(registered <= record for registered, record in seen), seen
    until(lambda: len(_notes(mirror)) == 3, 30, "every change since")
    assert _notes(mirror) == ["before", "written first, committed last", "written last, committed first"]
    mirror.stop()


def test_a_time_takes_a_change_whose_point_is_given_and_whose_commit_does_not_show_yet(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    """No vendor page states that the cursor by time omits changes beyond a transaction that is about to commit."""
    mirror = _mirror(warehouse, make_mirror, timestamp=True)
    warehouse.time_cursor_by_time()
    times = _recorded(warehouse, ["old"])
    writer = warehouse.connect(False)
    with writer.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        times = [row[0] for row in cursor.fetchall()]
        cursor.execute(f"INSERT INTO {TABLE} VALUES (3, 'committing')")
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # its point is assigned here
    run(warehouse, f"INSERT INTO {TABLE} VALUES (1, 'committed')")
    _starts(mirror, times[0].isoformat()).wait_running()
    writer.commit()
    writer.close()
    mirror.source(f"INSERT INTO {TABLE} VALUES (99, 'later')")
    until(lambda: len(_notes(mirror)) == 3, 30, "every change since")
    assert _notes(mirror) == ["committed", "committing", "later"]
    mirror.stop()


def test_binlog_start_time_is_the_start_in_utc_and_after_the_last_record_it_is_latest(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = _mirror(warehouse, make_mirror, timestamp=True)
    _recorded(warehouse, ["a"])
    mirror.source("SELECT pg_sleep(1.1)")  # the documented format has whole seconds
    written = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S}"
    text = job("j", "s", TABLE, TARGET) + f'binlog_start_time = "{written}"\n'
    loaded = load(config(tmp_path, mirror.job.source, mirror.job.sink, text), {})
    assert loaded.jobs["j"].start == f"{written}+00:00"
    _starts(mirror, loaded.jobs["j"].start).wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (99, 'later')")
    until(lambda: _notes(mirror) == ["later"], 30, "the change")
    mirror.stop()


def test_a_time_is_refused_where_it_cannot_be_kept(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = _mirror(warehouse, make_mirror, timestamp=True, ttl_s=600)
    now = datetime.now(timezone.utc)
    assert "has no record" in _refused(mirror, (now - timedelta(seconds=60)).isoformat()).message
    _recorded(warehouse, ["a"])
    assert "is in the future" in _refused(mirror, (now + timedelta(days=1)).isoformat()).message
    error = _refused(mirror, (now - timedelta(seconds=700)).isoformat())
    assert "older than binlog_ttl (600 s)" in error.message and "later time" in error.hint


def test_a_time_needs_a_table_with_binlog_timestamps(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = _mirror(warehouse, make_mirror)
    error = _refused(mirror, datetime.now(timezone.utc).isoformat())
    assert f"{TABLE} has no binlog timestamps" in error.message


def test_a_time_needs_the_system_column_that_carries_it(make_warehouse: MakeWarehouse, make_mirror: MakeMirror) -> None:
    mirror = _mirror(make_warehouse(switches=Switches(new_system_names=False)), make_mirror, timestamp=True)
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, new_system_value=False))
    _recorded(mirror.warehouse, ["a"])
    error = _refused(mirror, datetime.now(timezone.utc).isoformat())
    assert "only the new system columns contain a record's time" in error.message and "new_system_value" in error.hint


def test_points_take_what_lies_behind_each(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = _mirror(warehouse, make_mirror)
    _recorded(warehouse, [f"row {n}" for n in range(20)])
    oid = mirror.query(warehouse.connect, f"SELECT '{TABLE}'::regclass::oid")[0][0]
    found = mirror.query(
        warehouse.connect,
        f"SELECT n.node_name, x.csn, b.c2 FROM dws.binlog_tx x JOIN dws.b_{oid} b USING (xid)"
        " JOIN dws.node n ON n.ord = b.dn",
    )
    points = {name: sorted(csn for other, csn, _ in found if other == name)[1] for name, _, _ in found}
    expected = sorted(note for name, csn, note in found if csn >= points[name])
    _starts(mirror, ", ".join(f"{name}={point}" for name, point in points.items())).wait_running()
    until(lambda: _notes(mirror) == expected, 30, "what lies behind the points")
    assert 0 < len(expected) < 20
    mirror.stop()


def test_points_are_refused_where_they_cannot_be_kept(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = _mirror(warehouse, make_mirror)
    _recorded(warehouse, [f"row {n}" for n in range(20)])
    names = [name for name, _ in warehouse.nodes()]
    assert (
        "the cluster have different DNs (dn_4, dn_9)"
        in _refused(mirror, "dn_1=10016, dn_2=10016, dn_3=10016, dn_9=10016").message
    )
    beyond = _refused(mirror, ", ".join(f"{name}=99999999" for name in names))
    assert "is after the newest one" in beyond.message
    run(warehouse, "SELECT pgxc_register_full_sync_point('ods.orders', 'elsewhere')")
    warehouse.purge()
    gone = _refused(mirror, ", ".join(f"{name}=10001" for name in names))
    assert "unknown whether the source retains every change from point 10001 on" in gone.message
    assert "or a later point" in gone.hint


def test_records_of_a_table_with_timestamps_go_by_their_own_age(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    """The difference there: a record is retained for the TTL even if every slot has read it, and no longer."""
    mirror = _mirror(warehouse, make_mirror, timestamp=True, ttl_s=600)
    mirror.start().wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'a')")
    mirror.wait_equal()
    mirror.stop()
    oid = mirror.query(warehouse.connect, f"SELECT '{TABLE}'::regclass::oid")[0][0]
    kept = f"SELECT count(*) FROM dws.b_{oid}"
    warehouse.purge()
    assert mirror.query(warehouse.connect, kept) == [(1,)]
    run(warehouse, "UPDATE dws.binlog_tx SET ts_us = ts_us - 700 * 1000000::bigint")
    warehouse.purge()
    assert mirror.query(warehouse.connect, kept) == [(0,)]


def test_a_table_with_timestamps_that_was_left_alone_too_long_is_slot_lost(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = _mirror(warehouse, make_mirror, timestamp=True, ttl_s=600)
    mirror.start().wait_running().stop()
    mirror.at_sink("UPDATE slotkeeper_progress SET registered_at = now() - interval '500 s'")
    mirror.start().wait_running().stop()
    mirror.at_sink("UPDATE slotkeeper_progress SET registered_at = now() - interval '601 s' WHERE shard = 'dn_2'")
    error = mirror.start().wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SLOT_LOST
    assert "the source deletes this table's records after 600 s, even if unread" in error.message


def _short_lived(warehouse: Warehouse, make_mirror: MakeMirror, ttl_s: int = 3) -> Mirror:
    """A table that declares a short TTL for its records; its slot remains, so that only their age shows anything."""
    mirror = _mirror(warehouse, make_mirror, timestamp=True)
    facts.options(warehouse, TABLE, [*HSTORE, "enable_binlog_timestamp=on", f"binlog_ttl={ttl_s}"])
    return mirror


def _is_late(mirror: Mirror) -> None:
    error = mirror.wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SLOT_LOST
    assert "behind, and the source deletes records of this table after 3 s, even if unread" in error.message
    assert mirror.target_rows() == []


def test_a_job_that_is_paused_for_longer_than_records_live_is_slot_lost(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    """The slot's points do not change: only the driver's own checks show for how long the row has been unread."""
    mirror = _short_lived(warehouse, make_mirror)
    mirror.start().wait_running()
    mirror.pause()
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'unread')")
    _is_late(mirror)


def test_a_job_whose_sink_is_busy_for_longer_than_records_live_is_slot_lost_before_it_reads_on(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = _short_lived(warehouse, make_mirror)

    def busy(point: str) -> None:
        if point == "after_recheck":
            raise Busy("the sink is busy", where="sink")

    mirror.start(busy).wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'unread')")
    _is_late(mirror)


def _known(mirror: Mirror) -> bool:
    heard = {lane.key.shard: lane.position for lane in list(mirror.heard.now.values())}
    return heard == {row.key.shard: row.position for row in mirror.rows()}


class Ahead(SystemClock):
    """The real clock, and the seconds that a test sets it forward by."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


def test_a_job_that_keeps_up_outlives_the_ttl_of_its_records(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    """Four times the TTL passes, half of it between two writes, which reach every DN."""
    mirror, clock = _short_lived(warehouse, make_mirror, 600), Ahead()
    mirror.clock = clock
    mirror.start().wait_running()
    for number in range(8):
        mirror.source(f"INSERT INTO {TABLE} SELECT {number * 40} + n, 'read' FROM generate_series(1, 40) n")
        mirror.wait_equal()
        until(lambda: _known(mirror), 30, "the driver to hear of it")
        clock.ahead += 300
    assert mirror.heard.state is LaneState.RUNNING
    mirror.stop()
