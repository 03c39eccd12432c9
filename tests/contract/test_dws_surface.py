"""The contract of the documented binlog calls with default switches; `test_dws_switches.py` covers the switches.

These tests query the stand-in, never a real DWS cluster. `demo/standin` marks the behaviour that is documented only
by example.
"""

from __future__ import annotations

import itertools
import threading
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from slotkeeper.core.drivers import pg
from slotkeeper.demo.warehouse import Warehouse
from tests.support.standin import MakeWarehouse, Surface, run
from tests.support.waiting import until

TABLE = "hstore_binlog_source"
ORDERS = "ods.orders"


@pytest.fixture
def source(warehouse: Warehouse) -> Warehouse:
    """The table of the documented example, and a table with a composite key in a schema."""
    warehouse.create_table(TABLE, "c1 int, c2 int, c3 int", ["c1"], timestamp=True)
    warehouse.create_table(
        ORDERS, "cust bigint, order_no int, amount numeric(10,2), note text", ["cust", "order_no"], ["cust"]
    )
    return warehouse


def kinds(rows: list[tuple[Any, ...]]) -> list[str]:
    return [row[2] for row in rows]


def test_every_documented_call_has_its_documented_columns(source: Warehouse, surface: Surface) -> None:
    point = "node_name node_id last_sync_point latest_sync_point xmin"
    cursor = "node_name node_id latest_sync_point binlog_sync_point binlog_timestamp_us binlog_xmin"
    progress = (
        "node_name node_id slot_name checkpoint latest_consumed_timestamp latest_timestamp "
        "latest_consumed_csn latest_csn unconsumed_binlog_count"
    )
    slots = "node_name slot_name sync_point sync_timestamp oldest_xmin is_checkpoint"
    changes = "gs_binlog_sync_point gs_binlog_event_sequence gs_binlog_event_type gs_binlog_timestamp_us c1 c2 c3"
    for call, columns in {
        f"pgxc_get_binlog_sync_point('{TABLE}', 'slot1', false, 0)": point,
        f"pg_catalog.pgxc_get_binlog_sync_point('{TABLE}', 'slot1', true, 0)": point,
        f"pgxc_get_binlog_changes('{TABLE}', 0, 0, 9999999999)": changes,
        f"pgxc_get_binlog_cursor_by_timestamp('{TABLE}', now(), 0)": cursor,
        f"pgxc_get_binlog_cursor_by_syncpoint('{TABLE}', 10516, 0)": cursor,
        f"pgxc_get_binlog_consume_progress('{TABLE}', 0)": progress,
        f"pgxc_get_binlog_slots('{TABLE}', 0)": slots,
    }.items():
        assert surface.columns(f"SELECT * FROM {call}") == columns.split(), call
    assert surface.value(f"SELECT pgxc_consumed_binlog_records('{TABLE}', 0)") == 1
    assert surface.value(f"SELECT pgxc_register_binlog_sync_point('{TABLE}', 'slot1', 0, 9999999999, false, 100)") == 4
    assert surface.rows(f"SELECT * FROM pg_catalog.pgxc_register_full_sync_point('{TABLE}', 'slot1')") == [(4,)]
    assert surface.value(f"SELECT pgxc_binlog_clear_target_slot('{TABLE}', 'slot1')") == 8


def test_nodes_have_names_types_and_negative_ids(source: Warehouse, surface: Surface) -> None:
    nodes = surface.rows("SELECT node_name, node_id FROM pg_catalog.pgxc_node WHERE node_type = 'D'")
    assert sorted(nodes) == sorted(source.nodes())
    assert any(node < 0 for _, node in nodes) and any(node > 0 for _, node in nodes)
    assert surface.value("SELECT count(*) FROM pgxc_node WHERE node_type = 'C'") == 1
    assert "not GaussDB(DWS)" in surface.value("SELECT dws.label()")


