"""Named scenes of a job in virtual time, from the stand-in for DWS: what is lost, changed or taken over, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from slotkeeper.core.domain.job import JobEvent, JobState, WantedState
from slotkeeper.core.domain.progress import Activity, LaneState
from slotkeeper.core.domain.spec import RESNAPSHOT, STOP, ChannelSpec, RetryOptions
from slotkeeper.core.domain.tries import TryAnswer, TryAsked
from slotkeeper.core.engine.driver.job import JobEnd
from slotkeeper.core.errors import LoginRefused, Refused, SlotkeeperError, Trouble, TroubleName, Unreachable
from slotkeeper.core.ports.source import LOST_ANSWER_WAIT
from slotkeeper.demo.scaling import add_dn, remove_dn, rename_dn
from slotkeeper.demo.warehouse import Warehouse
from tests.support import shapes
from tests.support.histories import Loses, Workers
from tests.support.mirror import MakeMirror, Mirror
from tests.support.shapes import MemoryAudit, statements_of
from tests.support.sqlite_pair import sink as sqlite_sink
from tests.support.sqlite_pair.kind import KEEPS
from tests.support.sqlite_pair.pair import MakePair
from tests.support.sqlite_pair.sink import ADDS_UP, TOKENS
from tests.support.sqlite_pair.source import KeptSource
from tests.support.standin import Surface, run
from tests.support.virtual import Scene, World

TABLE, TARGET = "ods.t", "mart.t"
DNS = 4


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    """A job over 40 rows `(id, v)` on four DNs, not started."""
    warehouse.create_table(TABLE, "id bigint NOT NULL, v integer", ("id",))
    made = make_mirror(warehouse, TABLE, TARGET)
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 0 FROM generate_series(1, 40) n")
    return made


def running(mirror: Mirror) -> Callable[[], bool]:
    return lambda: mirror.heard.state is LaneState.RUNNING


def equal(mirror: Mirror) -> Callable[[], bool]:
    return lambda: mirror.difference() == (0, 0)


def update(mirror: Mirror, where: str = "true") -> int:
    """Change rows in one transaction; the number of events in the binlog."""
    mirror.source(f"UPDATE {TABLE} SET v = v + 1 WHERE {where}")
    return 2 * int(mirror.query(mirror.warehouse.connect, f"SELECT count(*) FROM {TABLE} WHERE {where}")[0][0])


def applied(mirror: Mirror, events: int) -> Callable[[], bool]:
    return lambda: sum(mirror.changes().values()) >= events


# -- one lane's failures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "point",
    ["after_status", "after_read", "after_recheck", "after_commit", "before_false", "after_false", "after_true"],
)
def test_a_connection_lost_at_a_point_of_a_step_or_a_registration_loses_and_repeats_nothing(
    mirror: Mirror, world: World, point: str
) -> None:
    probe, events = Loses(), 0

    def scene() -> Scene:
        nonlocal events
        yield running(mirror)
        probe.at = point
        events += update(mirror)
        yield lambda: probe.hits
        waiting = {lane.activity.value for lane in mirror.heard.now.values()}
        yield equal(mirror)
        events += update(mirror)
        yield applied(mirror, events)
        yield 4
        for row in mirror.rows():
            assert row.registered is not None and row.registered.furthest is not None and row.position is not None
            assert not row.registered.furthest > row.position
        assert waiting

    world.run(mirror, scene(), probe, probe)
    assert mirror.difference() == (0, 0)
    assert sum(mirror.changes().values()) == events, "each event counts once"
    assert probe.hits == [point]


def test_a_worker_that_is_lost_or_hangs_costs_time_and_no_change(mirror: Mirror, world: World) -> None:
    events, workers = 0, Workers(2)
    mirror.make_runner = lambda: workers

    def scene() -> Scene:
        nonlocal events
        yield running(mirror)
        workers.lost = True
        events += update(mirror)
        yield applied(mirror, events)
        workers.hangs, since = True, world.now
        events += update(mirror)
        yield applied(mirror, events)
        assert 4 < world.now - since < 40, "the lanes of a task that overruns get separate tasks"
        yield lambda: workers.cancelled
        events += update(mirror)
        yield applied(mirror, events)

    world.run(mirror, scene())
    assert sum(mirror.changes().values()) == events
    assert workers.cancelled == 1


def test_a_single_lane_whose_task_hangs_waits_for_its_end_and_says_so(
    mirror: Mirror, world: World, warehouse: Warehouse
) -> None:
    workers = Workers(2)
    mirror.make_runner = lambda: workers
    mirror.job = replace(mirror.job, retry=replace(mirror.job.retry, wait_initial=5_000))

    def scene() -> Scene:
        yield running(mirror)
        yield 5
        workers.hangs = True
        events = update(mirror, "id = 1")
        yield lambda: any(lane.cancelled for lane in mirror.heard.now.values())
        (lane,) = [lane for lane in mirror.heard.now.values() if lane.cancelled]
        assert lane.name in lane.error and lane.activity is Activity.WAITING
        yield applied(mirror, events)
        assert sum(mirror.changes().values()) == events

    world.run(mirror, scene())


@pytest.mark.parametrize("certain", [True, False])
def test_a_lost_answer_to_a_registration_waits_until_the_call_can_take_no_effect(
    make_pair: MakePair, world: World, monkeypatch: pytest.MonkeyPatch, certain: bool
) -> None:
    """If the session of the call is known to have ended, the lane does not wait."""
    monkeypatch.setattr(KeptSource, "end_sessions", lambda *_: certain)
    pair = make_pair(TABLE, source_kind=KEEPS)
    lost = list[float]()

    def probe(point: str) -> None:
        if point == "after_confirm" and not lost:
            lost.append(world.now)
            raise Unreachable("the answer was lost", where="source")

    def scene() -> Scene:
        yield running(pair.mirror)
        with pair.origin.transaction() as writing:
            writing.put(TABLE, id=1, v=1)
        yield lambda: lost
        (before,) = pair.mirror.heard.now.values()
        yield LOST_ANSWER_WAIT - 2
        (lane,) = pair.mirror.heard.now.values()
        assert (lane.registered == before.registered) is not certain
        assert (lane.activity is Activity.WAITING) is not certain
        yield 4
        (lane,) = pair.mirror.heard.now.values()
        assert lane.registered.furthest == lane.position == pair.origin.latest()

    world.run(pair.mirror, scene(), driver_probe=probe)


def test_a_paused_job_applies_nothing_and_keeps_its_slot_alive(mirror: Mirror, world: World) -> None:
    mirror.keepalive = 5.0
    begun = list[int]()

    def scene() -> Scene:
        yield running(mirror)
        mirror.wanted = WantedState.PAUSE
        yield lambda: mirror.heard.events[-1] is JobEvent.PAUSED
        events, before = update(mirror), mirror.heard.registrations
        yield 60  # the slot's TTL is long, so its intervals are longer than the shortest
        assert sum(mirror.changes().values()) == 0
        assert mirror.heard.registrations >= before + DNS, "every DN is registered again"
        mirror.wanted = WantedState.RUN
        yield applied(mirror, events)
        begun.append(events)

    world.run(mirror, scene())
    assert mirror.heard.events.count(JobEvent.PAUSED) == 1
    assert sum(mirror.changes().values()) == begun[0]


def test_an_idle_job_moves_over_the_changes_of_other_tables_and_registers(
    mirror: Mirror, world: World, warehouse: Warehouse
) -> None:
    warehouse.create_table("ods.other", "id bigint NOT NULL", ("id",))

    def scene() -> Scene:
        yield running(mirror)
        yield 5
        before = {row.key.shard: row.position for row in mirror.rows()}
        run(warehouse, "INSERT INTO ods.other SELECT n FROM generate_series(1, 50) n")
        yield 10
        for row in mirror.rows():
            was = before[row.key.shard]
            assert row.position is not None and was is not None and row.position >= was
            assert row.registered is not None and row.registered.furthest == row.registered.at(row.position).furthest
        assert sum(mirror.changes().values()) == 0

    world.run(mirror, scene())


def test_an_idle_source_is_polled_rarely_and_often_again_after_a_change(make_pair: MakePair, world: World) -> None:
    pair = make_pair(TABLE)
    options = replace(pair.mirror.job.binlog, binlog_sleep_time=500, binlog_max_sleep_time=60_000)
    pair.mirror.job = replace(pair.mirror.job, binlog=options)
    took = list[float]()

    def written(value: int) -> Scene:
        with pair.origin.transaction() as writing:
            writing.put(TABLE, id=value, v=value)
        since, events = world.now, pair.origin.events[TABLE]
        yield applied(pair.mirror, events)
        took.append(world.now - since)

    def scene() -> Scene:
        yield running(pair.mirror)
        yield from written(1)
        yield 400
        yield from written(2)
        yield 2
        yield from written(3)

    world.run(pair.mirror, scene())
    assert took[1] > 10, "the longest pause is a minute"
    assert took[2] < 5, "after a change, the shortest pause applies"


def test_a_job_that_ends_once_caught_up_has_applied_and_registered_everything(mirror: Mirror, world: World) -> None:
    def first() -> Scene:
        yield running(mirror)

    world.run(mirror, first())
    events = update(mirror)
    mirror.until_caught_up = True

    def waits() -> Scene:
        yield 600

    world.run(mirror, waits())
    assert mirror.end is JobEnd.CAUGHT_UP
    assert mirror.difference() == (0, 0)
    assert sum(mirror.changes().values()) == events


def test_a_copy_alone_ends_when_it_is_done(mirror: Mirror, world: World) -> None:
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, binlog=False))

    def waits() -> Scene:
        yield 600

    world.run(mirror, waits())
    assert mirror.end is JobEnd.FINISHED
    assert mirror.heard.events[-1] is JobEvent.FINISHED
    assert mirror.difference() == (0, 0)
    assert mirror.query(mirror.warehouse.connect, "SELECT FROM dws.slot") == []


@pytest.mark.parametrize("point", ["before_chunk_commit", "after_chunk_commit"])
def test_a_copy_whose_chunk_fails_is_retried_and_counts_each_row_once(mirror: Mirror, world: World, point: str) -> None:
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, full_sync_binlog_batch_read_size=10))
    probe = Loses()
    probe.at = point

    def scene() -> Scene:
        yield running(mirror)

    world.run(mirror, scene(), probe)
    assert mirror.difference() == (0, 0)
    assert probe.hits == [point]
    assert any("retrying 1, next in" in text and "the connection was lost" in text for text in mirror.heard.retries)


def test_a_copy_that_replaces_rows_swaps_the_tables_at_its_end(mirror: Mirror, world: World) -> None:
    mirror.at_sink("CREATE SCHEMA mart", f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v integer)")
    mirror.at_sink(f"INSERT INTO {TARGET} VALUES (1, 7), (999, 7)")
    mirror.job = replace(mirror.job, on_existing="replace")

    def scene() -> Scene:
        yield running(mirror)
        update(mirror)
        yield equal(mirror)

    world.run(mirror, scene())
    assert mirror.difference() == (0, 0)
    assert mirror.query(
        mirror.sink, "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'mart'::regnamespace"
    ) == [(1,)]


def test_a_password_that_the_sink_rejects_is_tried_rarely(mirror: Mirror, world: World) -> None:
    tried, rejects = list[float](), list[bool]()

    def probe(point: str) -> None:
        if point == "after_status" and rejects:
            tried.append(world.now)
            raise LoginRefused("password authentication failed", where="sink")

    def scene() -> Scene:
        yield running(mirror)
        rejects.append(True)
        update(mirror)
        yield 60
        assert mirror.heard.now and len(tried) <= 8 * DNS
        rejects.clear()
        yield equal(mirror)

    world.run(mirror, scene(), probe)
    assert len(tried) >= DNS


@dataclass
class Asked:
    """Requests of a user; implements `slotkeeper.core.domain.tries.Tries`."""

    asked: list[TryAsked] = field(default_factory=list)
    answers: dict[int, list[TryAnswer]] = field(default_factory=dict)

    def last(self) -> int:
        return len(self.asked)

    def since(self, number: int) -> list[TryAsked]:
        return self.asked[number:]

    def answer(self, number: int, answers: object) -> None:
        self.answers[number] = list(answers)  # type: ignore[call-overload]


def test_a_silent_dn_is_retried_while_the_others_stream_and_at_once_if_a_user_asks(
    mirror: Mirror, world: World, warehouse: Warehouse
) -> None:
    asked = mirror.tries = Asked()
    mirror.job = replace(mirror.job, retry=RetryOptions(wait_initial=200_000, wait_max=200_000, wait_jitter=1))

    def scene() -> Scene:
        yield running(mirror)
        yield 5
        warehouse.dn_down("dn_2")
        events = update(mirror)
        assert events == 80
        yield lambda: {name for name, lane in mirror.heard.now.items() if lane.activity is Activity.WAITING} == {"dn_2"}
        yield lambda: len({row.changes for row in mirror.rows() if row.key.shard != "dn_2"} - {0}) > 0
        assert mirror.heard.now["dn_2"].error and mirror.heard.now["dn_2"].side == "source"
        applied_before = mirror.changes()["dn_2"]
        warehouse.dn_down(None)
        yield 20
        assert mirror.changes()["dn_2"] == applied_before == 0, "its next attempt is minutes away"
        asked.asked.append(TryAsked(1, TABLE))
        since = world.now
        yield equal(mirror)
        assert world.now - since < 5
        (answer,) = asked.answers[1]
        assert answer.tried == ("dn_2",) and set(answer.polled) | set(answer.busy) == {"dn_1", "dn_3", "dn_4"}

    world.run(mirror, scene())


@pytest.mark.parametrize("kind", [ADDS_UP, TOKENS])
def test_a_range_that_a_sink_of_two_parts_half_wrote_is_finished_before_the_next(
    make_pair: MakePair, world: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    pair, probe = make_pair(TABLE, sink_kind=kind), Loses()
    monkeypatch.setattr(sqlite_sink, "hook", probe)
    points = (
        *("before_prepare", "after_prepare", "before_write", "in_write", "after_write"),
        *("before_commit", "after_commit_at_sink", "after_commit"),
    )
    events = 0

    def scene() -> Scene:
        nonlocal events
        yield running(pair.mirror)
        for number, point in enumerate(points):
            probe.at = point
            with pair.origin.transaction() as writing:
                for key in range(12):
                    writing.put(TABLE, id=key, v=number)
            events = pair.origin.events[TABLE]
            yield applied(pair.mirror, events)
            assert pair.compare().equal, point
        assert set(probe.hits) >= {"before_write"} or set(probe.hits) >= {"before_commit"}

    world.run(pair.mirror, scene(), probe)
    found = sqlite_sink.contents(pair.file)
    assert sum(pair.mirror.changes().values()) == events == len(found.read)
    if kind == TOKENS:
        assert sqlite_sink.repeats(found.read) == 0, "a token is committed once"


# -- the slot ---------------------------------------------------------------------------------------------------------

HARMS = {
    "truncate": (f"TRUNCATE {TABLE}", TroubleName.SLOT_LOST),
    "dropped slot": (f"SELECT pgxc_binlog_clear_target_slot('{TABLE}', '{{slot}}')", TroubleName.SLOT_LOST),
    "moved on one DN": (
        "UPDATE dws.slot SET sync_point = sync_point + 1000 WHERE slot_name = '{slot}' AND dn = 2",
        TroubleName.SLOT_MOVED,
    ),
    "moved back on one DN": (
        "UPDATE dws.slot SET sync_point = 1 WHERE slot_name = '{slot}' AND dn = 2",
        TroubleName.SLOT_MOVED,
    ),
    "add column": (f"ALTER TABLE {TABLE} ADD COLUMN x integer", TroubleName.SCHEMA_CHANGED),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_lost_or_moved_slot_ends_the_job_before_it_reads_past_the_gap(
    mirror: Mirror, world: World, harm: str
) -> None:
    statement, name = HARMS[harm]

    def scene() -> Scene:
        yield running(mirror)
        yield 2
        mirror.source(statement.format(slot=mirror.job.slot))
        mirror.source(f"INSERT INTO {TABLE} (id, v) SELECT n, -1 FROM generate_series(201, 240) n")
        yield 120

    found = world.fails(mirror, scene())
    assert isinstance(found, Trouble), found
    assert found.name in (name, TroubleName.SLOT_LOST)
    assert found.table == TABLE or len(mirror.job.channels) == 1
    assert mirror.query(mirror.sink, f"SELECT count(*) FROM {TARGET} WHERE v = -1") == [(0,)]

    def again() -> Scene:
        yield 60

    told = world.fails(mirror, again())
    assert isinstance(told, Trouble) and told.name is found.name, "the next start reports the same"


def test_a_target_that_another_session_changed_ends_the_job(mirror: Mirror, world: World) -> None:
    def scene() -> Scene:
        yield running(mirror)
        yield 3
        mirror.at_sink(f"DELETE FROM {TARGET} WHERE id = 3", f"TRUNCATE {TARGET}")
        yield 120

    found = world.fails(mirror, scene())
    assert isinstance(found, Trouble) and found.name is TroubleName.TARGET_CHANGED, found


def test_a_job_whose_epoch_was_raised_by_another_start_ends_without_a_further_write(
    mirror: Mirror, world: World
) -> None:
    def scene() -> Scene:
        yield running(mirror)
        mirror.at_sink("UPDATE slotkeeper_progress SET epoch = epoch + 1")
        update(mirror)
        yield 120

    found = world.fails(mirror, scene())
    assert isinstance(found, SlotkeeperError) and found.kind.name == "SUPERSEDED", found
    assert mirror.query(mirror.sink, f"SELECT DISTINCT v FROM {TARGET}") == [(0,)]


# -- the DNs ----------------------------------------------------------------------------------------------------------

SCALINGS: dict[str, Callable[[Warehouse], object]] = {
    "added": lambda warehouse: add_dn(warehouse, "dn_5", timeout=20),
    "renamed": lambda warehouse: rename_dn(warehouse, "dn_2", "dn_two"),
    "removed": lambda warehouse: remove_dn(warehouse, "dn_2", timeout=20),
}


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("follows", [True, False])
def test_a_job_that_may_follows_another_set_of_dns_and_any_other_ends(
    mirror: Mirror, world: World, warehouse: Warehouse, kind: str, follows: bool
) -> None:
    options = replace(mirror.job.binlog, check_node_change_interval=100, need_redistribution=follows)
    mirror.job = replace(mirror.job, binlog=options)
    names = list[str]()

    def scene() -> Scene:
        yield running(mirror)
        yield 5
        SCALINGS[kind](warehouse)
        names.extend(name for name, _ in warehouse.nodes())
        update(mirror)
        yield lambda: {row.key.shard for row in mirror.rows()} == set(names) and mirror.difference() == (0, 0)

    found = world.fails(mirror, scene())
    if follows and kind != "removed":  # it is unknown which records a removed DN still had
        assert found is None, found
        assert {row.key.shard for row in mirror.rows()} == set(names)
        assert mirror.difference() == (0, 0)
    else:
        assert isinstance(found, Trouble) and found.name is TroubleName.TOPOLOGY_CHANGED, found


# -- the columns ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [STOP, RESNAPSHOT])
def test_changed_columns_stop_a_job_or_are_followed(
    warehouse: Warehouse, make_mirror: MakeMirror, world: World, policy: str
) -> None:
    mirror = shapes.prepared(warehouse, make_mirror, policy)
    shapes.insert(mirror, "1, 20")
    changes = [
        f"ALTER TABLE {TABLE} DROP COLUMN w",
        f"ALTER TABLE {TABLE} RENAME COLUMN v TO w",
        f"ALTER TABLE {TABLE} ALTER COLUMN n TYPE numeric(12,2)",
        f"ALTER TABLE {TABLE} ADD COLUMN x date",
    ]
    wanted = [
        f"ALTER TABLE {TARGET} RENAME COLUMN v TO w",
        f"ALTER TABLE {TARGET} ALTER COLUMN n TYPE numeric(12,2)",
        f"ALTER TABLE {TARGET} ADD COLUMN IF NOT EXISTS x date",
    ]
    audit = mirror.audit
    assert isinstance(audit, MemoryAudit)

    def same() -> bool:
        listed = "id::text, w, n::text, x::text"
        ours = set(mirror.query(mirror.warehouse.connect, f"SELECT {listed} FROM {TABLE}"))
        return len(audit.lines) == 2 and ours == set(mirror.query(mirror.sink, f"SELECT {listed} FROM {TARGET}"))

    def scene() -> Scene:
        yield running(mirror)
        yield 2
        mirror.source(*changes)
        run(warehouse, f"DELETE FROM {TABLE} WHERE id > 15")
        yield 30 if policy == STOP else lambda: len(audit.lines) == 2
        yield same

    found = world.fails(mirror, scene())
    if policy == STOP:
        assert isinstance(found, Trouble) and found.name in (TroubleName.SCHEMA_CHANGED, TroubleName.SLOT_LOST)
        assert [one for one in statements_of(found.hint) if "DROP NOT NULL" not in one][-3:] == wanted[-3:]
        assert audit.lines == []
    else:
        assert found is None, found
        assert same()
        before, after = audit.lines
        assert after.outcome == "done: altered; a new copy follows"
        assert (before.action, before.action_id) == ("schema change", after.action_id)
        said = [text for name, text in before.result.items() if name.startswith(TARGET)]
        assert said[-3:] == wanted


# -- several tables ---------------------------------------------------------------------------------------------------

TABLES = ("ods.w", "ods.x", "ods.y")


@pytest.fixture
def several(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    """A job over three tables, not started."""
    for table in TABLES:
        warehouse.create_table(table, "id bigint NOT NULL, v bigint", ("id",))
        run(warehouse, f"INSERT INTO {table} SELECT n, 0 FROM generate_series(1, 20) n")
    mirror = make_mirror(warehouse, TABLES[0])
    channels = tuple(ChannelSpec(table, table.replace("ods.", "mart."), create_target=True) for table in TABLES)
    mirror.job = replace(mirror.job, channels=channels, on_existing="replace")
    return mirror


def in_state(mirror: Mirror, table: str, state: JobState) -> Callable[[], bool]:
    return lambda: table in mirror.heard.tables and mirror.heard.tables[table].state == state.value


def test_a_table_is_stopped_paused_and_started_beside_the_others(several: Mirror, world: World) -> None:
    def scene() -> Scene:
        yield running(several)
        for table in TABLES:
            yield in_state(several, table, JobState.RUNNING)
        several.want("ods.y", WantedState.STOP)
        yield in_state(several, "ods.y", JobState.STOPPED)
        for table in TABLES:
            several.source(f"UPDATE {table} SET v = v + 1")
        yield lambda: several.difference() == (20, 20)
        several.want("ods.y", WantedState.PAUSE)
        yield in_state(several, "ods.y", JobState.PAUSED)
        yield 3
        assert several.difference() == (20, 20), "a paused table applies nothing"
        several.want("ods.y", WantedState.RUN)
        yield equal(several)
        yield in_state(several, "ods.y", JobState.RUNNING)

    world.run(several, scene())
    assert several.difference() == (0, 0)
    assert several.changes()
    assert sum(several.changes().values()) == len(TABLES) * 40


def test_a_table_that_fails_stops_alone_and_is_started_again(several: Mirror, world: World) -> None:
    def scene() -> Scene:
        yield running(several)
        several.at_sink("ALTER TABLE mart.y ADD CONSTRAINT small CHECK (v < 100)")
        several.source("UPDATE ods.y SET v = 100 WHERE id = 7", "UPDATE ods.w SET v = 5")
        yield in_state(several, "ods.y", JobState.FAILED)
        said = several.heard.tables["ods.y"]
        assert said.reason
        several.source("UPDATE ods.x SET v = 6")
        yield lambda: several.difference() == (1, 1)
        assert several.heard.tables["ods.w"].state == JobState.RUNNING.value
        several.at_sink("ALTER TABLE mart.y DROP CONSTRAINT small")
        several.want("ods.y", WantedState.RUN, anew=True)
        yield equal(several)
        yield in_state(several, "ods.y", JobState.RUNNING)

    world.run(several, scene())
    assert several.difference() == (0, 0)


def test_a_table_whose_slot_is_lost_fails_and_the_job_ends_with_the_last_table(several: Mirror, world: World) -> None:
    def scene() -> Scene:
        yield running(several)
        several.source("TRUNCATE ods.w")
        yield in_state(several, "ods.w", JobState.FAILED)
        several.source("UPDATE ods.x SET v = 6")
        yield lambda: several.difference()[0] == 0
        several.want("ods.x", WantedState.STOP)
        several.want("ods.y", WantedState.STOP)
        yield 120

    found = world.fails(several, scene())
    assert isinstance(found, Trouble) and found.table == "ods.w", found
    assert several.heard.tables["ods.x"].state == JobState.STOPPED.value


# -- starts without a copy --------------------------------------------------------------------------------------------


def test_a_start_at_the_newest_point_leaves_the_target_and_takes_what_comes(mirror: Mirror, world: World) -> None:
    mirror.at_sink("CREATE SCHEMA mart", f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v integer)")
    mirror.at_sink(f"INSERT INTO {TARGET} SELECT n, 7 FROM generate_series(1, 40) n")
    mirror.job = replace(mirror.job, start="latest")
    events = list[int]()

    def scene() -> Scene:
        yield running(mirror)
        events.append(update(mirror, "id <= 10"))
        yield applied(mirror, events[0])

    world.run(mirror, scene())
    assert JobEvent.COPY_BEGAN not in mirror.heard.events
    assert mirror.query(mirror.sink, f"SELECT v, count(*) FROM {TARGET} GROUP BY v ORDER BY v") == [(1, 10), (7, 30)]
    assert sum(mirror.changes().values()) == events[0]


def test_a_start_at_a_time_takes_every_change_from_then_on(
    warehouse: Warehouse, make_mirror: MakeMirror, world: World
) -> None:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v integer", ("id",), timestamp=True)
    mirror = make_mirror(warehouse, TABLE, TARGET)
    other = Surface(warehouse)
    other.start(TABLE, "elsewhere")
    other.close()
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 0 FROM generate_series(1, 8) n")
    moment = mirror.query(warehouse.connect, "SELECT clock_timestamp()")[0][0]
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 1 FROM generate_series(11, 18) n")
    mirror.job = replace(mirror.job, start=moment.isoformat())

    def scene() -> Scene:
        yield running(mirror)
        run(warehouse, f"INSERT INTO {TABLE} SELECT n, 2 FROM generate_series(21, 28) n")
        yield applied(mirror, 16)
        yield 3

    world.run(mirror, scene())
    rows = mirror.query(mirror.sink, f"SELECT v, count(*) FROM {TARGET} GROUP BY v ORDER BY v")
    assert rows == [(1, 8), (2, 8)]
    assert sum(mirror.changes().values()) == 16


@pytest.mark.parametrize("beyond", [True, False])
def test_a_start_at_points_takes_what_follows_each_and_no_point_of_the_future(
    mirror: Mirror, world: World, warehouse: Warehouse, beyond: bool
) -> None:
    other = Surface(warehouse)
    other.start(TABLE, "elsewhere")
    other.close()
    for value in (1, 2, 3):
        run(warehouse, f"UPDATE {TABLE} SET v = {value}")
    oid = mirror.query(warehouse.connect, f"SELECT '{TABLE}'::regclass::oid")[0][0]
    found = mirror.query(
        warehouse.connect,
        f"SELECT n.node_name, x.csn FROM dws.binlog_tx x JOIN dws.b_{oid} b USING (xid)"
        " JOIN dws.node n ON n.ord = b.dn",
    )
    points = {dn: sorted({csn for name, csn in found if name == dn})[1] + 10**9 * beyond for dn, _ in found}
    expected = sum(csn >= points[dn] for dn, csn in found)
    mirror.job = replace(mirror.job, start=", ".join(f"{dn}={point}" for dn, point in points.items()))

    def scene() -> Scene:
        yield running(mirror)
        yield applied(mirror, expected)
        yield 3

    error = world.fails(mirror, scene())
    if beyond:
        assert isinstance(error, Refused) and "is after the newest one" in error.message
        return
    assert error is None
    assert sum(mirror.changes().values()) == expected > 0
    assert mirror.query(mirror.sink, f"SELECT DISTINCT v FROM {TARGET}") == [(3,)]


# -- rows that the target rejects -------------------------------------------------------------------------------------


def test_rejected_rows_of_a_copy_and_of_changes_are_quarantined_alone(mirror: Mirror, world: World) -> None:
    mirror.at_sink("CREATE SCHEMA mart")
    mirror.at_sink(f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v integer CHECK (v < 100))")
    mirror.job = replace(mirror.job, sink_options=replace(mirror.job.sink_options, on_bad_row="quarantine"))
    mirror.source(f"UPDATE {TABLE} SET v = 100 WHERE id IN (3, 4)")

    def scene() -> Scene:
        yield running(mirror)
        assert mirror.difference() == (2, 0)
        mirror.source(f"UPDATE {TABLE} SET v = id + 90 WHERE id IN (5, 6, 30, 31)")
        yield lambda: mirror.heard.rows_quarantined == 4
        mirror.source(f"UPDATE {TABLE} SET v = 1 WHERE id IN (3, 30)")
        yield lambda: mirror.difference()[0] == 2
        yield 2

    world.run(mirror, scene())
    kept = {row for (row,) in mirror.query(mirror.sink, f"SELECT id FROM {TARGET}")}
    assert kept == set(range(1, 41)) - {4}, "a row that is rejected later keeps its last good version"
