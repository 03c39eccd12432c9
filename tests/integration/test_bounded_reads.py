"""The vendor's changes function may materialize its whole range: no read requests more than a step's width."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.sources.dws.position import DwsPosition, ours
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.dws.source import DwsSource
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import FAST, MakeMirror, Mirror
from tests.support.standin import MakeWarehouse, run
from tests.support.waiting import until

TABLE = "ods.t"
WIDTH = 50
ASKED = WIDTH + 2
"""One point more on each side than requested (ADR 9)."""


def raced(warehouse: Warehouse, points: int) -> None:
    """The cluster's newest point advances with the transactions of other tables."""
    run(warehouse, f"SELECT count(nextval('dws.csn')) FROM generate_series(1, {points})")


def wrote(warehouse: Warehouse, first: int, count: int) -> None:
    """Write each row in its own transaction, which has its own point."""
    run(warehouse, *(f"INSERT INTO {TABLE} VALUES ({n}, 'x')" for n in range(first, first + count)))


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    made = make_mirror(warehouse, TABLE)
    made.job = replace(made.job, binlog=replace(FAST, binlog_sync_point_size=WIDTH))
    return made


def test_a_job_that_comes_back_to_a_backlog_asks_for_no_more_than_a_width_at_once(mirror: Mirror) -> None:
    warehouse = mirror.warehouse
    mirror.start().wait_running()
    mirror.stop()
    wrote(warehouse, 1, 8 * WIDTH)
    warehouse.note_readings()
    mirror.start().wait_running()
    mirror.wait_equal()
    calls, widest, rows = warehouse.readings()
    assert calls > 0 and widest <= ASKED, "the backlog is read in ranges"
    assert rows <= ASKED
    mirror.stop()


def test_an_idle_table_of_a_busy_cluster_moves_on_by_few_questions(mirror: Mirror) -> None:
    warehouse, ahead = mirror.warehouse, 400 * WIDTH
    mirror.start().wait_running()
    warehouse.note_readings()
    began = max(row.position.pair[0] for row in mirror.rows() if row.position)
    raced(warehouse, ahead)
    until(
        lambda: all(row.position and row.position.pair[0] >= began + ahead for row in mirror.rows()),
        30,
        "every lane to have moved over the empty range",
    )
    calls, widest, _ = warehouse.readings()
    assert widest <= ASKED
    assert calls < ahead / WIDTH, "fewer than one query for each width of an empty range"
    wrote(warehouse, 1, 20)
    mirror.wait_equal()
    mirror.stop()


@pytest.mark.parametrize(
    "switches",
    [
        Switches(),
        pytest.param(
            Switches(start_inclusive=False, end_inclusive=True, latest_inclusive=True), marks=pytest.mark.chaos
        ),
    ],
    ids=["as documented", "other bounds"],
)
def test_one_row_is_found_and_nothing_else_however_far_it_lies(
    make_warehouse: MakeWarehouse, switches: Switches
) -> None:
    warehouse = make_warehouse(4, switches)
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    run(warehouse, f"SELECT pgxc_register_full_sync_point('{TABLE}', 's')")
    session = DwsSession(warehouse.endpoint(), warehouse.etl_password_file.read_text("utf-8").strip(), "test")
    source = DwsSource(session, TABLE, "s", BinlogOptions(binlog=True, binlog_sync_point_size=WIDTH))
    source.identify()
    warehouse.note_readings()
    after = min(ours(status.latest) for status in source.read_status(None)).from_here
    for n, distance in enumerate((1, WIDTH - 1, WIDTH, WIDTH + 1, 2 * WIDTH, 30 * WIDTH + 7)):
        raced(warehouse, distance)
        wrote(warehouse, n, 1)
        raced(warehouse, 3 * WIDTH)
        ((point, home),) = found(warehouse, after)
        for status in source.read_status(None):
            here = status.shard.name == home
            assert source.has_changes(status.shard, after, status.latest) is here
            assert source.has_changes(status.shard, after, DwsPosition(point)) is here
            assert not source.has_changes(status.shard, after, DwsPosition(point - 1))
            assert not source.has_changes(status.shard, DwsPosition(point, 10**9), status.latest)
        after = DwsPosition(point, 10**9)
    assert warehouse.readings()[1] <= ASKED
    source.session.close()


def found(warehouse: Warehouse, after: DwsPosition) -> list[tuple[int, str]]:
    """(point, DN) of every record after a position, read from the store directly."""
    connection = warehouse.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT '{TABLE}'::regclass::oid")
            ((rel,),) = cursor.fetchall()
            cursor.execute(
                f"SELECT x.csn, n.node_name FROM dws.binlog_tx x JOIN dws.b_{rel} b ON b.xid = x.xid"
                " JOIN dws.node n ON n.ord = b.dn WHERE x.csn > %s",
                (after.point,),
            )
            return cursor.fetchall()
    finally:
        connection.close()