def test_the_documented_example(make_warehouse: MakeWarehouse) -> None:
    source = make_warehouse(dns=2)
    source.create_table(TABLE, "c1 int, c2 int, c3 int", ["c1"], timestamp=True)
    surface = Surface(source)
    first = surface.read_status(TABLE, "slot1")
    assert {name: point.last for name, point in first.items()} == {"dn_1": 0, "dn_2": 0}
    assert len({point.latest for point in first.values()}) == 1 and len({point.xmin for point in first.values()}) == 2
    surface.read_status(TABLE, "slot1", True)
    run(
        source,
        f"INSERT INTO {TABLE} VALUES (100, 1, 1)",
        f"DELETE FROM {TABLE} WHERE c1 = 100",
        f"INSERT INTO {TABLE} VALUES (200, 1, 1)",
        f"UPDATE {TABLE} SET c2 = 2 WHERE c1 = 200",
    )
    rows = surface.changes(TABLE)
    assert [(row[2], *row[4:]) for row in rows] == [
        ("I", 100, 1, 1),
        ("d", 100, 1, 1),
        ("I", 200, 1, 1),
        ("B", 200, 1, 1),
        ("U", 200, 2, 1),
    ]
    points = [row[0] for row in rows]
    assert points == sorted(points) and len(set(points)) == 4 and points[3] == points[4]
    assert [row[1] for row in rows] == [2, 2, 2, 2, 3]
    assert all(row[3] > 1_500_000_000_000_000 for row in rows)
    ids = dict(source.nodes())
    by_node = {name: surface.changes(TABLE, ids[name]) for name in ids}
    assert sorted(len(found) for found in by_node.values()) == [2, 3]
    surface.register(TABLE, "slot1", 0, 9999999999, False, 100)
    assert surface.value(f"SELECT pgxc_consumed_binlog_records('{TABLE}', 0)") == 0, "the other point is behind"
    surface.register(TABLE, "slot1", 0, 9999999999, True, 100)
    assert surface.value(f"SELECT pgxc_consumed_binlog_records('{TABLE}', 0)") == 1
    surface.close()


def test_recording_is_decided_by_the_writers_snapshot(source: Warehouse, surface: Surface) -> None:
    early = source.connect(autocommit=False)
    with early.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute(f"SELECT count(*) FROM {TABLE}")
        surface.read_status(TABLE, "slot1")
        cursor.execute(f"INSERT INTO {TABLE} VALUES (1, 1, 1)")
    early.commit()
    early.close()
    assert surface.changes(TABLE) == []


def test_a_session_can_write_without_recording(source: Warehouse, surface: Surface) -> None:
    surface.start(TABLE)
    insert = f"INSERT INTO {TABLE} SELECT i, 0, 0 FROM generate_series(1, 5) i"
    run(source, insert, settings=["SET dws.enable_generate_binlog = off"])
    assert surface.changes(TABLE) == []


def test_a_transaction_has_one_point_and_neighbouring_pairs(source: Warehouse, surface: Surface) -> None:
    surface.start(ORDERS)
    run(
        source,
        f"BEGIN; INSERT INTO {ORDERS} SELECT i, 1, i, 'a' FROM generate_series(1, 9) i; SAVEPOINT s;"
        f"DELETE FROM {ORDERS}; ROLLBACK TO s; UPDATE {ORDERS} SET note = 'b' WHERE cust < 4;"
        f"INSERT INTO {ORDERS} SELECT i, 1, 0, 'c' FROM generate_series(3, 10) i "
        f"ON CONFLICT (cust, order_no) DO UPDATE SET note = excluded.note; COMMIT",
    )
    rows = surface.changes(ORDERS)
    assert len({row[0] for row in rows}) == 1 and all(row[3] is None for row in rows)
    assert len({row[1] for row in rows}) == len(rows) == 9 + 6 + 1 + 14 and rows[0][1] == 2
    for node in {point.node for point in surface.read_status(ORDERS, "slot1").values()}:
        part = surface.changes(ORDERS, node)
        for before, after in itertools.pairwise(part):
            if before[2] == "B":
                assert after[2] == "U" and after[1] == before[1] + 1 and after[4:6] == before[4:6]


