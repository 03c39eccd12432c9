"""Each switch of the stand-in and each control of a moment, one by one; next door: test_dws_surface.py."""

from __future__ import annotations

import pytest

from core.drivers import pg
from core.embedded.switches import Switches, all_values
from core.embedded.warehouse import Warehouse
from core.errors import ConfigError
from tests.support.standin import Surface, run

TABLE = "ods.orders"


@pytest.fixture
def source(warehouse: Warehouse) -> Warehouse:
    warehouse.create_table(TABLE, "cust bigint, order_no int, note text", ["cust", "order_no"], ["cust"])
    return warehouse


def insert(source: Warehouse, *numbers: int) -> None:
    run(source, *(f"INSERT INTO {TABLE} VALUES (1, {number}, 'n')" for number in numbers))


@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize("end", [True, False])
def test_bounds(source: Warehouse, surface: Surface, start: bool, end: bool) -> None:
    surface.start(TABLE)
    insert(source, 1, 2, 3, 4)
    points = [row[0] for row in surface.changes(TABLE)]
    source.configure(Switches(start_inclusive=start, end_inclusive=end))
    found = [row[0] for row in surface.changes(TABLE, 0, points[0], points[3])]
    assert found == points[0 if start else 1 : 4 if end else 3]


@pytest.mark.parametrize("inclusive", [True, False])
def test_latest(source: Warehouse, surface: Surface, inclusive: bool) -> None:
    source.configure(Switches(latest_inclusive=inclusive))
    surface.start(TABLE)
    insert(source, 1)
    latest = surface.look(TABLE, "slot1")["dn_1"].latest
    assert latest == surface.changes(TABLE)[-1][0] + (0 if inclusive else 1)
    surface.register_both(TABLE, "slot1", 0, latest)
    assert surface.value("SELECT pgxc_consumed_binlog_records(%s, 0)", (TABLE,)) == 1
    surface.register_both(TABLE, "slot1", 0, latest - 1)
    assert surface.value("SELECT pgxc_consumed_binlog_records(%s, 0)", (TABLE,)) == 0


@pytest.mark.parametrize("creates", [True, False])
def test_asking_for_an_unknown_slot(source: Warehouse, surface: Surface, creates: bool) -> None:
    source.configure(Switches(auto_create=creates))
    assert len(surface.look(TABLE, "slot1")) == (4 if creates else 0)
    insert(source, 1)
    assert len(surface.changes(TABLE)) == (1 if creates else 0)
    node = source.nodes()[0][1]
    surface.register(TABLE, "slot1", node, 10_000)
    assert len(surface.look(TABLE, "slot1")) == (4 if creates else 1)


@pytest.mark.parametrize("refreshes", [True, False])
def test_the_same_point_again_and_the_ttl(source: Warehouse, surface: Surface, refreshes: bool) -> None:
    source.configure(Switches(refresh_same_point=refreshes))
    surface.start(TABLE)
    last = surface.look(TABLE, "slot1")["dn_1"].last
    run(source, "UPDATE dws.slot SET sync_timestamp = sync_timestamp - interval '1 hour'")
    recent = "SELECT count(*) FROM pg_binlog_slots WHERE sync_timestamp > now() - interval '1 min'"
    surface.register_both(TABLE, "slot1", 0, last)
    assert surface.value(recent) == (8 if refreshes else 0)
    surface.register_both(TABLE, "slot1", 0, last + 1)
    assert surface.value(recent) == 8


@pytest.mark.parametrize("moves", [True, False])
def test_a_registration_and_the_global_point(source: Warehouse, surface: Surface, moves: bool) -> None:
    source.configure(Switches(register_moves_point=moves))
    surface.start(TABLE)
    before = surface.look(TABLE, "slot1")["dn_1"]
    surface.register(TABLE, "slot1", 0, before.latest)
    assert surface.look(TABLE, "slot1")["dn_1"].latest == before.latest + moves


@pytest.mark.parametrize("includes", [True, False])
def test_the_reported_xmin(source: Warehouse, surface: Surface, includes: bool) -> None:
    source.configure(Switches(xmin_includes_slots=includes))
    start = surface.start(TABLE)
    assert all(surface.register(TABLE, "slot1", point.node, point.last, True, point.xmin) for point in start.values())
    first = surface.look(TABLE, "slot1")["dn_1"].xmin
    insert(source, 1, 2, 3)
    assert (surface.look(TABLE, "slot1")["dn_1"].xmin > first) is not includes
    txid = surface.value("SELECT txid_current()")
    passed = [all(point.xmin > txid for point in surface.look(TABLE, "slot1").values()) for _ in range(8)]
    assert passed[-1] is not includes, "looks alone move xmin past a finished transaction"


