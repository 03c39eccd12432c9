"""A job with soft deletes: copy, stream and reset to a snapshot, through kills."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.reset import DONE
from slotkeeper.core.domain.spec import SoftDelete
from slotkeeper.core.services.verify import verify
from slotkeeper.demo.warehouse import Warehouse
from tests.fault.test_snapshot_rows import REPLACE, kill, words
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.resetting import Resetting
from tests.support.waiting import until

TABLE, TARGET = "ods.t", "mart.t"


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    warehouse.create_table(TABLE, "id bigint, v bigint", ("id",), ("id",))
    made = make_mirror(warehouse, TABLE, TARGET)
    channel = replace(made.job.channel, soft_delete=SoftDelete("gone_at", "last_op"), synced_at="synced_at")
    made.job = replace(made.job, channels=(channel,))
    return made


def write(mirror: Mirror, draw: random.Random, gone: set[int], rows: dict[int, int], number: int) -> None:
    """Run transactions of inserts, updates, deletes and changed keys; `gone` are the keys whose row was deleted."""
    for _ in range(number):
        with closing(mirror.warehouse.connect(False)) as connection, connection.cursor() as cursor:
            for _ in range(draw.randint(1, 4)):
                key, value = draw.randint(1, 30), draw.randint(1, 1_000)
                if key not in rows:
                    cursor.execute(f"INSERT INTO {TABLE} VALUES (%s, %s)", (key, value))
                    gone.discard(key)
                elif draw.random() < 0.4:
                    cursor.execute(f"DELETE FROM {TABLE} WHERE id = %s", (key,))
                    del rows[key]
                    gone.add(key)
                    continue
                else:
                    cursor.execute(f"UPDATE {TABLE} SET v = %s WHERE id = %s", (value, key))
                rows[key] = value
            connection.commit()


def marked(mirror: Mirror) -> set[int]:
    """Return the marked keys; each mark is complete, and no other row has a mark."""
    found = mirror.query(mirror.sink, f"SELECT id, gone_at IS NOT NULL, last_op, synced_at IS NULL FROM {TARGET}")
    assert all((op == "D") == gone and not never for _, gone, op, never in found), found
    return {id for id, gone, *_ in found if gone}


def same(mirror: Mirror) -> bool:
    return verify(mirror.job, False, lambda done, planned: None).equal


def test_deleted_rows_are_marked_through_kills_and_a_new_snapshot(mirror: Mirror, tmp_path: Path, seed: int) -> None:
    """`soft_delete` and `synced_at`, with random changes of few keys."""
    draw, gone, rows = random.Random(seed), set[int](), dict[int, int]()
    write(mirror, draw, gone, rows, 10)
    gone.clear()  # a copy does not read rows that were deleted before
    mirror.start().wait_running()
    assert marked(mirror) == set()
    for point in ("after_read", "after_recheck", "after_commit"):
        mirror.stop()
        write(mirror, draw, gone, rows, 15)
        at = At(point, kill)
        mirror.start(probe=at).wait_running()
        write(mirror, draw, gone, rows, 5)
        mirror._until(lambda: same(mirror) and marked(mirror) == gone, 60, f"the target to follow, seed {seed}")
        assert at.done.is_set()
    mirror.stop()
    state = Resetting(mirror, tmp_path / "state")
    mirror.source(f"TRUNCATE {TABLE}", f"INSERT INTO {TABLE} VALUES (1, 1), (31, 1)")
    plan = state.plan(REPLACE)
    assert "rows that the source lacks are retained and marked as deleted" in words(plan)
    assert state.execute(plan, rows=plan.at_stake).outcome == DONE
    mirror.start().wait_running()
    everything = gone | rows.keys()
    until(lambda: same(mirror), 30, "the copy to be equal")
    assert marked(mirror) == everything - {1, 31}
    mirror.source(f"INSERT INTO {TABLE} SELECT n, n FROM generate_series(2, 5) n")
    mirror._until(
        lambda: same(mirror) and marked(mirror) == everything - {1, 2, 3, 4, 5, 31}, 30, "the rows to be back"
    )
    mirror.stop()
