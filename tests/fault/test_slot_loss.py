"""The slot is lost or moved at every named moment of a step, of a registration, and while a job rests.

Each time the trouble is named, again at the next start, and nothing that was written after the harm has reached the
target: it was never gone past the hole.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from core.embedded.switches import Switches
from core.embedded.warehouse import Warehouse
from core.errors import Trouble, TroubleName
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.standin import MakeWarehouse, run

TABLE, TARGET = "ods.t", "mart.t"
STEP = ("after_look", "after_read", "after_second_look", "after_commit")
REGISTRATION = ("before_false", "after_false", "before_true", "after_true")
REST = ("running", "paused", "stopped")
LOST, MOVED, CHANGED = TroubleName.SLOT_LOST, TroubleName.SLOT_MOVED, TroubleName.SCHEMA_CHANGED
BEFORE = f"INSERT INTO {TABLE} (id, v) SELECT n, 'before' FROM generate_series(101, 140) n"
BEHIND = f"INSERT INTO {TABLE} (id, v) SELECT n, 'behind' FROM generate_series(201, 240) n"


def make_table(warehouse: Warehouse) -> None:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v varchar(20), w integer", ("id",))


def made_again(mirror: Mirror) -> None:
    run(mirror.warehouse, f"DROP TABLE {TABLE}")
    make_table(mirror.warehouse)


def taken_over(mirror: Mirror) -> None:
    """Somebody else registers the newest point for itself, beyond what was written meanwhile, and it is purged."""
    run(mirror.warehouse, BEFORE.replace("101, 140", "301, 340").replace("before", "skipped"))
    run(mirror.warehouse, f"SELECT pgxc_register_full_sync_point('{TABLE}', '{mirror.job.slot}')")
    mirror.warehouse.purge()


def sql(statement: str) -> Callable[[Mirror], None]:
    return lambda mirror: run(mirror.warehouse, statement.format(table=TABLE, slot=mirror.job.slot))


HARMS: dict[str, tuple[Callable[[Mirror], None], set[TroubleName]]] = {
    "truncate": (sql("TRUNCATE {table}"), {LOST}),
    "add column": (sql("ALTER TABLE {table} ADD COLUMN x integer"), {LOST}),
    "drop column": (sql("ALTER TABLE {table} DROP COLUMN w"), {LOST}),
    "set type": (sql("ALTER TABLE {table} ALTER COLUMN w TYPE bigint"), {LOST}),
    "made again": (made_again, {LOST, CHANGED}),  # a look may fall between DROP and CREATE
    "expired": (lambda mirror: mirror.warehouse.expire(TABLE, mirror.job.slot), {LOST}),
    "dropped slot": (sql("SELECT pgxc_binlog_clear_target_slot('{table}', '{slot}')"), {LOST}),
    "moved": (taken_over, {MOVED}),
}
DDL = ("add column", "drop column", "set type")
EVERY = list(product(HARMS, STEP + REGISTRATION + REST))
QUICK = [
    *product(("truncate",), STEP + REGISTRATION + REST),
    ("add column", "after_read"),
    ("add column", "stopped"),
    ("drop column", "after_look"),
    ("set type", "before_true"),
    ("made again", "after_look"),
    ("expired", "after_second_look"),
    ("dropped slot", "paused"),
    ("moved", "after_read"),
    ("moved", "after_false"),
    ("moved", "stopped"),
]


def prepared(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    make_table(warehouse)
    mirror = make_mirror(warehouse, TABLE, TARGET)
    mirror.source(f"INSERT INTO {TABLE} (id, v) SELECT n, 'old' FROM generate_series(1, 50) n")
    mirror.keepalive = 0.5
    return mirror


def harmed(mirror: Mirror, harm: str, moment: str) -> Trouble:
    """Run the job, do the harm at that moment and write behind it; returns the trouble that it ended with."""

    def act() -> None:
        HARMS[harm][0](mirror)
        run(mirror.warehouse, BEHIND)

    probe = At(moment, act, armed=False)
    mirror.start(probe, probe).wait_running()
    mirror.wait_equal()
    if moment in ("paused", "stopped"):
        mirror.pause() if moment == "paused" else mirror.stop()
    if moment in REST:
        act()
        mirror.start() if moment == "stopped" else None
    else:
        probe.armed = True
        mirror.source(BEFORE)
    error = mirror.wait_error(30)
    assert moment in REST or probe.done.wait(20), "the moment never came"  # a look may see the harm before its end
    assert isinstance(error, Trouble), repr(error)
    return error


def check(mirror: Mirror, harm: str, moment: str) -> None:
    error = harmed(mirror, harm, moment)
    names = HARMS[harm][1]
    assert error.name in names, error
    assert not mirror.query(mirror.sink, f"SELECT id FROM {TARGET} WHERE v = 'behind'")
    applied = mirror.query(mirror.sink, f"SELECT id FROM {TARGET} WHERE v <> 'old'")
    assert sum(mirror.changes().values()) == len(applied), "what was counted is what was applied"
    again = mirror.start().wait_error(30)
    assert isinstance(again, Trouble), repr(again)
    assert again.name in names | {LOST}, again
    if harm in DDL:
        assert "cause: the table's columns changed" in again.message
    assert not mirror.query(mirror.sink, f"SELECT id FROM {TARGET} WHERE v = 'behind'")


@pytest.mark.parametrize(("harm", "moment"), QUICK)
def test_a_lost_slot_is_named_and_nothing_behind_it_is_applied(
    harm: str, moment: str, warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    check(prepared(warehouse, make_mirror), harm, moment)


@pytest.mark.parametrize("moment", ["running", "before_true"])
def test_a_server_that_does_not_make_slots_again_is_understood_alike(
    moment: str, make_warehouse: MakeWarehouse, make_mirror: MakeMirror
) -> None:
    check(prepared(make_warehouse(switches=Switches(auto_create=False)), make_mirror), "truncate", moment)


@pytest.mark.chaos
@pytest.mark.parametrize("auto_create", [True, False])
@pytest.mark.parametrize(("harm", "moment"), EVERY)
def test_every_loss_at_every_moment(
    harm: str, moment: str, auto_create: bool, make_warehouse: MakeWarehouse, make_mirror: MakeMirror
) -> None:
    check(prepared(make_warehouse(switches=Switches(auto_create=auto_create)), make_mirror), harm, moment)