@pytest.mark.parametrize("allowed", [True, False])
def test_backward_registration(source: Warehouse, surface: Surface, allowed: bool) -> None:
    source.configure(Switches(backward_allowed=allowed))
    last = surface.start(TABLE)["dn_1"].last
    if allowed:
        assert surface.register(TABLE, "slot1", 0, last - 1) == 4
    else:
        with pytest.raises(pg.DriverError, match="below the registered"):
            surface.register(TABLE, "slot1", 0, last - 1)
    assert surface.look(TABLE, "slot1")["dn_1"].last == last - allowed


@pytest.mark.parametrize("full", [True, False])
def test_old_images(source: Warehouse, surface: Surface, full: bool) -> None:
    source.configure(Switches(full_old_images=full))
    surface.start(TABLE)
    insert(source, 1)
    run(source, f"UPDATE {TABLE} SET note = 'm', order_no = 5", f"DELETE FROM {TABLE}")
    assert [row[2:3] + row[4:] for row in surface.changes(TABLE)] == [
        ("I", 1, 1, "n"),
        ("B", 1, 1, "n" if full else None),
        ("U", 1, 5, "m"),
        ("d", 1, 5, "m" if full else None),
    ]


@pytest.mark.parametrize("at_once", [True, False])
def test_purging(source: Warehouse, surface: Surface, at_once: bool) -> None:
    source.configure(Switches(purge_at_once=at_once))
    surface.start(TABLE)
    insert(source, 1, 2, 3)
    points = [row[0] for row in surface.changes(TABLE)]
    surface.register_both(TABLE, "slot1", 0, points[1])
    assert [row[0] for row in surface.changes(TABLE)] == points[1 if at_once else 0 :]


@pytest.mark.parametrize("present", [True, False])
def test_the_node_attribute(source: Warehouse, surface: Surface, present: bool) -> None:
    source.configure(Switches(xc_node_id=present))
    insert(source, 1)
    query = f"SELECT t.xc_node_id FROM {TABLE} t"
    if present:
        assert surface.value(query) in {node for _, node in source.nodes()}
    else:
        with pytest.raises(pg.DriverError, match="xc_node_id"):
            surface.rows(query)


@pytest.mark.parametrize("new", [True, False])
def test_system_column_names(source: Warehouse, surface: Surface, new: bool) -> None:
    surface.start(TABLE)
    source.configure(Switches(new_system_names=new))
    insert(source, 1)
    columns = surface.columns(f"SELECT * FROM pgxc_get_binlog_changes('{TABLE}', 0, 0, 99999)")
    old = ["sync_point", "event_sequence", "type"]
    expected = [*(f"gs_binlog_{name}" for name in ("sync_point", "event_sequence", "event_type", "timestamp_us"))]
    assert columns == [*(expected if new else old), "cust", "order_no", "note"]


def test_a_partial_registration_counts_one_less(source: Warehouse, surface: Surface) -> None:
    last = surface.start(TABLE)["dn_2"].last
    source.partial_registration("dn_2", times=2)
    assert surface.register(TABLE, "slot1", 0, last + 1) == 3
    assert surface.register(TABLE, "slot1", source.nodes()[1][1], last + 1) == 0
    assert surface.look(TABLE, "slot1")["dn_2"].last == last
    assert surface.register(TABLE, "slot1", 0, last + 1) == 4


def test_a_node_that_is_down(source: Warehouse, surface: Surface) -> None:
    nodes = dict(source.nodes())
    last = surface.start(TABLE)["dn_1"].last
    source.dn_down("dn_3")
    for node in (0, nodes["dn_3"]):
        for call in (
            lambda node=node: surface.look(TABLE, "slot1", node=node),
            lambda node=node: surface.changes(TABLE, node),
            lambda node=node: surface.register(TABLE, "slot1", node, last),
            lambda node=node: surface.rows("SELECT * FROM pgxc_get_binlog_slots(%s, %s)", (TABLE, node)),
        ):
            with pytest.raises(pg.DriverError, match="pooler: failed to create 1 connections") as caught:
                call()
            assert pg.failure(caught.value)[0] == "08006"
    assert surface.changes(TABLE, nodes["dn_1"]) == [] and surface.look(TABLE, "slot1", node=nodes["dn_1"])
    insert(source, 1)
    source.dn_down(None)
    assert len(surface.changes(TABLE)) == 1
    plan = surface.rows(f"EXPLAIN SELECT * FROM pgxc_get_binlog_changes('{TABLE}', 0, 0, 1)")
    assert "Function Scan" not in str(plan)
    with pytest.raises(ConfigError, match="no data node"):
        source.dn_down("dn_99")


def test_switches_are_kept_and_have_a_text(source: Warehouse) -> None:
    for name, values in all_values().items():
        for value in values:
            switches = Switches.of([(name, value)])
            assert Switches.parse(switches.text()) == switches
    odd = Switches.of((name, not value) for name, value in Switches().pairs())
    source.configure(odd)
    assert Warehouse.attach(source.server, source.database).switches() == odd
    with pytest.raises(ConfigError, match="not a switch"):
        Switches.parse("end_inclusive=perhaps")
