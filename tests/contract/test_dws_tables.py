"""How the stand-in treats tables: names of columns, concurrent drops, child tables; it sends no notices.

A partition is not a separate table in DWS ("CREATE TABLE PARTITION"), so a row written into a partition is a
change to the table.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from slotkeeper.core.drivers import pg
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.standin import Surface, run
from tests.support.waiting import until

TABLE = "ods.orders"
PARTED = (
    "CREATE SCHEMA ods",
    "GRANT USAGE ON SCHEMA ods TO etl",
    f"CREATE TABLE {TABLE} (id bigint PRIMARY KEY, note text) PARTITION BY RANGE (id)",
    f"CREATE TABLE ods.low PARTITION OF {TABLE} FOR VALUES FROM (0) TO (100)",
    f"CREATE TABLE ods.high PARTITION OF {TABLE} FOR VALUES FROM (100) TO (200) PARTITION BY RANGE (id)",
    "CREATE TABLE ods.highest PARTITION OF ods.high FOR VALUES FROM (150) TO (200)",
    f"GRANT SELECT ON {TABLE} TO etl",
)


def _events(surface: Surface, table: str = TABLE) -> list[tuple[Any, ...]]:
    """(kind, columns...) of all changes in order."""
    surface.read_status(table, "slot1")
    return [(row[2], *row[4:]) for row in surface.changes(table)]


def _waits(warehouse: Warehouse) -> bool:
    with warehouse.control() as cursor:
        cursor.execute("SELECT FROM pg_locks WHERE NOT granted")
        return bool(cursor.rowcount)


def test_two_tables_are_dropped_at_the_same_time(warehouse: Warehouse) -> None:
    for name in ("ods.a", "ods.b", "ods.c"):
        warehouse.create_table(name, "id bigint", ("id",))
    first, failed = warehouse.connect(autocommit=False), []

    def drop() -> None:
        try:
            run(warehouse, "DROP TABLE ods.b")
        except pg.DriverError as error:
            failed.append(str(error))

    with first.cursor() as cursor:
        cursor.execute("DROP TABLE ods.a")
    second = threading.Thread(target=drop)
    second.start()
    until(lambda: not second.is_alive() or _waits(warehouse), 30, "the second drop to end or to wait")
    first.commit()
    first.close()
    second.join(30)
    assert failed == []
    assert warehouse._rows("SELECT rel::regclass::text FROM dws.tab") == [("ods.c",)]
    left = "SELECT count(*) FROM pg_class WHERE relnamespace = 'dws'::regnamespace AND relname ~ '^b_\\d+$'"
    assert warehouse._rows(left) == [(1,)]


def test_a_column_with_the_name_of_a_binlog_column_is_refused_by_name(warehouse: Warehouse) -> None:
    said = "stand-in: the binlog has a column {} of its own"
    with pytest.raises(pg.DriverError, match=said.format("gs_binlog_event_type")):
        warehouse.create_table(TABLE, "id bigint, gs_binlog_event_type text", ("id",))
    warehouse.create_table(TABLE, "id bigint, type text, sync_point bigint", ("id",))
    with pytest.raises(pg.DriverError, match=said.format("gs_binlog_sync_point")):
        run(warehouse, f"ALTER TABLE {TABLE} RENAME sync_point TO gs_binlog_sync_point")
    with pytest.raises(pg.DriverError, match=said.format("sync_point, type")):
        warehouse.configure(Switches(new_system_names=False))


def test_tables_come_change_and_go_without_a_notice(warehouse: Warehouse) -> None:
    connection = warehouse.connect()
    heard: list[str] = []
    connection.notices = heard  # a session of the product keeps no notices
    with connection.cursor() as cursor:
        cursor.execute("DO $$BEGIN RAISE NOTICE 'one'; END$$")
        assert len(heard) == 1
        cursor.execute("CREATE SCHEMA ods; CREATE TABLE ods.t (id bigint PRIMARY KEY, v text)")
        cursor.execute("SELECT dws.enable_binlog('ods.t')")
        cursor.execute("ALTER TABLE ods.t ADD COLUMN w text")
        cursor.execute("ALTER TABLE ods.t RENAME w TO x")
        cursor.execute("SELECT dws.order_points(false)")
        cursor.execute("DROP TABLE ods.t")
    assert len(heard) == 1
    connection.close()


def test_rows_written_into_a_partition_are_changes_of_the_table(warehouse: Warehouse, surface: Surface) -> None:
    run(warehouse, *PARTED)
    warehouse.enable_binlog(TABLE)
    surface.start(TABLE)
    run(
        warehouse,
        f"INSERT INTO {TABLE} VALUES (1, 'a'), (151, 'b')",
        "INSERT INTO ods.low VALUES (2, 'c')",
        "INSERT INTO ods.high VALUES (152, 'd')",
        "UPDATE ods.highest SET note = 'e' WHERE id = 152",
        f"UPDATE {TABLE} SET note = 'f' WHERE id = 1",
        "DELETE FROM ods.low WHERE id = 2",
    )
    assert _events(surface) == [
        ("I", 1, "a"),
        ("I", 151, "b"),
        ("I", 2, "c"),
        ("I", 152, "d"),
        ("B", 152, "d"),
        ("U", 152, "e"),
        ("B", 1, "a"),
        ("U", 1, "f"),
        ("d", 2, "c"),
    ]


def test_a_partition_that_comes_later_is_recorded_and_one_that_leaves_is_not(
    warehouse: Warehouse, surface: Surface
) -> None:
    run(warehouse, *PARTED)
    warehouse.enable_binlog(TABLE)
    surface.start(TABLE)
    run(
        warehouse,
        f"CREATE TABLE ods.made PARTITION OF {TABLE} FOR VALUES FROM (200) TO (300)",
        "CREATE TABLE ods.other (note text, id bigint NOT NULL)",
        f"ALTER TABLE {TABLE} ATTACH PARTITION ods.other FOR VALUES FROM (300) TO (400)",
        f"ALTER TABLE {TABLE} DETACH PARTITION ods.low",
        "INSERT INTO ods.made VALUES (201, 'a')",
        "INSERT INTO ods.other VALUES ('b', 301)",
        "INSERT INTO ods.low VALUES (1, 'not ours')",
        f"UPDATE {TABLE} SET note = 'c' WHERE id = 301",
    )
    assert _events(surface) == [("I", 201, "a"), ("I", 301, "b"), ("B", 301, "b"), ("U", 301, "c")]


def test_rows_written_into_a_table_that_inherits_are_changes_of_its_parent(
    warehouse: Warehouse, surface: Surface
) -> None:
    warehouse.create_table(TABLE, "id bigint, note text", ("id",))
    surface.start(TABLE)
    run(
        warehouse,
        f"CREATE TABLE ods.child (extra text) INHERITS ({TABLE})",
        "INSERT INTO ods.child VALUES (1, 'a', 'x')",
        f"DELETE FROM {TABLE} WHERE id = 1",
        f"ALTER TABLE ods.child NO INHERIT {TABLE}",
        "INSERT INTO ods.child VALUES (2, 'b', 'x')",
    )
    assert _events(surface) == [("I", 1, "a"), ("d", 1, "a")]
