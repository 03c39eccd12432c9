"""Preflight against the stand-in: the verdict always agrees with the server's 0 or 1, and names the slots that cause
it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from slotkeeper.core.domain.ttl import Behind
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.services import looking
from slotkeeper.core.slots.preflight import Action, MayBegin, Preflight, gather, judge
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.standin import MakeWarehouse, Surface, run

TABLE, OURS, THEIRS = "ods.orders", "ours", "theirs"
OWNERS = {OURS: "orders_rt"}
LIVE, DURABLE, BOTH = Behind.LIVE, Behind.DURABLE, Behind.BOTH
DNS = ("dn_1", "dn_2", "dn_3", "dn_4")


@dataclass
class Stage:
    """A warehouse and a client that acts as the consumers."""

    warehouse: Warehouse
    surface: Surface

    def slot(self, name: str = OURS) -> None:
        self.surface.start(TABLE, name)

    def asked(self, name: str = OURS) -> None:
        """Return a slot that was requested but never registered."""
        self.surface.read_status(TABLE, name, True)
        self.surface.read_status(TABLE, name)

    def write(self, first: int = 1, last: int = 200) -> None:
        run(self.warehouse, f"INSERT INTO {TABLE} SELECT g, 'x' FROM generate_series({first}, {last}) g")

    def read(self, name: str = OURS, flags: tuple[bool, ...] = (False, True), but: str = "") -> None:
        """Register the given points everywhere except on one DN, which gets the current one."""
        for shard, point in self.surface.read_status(TABLE, name).items():
            for flag in flags:
                if shard != but:
                    self.surface.register(TABLE, name, point.node, point.latest, flag)

    def without(self, *functions: str) -> None:
        statements = [f"DROP FUNCTION pg_catalog.{name}(text, integer)" for name in functions]
        run(self.warehouse, *statements, settings=("SET allow_system_table_mods = on",))


Do = Callable[[Stage], None]
Holders = set[tuple[str, str, Behind]]


def _each(slot: str, point: Behind) -> Holders:
    return {(slot, dn, point) for dn in DNS}


def _in_turn(*steps: Do) -> Do:
    def all_of_them(stage: Stage) -> None:
        for step in steps:
            step(stage)

    return all_of_them


def ours(stage: Stage) -> None:
    stage.slot()


def theirs(stage: Stage) -> None:
    stage.slot(THEIRS)


def write(stage: Stage) -> None:
    stage.write()


def read(stage: Stage) -> None:
    stage.read()


def no_lists(stage: Stage) -> None:
    stage.without("pgxc_get_binlog_slots", "pgxc_get_binlog_consume_progress")


SITUATIONS: dict[str, tuple[Do, Holders, MayBegin]] = {
    # what happened, which slots retain records, the answer for ALTER
    "no slot": (_in_turn(), set(), MayBegin.YES),
    "no slot and rows that no slot recorded": (write, set(), MayBegin.YES),
    "a slot asked for, no row": (lambda s: s.asked(), set(), MayBegin.NO),
    "a slot asked for, rows": (_in_turn(lambda s: s.asked(), write), _each(OURS, BOTH), MayBegin.NO),
    "a fresh slot, no row": (ours, set(), MayBegin.NO),
    "rows unread": (_in_turn(ours, write), _each(OURS, BOTH), MayBegin.NO),
    "the durable point behind": (
        _in_turn(ours, write, lambda s: s.read(flags=(False,))), _each(OURS, DURABLE), MayBegin.NO,
    ),
    "the live point behind": (_in_turn(ours, write, lambda s: s.read(flags=(True,))), _each(OURS, LIVE), MayBegin.NO),
    "one DN behind": (_in_turn(ours, write, lambda s: s.read(but="dn_3")), {(OURS, "dn_3", BOTH)}, MayBegin.NO),
    "one DN behind with its durable point": (
        _in_turn(ours, write, lambda s: s.read(flags=(False,)), lambda s: s.read(flags=(True,), but="dn_2")),
        {(OURS, "dn_2", DURABLE)},
        MayBegin.NO,
    ),
    "all read": (_in_turn(ours, write, read), set(), MayBegin.NO),
    "read, then written again": (
        _in_turn(ours, write, read, lambda s: s.write(201, 400)), _each(OURS, BOTH), MayBegin.NO,
    ),
    "two slots, both read": (_in_turn(ours, theirs, write, read, lambda s: s.read(THEIRS)), set(), MayBegin.NO),
    "two slots, the external one behind": (_in_turn(ours, theirs, write, read), _each(THEIRS, BOTH), MayBegin.NO),
    "two slots, both behind": (_in_turn(ours, theirs, write), _each(OURS, BOTH) | _each(THEIRS, BOTH), MayBegin.NO),
    "an external slot alone": (_in_turn(theirs, write), _each(THEIRS, BOTH), MayBegin.NO),
    "rows rolled into nothing by TRUNCATE": (
        _in_turn(ours, write, lambda s: run(s.warehouse, f"TRUNCATE {TABLE}")), set(), MayBegin.YES,
    ),
    "the slot expired": (_in_turn(ours, write, lambda s: s.warehouse.expire(TABLE, OURS)), set(), MayBegin.YES),
    "a registration that one DN ignored": (
        _in_turn(ours, write, lambda s: s.warehouse.partial_registration("dn_1", 2), read),
        {(OURS, "dn_1", BOTH)},
        MayBegin.NO,
    ),
    "a kernel without lists, unread": (_in_turn(ours, write, no_lists), set(), MayBegin.NO),
    "a kernel without lists, read": (_in_turn(ours, write, read, no_lists), set(), MayBegin.UNKNOWN),
    "a kernel that lists and does not count": (
        _in_turn(ours, write, lambda s: s.without("pgxc_get_binlog_consume_progress")), _each(OURS, BOTH), MayBegin.NO,
    ),
}  # fmt: skip


@pytest.fixture
def stage(make_warehouse: MakeWarehouse, request: pytest.FixtureRequest) -> Iterator[Stage]:
    warehouse = make_warehouse(switches=getattr(request, "param", None))
    warehouse.create_table(TABLE, "id bigint, note text", ("id",))
    surface = Surface(warehouse)
    yield Stage(warehouse, surface)
    surface.close()


def asked(stage: Stage) -> Preflight:
    with looking.inspecting("dws", stage.warehouse.endpoint(), TABLE) as at:
        return judge(gather(at, "dws1", TABLE, OWNERS))


def agrees(stage: Stage, found: Preflight) -> None:
    """Check that the verdicts equal the server's answers, for all DNs together and for each DN."""
    consumed = "SELECT pgxc_consumed_binlog_records(%s, %s)"
    said = {name: bool(stage.surface.value(consumed, (TABLE, node))) for name, node in stage.warehouse.nodes()}
    all_of_them = bool(stage.surface.value(consumed, (TABLE, 0)))
    assert (found.consumed, dict(found.by_shard)) == (all_of_them, said)
    for action in (Action.VACUUM_FULL, Action.SCALE_OUT):
        assert found.answer(action) is (MayBegin.YES if all_of_them else MayBegin.NO)


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_verdict_is_the_servers_and_names_who_retains(stage: Stage, name: str) -> None:
    prepare, holders, alter = SITUATIONS[name]
    prepare(stage)
    found = asked(stage)
    agrees(stage, found)
    assert {(one.slot, one.shard, one.point) for one in found.holders} == holders
    assert found.answer(Action.ALTER) is alter
    named = next(one.reason for one in found.verdicts if one.action is Action.VACUUM_FULL)
    assert all(slot in named for slot, _, _ in holders) or len(holders) > 3
    assert found.clear == (alter is MayBegin.YES and found.consumed is True)


