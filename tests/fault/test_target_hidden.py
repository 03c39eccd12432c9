"""A change of a target that something else seems to explain is named all the same.

Next door: `test_target_changed.py` has the acts themselves, `tests/unit/domain/test_target_seen.py` the rules.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from core.domain.target_seen import read
from core.embedded.warehouse import Warehouse
from core.errors import Trouble, TroubleName
from core.wiring import worker
from tests.support.mirror import MakeMirror, Mirror
from tests.support.standin import run


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    """A job of 300 rows that has not begun."""
    warehouse.create_table("ods.t", "id bigint NOT NULL, v numeric(12,2)", ("id",))
    run(warehouse, "INSERT INTO ods.t SELECT n, n FROM generate_series(1, 300) n")
    return make_mirror(warehouse, "ods.t", "mart.t")


def told(mirror: Mirror) -> Trouble:
    """What the job has ended with."""
    error = mirror.wait_error(30)
    assert isinstance(error, Trouble), error
    assert error.name is TroubleName.TARGET_CHANGED
    return error


def test_a_registration_behind_a_failed_check_does_not_forget_what_that_found(mirror: Mirror) -> None:
    mirror.start().wait_running()
    mirror.wait_equal()
    passed = {row.key: one for row, one in zip(mirror.rows(), records(mirror), strict=True)}
    mirror.at_sink("TRUNCATE mart.t")
    why = told(mirror).message
    with closing(worker.open_progress(mirror.job, "late", worker.who(mirror.job, "late"))) as store:
        for row in store.rows():
            assert row.registered is not None
            with store.registration(row.key, row.epoch) as lock:
                lock.record(row.registered, passed[row.key])
    assert all(one is not None and one.why and one.why in why for one in map(read, records(mirror)))


def records(mirror: Mirror) -> list[str]:
    """The record of each lane, by DN."""
    return [
        text
        for (text,) in mirror.query(mirror.sink, "SELECT target_seen FROM public.slotkeeper_progress ORDER BY shard")
    ]
