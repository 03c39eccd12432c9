"""One job over several tables: each is mirrored as in a separate job, for any interruption."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slotkeeper.core.domain.job import JobEvent, JobState, TableReport, WantedState
from slotkeeper.core.domain.progress import Activity, LaneState
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.drivers import pg
from slotkeeper.core.engine.driver.loop import Loop
from slotkeeper.core.engine.tasks import LaneTask, StreamTask
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.errors import Trouble, TroubleName, Unreachable
from slotkeeper.core.sinks.postgres.progress.store import PostgresProgress
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.wiring import worker
from slotkeeper.core.wiring.driver import WiredSessions
from slotkeeper.demo.scaling import add_dn, rename_dn
from slotkeeper.demo.warehouse import Warehouse
from tests.property.test_random_runs import disturb
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.standin import run
from tests.support.waiting import until

TABLES = ("ods.a", "ods.b", "ods.c")
ROWS = 300


def channel(table: str, target: str = "") -> ChannelSpec:
    return ChannelSpec(table, target or table.replace("ods.", "mart."), create_target=True)


def mirror_of(warehouse: Warehouse, make_mirror: MakeMirror, tables: tuple[str, ...] = TABLES) -> Mirror:
    """A job over `tables`, each with its own rows."""
    for number, table in enumerate(TABLES, 1):
        warehouse.create_table(table, "id bigint NOT NULL, v bigint", ("id",))
        run(warehouse, f"INSERT INTO {table} SELECT n, {number} FROM generate_series(1, {ROWS * number}) n")
    mirror = make_mirror(warehouse, TABLES[0])
    options = replace(mirror.job.binlog, full_sync_binlog_batch_read_size=50)
    mirror.job = replace(mirror.job, binlog=options, channels=tuple(map(channel, tables)))
    return mirror


def touched(mirror: Mirror) -> dict[str, int]:
    """Change all tables in one transaction; return the resulting events by table."""
    mirror.source(
        f"UPDATE {TABLES[0]} SET v = v + 1 WHERE id <= 40",
        f"DELETE FROM {TABLES[1]} WHERE id % 10 = 3",
        f"INSERT INTO {TABLES[2]} SELECT max(id) + n, 0 FROM {TABLES[2]}, generate_series(1, 30) n GROUP BY n",
    )
    return {TABLES[0]: 80, TABLES[1]: 60, TABLES[2]: 30}


def applied(mirror: Mirror) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in mirror.rows():
        found[row.key.source_table] = found.get(row.key.source_table, 0) + row.changes
    return found


def wait_applied(mirror: Mirror, events: dict[str, int]) -> None:
    """Wait until this number of events was applied to each of these tables."""
    until(lambda: events.items() <= applied(mirror).items(), 30, f"{events} to be applied")


def test_every_table_is_copied_and_streamed_under_one_epoch_and_few_sessions(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    mirror.start().wait_running().wait_equal()
    events = touched(mirror)
    until(lambda: applied(mirror) == events, 30, f"{events} to be applied")
    mirror.wait_equal()
    assert set(mirror.heard.now) == {f"{table} dn_{n}" for table in TABLES for n in range(1, 5)}
    assert len({row.epoch for row in mirror.rows()}) == 1
    names = mirror.query(
        mirror.warehouse.connect,
        "SELECT application_name FROM pg_stat_activity"
        f" WHERE application_name LIKE 'slotkeeper/{mirror.job.name}/%' AND datname = current_database()",
    )
    assert len([name for (name,) in names if "/r/" in name]) <= 4, "registrars are shared by the tables"
    mirror.stop()
    assert mirror.heard.events[:4] == [JobEvent.BEGAN, JobEvent.COPY_BEGAN, JobEvent.COPY_DONE, JobEvent.CAUGHT_UP]


def test_a_table_that_is_added_is_copied_and_one_that_is_removed_stays_as_it_was(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(warehouse, make_mirror, TABLES[:2])
    mirror.start().wait_running().wait_equal()
    mirror.stop()
    touched(mirror)
    mirror.job = replace(mirror.job, channels=tuple(map(channel, TABLES[1:])))
    states: list[set[tuple[str, LaneState]]] = []

    def seen() -> None:
        states.append({(row.key.source_table, row.state) for row in mirror.rows()})

    mirror.start(At("after_chunk_commit", seen)).wait_running().wait_equal()
    mirror.stop()
    assert states == [{(TABLES[1], LaneState.RUNNING), (TABLES[2], LaneState.COPYING)}]
    left = "SELECT source_table, count(*), min(changes), count(DISTINCT epoch) FROM slotkeeper_progress GROUP BY 1"
    rows = {table: rest for table, *rest in mirror.query(mirror.sink, left)}
    assert rows[TABLES[0]] == [4, 0, 1]
    # both are configured again: the table that was left out resumes from its position
    mirror.job = replace(mirror.job, channels=tuple(map(channel, TABLES)))
    mirror.start().wait_running().wait_equal()
    mirror.stop()
    assert applied(mirror)[TABLES[0]] == 80


@pytest.mark.chaos
def test_a_sink_that_is_just_starting_makes_no_table_wait_for_the_copy_of_another(
    warehouse: Warehouse, make_mirror: MakeMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = mirror_of(warehouse, make_mirror, TABLES[:2])
    mirror.start().wait_running().wait_equal()
    mirror.stop()
    mirror.job = replace(mirror.job, channels=tuple(map(channel, TABLES)))
    made, asked = PostgresProgress.create_tables, list[int]()

    def starting(store: PostgresProgress) -> None:
        asked.append(1)
        if len(asked) == 1:
            raise Unreachable("the database system is starting up", where="sink")
        made(store)

    monkeypatch.setattr(PostgresProgress, "create_tables", starting)
    monkeypatch.setattr("slotkeeper.core.engine.driver.tables.ASK_AGAIN", 0.1)
    states: list[dict[str, str]] = []

    def seen() -> None:
        states.append({name: it.state for name, it in mirror.heard.tables.items()})

    mirror.start(At("after_chunk_commit", seen)).wait_running()
    mirror.wait_table(TABLES[2], JobState.RUNNING)
    mirror.wait_equal()
    mirror.stop()
    assert len(asked) > 1 and states, "it was queried again, and a table was copied"
    assert {states[0][table] for table in TABLES[:2]} == {JobState.RUNNING.value}, states
    assert states[0][TABLES[2]] == JobState.SNAPSHOT.value


def test_ddl_on_one_table_stops_that_table_alone_and_its_reset_brings_it_back_while_the_others_stream(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    mirror.start().wait_running().wait_equal()
    mirror.source(f"ALTER TABLE {TABLES[1]} RENAME COLUMN v TO w")
    said = mirror.wait_table(TABLES[1], JobState.FAILED)
    assert said.trouble == TroubleName.SCHEMA_CHANGED.value
    assert f"{TABLES[1]}: dn_" in said.reason and "RENAME COLUMN" in said.safe
    events = touched(mirror)
    others = {table: count for table, count in events.items() if table != TABLES[1]}
    until(lambda: others.items() <= applied(mirror).items(), 30, f"{others} to be applied beside it")
    assert {lane.activity for lane in mirror.heard.now.values() if lane.key.source_table == TABLES[1]} == {
        Activity.STOPPED
    }
    mirror.source(f"ALTER TABLE {TABLES[1]} RENAME COLUMN w TO v")
    mirror.want(TABLES[1], WantedState.RUN, anew=True)
    mirror.wait_table(TABLES[1], JobState.RUNNING)
    mirror.wait_equal()
    assert not mirror.ended()
    mirror.stop()
    assert len({row.epoch for row in mirror.rows()}) == 2, (
        "one for the tables that run together, one for the separate table"
    )


def test_a_table_is_paused_resumed_stopped_and_started_while_the_others_stream(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    mirror.start().wait_running().wait_equal()
    table = TABLES[1]
    for wanted, state in ((WantedState.PAUSE, JobState.PAUSED), (WantedState.STOP, JobState.STOPPED)):
        before = applied(mirror)
        mirror.want(table, wanted)
        mirror.wait_table(table, state)
        mirror.source(*(f"UPDATE {one} SET v = v + 1 WHERE id <= 20" for one in TABLES))
        events = {one: before.get(one, 0) + 40 for one in TABLES}
        others = {one: count for one, count in events.items() if one != table}
        wait_applied(mirror, others)
        assert applied(mirror)[table] == before[table]
        mirror.want(table, WantedState.RUN, anew=state is JobState.STOPPED)
        mirror.wait_table(table, JobState.RUNNING)
        wait_applied(mirror, events)
        mirror.wait_equal()
    mirror.stop()


def test_a_pause_of_the_job_and_its_end_leave_every_table_as_it_was(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    mirror.start().wait_running().wait_equal()
    mirror.want(TABLES[0], WantedState.STOP)
    mirror.wait_table(TABLES[0], JobState.STOPPED)
    mirror.want(TABLES[1], WantedState.RUN, anew=True)
    until(lambda: len({row.epoch for row in mirror.rows()}) == 2, 60, "a table to have been started alone")
    mirror.wait_table(TABLES[1], JobState.RUNNING)
    mirror.wanted = WantedState.PAUSE
    for table in TABLES[1:]:
        mirror.wait_table(table, JobState.PAUSED)
    mirror.wanted = WantedState.RUN
    for table in TABLES[1:]:
        mirror.wait_table(table, JobState.RUNNING)
    assert mirror.heard.tables[TABLES[0]].state == JobState.STOPPED.value
    before = applied(mirror)
    mirror.source(*(f"UPDATE {one} SET v = v + 1 WHERE id <= 20" for one in TABLES))
    wait_applied(mirror, {one: before.get(one, 0) + 40 for one in TABLES[1:]})
    assert applied(mirror)[TABLES[0]] == before[TABLES[0]]
    mirror.stop()


def test_a_table_that_stopped_alone_can_be_reset_because_its_lease_is_given_back(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    mirror.start().wait_running().wait_equal()
    other = WiredSessions(mirror.job.of(TABLES[1]), "beside")
    held = WiredSessions(mirror.job.of(TABLES[0]), "beside")
    try:
        assert not other.store().take_lease()
        mirror.want(TABLES[1], WantedState.STOP)
        mirror.wait_table(TABLES[1], JobState.STOPPED)
        assert other.store().take_lease() and other.store().take_target("mart.b")
        assert not held.store().take_lease()
    finally:
        other.close()
        held.close()
    mirror.stop()


def wait_failed(mirror: Mirror, table: str) -> None:
    until(lambda: mirror.ended() or mirror.heard.tables[table].state == JobState.FAILED.value, 60, f"{table} to fail")


def test_a_job_all_of_whose_tables_have_failed_fails_with_the_first_of_their_errors(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(warehouse, make_mirror, TABLES[:2])
    mirror.start().wait_running().wait_equal()
    for table in TABLES[:2]:
        mirror.source(f"SELECT pgxc_binlog_clear_target_slot('{table}', '{mirror.job.slot}')")
        wait_failed(mirror, table)
    error = mirror.wait_error()
    assert isinstance(error, Trouble)
    assert error.name is TroubleName.SLOT_LOST


def test_a_table_that_is_asked_for_while_the_last_other_one_ends_is_started(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(warehouse, make_mirror, TABLES[:2])
    mirror.start().wait_running().wait_equal()
    one, other = TABLES[:2]
    mirror.want(one, WantedState.STOP)
    mirror.wait_table(one, JobState.STOPPED)
    told = mirror.heard.table

    def asks(report: TableReport) -> None:
        told(report)
        if (report.source_table, report.state) == (other, JobState.STOPPED.value):
            mirror.want(one, WantedState.RUN, anew=True)

    mirror.heard.table = asks  # type: ignore[method-assign]
    mirror.want(other, WantedState.STOP)
    mirror.wait_table(one, JobState.RUNNING)
    mirror.stop()


@pytest.mark.chaos
def test_a_target_that_is_locked_retains_the_other_tables_once_and_then_its_own_alone(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    """Its lanes may have all places when the lock comes, as long as a statement waits for it; later one less."""
    mirror = mirror_of(warehouse, make_mirror)
    mirror.capacity = 2
    mirror.start().wait_running().wait_equal()
    locker = mirror.sink()
    locker.autocommit = False
    with locker.cursor() as cursor:
        cursor.execute("LOCK TABLE mart.b")
    events = touched(mirror)
    others = {table: count for table, count in events.items() if table != TABLES[1]}
    until(lambda: others.items() <= applied(mirror).items(), 50, f"{others} to be applied beside a lock")

    def given_up() -> bool:
        return any(lane.error for lane in mirror.heard.now.values() if lane.key.source_table == TABLES[1])

    until(given_up, 60, "the first statement to give up its wait for the lock")
    twice = {table: 2 * count for table, count in others.items()}
    mirror.source(
        f"UPDATE {TABLES[0]} SET v = v + 1 WHERE id <= 40",
        f"INSERT INTO {TABLES[2]} SELECT max(id) + n, 0 FROM {TABLES[2]}, generate_series(1, 30) n GROUP BY n",
    )
    until(lambda: twice.items() <= applied(mirror).items(), 20, f"{twice} to be applied beside a lock")
    assert applied(mirror)[TABLES[1]] == 0
    locker.rollback()
    locker.close()
    wanted = {**twice, TABLES[1]: events[TABLES[1]]}
    until(lambda: applied(mirror) == wanted, 60, f"{wanted} to be applied")
    mirror.wait_equal()
    mirror.stop()


def test_a_lost_slot_of_one_table_does_not_hinder_a_new_one(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = mirror_of(warehouse, make_mirror, TABLES[:1])
    mirror.start().wait_running().wait_equal()
    mirror.stop()
    run(warehouse, f"SELECT pgxc_binlog_clear_target_slot('{TABLES[0]}', '{mirror.job.slot}')")
    mirror.job = replace(mirror.job, channels=tuple(map(channel, TABLES[:2])))
    mirror.start()
    assert mirror.wait_table(TABLES[0], JobState.FAILED).trouble == TroubleName.SLOT_LOST.value
    mirror.wait_table(TABLES[1], JobState.RUNNING)
    mirror.wait_equal()
    mirror.stop()


@pytest.mark.parametrize("wrong", ["no key", "not empty", "target taken", "no right"])
def test_nothing_is_made_for_a_table_that_is_refused_and_the_others_start(
    wrong: str, warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    if wrong == "no key":
        run(warehouse, f"ALTER TABLE {TABLES[2]} DROP CONSTRAINT c_pkey")
    if wrong == "no right":
        run(warehouse, f"REVOKE ALL ON {TABLES[2]} FROM {warehouse.endpoint().user}")
    if wrong == "not empty":
        mirror.at_sink("CREATE SCHEMA mart", "CREATE TABLE mart.c (id bigint PRIMARY KEY, v bigint)")
        mirror.at_sink("INSERT INTO mart.c VALUES (1, 1)")
    if wrong == "target taken":
        taken = replace(mirror.job, name="other", slot="other", channels=(channel(TABLES[0], "mart.c"),))
        mirror.job, wanted = taken, mirror.job
        mirror.start().wait_running()
        mirror.stop()
        mirror.job = replace(wanted, on_existing="merge")
    mirror.start()
    said = mirror.wait_table(TABLES[2], JobState.FAILED)
    assert TABLES[2] in said.reason or "mart.c" in said.reason, said
    for table in TABLES[:2]:
        mirror.wait_table(table, JobState.RUNNING)
    mirror.stop()
    assert {row.key.source_table for row in mirror.rows()} == set(TABLES[:2])
    slots = f"SELECT count(*) FROM pgxc_get_binlog_slots('{TABLES[2]}', 0) WHERE slot_name = '{mirror.job.slot}'"
    if wrong != "no key":
        assert mirror.query(warehouse.connect, slots) == [(0,)]


def test_a_new_dn_is_adopted_by_all_tables(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    mirror.start().wait_running().wait_equal()
    mirror.stop()
    add_dn(warehouse, "dn_5", timeout=60)
    mirror.start().wait_running()
    touched(mirror)
    mirror.wait_equal()
    mirror.stop()
    assert len(mirror.rows()) == 15


def test_a_dn_that_is_renamed_during_a_step_of_one_table_is_adopted_by_all(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    """A task finds it long before the job's own check of the DNs."""
    mirror = mirror_of(warehouse, make_mirror)
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, check_node_change_interval=3_600_000))
    renamed = At("after_read", lambda: rename_dn(warehouse, "dn_2", "dn_two"), armed=False)
    mirror.start(renamed).wait_running().wait_equal()
    renamed.armed = True
    touched(mirror)
    assert renamed.done.wait(60)
    until(lambda: {row.key.shard for row in mirror.rows()} == {"dn_1", "dn_two", "dn_3", "dn_4"}, 30, "the new name")
    touched(mirror)
    mirror.wait_equal()
    mirror.stop()


