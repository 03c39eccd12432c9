"""Slots are kept alive while a job is paused or its start waits, and a recreated slot does not have its age checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.errors import AccessRefused, Refused, TooLarge, Trouble, TroubleName
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.core.sources.dws.source import DwsSource
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import FAST, At, MakeMirror, Mirror
from tests.support.resetting import SNAPSHOT, Resetting
from tests.support.standin import run
from tests.support.waiting import until

TABLE = "ods.t"
AGED = "UPDATE slotkeeper_progress SET registered_at = registered_at - interval '2 days'"


def made(warehouse: Warehouse, make_mirror: MakeMirror, timestamp: bool = False) -> Mirror:
    """A table of 20 rows whose slots are kept alive every half second."""
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",), timestamp=timestamp)
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'old' FROM generate_series(1, 20) n")
    mirror = make_mirror(warehouse, TABLE, "mart.t")
    mirror.job = replace(mirror.job, on_existing="replace")
    mirror.keepalive = 0.5
    return mirror


def registered(mirror: Mirror) -> float:
    """The time of the oldest registration among the table's lanes, in seconds of the server's clock."""
    statement = f"SELECT min(extract(epoch FROM sync_timestamp)) FROM dws.slot WHERE rel = '{TABLE}'::regclass"
    return float(mirror.query(mirror.warehouse.connect, statement)[0][0])


def kept_alive(mirror: Mirror) -> None:
    """Wait until every lane of the table is registered twice more."""
    for _ in range(2):
        before = registered(mirror)
        until(lambda then=before: registered(mirror) > then, 20, "the slot to be registered again")  # type: ignore[misc]


def test_a_paused_job_asks_for_no_rows_and_keeps_its_slot_alive(
    warehouse: Warehouse, make_mirror: MakeMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query for rows can fail for long (a large transaction, a full disk): neither slot nor job ends."""
    mirror = made(warehouse, make_mirror)
    mirror.start().wait_running()
    mirror.pause()

    def fails(self: DwsSource, shard: Shard, after: DwsPosition, up_to: int) -> bool:
        raise TooLarge("temporary file size exceeds temp_file_limit", code="53400", where="source")

    monkeypatch.setattr(DwsSource, "has_changes", fails)
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'new' FROM generate_series(100, 140) n")
    kept_alive(mirror)
    assert not mirror.ended(), mirror.error


@pytest.mark.parametrize("paused", [False, True])
def test_channels_that_run_are_kept_alive_while_the_start_of_another_waits(
    warehouse: Warehouse, make_mirror: MakeMirror, paused: bool
) -> None:
    mirror = made(warehouse, make_mirror)
    mirror.start().wait_running()
    mirror.stop()
    warehouse.create_table("ods.u", "id bigint NOT NULL", ("id",))
    added = ChannelSpec("ods.u", "mart.u", create_target=True)
    mirror.job = replace(mirror.job, channels=(*mirror.job.channels, added))
    waited_for = warehouse.connect(False)
    with waited_for.cursor() as cursor:
        cursor.execute("INSERT INTO ods.u VALUES (1)")
    mirror.start()
    until(lambda: any("waiting" in one for one in mirror.heard.retries), 20, "the start to wait")
    if paused:
        mirror.pause()
    kept_alive(mirror)
    waited_for.rollback()
    waited_for.close()


def test_a_reset_to_snapshot_is_the_way_out_of_a_slot_lost_by_its_age(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = made(warehouse, make_mirror, timestamp=True)
    mirror.start().wait_running()
    mirror.stop()
    mirror.at_sink(AGED)
    error = mirror.start().wait_error()
    assert isinstance(error, Trouble)
    assert error.name is TroubleName.SLOT_LOST
    Resetting(mirror, tmp_path / "state").reset(SNAPSHOT)
    mirror.start().wait_running().wait_equal()


def test_row_security_that_comes_during_the_copy_ends_the_job(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = made(warehouse, make_mirror)
    mirror.job = replace(mirror.job, binlog=replace(FAST, full_sync_binlog_batch_read_size=5))
    mirror.capacity = 1
    mirror.start(At("before_chunk_commit", lambda: run(warehouse, f"ALTER TABLE {TABLE} ENABLE ROW LEVEL SECURITY")))
    error = mirror.wait_error()
    assert isinstance(error, AccessRefused | Refused), error
    assert "row" in str(error)
