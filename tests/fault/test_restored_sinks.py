"""A sink was restored to an older copy: the start reports this, on the job's own host and on any other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobEvent, JobState
from slotkeeper.core.domain.remedy import first_act
from slotkeeper.core.domain.report import JobReport, LaneReport
from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.core.spark.job import _recorded
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.standin import run
from tests.support.waiting import until

TABLE, TARGET = "ods.orders", "mart.orders"
TABLES = (TARGET, "public.slotkeeper_progress")


def save(mirror: Mirror, name: str) -> None:
    """Return a copy of the target and its progress rows as of one moment, while the job runs."""
    connection = mirror.sink_server.connect(mirror.sink_database, autocommit=False)
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; CREATE SCHEMA {name}")
        for table in TABLES:
            cursor.execute(f"CREATE TABLE {name}.{table.partition('.')[2]} AS TABLE {table}")
        connection.commit()


def restore(mirror: Mirror, name: str) -> None:
    """Restore a copy, as a restore of the sink does."""
    back = [f"DELETE FROM {one}; INSERT INTO {one} TABLE {name}.{one.partition('.')[2]}" for one in TABLES]
    mirror.at_sink("; ".join(back))


def grown(mirror: Mirror, warehouse: Warehouse, number: int) -> None:
    """Forty more rows, applied and registered on every DN that has one."""
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'row' FROM generate_series({number * 40 + 1}, {number * 40 + 40}) n")
    mirror.wait_equal()
    slot = f"SELECT dn, sync_point FROM dws.slot WHERE slot_name = '{mirror.job.slot}' AND checkpoint ORDER BY dn"

    def registered() -> bool:
        there = [point for _, point in mirror.query(warehouse.connect, slot)]
        rows = sorted(mirror.rows(), key=lambda row: row.node_id)
        return sorted(there) == sorted(int(row.position.text.partition("/")[0]) for row in rows if row.position)

    until(registered, 60, "the slot to follow the rows")


def same_host(mirror: Mirror, folder: Path) -> Store:
    """The state folder of the host on which the job ran."""
    store = Store.open(folder)
    lanes = [
        LaneReport(
            shard=row.key.shard,
            node_id=row.node_id,
            state=row.state.value,
            activity="idle",
            position=row.position.text if row.position else None,
            latest=None,
            registered=None,
            changes=row.changes,
            last_commit_age=None,
        )
        for row in mirror.rows()
    ]
    report(store, mirror.job.name, *lanes)
    return store


def report(store: Store, job: str, *lanes: LaneReport) -> None:
    store.register_job(job, "c.toml")
    store.begin_run(job, "run-1")
    store.apply(job, JobEvent.BEGAN)
    store.put_report(JobReport(job, "run-1", JobState.RUNNING.value, lanes=lanes))


def other_host(mirror: Mirror, folder: Path) -> Store:
    """The state folder of a host that runs other jobs."""
    store = Store.open(folder)
    report(store, "another_job")
    return store


def no_state(mirror: Mirror, folder: Path) -> Store:
    return Store.open(folder)


HOSTS: dict[str, Callable[[Mirror, Path], Store]] = {
    "same host": same_host,
    "other host": other_host,
    "no state folder": no_state,
}


@pytest.mark.parametrize("copies", [1, pytest.param(10, marks=pytest.mark.chaos)])
def test_a_restored_sink_is_named_first_on_whichever_host_the_job_starts_next(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path, copies: int
) -> None:
    warehouse.create_table(TABLE, "id bigint, note text", ("id",))
    mirror = make_mirror(warehouse, TABLE, TARGET)
    mirror.start().wait_running()
    for number in range(copies):
        grown(mirror, warehouse, number)
        save(mirror, f"copy_{number}")
    grown(mirror, warehouse, copies)
    mirror.stop()
    stores = {name: make(mirror, tmp_path / name.replace(" ", "_")) for name, make in HOSTS.items()}
    said = []
    for number in range(copies):
        for name, store in stores.items():
            restore(mirror, f"copy_{number}")
            mirror.recorded = _recorded(store, mirror.job)
            error = mirror.start().wait_error()
            assert isinstance(error, Trouble)
            first, restored = first_act(error.hint), "Find out whether the sink was restored"
            assert first.startswith(restored)
            if name == "same host":
                assert error.name is TroubleName.SINK_OLDER and "the sink's progress row is back at" in error.message
            else:
                assert error.name is TroubleName.SLOT_MOVED
                assert error.message.index("the sink was restored") < error.message.index("another session moved")
                assert "find the other program that uses this slot" in first
            said.append(f"copy {number}, {name}: {error}")
    print(*said, sep="\n")
    assert len(said) == 3 * copies
