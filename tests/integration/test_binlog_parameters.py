"""What the binlog's parameters do to a job that runs; how they are read is tested in tests/unit/config."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from core import wiring
from core.embedded.switches import Switches
from core.embedded.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.standin import MakeWarehouse
from tests.support.waiting import until

TABLE = "ods.orders"


def _mirror(warehouse: Warehouse, make_mirror: MakeMirror, **binlog: object) -> Mirror:
    warehouse.create_table(TABLE, "id bigint, note text", ("id",))
    made = make_mirror(warehouse, TABLE)
    made.job = replace(made.job, binlog=replace(made.job.binlog, **binlog))  # type: ignore[arg-type]
    made.source(f"INSERT INTO {TABLE} SELECT n, 'row' FROM generate_series(1, 100) n")
    return made


class Together:
    """A probe that counts how many tasks are between two of its points at once."""

    def __init__(self) -> None:
        self.most = 0
        self._inside: set[int] = set()
        self._lock = threading.Lock()
        self._gate = threading.Event()

    def __call__(self, point: str) -> None:
        me = threading.get_ident()
        with self._lock:
            if point == "after_look":
                self._inside.add(me)
                self.most = max(self.most, len(self._inside))
            elif point in ("after_commit", "after_second_look"):
                self._inside.discard(me)
        if point == "after_look":
            self._gate.wait(0.3)


@pytest.mark.parametrize("size", [2, 5])
def test_connection_pool_size_bounds_the_tasks_that_read_at_once(
    warehouse: Warehouse, make_mirror: MakeMirror, size: int
) -> None:
    mirror = _mirror(warehouse, make_mirror, connection_pool_size=size)
    mirror.start().wait_running()
    together = wiring.probe = Together()
    for _ in range(3):
        mirror.source(f"UPDATE {TABLE} SET note = note || '.'")
    mirror.wait_equal()
    mirror.stop()
    assert together.most <= 2 if size == 2 else together.most > 2


@pytest.mark.parametrize("full_images", [True, False])
def test_binlog_ignore_update_before_leaves_b_rows_at_the_server(
    make_warehouse: MakeWarehouse, make_mirror: MakeMirror, full_images: bool
) -> None:
    warehouse = make_warehouse(switches=Switches(full_old_images=full_images))
    mirror = _mirror(warehouse, make_mirror, binlog_ignore_update_before=True)
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET note = 'new'", f"DELETE FROM {TABLE} WHERE id <= 10")
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'again')")
    mirror.wait_equal()
    mirror.stop()
    assert sum(mirror.changes().values()) == 100 + 10 + 1  # 211 with the B rows


def test_a_changed_key_would_leave_its_old_row_behind(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    """Why the configuration demands the promise `keys_never_change`."""
    warehouse.create_table(TABLE, "id bigint, part bigint", ("id", "part"), ("id",))
    mirror = make_mirror(warehouse, TABLE)
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, binlog_ignore_update_before=True))
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 1)")
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET part = 2")
    until(lambda: len(mirror.target_rows()) == 2, 30, "both rows")
    mirror.stop()
