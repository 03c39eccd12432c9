"""Events that no vendor's page describes, and a key that changes under a job: a named error, nothing is applied."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.errors import Defect, Trouble, TroubleName
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror

TABLE, TARGET = "ods.t", "mart.t"
LATE = 30
"""Seconds after which a job that continues has not seen the event."""
CHANGED = f"UPDATE {TABLE} SET v = 'x' WHERE id = 3"


def running(warehouse: Warehouse, make_mirror: MakeMirror, where: str = "") -> Mirror:
    """A job that is RUNNING over 20 rows of a table with two key columns."""
    warehouse.create_table(TABLE, "id bigint NOT NULL, part integer NOT NULL, v text", ("id", "part"))
    mirror = make_mirror(warehouse, TABLE, TARGET)
    mirror.job = replace(mirror.job, channels=(replace(mirror.job.channel, where=where),))
    mirror.source(f"INSERT INTO {TABLE} SELECT n, 1, 'Ada' FROM generate_series(1, 20) n")
    mirror.start().wait_running()
    mirror.wait_equal()
    return mirror


def spoiled(mirror: Mirror, write: str, change: str) -> None:
    """Run a transaction whose records differ from the written rows: changed in the store before it commits."""
    store = f"(SELECT 'dws.b_' || '{TABLE}'::regclass::oid)"
    update = f"UPDATE %s SET {change} AND xid = pg_current_xact_id()".replace("'", "''")
    mirror.source(write, f"DO $$ BEGIN EXECUTE format('{update}', {store}); END $$")


ODD = {
    "an unknown event code": (f"INSERT INTO {TABLE} VALUES (101, 1, 'Z')", "typ = 'Z' WHERE typ = 'I'", "I, d, B or U"),
    "the code that we use ourselves": (CHANGED, "typ = 'x' WHERE typ = 'U'", "I, d, B or U"),
    "a deleted row without its key": (f"DELETE FROM {TABLE} WHERE id = 3", "c2 = NULL WHERE typ = 'd'", "key"),
    "an old image without its key": (CHANGED, "c1 = NULL WHERE typ = 'B'", "key"),
}


CHAOS = ("the code that we use ourselves", "an old image without its key")


@pytest.mark.parametrize("odd", [pytest.param(one, marks=[pytest.mark.chaos] * (one in CHAOS)) for one in ODD])
def test_a_step_with_an_odd_event_ends_as_a_named_defect_and_applies_nothing(
    warehouse: Warehouse, make_mirror: MakeMirror, odd: str
) -> None:
    write, change, named = ODD[odd]
    mirror = running(warehouse, make_mirror)
    before, counted = mirror.target_rows(), sum(mirror.changes().values())
    spoiled(mirror, write, change)
    error = mirror.wait_error(LATE)
    assert isinstance(error, Defect) and named in error.message and error.hint, error
    assert "Ada" not in error.message, "the text contains no value of a row"
    assert sorted(mirror.target_rows()) == sorted(before) and sum(mirror.changes().values()) == counted


def test_an_unknown_code_is_not_a_delete_where_a_row_filter_makes_deletes_of_others(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = running(warehouse, make_mirror, where='"part" = 1')
    mirror.source(f"INSERT INTO {TABLE} VALUES (50, 2, 'left out')")
    spoiled(mirror, CHANGED, "typ = 'x' WHERE typ = 'U'")
    assert isinstance(mirror.wait_error(LATE), Defect)


@pytest.mark.parametrize("key", ["id", pytest.param("part, id", marks=pytest.mark.chaos)])
def test_another_primary_key_under_a_running_job_is_seen_by_the_next_look(
    warehouse: Warehouse, make_mirror: MakeMirror, key: str
) -> None:
    mirror = running(warehouse, make_mirror)
    mirror.source(f"ALTER TABLE {TABLE} DROP CONSTRAINT t_pkey, ADD PRIMARY KEY ({key})")
    error = mirror.wait_error(LATE)
    assert isinstance(error, Trouble) and error.name in (TroubleName.SCHEMA_CHANGED, TroubleName.SLOT_LOST), error
