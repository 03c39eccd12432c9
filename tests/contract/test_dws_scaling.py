"""DNs of the stand-in are added, removed and renamed: rows, points and records are moved, and scaling waits."""

from __future__ import annotations

import threading

import pytest

from slotkeeper.core.errors import ConfigError, Refused
from slotkeeper.demo.scaling import add_dn, remove_dn, rename_dn
from slotkeeper.demo.warehouse import Warehouse
from tests.support.standin import Surface, run
from tests.support.waiting import until

TABLE = "ods.orders"


@pytest.fixture
def source(warehouse: Warehouse, surface: Surface) -> Warehouse:
    warehouse.create_table(TABLE, "id bigint, v text", ["id"])
    surface.start(TABLE)
    insert(warehouse, 1, 200)
    return warehouse


def insert(source: Warehouse, first: int, last: int) -> None:
    run(source, f"INSERT INTO {TABLE} SELECT n, 'x' FROM generate_series({first}, {last}) n")


def read_all(surface: Surface) -> None:
    for place in surface.read_status(TABLE, "slot1").values():
        surface.register_both(TABLE, "slot1", place.node, place.latest)


def homes(surface: Surface, first: int, last: int) -> dict[int, int]:
    """Return the node id by key, of the table and of the binlog."""
    rows = surface.rows(f"SELECT t.id, t.xc_node_id FROM {TABLE} t WHERE id BETWEEN {first} AND {last}")
    return dict(rows)


def recorded(surface: Surface) -> dict[int, int]:
    found = {}
    for name, place in surface.read_status(TABLE, "slot1").items():
        found.update({row[4]: place.node for row in surface.changes(TABLE, place.node)})
        assert name
    return found


def test_a_new_dn_gets_rows_points_and_records(source: Warehouse, surface: Surface) -> None:
    before = homes(surface, 1, 200)
    read_all(surface)
    point = add_dn(source, "dn_5")
    statuses = surface.read_status(TABLE, "slot1")
    assert statuses["dn_5"].last == point == surface.read_status(TABLE, "slot1", True)["dn_5"].last
    after = homes(surface, 1, 200)
    assert set(after.values()) == {one.node for one in statuses.values()}
    assert any(before[key] != after[key] for key in before)
    insert(source, 201, 400)
    moved = recorded(surface)
    assert {key: moved[key] for key in range(201, 401)} == homes(surface, 201, 400)
    assert all(row[0] > point for row in surface.changes(TABLE, statuses["dn_5"].node))


def test_a_new_dn_without_points_has_none_until_asked(source: Warehouse, surface: Surface) -> None:
    read_all(surface)
    add_dn(source, "dn_5", points=False)
    slots = surface.rows("SELECT DISTINCT node_name::text FROM pgxc_get_binlog_slots(%s, 0) ORDER BY 1", (TABLE,))
    assert [name for (name,) in slots] == ["dn_1", "dn_2", "dn_3", "dn_4"]
    assert surface.read_status(TABLE, "slot1")["dn_5"].last == 0


@pytest.mark.parametrize("gone", ["dn_2", "dn_4"])
def test_a_dn_that_goes_leaves_its_rows_to_the_others(gone: str, source: Warehouse, surface: Surface) -> None:
    node = dict(source.nodes())[gone]
    read_all(surface)
    remove_dn(source, gone)
    assert gone not in surface.read_status(TABLE, "slot1")
    assert gone not in {name for (name,) in surface.rows("SELECT node_name::text FROM pgxc_node")}
    insert(source, 201, 400)
    found = homes(surface, 1, 400)
    assert set(found.values()) == {number for name, number in source.nodes()} and node not in found.values()
    assert {key: recorded(surface)[key] for key in range(201, 401)} == homes(surface, 201, 400)
    read_all(surface)
    add_dn(source, "dn_9")
    assert len(source.nodes()) == 4


def test_a_new_name_keeps_id_points_and_records(source: Warehouse, surface: Surface) -> None:
    before = surface.read_status(TABLE, "slot1")["dn_2"]
    rename_dn(source, "dn_2", "dn_two")
    after = surface.read_status(TABLE, "slot1")
    assert (after["dn_two"].node, after["dn_two"].last) == (before.node, before.last)
    assert "dn_2" not in after and len(surface.changes(TABLE, before.node)) > 0
    rename_dn(source, "dn_two", "dn_three", keeps_id=False)
    assert surface.read_status(TABLE, "slot1")["dn_three"].node != before.node


def test_scaling_waits_until_everything_is_consumed_and_writers_wait_with_it(
    source: Warehouse, surface: Surface
) -> None:
    with pytest.raises(Refused, match="was not consumed within"):
        add_dn(source, "dn_5", timeout=0.1)
    assert len(source.nodes()) == 4
    scaling = threading.Thread(target=add_dn, args=(source, "dn_5"))
    scaling.start()
    locks = "SELECT count(*) FROM pg_locks WHERE mode = 'ExclusiveLock' AND granted AND relation = %s::regclass"
    until(lambda: surface.value(locks, (TABLE,)), 10, "the table to be locked")
    writer = threading.Thread(target=insert, args=(source, 201, 201))
    writer.start()
    until(lambda: surface.value(locks.replace("granted", "NOT granted").replace("'Ex", "'RowEx"), (TABLE,)), 10, "it")
    assert len(source.nodes()) == 4
    read_all(surface)
    scaling.join(120)
    writer.join(120)
    assert len(source.nodes()) == 5 and recorded(surface)[201] == homes(surface, 201, 201)[201]


def test_scaling_that_is_made_not_to_wait_does_not(source: Warehouse, surface: Surface) -> None:
    add_dn(source, "dn_5", wait=False)
    remove_dn(source, "dn_1", wait=False)
    assert {name for name, _ in source.nodes()} == {"dn_2", "dn_3", "dn_4", "dn_5"}


def test_names_are_checked(source: Warehouse) -> None:
    for act in (
        lambda: add_dn(source, "dn_1"),
        lambda: remove_dn(source, "dn_9"),
        lambda: rename_dn(source, "dn_9", "x"),
        lambda: rename_dn(source, "dn_1", "dn_2"),
    ):
        with pytest.raises(ConfigError, match="data node dn_"):
            act()
