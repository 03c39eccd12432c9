"""A start that fails before its first registration has registered nothing: its retry still compares as a first start.

A slot with points belongs to a progress table that was lost; a retry that takes it over as a new job's would hide that.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.engine.driver import start
from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.core.sources.dws.source import DwsSlotAdmin
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.standin import run
from tests.support.waiting import until

TABLE = "ods.t"
KILLS = [
    ("before_first_registration", 1),
    ("in_first_registration", 1),
    ("after_first_registration", 1),
    ("before_first_registration", 1),
    ("in_first_registration", 4),
]


class Killed(Exception):
    """The driver ends at this point."""


def kill() -> None:
    raise Killed


def mirror_of(warehouse: Warehouse, make_mirror: MakeMirror, start_at: str = "initial") -> Mirror:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'old' FROM generate_series(1, 20) n")
    mirror = make_mirror(warehouse, TABLE, "mart.t")
    mirror.job = replace(mirror.job, start=start_at)
    return mirror


def with_lost_progress(mirror: Mirror) -> Mirror:
    """The slot is registered, and the sink has no record of it."""
    run(mirror.warehouse, f"SELECT pgxc_register_full_sync_point('{TABLE}', '{mirror.job.slot}')")
    return mirror


def refused(mirror: Mirror) -> None:
    error = mirror.start().wait_error()
    assert isinstance(error, Trouble)
    assert error.name is TroubleName.PROGRESS_LOST
    assert mirror.rows() == [], "a rejected start leaves no row"


def test_progress_lost_is_still_said_after_a_dn_that_was_down(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = with_lost_progress(mirror_of(warehouse, make_mirror))
    warehouse.dn_down("dn_3")
    mirror.start()
    until(lambda: mirror.heard.retries, 20, "the comparison to fail")
    assert {row.state for row in mirror.rows()} == {LaneState.CREATING}
    warehouse.dn_down(None)
    error = mirror.wait_error()
    assert isinstance(error, Trouble)
    assert error.name is TroubleName.PROGRESS_LOST
    refused(mirror)


def test_progress_lost_is_still_said_after_a_kill(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = with_lost_progress(mirror_of(warehouse, make_mirror))
    assert isinstance(mirror.start(driver_probe=At("after_first_rows", kill)).wait_error(), Killed)
    assert len(mirror.rows()) == 4
    refused(mirror)


def test_progress_lost_is_still_said_after_a_pause(
    warehouse: Warehouse, make_mirror: MakeMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = with_lost_progress(mirror_of(warehouse, make_mirror))
    monkeypatch.setattr(start, "LOST_ANSWER_WAIT", 1.0)
    monkeypatch.setattr(DwsSlotAdmin, "end_sessions", lambda *_: False)
    mirror.start(driver_probe=At("after_first_rows", lambda: setattr(mirror, "wanted", WantedState.PAUSE)))
    mirror.pause()
    mirror.wanted = WantedState.RUN
    error = mirror.wait_error()
    assert isinstance(error, Trouble)
    assert error.name is TroubleName.PROGRESS_LOST


@pytest.mark.parametrize("kind", ["initial", "latest", pytest.param("points", marks=pytest.mark.chaos)])
def test_points_of_our_own_broken_starts_are_not_progress_lost(
    kind: str, warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    if kind != "initial":
        run(warehouse, f"SELECT pgxc_register_full_sync_point('{TABLE}', 'another')")
        newest = mirror.query(warehouse.connect, "SELECT max(sync_point) FROM dws.slot")[0][0]
        points = ", ".join(f"{name}={newest}" for name, _ in warehouse.nodes())
        mirror.job = replace(mirror.job, start=kind if kind == "latest" else points)
    for point, nth in KILLS:  # the points of earlier attempts belong to the job as well, whatever they completed
        assert isinstance(mirror.start(driver_probe=At(point, kill, nth)).wait_error(), Killed)
    mirror.start().wait_running()
    run(warehouse, f"INSERT INTO {TABLE} VALUES (101, 'new')")
    until(lambda: ("(101,new)",) in mirror.target_rows(), 20, "the new row to arrive")
    mirror.stop()


def test_points_ahead_of_our_own_broken_start_are_somebody_elses(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    assert isinstance(mirror.start(driver_probe=At("after_first_registration", kill)).wait_error(), Killed)
    run(warehouse, f"INSERT INTO {TABLE} VALUES (101, 'new')")
    run(warehouse, f"SELECT pgxc_register_full_sync_point('{TABLE}', '{mirror.job.slot}')")
    error = mirror.start().wait_error()
    assert isinstance(error, Trouble)
    assert error.name is TroubleName.SLOT_MOVED
