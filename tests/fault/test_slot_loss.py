"""The slot is lost or moved at every named moment of a step, of a registration, and while a job is stopped.

Each time the error is named, again at the next start, and no change written after the harm has reached the target: the
job never passes the gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from slotkeeper.core.domain.reset import DONE
from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.report import Page
from tests.support.resetting import SNAPSHOT, Resetting
from tests.support.standin import MakeWarehouse, run

TABLE, TARGET = "ods.t", "mart.t"
STEP = ("after_status", "after_read", "after_recheck", "after_commit")
REGISTRATION = ("before_false", "after_false", "before_true", "after_true")
REST = ("running", "paused", "stopped")
HARMED = 2
"""The number of the one DN that some harms affect."""
LOST, MOVED, CHANGED = TroubleName.SLOT_LOST, TroubleName.SLOT_MOVED, TroubleName.SCHEMA_CHANGED
BEFORE = f"INSERT INTO {TABLE} (id, v) SELECT n, 'before' FROM generate_series(101, 140) n"
BEHIND = f"INSERT INTO {TABLE} (id, v) SELECT n, 'behind' FROM generate_series(201, 240) n"


def make_table(warehouse: Warehouse) -> None:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v varchar(20), w integer", ("id",))


def made_again(mirror: Mirror) -> None:
    run(mirror.warehouse, f"DROP TABLE {TABLE}")
    make_table(mirror.warehouse)


def taken_over(mirror: Mirror) -> None:
    """Another session registers the newest point, beyond the changes written in between, which are then purged."""
    run(mirror.warehouse, BEFORE.replace("101, 140", "301, 340").replace("before", "skipped"))
    run(mirror.warehouse, f"SELECT pgxc_register_full_sync_point('{TABLE}', '{mirror.job.slot}')")
    mirror.warehouse.purge()


def restored(mirror: Mirror) -> None:
    """The warehouse is restored from a backup: older rows, and no increments and points (documented)."""
    run(
        mirror.warehouse,
        f"DELETE FROM {TABLE} WHERE id > 45",
        "DELETE FROM dws.slot",
        settings=("SET session_replication_role = replica",),
    )


def on_one_dn(change: str) -> Callable[[Mirror], None]:
    """Only one DN's points are changed, without the documented calls."""
    return sql(f"UPDATE dws.slot SET {change} WHERE slot_name = '{{slot}}' AND dn = {HARMED}")


def sql(statement: str) -> Callable[[Mirror], None]:
    return lambda mirror: run(mirror.warehouse, statement.format(table=TABLE, slot=mirror.job.slot))


HARMS: dict[str, tuple[Callable[[Mirror], None], set[TroubleName]]] = {
    "truncate": (sql("TRUNCATE {table}"), {LOST}),
    "add column": (sql("ALTER TABLE {table} ADD COLUMN x integer"), {LOST}),
    "drop column": (sql("ALTER TABLE {table} DROP COLUMN w"), {LOST}),
    "set type": (sql("ALTER TABLE {table} ALTER COLUMN w TYPE bigint"), {LOST}),
    "made again": (made_again, {LOST, CHANGED}),  # a check may fall between DROP and CREATE
    "expired": (lambda mirror: mirror.warehouse.expire(TABLE, mirror.job.slot), {LOST}),
    "dropped slot": (sql("SELECT pgxc_binlog_clear_target_slot('{table}', '{slot}')"), {LOST}),
    "expired on one DN": (on_one_dn("sync_timestamp = now() - interval '10 days'"), {LOST}),
    "moved": (taken_over, {MOVED}),
    "moved on one DN": (on_one_dn("sync_point = sync_point + 1000"), {MOVED}),
    "moved back on one DN": (on_one_dn("sync_point = 1"), {MOVED}),
    "restored from a backup": (restored, {LOST}),
}
DDL = ("add column", "drop column", "set type")
ONE_DN = ("expired on one DN", "moved on one DN", "moved back on one DN")
EVERY = list(product(HARMS, STEP + REGISTRATION + REST))
WAYS_OUT = [*((harm, REST[n % len(REST)]) for n, harm in enumerate(HARMS)), ("truncate", "after_read")]
"""Each harm once, each stopped moment with four of them; the chaos run has every harm at every moment."""
QUICK = [
    *product(("truncate",), (moment for moment in STEP + REGISTRATION if moment != "after_read")),
    ("drop column", "after_status"),
    ("set type", "before_true"),
    ("made again", "after_status"),
    ("expired", "after_recheck"),
    ("moved", "after_false"),
]
"""In addition to those."""