def test_a_changed_target_is_reported_although_the_paused_job_awaits_its_start_with_a_new_dn(
    warehouse: Warehouse, make_mirror: MakeMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause can last for days, and the target is known to lack rows."""
    mirror, noticed, told = mirror_of(warehouse, make_mirror), threading.Event(), Loop.nodes_changed

    def nodes_changed(self: Loop, names: set[Shard]) -> None:
        told(self, names)
        noticed.set()

    monkeypatch.setattr(Loop, "nodes_changed", nodes_changed)
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, check_node_change_interval=100))
    mirror.start().wait_running().wait_equal()
    mirror.wanted = WantedState.PAUSE
    for table in TABLES:
        mirror.wait_table(table, JobState.PAUSED)
    add_dn(warehouse, "dn_5", timeout=60)
    assert noticed.wait(30)
    mirror.at_sink("TRUNCATE mart.b")
    said = mirror.wait_table(TABLES[1], JobState.FAILED)
    assert said.trouble == TroubleName.TARGET_CHANGED.value
    mirror.wanted = WantedState.RUN
    for table in TABLES[::2]:
        mirror.wait_table(table, JobState.RUNNING)
    until(lambda: len(mirror.rows()) == 14, 30, "two tables to adopt it")
    mirror.stop()


def test_a_new_dn_that_one_table_does_not_record_on_stops_that_table_alone(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    mirror.start().wait_running().wait_equal()
    mirror.stop()
    add_dn(warehouse, "dn_5", timeout=60)
    rel = f"'{TABLES[2]}'::regclass"
    run(
        warehouse,
        f"DELETE FROM dws.slot WHERE rel = {rel} AND dn = (SELECT ord FROM dws.node WHERE node_name = 'dn_5')",
    )
    mirror.start()
    said = mirror.wait_table(TABLES[2], JobState.FAILED)
    assert (said.trouble, TABLES[2] in said.reason) == (TroubleName.TOPOLOGY_CHANGED.value, True)
    for table in TABLES[:2]:
        mirror.wait_table(table, JobState.RUNNING)
    mirror.stop()
    assert len(mirror.rows()) == 14, "two have adopted it"


@pytest.mark.parametrize("tables", [TABLES[:1], TABLES[:2]], ids=["one table", "two tables"])
def test_a_step_asks_the_source_no_more_than_it_did_with_one_table_per_job(
    tables: tuple[str, ...], warehouse: Warehouse, make_mirror: MakeMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = mirror_of(warehouse, make_mirror, tables)
    mirror.start().wait_running().wait_equal()
    mirror.stop()
    touched(mirror)
    entries.close_kept(mirror.job)
    asked: list[str] = []

    def rows(self: DwsSession, name: str, *more: Any) -> list[tuple[Any, ...]]:
        asked.append(name)
        return told(self, name, *more)

    def copied(self: DwsSession, *more: Any) -> int:
        asked.append("COPY")
        return out(self, *more)

    told, out = DwsSession.rows, DwsSession.copy_out
    monkeypatch.setattr(DwsSession, "rows", rows)
    monkeypatch.setattr(DwsSession, "copy_out", copied)
    found = [row for row in mirror.rows() if row.key.shard == "dn_1"]
    tasks = []
    for row in found:
        assert row.registered is not None
        shard = Shard(row.key.shard, row.node_id)
        tasks.append(LaneTask(row.key.source_table, shard, exactly(row.registered, row.fingerprint), 5_000))
    outcome = worker.ENTRIES.stream(StreamTask(mirror.job, found[0].epoch, tuple(tasks), 30.0))
    assert [one.error for one in outcome.lanes] == [None] * len(tables)
    assert all(one.rows for one in outcome.lanes)
    identified = ["identity", "deferrable_key", "user_types"]
    step, quiet = ["status", "COPY", "status"], ["COPY", "status"]
    first = [*identified, *step] if len(tables) == 1 else [*identified, *step, *identified, *step]
    assert asked[: len(first)] == first
    # a quiet turn starts from the last check; if tables share a session, the query has to be repeated
    again = quiet if len(tables) == 1 else ["status", *quiet]
    turns, rest = divmod(len(asked) - len(first), len(again))
    assert (asked[len(first) :], rest) == (again * turns, 0)


WORKERS = ("after_read", "after_recheck", "after_commit", "before_chunk_commit", "after_chunk_commit")
DRIVERS = ("after_first_registration", "before_false", "after_false", "before_true", "after_true")
HOW = ("nothing", "stop", "stop and purge", "end sink sessions", "end source sessions")


def cut(mirror: Mirror) -> None:
    """End all sessions of the job at both ends, as after the loss of its host."""
    disturb(mirror, "end source sessions")
    disturb(mirror, "end sink sessions")


def write(connection: pg.Connection, draw: random.Random, booked: dict[str, int]) -> None:
    """Run one transaction over some of the tables; its events are recorded once it is committed."""
    made = dict.fromkeys(TABLES, 0)
    with pg.transaction(connection) as cursor:
        for table in draw.sample(TABLES, draw.randint(1, 3)):
            low = draw.randint(1, ROWS)
            cursor.execute(f"UPDATE {table} SET v = v + 1 WHERE id BETWEEN {low} AND {low + draw.randint(0, 9)}")
            made[table] += 2 * cursor.rowcount
            cursor.execute(f"DELETE FROM {table} WHERE id = {draw.randint(1, ROWS)}")
            made[table] += cursor.rowcount
            cursor.execute(f"INSERT INTO {table} VALUES ({draw.randint(1, ROWS)}, 0) ON CONFLICT (id) DO NOTHING")
            made[table] += cursor.rowcount
    for table, events in made.items():
        booked[table] += events


def interrupted(mirror: Mirror, draw: random.Random) -> None:
    """A disturbance of a running job, or a start that is interrupted at some point and stopped."""
    if draw.random() < 0.5:
        disturb(mirror, draw.choice(HOW))
        return
    mirror.stop()
    at_worker = draw.random() < 0.5
    cutting = At(draw.choice(WORKERS if at_worker else DRIVERS), lambda: cut(mirror), draw.randint(1, 6))
    starting: dict[str, Callable[[str], None]] = {"probe" if at_worker else "driver_probe": cutting}
    mirror.start(**starting)
    until(lambda: cutting.done.is_set() or mirror.heard.state is LaneState.RUNNING, 60, "a cut or nothing to cut")
    disturb(mirror, "stop")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begins_with", "turns"),
    [
        pytest.param(2, 8, id="the third is added later"),
        pytest.param(3, 60, id="three tables", marks=pytest.mark.chaos),
        pytest.param(2, 60, id="the third is added later, for long", marks=pytest.mark.chaos),
    ],
)
def test_whatever_interrupts_the_job_every_table_ends_equal_and_every_event_counts_once(
    begins_with: int, turns: int, warehouse: Warehouse, make_mirror: MakeMirror, seed: int
) -> None:
    draw = random.Random(f"{seed} {begins_with}")
    print(f"seed {seed}")
    mirror = mirror_of(warehouse, make_mirror, TABLES[:begins_with])
    mirror.start().wait_running()
    booked = dict.fromkeys(TABLES, 0)
    connection = warehouse.connect(False)
    for turn in range(turns):
        for _ in range(draw.randint(1, 6)):
            write(connection, draw, booked)
        if turn == 4 and begins_with == 2:
            mirror.stop()
            booked[TABLES[2]] = 0  # changes that its slot did not record are in its copy
            mirror.job = replace(mirror.job, channels=tuple(map(channel, TABLES)))
            cutting = At("before_chunk_commit", lambda: cut(mirror), draw.randint(1, 4))
            mirror.start(cutting)
            until(cutting.done.is_set, 60, "the copy to be cut")
            disturb(mirror, "stop")
        interrupted(mirror, draw)
    connection.close()
    mirror.stop()
    mirror.start().wait_running().wait_equal()
    until(lambda: applied(mirror) == booked, 60, f"{booked} to be applied, {applied(mirror)} are")
    assert mirror.difference() == (0, 0)
    mirror.stop()
