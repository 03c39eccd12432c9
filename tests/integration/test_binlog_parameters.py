"""The effect of the binlog's parameters on a running job; tests/unit/config tests how they are read."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.spec import TableAsked
from slotkeeper.core.drivers import pg, pipe
from slotkeeper.core.engine.driver.job import JobEnd
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.services.doctor import check_source
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.dws.source import DwsSource
from slotkeeper.core.wiring.worker import open_source, source_session
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.standin import MakeWarehouse
from tests.support.waiting import until

TABLE = "ods.orders"


def _mirror(warehouse: Warehouse, make_mirror: MakeMirror, **binlog: object) -> Mirror:
    warehouse.create_table(TABLE, "id bigint, note text", ("id",))
    made = make_mirror(warehouse, TABLE)
    made.job = replace(made.job, binlog=replace(made.job.binlog, **binlog))  # type: ignore[arg-type]
    made.source(f"INSERT INTO {TABLE} SELECT n, 'row' FROM generate_series(1, 100) n")
    return made


def test_binlog_false_is_one_full_copy_and_no_slot(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = _mirror(warehouse, make_mirror, binlog=False)
    mirror.start().join()
    assert mirror.end is JobEnd.FINISHED and mirror.difference() == (0, 0)
    assert mirror.query(warehouse.connect, "SELECT FROM dws.slot") == []


def test_binlog_slot_name_is_the_slot_that_is_made(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = _mirror(warehouse, make_mirror)
    text = job("j", "x", TABLE, "mart.orders").replace('slot = "x"\n', "") + 'binlog_slot_name = "theirs"\n'
    loaded = load(config(tmp_path, mirror.job.source, mirror.job.sink, text), {})
    mirror.job = replace(mirror.job, slot=loaded.jobs["j"].slot)
    mirror.start().wait_running().stop()
    assert mirror.query(warehouse.connect, "SELECT DISTINCT slot_name FROM dws.slot") == [("theirs",)]


def test_binlog_batch_read_size_is_what_a_cursor_fetches(
    warehouse: Warehouse, make_mirror: MakeMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise Refused("COPY is not there", code="0A000")

    fetched: list[int] = []
    whole_line = pipe.copy_line

    def counted(row: tuple[object, ...]) -> bytes:
        fetched.append(1)
        return whole_line(row)

    monkeypatch.setattr(DwsSession, "copy_out", refuse)
    monkeypatch.setattr(pipe, "copy_line", counted)
    mirror = _mirror(warehouse, make_mirror, binlog_batch_read_size=7, full_sync_binlog_batch_read_size=30)
    batches: list[int] = []
    whole = DwsSession.cursor_out

    def seen(self: DwsSession, statement: Any, out: Any, limit_ms: int, batch: int) -> int:
        batches.append(batch)
        return whole(self, statement, out, limit_ms, batch)

    monkeypatch.setattr(DwsSession, "cursor_out", seen)
    mirror.start().wait_running()
    assert set(batches) == {30}
    batches.clear()
    mirror.source(f"UPDATE {TABLE} SET note = 'new'")
    mirror.wait_equal()
    mirror.stop()
    assert set(batches) == {7} and len(fetched) == 100 + 200


def test_full_sync_binlog_batch_read_size_is_the_size_of_a_chunk(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = _mirror(warehouse, make_mirror, full_sync_binlog_batch_read_size=30)
    mirror.start().wait_running().stop()
    assert mirror.query(mirror.sink, "SELECT rows FROM slotkeeper_chunks ORDER BY number") == [
        (30,),
        (30,),
        (30,),
        (10,),
    ]


def _late(read: Callable[[], object], least: float, most: float) -> None:
    began = time.monotonic()
    with pytest.raises(SlotkeeperError) as failed:
        read()
    assert failed.value.code == "57014" and least <= time.monotonic() - began < most


def test_binlog_read_timeout_ends_a_read_that_hangs(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = _mirror(warehouse, make_mirror, binlog_read_timeout=400)
    mirror.start().wait_running().stop()
    session = source_session(mirror.job, "test")
    source = session.table(TableAsked.of(mirror.job)).source
    (shard, *_), latest = source.nodes(), source.read_status(None)[0].latest
    warehouse.dn_hanging(shard.name)
    _late(lambda: source.copy_changes(shard, DwsPosition(0), latest, io.BytesIO()), 0.3, 60.0)
    warehouse.dn_hanging(None)
    session.close()


def test_full_sync_binlog_read_timeout_ends_a_copy_that_hangs(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = _mirror(warehouse, make_mirror, full_sync_binlog_read_timeout=400)
    session = source_session(mirror.job, "test")
    source = session.table(TableAsked.of(mirror.job)).source
    (chunk,) = source.plan_chunks(500)
    locker = warehouse.connect(False)
    with pg.transaction(locker) as cursor:
        cursor.execute(f"LOCK TABLE {TABLE}")
        _late(lambda: source.copy_chunk(chunk, io.BytesIO()), 0.3, 60.0)
    locker.close()
    session.close()


def test_connection_socket_timeout_bounds_every_answer(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = _mirror(warehouse, make_mirror, connection_socket_timeout=300)
    source = source_session(mirror.job, "test").table(TableAsked.of(mirror.job)).source
    assert isinstance(source, DwsSource)
    session = source.session
    _late(lambda: session.composed_rows(pg.sql.SQL("SELECT pg_sleep(300)"), None, 200_000), 0.2, 60.0)
    session.close()


def test_binlog_sync_point_size_is_the_width_of_a_range(
    warehouse: Warehouse, make_mirror: MakeMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges: list[int] = []
    whole = DwsSource.copy_changes

    def seen(self: DwsSource, shard: Any, after: DwsPosition, up_to: DwsPosition, out: Any) -> int:
        ranges.append(up_to.point - after.point)
        return whole(self, shard, after, up_to, out)

    monkeypatch.setattr(DwsSource, "copy_changes", seen)
    mirror = _mirror(warehouse, make_mirror, binlog_sync_point_size=5)
    mirror.start().wait_running()
    for number in range(30):
        mirror.source(f"UPDATE {TABLE} SET note = 'n{number}' WHERE id = {number}")
    mirror.wait_equal()
    mirror.stop()
    assert 0 < max(ranges) <= 5


@pytest.mark.parametrize(("sleep", "most", "statuses_seen"), [(20, 20, 40), (400, 400, 4)])
def test_binlog_sleep_time_and_binlog_max_sleep_time_pace_an_idle_job(
    warehouse: Warehouse,
    make_mirror: MakeMirror,
    monkeypatch: pytest.MonkeyPatch,
    sleep: int,
    most: int,
    statuses_seen: int,
) -> None:
    """At least this number of checks take their pauses; a busy host makes them longer, never shorter."""
    statuses: list[float] = []
    whole = DwsSource.read_status
    mirror = _mirror(warehouse, make_mirror, binlog_sleep_time=sleep, binlog_max_sleep_time=most)
    mirror.keepalive = 600.0
    mirror.start().wait_running()

    def seen(self: DwsSource, shard: Any) -> Any:
        statuses.append(time.monotonic())
        return whole(self, shard)

    monkeypatch.setattr(DwsSource, "read_status", seen)
    until(lambda: len(statuses) >= statuses_seen, 30, "the job to look")
    took = statuses[statuses_seen - 1] - statuses[0]
    mirror.stop()
    assert took >= 0.5 * (statuses_seen - 1) * sleep / 1000


@pytest.mark.parametrize("new", [True, False])
def test_new_system_value_names_the_columns_that_are_read(
    make_warehouse: MakeWarehouse, make_mirror: MakeMirror, tmp_path: Path, new: bool
) -> None:
    mirror = _mirror(make_warehouse(switches=Switches(new_system_names=new)), make_mirror, new_system_value=new)
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET note = 'new'")
    mirror.wait_equal()
    mirror.stop()
    wrong = replace(mirror.job, binlog=replace(mirror.job.binlog, new_system_value=not new))
    said, cure = (
        f"new_system_value = {str(not new).lower()} does not match",
        f"set new_system_value = {str(new).lower()}",
    )
    # a first start, before it makes anything
    with open_source(wrong, "test") as first, pytest.raises(Refused, match=said) as caught:
        first.admit()
    assert caught.value.hint.startswith(cure)
    written = job("orders", "slot1", TABLE, "mart.orders") + f"new_system_value = {str(not new).lower()}\n"
    loaded = load(config(tmp_path, mirror.job.source, mirror.job.sink, written), {})
    (told,) = [one for one in check_source(loaded, loaded.sources["dws1"]) if said in one.text]
    assert told.level is Level.FAIL and cure in told.text
    mirror.job = wrong
    mirror.start()
    mirror.source(f"UPDATE {TABLE} SET note = 'newer'")
    error = mirror.wait_error()
    assert isinstance(error, Refused) and said in error.message and error.hint.startswith(cure)
    assert not mirror.heard.retries, "reported at once and not retried"


class Together:
    """A probe that counts how many tasks are between two of its points at once."""

    def __init__(self) -> None:
        self.most = 0
        self._inside: set[int] = set()
        self._lock = threading.Lock()
        self._gate = threading.Event()

    def __call__(self, point: str) -> None:
        me = threading.get_ident()
        with self._lock:
            if point == "after_status":
                self._inside.add(me)
                self.most = max(self.most, len(self._inside))
            elif point in ("after_commit", "after_recheck"):
                self._inside.discard(me)
        if point == "after_status":
            self._gate.wait(0.3)


@pytest.mark.parametrize("size", [2, 5])
def test_connection_pool_size_bounds_the_tasks_that_read_at_once(
    warehouse: Warehouse, make_mirror: MakeMirror, size: int
) -> None:
    mirror = _mirror(warehouse, make_mirror, connection_pool_size=size)
    mirror.start().wait_running()
    together = entries.probe = Together()
    for _ in range(3):
        mirror.source(f"UPDATE {TABLE} SET note = note || '.'")
    mirror.wait_equal()
    mirror.stop()
    assert together.most <= 2 if size == 2 else together.most > 2


@pytest.mark.parametrize("full_images", [True, False])
def test_binlog_ignore_update_before_leaves_b_rows_at_the_server(
    make_warehouse: MakeWarehouse, make_mirror: MakeMirror, full_images: bool
) -> None:
    warehouse = make_warehouse(switches=Switches(full_old_images=full_images))
    mirror = _mirror(warehouse, make_mirror, binlog_ignore_update_before=True)
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET note = 'new'", f"DELETE FROM {TABLE} WHERE id <= 10")
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'again')")
    mirror.wait_equal()
    mirror.stop()
    assert sum(mirror.changes().values()) == 100 + 10 + 1  # 211 with the B rows


def test_a_changed_key_would_leave_its_old_row_behind(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    """The reason that the configuration demands the promise `keys_never_change`."""
    warehouse.create_table(TABLE, "id bigint, part bigint", ("id", "part"), ("id",))
    mirror = make_mirror(warehouse, TABLE)
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, binlog_ignore_update_before=True))
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 1)")
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET part = 2")
    until(lambda: len(mirror.target_rows()) == 2, 30, "both rows")
    mirror.stop()