@pytest.mark.parametrize("stage", [Switches(latest_inclusive=True), Switches(auto_create=False)], indirect=True)
def test_it_agrees_under_other_conventions(stage: Stage) -> None:
    stage.slot()
    stage.write()
    agrees(stage, asked(stage))
    stage.read()
    found = asked(stage)
    agrees(stage, found)
    assert found.consumed is True


@pytest.mark.parametrize("read_all", [True, False])
def test_a_table_with_timestamps(make_warehouse: MakeWarehouse, read_all: bool) -> None:
    warehouse = make_warehouse()
    warehouse.create_table(TABLE, "id bigint, note text", ("id",), timestamp=True)
    stage = Stage(warehouse, Surface(warehouse))
    stage.slot()
    stage.write()
    if read_all:
        stage.read()
    found = asked(stage)
    agrees(stage, found)
    assert (found.consumed, found.unread) == (read_all, 0 if read_all else 200)
    stage.surface.close()


def test_a_kernel_that_does_not_tell_is_unknown_or_no_where_rows_are_counted(stage: Stage) -> None:
    stage.slot()
    stage.without("pgxc_consumed_binlog_records")
    assert asked(stage).answer(Action.VACUUM_FULL) is MayBegin.UNKNOWN
    stage.write()
    assert asked(stage).answer(Action.VACUUM_FULL) is MayBegin.NO


def test_a_dn_that_is_down_is_unreachable_and_named(stage: Stage) -> None:
    stage.slot()
    stage.warehouse.dn_down("dn_2")
    with pytest.raises(Unreachable, match="dn_2"):
        asked(stage)