def prepared(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    make_table(warehouse)
    mirror = make_mirror(warehouse, TABLE, TARGET)
    mirror.source(f"INSERT INTO {TABLE} (id, v) SELECT n, 'old' FROM generate_series(1, 50) n")
    mirror.keepalive = 0.5
    return mirror


def harmed(mirror: Mirror, harm: str, moment: str) -> Trouble:
    """Run the job, do the harm at that moment and write after it; returns the error that the job ended with."""

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
    assert moment in REST or probe.done.wait(120), "the moment never came"  # a check may see the harm before its end
    assert isinstance(error, Trouble), repr(error)
    return error


def behind(mirror: Mirror, harm: str) -> set[int]:
    """Return the changes written after the harm that reached the target, of one DN if the others may continue."""
    found = {id_ for (id_,) in mirror.query(mirror.sink, f"SELECT id FROM {TARGET} WHERE v = 'behind'")}
    if harm not in ONE_DN:
        return found
    connect = mirror.warehouse.connect
    place = mirror.query(connect, f"SELECT dws.dn_expression('{TABLE}'::regclass, 'o')")[0][0]
    return found & {id_ for (id_,) in mirror.query(connect, f"SELECT o.id FROM {TABLE} o WHERE {place} = {HARMED}")}


def check(mirror: Mirror, harm: str, moment: str) -> tuple[str, str]:
    """Check both messages: that of the affected job, and that of the next start."""
    error = harmed(mirror, harm, moment)
    names = HARMS[harm][1]
    assert error.name in names, error
    assert not behind(mirror, harm)
    applied = mirror.query(mirror.sink, f"SELECT id FROM {TARGET} WHERE v <> 'old'")
    assert sum(mirror.changes().values()) == len(applied), "the count equals the number of applied changes"
    again = mirror.start().wait_error(30)
    assert isinstance(again, Trouble), repr(again)
    assert again.name in names | {LOST}, again
    if harm in DDL:
        assert "cause: the table's columns changed" in again.message
    assert not behind(mirror, harm)
    return str(error), str(again)


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


@pytest.mark.parametrize(("harm", "moment"), WAYS_OUT)
def test_the_way_out_that_is_offered_leads_to_an_equal_mirror(
    harm: str, moment: str, warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = prepared(warehouse, make_mirror)
    check(mirror, harm, moment)
    way_out(mirror, harm, tmp_path)


def way_out(mirror: Mirror, harm: str, folder: Path) -> None:
    """Adapt columns where DDL changed them, then take a new snapshot: equal, and followed from there on."""
    if harm in DDL:
        mirror.at_sink({
            "add column": f"ALTER TABLE {TARGET} ADD COLUMN x integer",
            "drop column": f"ALTER TABLE {TARGET} DROP COLUMN w",
            "set type": f"ALTER TABLE {TARGET} ALTER COLUMN w TYPE bigint",
        }[harm])  # fmt: skip
    mirror.job = replace(mirror.job, on_existing="replace")
    assert Resetting(mirror, folder / "state").reset(SNAPSHOT).outcome == DONE
    mirror.start().wait_running()
    run(mirror.warehouse, BEHIND.replace("201, 240", "501, 540").replace("behind", "after"))
    mirror.wait_equal()
    mirror.stop()


@pytest.fixture(scope="session")
def page() -> Page:
    """The result of every case of the chaos run."""
    about = "Each harm at each moment, on a server that recreates a slot when asked and on one that does not."
    return Page(
        "losses",
        "Lost and moved slots",
        about,
        ("harm", "moment", "makes slots", "the job", "the next start", "equal after a snapshot"),
    )


@pytest.mark.chaos
@pytest.mark.parametrize("auto_create", [True, False])
@pytest.mark.parametrize(("harm", "moment"), EVERY)
def test_every_loss_at_every_moment(
    harm: str,
    moment: str,
    auto_create: bool,
    make_warehouse: MakeWarehouse,
    make_mirror: MakeMirror,
    tmp_path: Path,
    page: Page,
) -> None:
    mirror = prepared(make_warehouse(switches=Switches(auto_create=auto_create)), make_mirror)
    sentences = check(mirror, harm, moment)
    way_out(mirror, harm, tmp_path)
    page.add(harm, moment, auto_create, *sentences, True)