def test_key_changes_keep_the_real_order_and_distribution_columns_stay(source: Warehouse, surface: Surface) -> None:
    run(source, f"INSERT INTO {ORDERS} VALUES (7, 3, 0, ''), (7, 2, 0, ''), (7, 1, 0, '')")
    surface.start(ORDERS)
    run(source, f"UPDATE {ORDERS} SET order_no = order_no + 1")
    pairs = [(row[2], row[5]) for row in surface.changes(ORDERS)]
    assert pairs == [("B", 3), ("U", 4), ("B", 2), ("U", 3), ("B", 1), ("U", 2)]
    with pytest.raises(pg.DriverError, match="can't be updated"):
        run(source, f"UPDATE {ORDERS} SET cust = cust + 1")
    run(source, f"UPDATE {ORDERS} SET cust = cust, note = 'same'")


def test_a_key_stays_on_its_node_and_the_attribute_names_it(source: Warehouse, surface: Surface) -> None:
    surface.start(ORDERS)
    run(source, f"INSERT INTO {ORDERS} SELECT i % 40, i, 0, '' FROM generate_series(1, 400) i")
    named = dict(surface.rows(f"SELECT DISTINCT t.cust, t.xc_node_id FROM {ORDERS} t"))
    assert len(named) == 40 and set(named.values()) == {node for _, node in source.nodes()}
    for _, node in source.nodes():
        assert {row[4] for row in surface.changes(ORDERS, node)} == {c for c, at in named.items() if at == node}
    assert "xc_node_id" not in surface.columns(f"SELECT * FROM {ORDERS}")
    run(source, f"DROP TABLE {ORDERS}")


def test_two_points_move_alone_and_slots_are_listed(source: Warehouse, surface: Surface) -> None:
    start = surface.start(TABLE)
    one = start["dn_1"]
    surface.register(TABLE, "slot1", one.node, 10_321, False, 77)
    assert surface.read_status(TABLE, "slot1")["dn_1"].last == 10_321
    assert surface.read_status(TABLE, "slot1")["dn_2"].last == one.last
    assert surface.read_status(TABLE, "slot1", True)["dn_1"].last == one.last
    assert surface.read_status(TABLE, "other")["dn_1"].last == 0
    listed = surface.rows(
        "SELECT slot_name, sync_point, is_checkpoint, now() - sync_timestamp < '1 min' "
        "FROM pgxc_get_binlog_slots(%s, %s)",
        (TABLE, one.node),
    )
    expected = [("other", 0, False, True), ("slot1", one.last, True, True), ("slot1", 10_321, False, True)]
    assert sorted(listed) == expected
    assert surface.value("SELECT max(sync_point) FROM pg_binlog_slots WHERE oldest_xmin = 77") == 10_321
    assert surface.value("SELECT count(*) FROM pg_binlog_slots") == 12
    assert surface.value("SELECT pgxc_binlog_clear_target_slot(%s, 'slot1')", (TABLE,)) == 8
    assert surface.read_status(TABLE, "slot1")["dn_1"].last == 0


def test_rows_of_nodes_come_in_no_order(source: Warehouse, surface: Surface) -> None:
    surface.start(TABLE)
    until(lambda: next(iter(surface.read_status(TABLE, "slot1"))) != "dn_1", 5, "another node first")
    until(lambda: next(iter(surface.read_status(TABLE, "slot1"))) == "dn_1", 5, "dn_1 first")


def test_progress_and_cursors(source: Warehouse, surface: Surface) -> None:
    surface.start(TABLE)
    run(source, *(f"INSERT INTO {TABLE} VALUES ({i}, 0, 0)" for i in range(20)))
    rows = surface.changes(TABLE)
    node, middle = surface.read_status(TABLE, "slot1")["dn_1"].node, rows[10]
    own = surface.changes(TABLE, node)
    at = surface.rows("SELECT * FROM pgxc_get_binlog_cursor_by_syncpoint(%s, %s, %s)", (TABLE, own[0][0], node))
    assert at[0][:2] == ("dn_1", node) and at[0][3] == own[0][0], "inclusive"
    assert 3 <= at[0][5] <= surface.read_status(TABLE, "slot1")["dn_1"].xmin
    moment = datetime.fromtimestamp(0, timezone.utc) + timedelta(microseconds=middle[3])
    found = surface.rows("SELECT * FROM pgxc_get_binlog_cursor_by_timestamp(%s, %s, 0)", (TABLE, moment))
    assert min(row[3] for row in found if row[3]) == middle[0], "inclusive"
    later = surface.rows("SELECT * FROM pgxc_get_binlog_cursor_by_timestamp(%s, now() + '1 day', 0)", (TABLE,))
    assert len(later) == 4 and all(row[3] is None for row in later)
    with pytest.raises(pg.DriverError, match="enable_binlog_timestamp"):
        surface.rows("SELECT * FROM pgxc_get_binlog_cursor_by_timestamp(%s, now(), 0)", (ORDERS,))
    progress = surface.rows("SELECT * FROM pgxc_get_binlog_consume_progress(%s, %s)", (TABLE, node))
    assert {(row[3], row[7], row[8]) for row in progress} == {(flag, own[-1][0], len(own)) for flag in (True, False)}
    surface.register_both(TABLE, "slot1", node, own[-1][0] + 1)
    after = surface.rows("SELECT * FROM pgxc_get_binlog_consume_progress(%s, %s)", (TABLE, node))
    assert {row[6:] for row in after} == {(own[-1][0], own[-1][0], 0)}
    assert surface.value("SELECT pgxc_consumed_binlog_records(%s, %s)", (TABLE, node)) == 1
    assert surface.value("SELECT pgxc_consumed_binlog_records(%s, 0)", (TABLE,)) == 0


