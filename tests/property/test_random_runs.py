"""Any history of a table, interrupted at any point: the mirror equals the source, and every event is counted once.

Histories are drawn over few keys, so that inserts, deletes, changed keys and repeated changes to one key meet
within one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from slotkeeper.core.drivers import pg
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.waiting import until

pytestmark = pytest.mark.slow
TABLE = "ods.t"

Change = tuple[str, tuple[int, int], int, int]
Transactions = list[list[Change]]

KEYS = st.tuples(st.integers(0, 5), st.integers(0, 3))
CHANGES = st.tuples(st.sampled_from(("put", "delete", "move", "touch all")), KEYS, st.integers(0, 3), st.integers())
TRANSACTIONS = st.lists(st.lists(CHANGES, min_size=1, max_size=12), min_size=1, max_size=6)
DISTURBANCES = st.sampled_from(("nothing", "stop", "stop and purge", "end sink sessions", "end source sessions"))
RUNS = st.lists(st.tuples(TRANSACTIONS, DISTURBANCES), min_size=1, max_size=3)
LIMITS = st.tuples(st.integers(1, 6), st.integers(1, 20))


@dataclass
class Table:
    """The source's rows and the number of its binlog events, as the test counts them."""

    rows: dict[tuple[int, int], int] = field(default_factory=dict)
    events: int = 0

    def statement(self, change: Change) -> tuple[str, tuple[int, ...]] | None:
        """The change as a statement, after recording it here; None if it does not apply to the rows."""
        kind, (place, number), other, value = change
        key = (place, number)
        value %= 1_000
        if kind == "put":
            self.events += 2 if key in self.rows else 1
            self.rows[key] = value
            upsert = "INSERT INTO {} VALUES (%s, %s, %s) ON CONFLICT (place, number) DO UPDATE SET v = excluded.v"
            return upsert.format(TABLE), (*key, value)
        if kind == "touch all":
            here = [one for one in self.rows if one[0] == place]
            self.events += 2 * len(here)
            self.rows.update({one: self.rows[one] + 1 for one in here})
            return f"UPDATE {TABLE} SET v = v + 1 WHERE place = %s", (place,)
        if key not in self.rows:
            return None
        if kind == "delete":
            self.events += 1
            del self.rows[key]
            return f"DELETE FROM {TABLE} WHERE place = %s AND number = %s", key
        if (place, other) in self.rows:
            return None
        self.events += 2
        self.rows[place, other] = self.rows.pop(key)
        return f"UPDATE {TABLE} SET number = %s WHERE place = %s AND number = %s", (other, *key)


def end_sessions(connect: Callable[[], pg.Connection], database: str) -> None:
    connection = connect()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name LIKE 'slotkeeper/job%%' AND application_name NOT LIKE '%%/test' AND datname = %s",
            (database,),
        )
    connection.close()


def disturb(mirror: Mirror, how: str) -> None:
    if how == "end sink sessions":
        end_sessions(mirror.sink, mirror.sink_database)
    elif how == "end source sessions":
        end_sessions(mirror.warehouse.connect, mirror.job.source.database)
    elif how != "nothing":
        mirror.stop()
        if how == "stop and purge":
            mirror.warehouse.purge()
        mirror.start()


def write(connection: pg.Connection, table: Table, transactions: Transactions) -> None:
    for changes in transactions:
        with pg.transaction(connection) as cursor:
            for change in changes:
                if (statement := table.statement(change)) is not None:
                    cursor.execute(*statement)


@contextmanager
def running(mirror: Mirror, limits: tuple[int, int]) -> Iterator[None]:
    """Run the job in the block; `limits` are the sync points of a step and the rows of a transaction."""
    points, rows = limits
    mirror.job = replace(
        mirror.job,
        binlog=replace(mirror.job.binlog, binlog_sync_point_size=points),
        sink_options=replace(mirror.job.sink_options, auto_flush_batch_size=rows),
    )
    mirror.start()
    yield
    mirror.stop()


@pytest.mark.parametrize("count", [12, pytest.param(25, marks=pytest.mark.chaos)])
def test_any_history_arrives_once_and_in_order(
    count: int, warehouse: Warehouse, make_mirror: MakeMirror, seed: int
) -> None:
    warehouse.create_table(TABLE, "place integer, number integer, v bigint", ("place", "number"), ("place",))
    mirror, table = make_mirror(warehouse, TABLE, "mart.t"), Table()
    connection = warehouse.connect(False)

    @seeded(seed)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),  # one mirror serves all examples, so that none can be repeated alone
    )
    @given(RUNS, LIMITS)
    def examples(runs: list[tuple[Transactions, str]], limits: tuple[int, int]) -> None:
        with running(mirror, limits):
            for transactions, disturbance in runs:
                write(connection, table, transactions)
                disturb(mirror, disturbance)
            mirror.wait_running()
            until(lambda: sum(mirror.changes().values()) >= table.events, 60, f"{table.events} events to be applied")
            assert sum(mirror.changes().values()) == table.events
            assert mirror.difference() == (0, 0)
            assert sorted(mirror.source_rows()) == sorted(
                (f"({place},{number},{v})",) for (place, number), v in table.rows.items()
            )

    # the first example starts with a slot, and only the examples write
    mirror.start().wait_running()
    mirror.stop()
    print(f"seed {seed}")
    examples()
    connection.close()
