"""Each switch of the stand-in and each temporary control; the default switches are in `test_dws_surface.py`.

`doctor --probe` must report the effect of each switch. The same questions are put to a real cluster, so an effect that
the probe does not report, or reports wrongly, fails here first.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from slotkeeper.core.domain.probing import Answer, Reader
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.sources.dws.probe.questions import QUESTIONS, SWITCHED, switches
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.switches import Switches, all_values
from slotkeeper.demo.warehouse import Warehouse
from tests.support.probing import drawn, flipped, grant, interrogate, leftovers
from tests.support.standin import Surface, drop_database, run

TABLE = "ods.orders"
SEEDS = (20, 61, 905)
SETTINGS = {
    "default": Switches(),
    **{name: flipped(name) for name in all_values()},
    "all": flipped(*all_values()),
    **{f"seed {seed}": drawn(seed) for seed in SEEDS},
}
NOT_HERE = {"generate_binlog_off"}
"""Documented questions that are not put to the stand-in, because its setting has another name."""


@pytest.fixture(scope="module")
def probed(pg_server: Server) -> Iterator[Warehouse]:
    """One warehouse for all settings, with a schema for scratch tables and a table that no job reads."""
    warehouse = Warehouse.install(pg_server, database="warehouse_probed")
    grant(warehouse)
    warehouse.create_table(TABLE, "cust bigint, order_no int", ["cust", "order_no"], ["cust"])
    yield warehouse
    drop_database(pg_server, warehouse.database)


def finding(answers: dict[str, Answer]) -> dict[str, str | None]:
    return {name: one.finding.answer for name, one in answers.items()}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_probe_tells_each_setting_of_the_switches(probed: Warehouse, name: str) -> None:
    probed.configure(SETTINGS[name])
    answers = interrogate(probed)
    assert switches(answers.values()) == dict(probed.switches().pairs())
    assert [one for one in answers.values() if one.finding.reader is Reader.WRONG] == []
    assert finding(answers)["reader_exact"] == "yes"
    assert (finding(answers)["consumed_at_point"] == "yes") is probed.switches().latest_inclusive
    wiped = [finding(answers)[one] for one in ("add_column_clears", "truncate_clears", "vacuum_full_keeps")]
    assert wiped == ["yes", "yes", "yes"]
    assert (finding(answers)["registered_point_kept"] == "yes") is probed.switches().purge_at_once
    assert leftovers(probed) == []


@pytest.mark.chaos
def test_the_probe_tells_any_setting_of_the_switches(probed: Warehouse) -> None:
    first = random.randrange(10**6)
    for seed in range(first, first + 60):
        probed.configure(drawn(seed))
        answers = interrogate(probed)
        assert switches(answers.values()) == dict(probed.switches().pairs()), f"seed {seed}"
        assert finding(answers)["reader_exact"] == "yes", f"seed {seed}"
    assert leftovers(probed) == []


def test_what_is_documented_is_so(probed: Warehouse) -> None:
    probed.configure(Switches())
    found = finding(interrogate(probed))
    documented = {name: one.documented for name, one in QUESTIONS.items() if one.documented and name not in NOT_HERE}
    assert {name: found[name] for name in documented} == documented


def test_every_switch_has_its_question() -> None:
    assert set(all_values()) == SWITCHED <= set(QUESTIONS)


@pytest.fixture
def source(warehouse: Warehouse) -> Warehouse:
    warehouse.create_table(TABLE, "cust bigint, order_no int, note text", ["cust", "order_no"], ["cust"])
    return warehouse


def insert(source: Warehouse, *numbers: int) -> None:
    run(source, *(f"INSERT INTO {TABLE} VALUES (1, {number}, 'n')" for number in numbers))


def test_one_dn_of_an_unknown_slot_is_registered_alone(source: Warehouse, surface: Surface) -> None:
    source.configure(Switches(auto_create=False))
    surface.register(TABLE, "slot1", source.nodes()[0][1], 10_000)
    assert len(surface.read_status(TABLE, "slot1")) == 1


def test_looks_alone_move_xmin_past_a_finished_transaction(source: Warehouse, surface: Surface) -> None:
    surface.start(TABLE)
    txid = surface.value("SELECT txid_current()")
    passed = [all(point.xmin > txid for point in surface.read_status(TABLE, "slot1").values()) for _ in range(8)]
    assert passed[-1]


def test_a_partial_registration_counts_one_less(source: Warehouse, surface: Surface) -> None:
    last = surface.start(TABLE)["dn_2"].last
    source.partial_registration("dn_2", times=2)
    assert surface.register(TABLE, "slot1", 0, last + 1) == 3
    assert surface.register(TABLE, "slot1", source.nodes()[1][1], last + 1) == 0
    assert surface.read_status(TABLE, "slot1")["dn_2"].last == last
    assert surface.register(TABLE, "slot1", 0, last + 1) == 4


def test_a_node_that_is_down(source: Warehouse, surface: Surface) -> None:
    nodes = dict(source.nodes())
    last = surface.start(TABLE)["dn_1"].last
    source.dn_down("dn_3")
    for node in (0, nodes["dn_3"]):
        for call in (
            lambda node=node: surface.read_status(TABLE, "slot1", node=node),
            lambda node=node: surface.changes(TABLE, node),
            lambda node=node: surface.register(TABLE, "slot1", node, last),
            lambda node=node: surface.rows("SELECT * FROM pgxc_get_binlog_slots(%s, %s)", (TABLE, node)),
        ):
            with pytest.raises(pg.DriverError, match="pooler: failed to create 1 connections") as caught:
                call()
            assert pg.failure(caught.value)[0] == "08006"
    assert surface.changes(TABLE, nodes["dn_1"]) == [] and surface.read_status(TABLE, "slot1", node=nodes["dn_1"])
    insert(source, 1)
    source.dn_down(None)
    assert len(surface.changes(TABLE)) == 1
    plan = surface.rows(f"EXPLAIN SELECT * FROM pgxc_get_binlog_changes('{TABLE}', 0, 0, 1)")
    assert "Function Scan" not in str(plan)
    with pytest.raises(ConfigError, match="unknown data node"):
        source.dn_down("dn_99")


def test_switches_are_kept_and_have_a_text(source: Warehouse) -> None:
    for name, values in all_values().items():
        for value in values:
            switches = Switches.of([(name, value)])
            assert Switches.parse(switches.text()) == switches
    odd = Switches.of((name, not value) for name, value in Switches().pairs())
    source.configure(odd)
    assert Warehouse.attach(source.server, source.database).switches() == odd
    with pytest.raises(ConfigError, match="unknown switch"):
        Switches.parse("end_inclusive=perhaps")