@pytest.mark.parametrize(
    ("ddl", "wiped"),
    [
        ("TRUNCATE {}", True),
        ("ALTER TABLE {} ADD COLUMN extra int", True),
        ("ALTER TABLE {} DROP COLUMN c3", True),
        ("ALTER TABLE {} ALTER COLUMN c3 SET DATA TYPE bigint", True),
        ("ALTER TABLE {} RENAME COLUMN c3 TO c4", False),
        ("VACUUM FULL {}", False),
    ],
)
def test_ddl_wipes_records_and_points_in_its_transaction(
    source: Warehouse, surface: Surface, ddl: str, wiped: bool
) -> None:
    surface.start(TABLE)
    run(source, f"INSERT INTO {TABLE} VALUES (1, 1, 1)")
    statement = ddl.format(TABLE)
    if "VACUUM" not in ddl:
        run(source, f"BEGIN; {statement}; ROLLBACK")
        assert len(surface.changes(TABLE)) == 1 and len(surface.rows("SELECT * FROM pg_binlog_slots")) == 8
    run(source, statement)
    assert len(surface.rows("SELECT * FROM pg_binlog_slots")) == (0 if wiped else 8)
    assert (surface.read_status(TABLE, "slot1")["dn_1"].last == 0) is wiped
    assert len(surface.changes(TABLE)) == (0 if wiped else 1)
    run(source, f"INSERT INTO {TABLE} (c1, c2) VALUES (5, 5)")
    assert surface.changes(TABLE)[-1][4:6] == (5, 5)


def test_an_idle_slot_is_cleared_after_its_ttl(source: Warehouse, surface: Surface) -> None:
    surface.start(TABLE)
    surface.start(TABLE, "other")
    source.expire(TABLE, "slot1")
    assert {row[1] for row in surface.rows(f"SELECT * FROM pgxc_get_binlog_slots('{TABLE}', 0)")} == {"other"}
    source.expire(TABLE, "other")
    source.purge()
    assert surface.rows("SELECT * FROM pg_binlog_slots") == []


def test_purge_keeps_the_smallest_registered_point(source: Warehouse, surface: Surface) -> None:
    surface.start(ORDERS)
    surface.start(ORDERS, "other")
    run(source, *(f"INSERT INTO {ORDERS} VALUES (1, {i}, 0, '')" for i in range(5)))
    points = [row[0] for row in surface.changes(ORDERS)]
    surface.register_both(ORDERS, "slot1", 0, points[4])
    surface.register_both(ORDERS, "other", 0, points[2])
    assert len(surface.changes(ORDERS)) == 5
    source.purge()
    assert [row[0] for row in surface.changes(ORDERS)] == points[2:]


def test_tables_with_time_keep_records_for_the_ttl(source: Warehouse, surface: Surface) -> None:
    surface.start(TABLE)
    run(source, f"INSERT INTO {TABLE} VALUES (1, 1, 1)")
    surface.register_both(TABLE, "slot1", 0, surface.read_status(TABLE, "slot1")["dn_1"].latest)
    source.purge()
    assert len(surface.changes(TABLE)) == 1
    run(source, "UPDATE dws.tab SET ttl_s = 0")
    source.purge()
    surface.read_status(TABLE, "slot1")
    assert surface.changes(TABLE) == []


