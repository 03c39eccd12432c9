"""The rules of a job for a different set of DNs: when it checks, which DNs it adopts, and which it treats as a loss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.job import JobEvent, WantedState
from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.demo.scaling import add_dn, rename_dn
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror
from tests.support.standin import run
from tests.support.topology import KEYS, TABLE, consumed, prepared, touch
from tests.support.waiting import until


@pytest.mark.parametrize("moment", ["running", "stopped"])
def test_without_need_redistribution_any_change_is_named_and_not_even_asked_for(
    moment: str, warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = prepared(warehouse, make_mirror, need=False)
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop() if moment == "stopped" else None
    rename_dn(warehouse, "dn_2", "dn_two")
    mirror.start() if moment == "stopped" else None
    error = mirror.wait_error(30)
    assert isinstance(error, Trouble) and error.name is TroubleName.TOPOLOGY_CHANGED, repr(error)
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, need_redistribution=True))
    mirror.start().wait_running()
    mirror.stop()


def test_the_interval_is_how_soon_a_busy_job_sees_it(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    """Only the interval detects a DN that no check shows; with a long interval, not within the test."""
    warehouse.configure(Switches(auto_create=False))
    mirror = prepared(warehouse, make_mirror)
    long = replace(mirror.job.binlog, check_node_change_interval=3_600_000)
    short, mirror.job = mirror.job, replace(mirror.job, binlog=long)
    mirror.start().wait_running()
    mirror.wait_equal()
    consumed(mirror)
    add_dn(warehouse, "dn_5", points=False)
    before = mirror.heard.registrations
    until(lambda: mirror.heard.registrations > before + 8, 30, "the job to go on registering")
    assert mirror.error is None
    mirror.stop()
    mirror.job = short
    error = mirror.start().wait_error(30)
    assert isinstance(error, Trouble)
    assert "the start of recording on dn_5 is unknown (its points: none)" in error.message


def test_a_kill_in_the_middle_of_an_adoption_leaves_the_old_set_or_the_new_one(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = prepared(warehouse, make_mirror)
    mirror.start().wait_running()
    mirror.wait_equal()
    consumed(mirror)
    mirror.stop()
    add_dn(warehouse, "dn_5")
    rename_dn(warehouse, "dn_1", "dn_one")
    touch(mirror)

    def killed() -> None:
        raise KeyboardInterrupt

    error = mirror.start(driver_probe=At("after_adoption", killed)).wait_error(30)
    assert isinstance(error, KeyboardInterrupt)
    assert {row.key.shard for row in mirror.rows()} == {"dn_one", "dn_2", "dn_3", "dn_4", "dn_5"}
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    counted = {row.key.shard: row.changes for row in mirror.rows()}
    assert counted["dn_5"] > 0 and sum(counted.values()) == 2 * (2 * KEYS + 1 + 1)


def test_a_row_that_is_lost_is_not_taken_for_a_new_dn(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = prepared(warehouse, make_mirror)
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    mirror.at_sink("DELETE FROM slotkeeper_progress WHERE shard = 'dn_3'")
    error = mirror.start().wait_error(30)
    assert isinstance(error, Trouble) and error.name is TroubleName.PROGRESS_LOST, repr(error)


@pytest.mark.parametrize("started", [True, False])
def test_rows_of_an_older_table_tell_their_number_from_the_next_start_on(
    started: bool, warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    """Until then a new DN can also be one whose row is lost."""
    mirror = prepared(warehouse, make_mirror)
    mirror.start().wait_running()
    mirror.stop()
    mirror.at_sink("ALTER TABLE slotkeeper_progress DROP COLUMN dns", "DROP TABLE slotkeeper_versions")
    if started:
        mirror.start().wait_running()
        mirror.stop()
    add_dn(warehouse, "dn_5")
    mirror.start()
    if started:
        mirror.wait_running()
        mirror.stop()
        return
    error = mirror.wait_error(30)
    assert isinstance(error, Trouble) and error.name is TroubleName.PROGRESS_LOST, repr(error)


def test_while_one_dn_is_down_the_others_go_on(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = prepared(warehouse, make_mirror)
    mirror.start().wait_running()
    mirror.wait_equal()
    before = mirror.changes()
    warehouse.dn_down("dn_3")
    touch(mirror, 1)
    others = ("dn_1", "dn_2", "dn_4")
    until(lambda: all(mirror.changes()[name] > before[name] for name in others), 60, "the other DNs to go on")
    assert mirror.changes()["dn_3"] == before["dn_3"] and mirror.error is None
    run(warehouse, f"UPDATE {TABLE} SET v = v + 1")
    warehouse.dn_down(None)
    mirror.wait_equal()
    assert JobEvent.STOPPED not in mirror.heard.events
    mirror.stop()


def test_a_paused_job_keeps_its_slot_alive_beside_another_set_of_dns(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = prepared(warehouse, make_mirror)
    mirror.start().wait_running()
    mirror.wait_equal()
    consumed(mirror)
    mirror.pause()
    add_dn(warehouse, "dn_5")
    before = mirror.heard.registrations
    until(lambda: mirror.heard.registrations > before + 8, 30, "every old DN to be registered twice again")
    mirror.wanted = WantedState.RUN
    touch(mirror)
    mirror.wait_equal()
    assert {row.key.shard for row in mirror.rows()} == {f"dn_{n}" for n in range(1, 6)}
    mirror.stop()