def test_latest_waits_for_a_writer_that_has_its_point_but_is_not_visible(source: Warehouse, surface: Surface) -> None:
    surface.start(TABLE)
    slow = source.connect(autocommit=False)
    with slow.cursor() as cursor:
        cursor.execute(f"INSERT INTO {TABLE} VALUES (1, 1, 1)")
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # its point is assigned, but it is not committed yet
    before = surface.read_status(TABLE, "slot1")["dn_1"].latest
    run(source, f"INSERT INTO {TABLE} VALUES (2, 1, 1)")
    assert surface.read_status(TABLE, "slot1")["dn_1"].latest == before
    slow.commit()
    slow.close()
    assert surface.read_status(TABLE, "slot1")["dn_1"].latest == before + 2


def test_readers_stream_in_line_and_through_copy(source: Warehouse, surface: Surface) -> None:
    surface.start(ORDERS)
    run(source, f"INSERT INTO {ORDERS} VALUES (1, 1, 2.50, 'x')")
    call = f"pgxc_get_binlog_changes('{ORDERS}', {source.nodes()[0][1]}, 0, 9999999999)"
    plan = "\n".join(row[0] for row in surface.rows(f"EXPLAIN SELECT * FROM {call}"))
    assert "Function Scan" not in plan and "binlog_tx" in plan and plan.count("Scan on b_") == 1
    assert surface.columns(f"SELECT * FROM {call}")[4:] == ["cust", "order_no", "amount", "note"]


def test_a_session_reads_the_table_that_it_looked_at(source: Warehouse, surface: Surface) -> None:
    surface.start(TABLE)
    surface.start(ORDERS)
    with pytest.raises(pg.DriverError, match="another table"):
        surface.changes(TABLE)
    surface.rows("SELECT set_config('search_path', dws.reader_path(%s), false)", (TABLE,))
    assert surface.changes(TABLE) == []
    with pytest.raises(pg.DriverError, match="READ COMMITTED"):
        surface.rows("BEGIN ISOLATION LEVEL REPEATABLE READ")
        surface.read_status(TABLE, "slot1")


def test_refusals_name_what_is_wrong(source: Warehouse, surface: Surface) -> None:
    run(source, "CREATE TABLE plain (a int PRIMARY KEY)", "CREATE TABLE keyless (a int)")
    run(source, f"REVOKE ALL ON {ORDERS} FROM etl")
    for table, node, text in (
        ("absent", 0, "does not exist"),
        ("plain", 0, "has no binlog"),
        (ORDERS, 0, "permission denied"),
        (TABLE, 7, "no data node"),
    ):
        with pytest.raises(pg.DriverError, match=text):
            surface.read_status(table, "slot1", False, node)
    with pytest.raises(pg.DriverError, match="needs a primary key"):
        source.enable_binlog("keyless")


def test_a_hanging_node_holds_readers_and_never_writers(source: Warehouse, surface: Surface) -> None:
    start = surface.start(TABLE)
    source.dn_hanging("dn_2")
    watcher = Surface(source)
    answers: list[int] = []
    reader = threading.Thread(
        target=lambda: answers.append(len(surface.changes(TABLE, start["dn_2"].node))), daemon=True
    )
    try:
        assert surface.changes(TABLE, start["dn_1"].node) == []
        assert watcher.read_status(TABLE, "slot1", node=start["dn_1"].node)
        run(source, *(f"INSERT INTO {TABLE} VALUES ({i}, 0, 0)" for i in range(8)))
        reader.start()
        watcher.rows("SET statement_timeout = 100")
        for call in (lambda: watcher.read_status(TABLE, "slot1"), lambda: watcher.changes(TABLE)):
            with pytest.raises(pg.DriverError, match="statement timeout"):
                call()
        assert answers == [] and reader.is_alive()
    finally:
        source.dn_hanging(None)
    reader.join(60)
    assert answers == [len(watcher.changes(TABLE, start["dn_2"].node))]
    watcher.close()
