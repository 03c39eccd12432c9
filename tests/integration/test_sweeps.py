"""Small steps of several lanes in one transaction: each lane's step takes effect once or not at all, whatever happens
to the others.
"""

from __future__ import annotations

import io
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg, pg_types
from slotkeeper.core.drivers.pipe import copy_line
from slotkeeper.core.errors import RowRefused, SlotkeeperError, Unreachable
from slotkeeper.core.ports.driver import Runner
from slotkeeper.core.ports.sink import BufferedStep
from slotkeeper.core.sinks.postgres.check.target import seen
from slotkeeper.core.sinks.postgres.progress.store import PostgresProgress, key_of
from slotkeeper.core.sinks.postgres.quarantine import entries
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write import small_step
from slotkeeper.core.sinks.postgres.write.sink import PostgresSink
from slotkeeper.core.sinks.postgres.write.statements import TargetTable
from slotkeeper.core.sources.dws.position import POSITIONS, DwsPosition
from slotkeeper.core.sqltext import statements
from slotkeeper.demo.postgres import Server
from tests.support.standin import drop_database, new_database
from tests.support.waiting import until

DATABASE = "sweeps"
SHARDS = ("dn_1", "dn_2")
Steps = dict[LaneKey, BufferedStep]


class Lanes:
    """The lanes of some tables, all over one session; `at` is each lane's position as its worker knows it."""

    def __init__(self, server: Server, tables: Sequence[str], options: SinkOptions | None = None) -> None:
        endpoint = server.endpoint(DATABASE)
        self.session = SinkSession(endpoint, resolve(endpoint.password), "slotkeeper/sweep/1")
        self.sinks: dict[str, PostgresSink] = {}
        self.at: dict[LaneKey, DwsPosition] = {}
        for table in tables:
            lanes = [LaneKey("dws1", table, "slot", shard) for shard in SHARDS]
            store = PostgresProgress(self.session, POSITIONS, lanes[0], Runner("sweep", "run", "host", "user", 1))
            store.create_tables()
            if not store.rows():
                begun = DwsPosition(0), 0, 0, LaneState.RUNNING, None, None, "channel", "print", None
                store.insert([ProgressRow(lane, n, table, *begun) for n, lane in enumerate(lanes, 1)])
            self.epoch = store.raise_epoch()
            with self.session.transaction() as cursor:  # the tables of a group have one epoch
                cursor.execute("UPDATE public.slotkeeper_progress SET epoch = %s", (self.epoch,))
            target = seen(self.session, TargetTable(table, ("id", "v"), ("id",), forms=("",)))
            self.sinks[table] = PostgresSink(self.session, POSITIONS, target, options or SinkOptions())
            for lane in lanes:
                self.at[lane] = DwsPosition(0)

    def sink(self, lane: LaneKey) -> PostgresSink:
        return self.sinks[lane.source_table]

    def stage(self, lane: LaneKey, lines: bytes) -> BufferedStep | None:
        """Return a lane's next step, buffered; None if its sink does not buffer it."""
        sink, after = self.sink(lane), self.at[lane]
        rows, new = sink.stage(io.BytesIO(lines)), DwsPosition(after.point + 1)
        lines_ = sink.detach()
        return BufferedStep(lane, self.epoch, after, new, rows, lines_) if lines_ else None

    def buffered(self, text: Callable[[LaneKey], str], lanes: Sequence[LaneKey] = ()) -> Steps:
        """A step of one row for each lane, with `text` as its value."""
        found = {}
        for lane in lanes or self.at:
            step = self.stage(lane, line(self.at[lane].point + 1, lane, text(lane)))
            assert step is not None
            found[lane] = step
        return found

    def sweep(self, steps: Steps) -> frozenset[LaneKey] | None:
        """Commit together; advance the lanes whose fence matched."""
        passed = next(iter(self.sinks.values())).sweep(list(steps.values()))
        for lane in passed or ():
            self.at[lane] = DwsPosition(steps[lane].new.pair[0])
        return frozenset(passed) if passed is not None else None

    def alone(self, step: BufferedStep) -> bool:
        """Commit one step in its own transaction."""
        sink = self.sink(step.key)
        sink.put_back(step.buffered)
        done = sink.commit(step.key, step.epoch, step.after, step.new, step.rows)
        if done:
            self.at[step.key] = DwsPosition(step.new.pair[0])
        return done


def line(point: int, lane: LaneKey, value: str | None, kind: str = "I", key: int = 0, sequence: int = 1) -> bytes:
    """An event of a lane, whose keys are its own."""
    number = key * len(SHARDS) + SHARDS.index(lane.shard)
    return copy_line((str(point), str(sequence), kind, str(number), value))


@pytest.fixture(scope="module")
def database(pg_server: Server) -> Iterator[Server]:
    new_database(pg_server, DATABASE)
    yield pg_server
    drop_database(pg_server, DATABASE)


@pytest.fixture
def watch(database: Server) -> Iterator[pg.Connection]:
    with closing(database.connect(DATABASE)) as connection:
        yield connection


Make = Callable[..., Lanes]


@pytest.fixture
def make(database: Server, watch: pg.Connection) -> Iterator[Make]:
    made: list[Lanes] = []
    ask(watch, "DROP SCHEMA IF EXISTS m CASCADE; CREATE SCHEMA m")
    ask(watch, "DROP TABLE IF EXISTS slotkeeper_progress, slotkeeper_quarantine")

    def lanes(*tables: str, options: SinkOptions | None = None, again: bool = False) -> Lanes:
        for table in () if again else tables:
            ask(watch, f"CREATE TABLE {table} (id integer PRIMARY KEY, v varchar(3) CHECK (v <> 'no'))")
        made.append(Lanes(database, tables, options))
        return made[-1]

    yield lanes
    for one in made:
        one.session.close()


def ask(connection: pg.Connection, statement: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def values(watch: pg.Connection, *tables: str) -> list[list[object]]:
    return [[value for (value,) in ask(watch, f"SELECT v FROM {table} ORDER BY id")] for table in tables]


def stood(watch: pg.Connection) -> set[object]:
    return {position for (position,) in ask(watch, "SELECT DISTINCT position FROM slotkeeper_progress")}


def test_the_steps_of_all_lanes_are_one_transaction(make: Make, watch: pg.Connection) -> None:
    lanes = make("m.a", "m.b", "m.c")
    assert lanes.sweep(lanes.buffered(lambda lane: lane.shard[-1])) == frozenset(lanes.at)
    assert values(watch, "m.a", "m.b", "m.c") == [["1", "2"]] * 3
    writers = "SELECT xmin::text FROM m.{} UNION SELECT xmin::text FROM slotkeeper_progress"
    assert len({row for table in "abc" for row in ask(watch, writers.format(table))}) == 1
    assert ask(watch, "SELECT DISTINCT changes, position FROM slotkeeper_progress") == [(1, DwsPosition(1).text)]


def test_a_lane_of_another_epoch_or_position_writes_nothing_and_the_others_commit(
    make: Make, watch: pg.Connection
) -> None:
    lanes = make("m.a", "m.b", "m.c")
    a, *_ = [lane for lane in lanes.at if lane.source_table == "m.a"]
    b, *_ = [lane for lane in lanes.at if lane.source_table == "m.b"]
    steps = lanes.buffered(lambda lane: "new")
    ask(watch, f"UPDATE slotkeeper_progress SET epoch = epoch + 1 WHERE source_table = 'm.a' AND shard = '{a.shard}'")
    ask(watch, f"UPDATE slotkeeper_progress SET position = '{DwsPosition(7).text}' WHERE source_table = 'm.b'"
               f" AND shard = '{b.shard}'")  # fmt: skip
    assert lanes.sweep(steps) == frozenset(lanes.at) - {a, b}
    assert values(watch, "m.a", "m.b", "m.c") == [["new"], ["new"], ["new", "new"]]
    assert not lanes.alone(steps[a]) and not lanes.alone(steps[b])
    assert values(watch, "m.a", "m.b") == [["new"], ["new"]]


def test_a_row_that_a_registration_has_locked_is_left_out_without_a_wait(make: Make, watch: pg.Connection) -> None:
    lanes = make("m.a", "m.b")
    a, *_ = lanes.at
    steps = lanes.buffered(lambda lane: "new")
    ask(
        watch, f"BEGIN; SELECT 1 FROM slotkeeper_progress WHERE source_table = 'm.a' AND shard = '{a.shard}' FOR UPDATE"
    )
    try:
        assert lanes.sweep(steps) == frozenset(lanes.at) - {a}
    finally:
        ask(watch, "ROLLBACK")
    assert lanes.alone(steps[a])
    assert values(watch, "m.a", "m.b") == [["new", "new"]] * 2


def test_a_row_that_changes_after_the_snapshot_is_compared_as_it_is_when_it_is_locked(
    make: Make, watch: pg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL, "Transaction Isolation", "Read Committed": the condition is evaluated again for the updated row."""
    lanes = make("m.a", "m.b")
    a, *_ = lanes.at
    book = dict(statements(*small_step.SWEEPS))
    waits = "w(source_table, shard, epoch, after, new, rows), pg_advisory_xact_lock(85)"
    slow = book["fences"].replace("w(source_table, shard, epoch, after, new, rows)", waits)
    assert slow != book["fences"]
    monkeypatch.setattr("slotkeeper.core.drivers.session.statements", lambda *of: {**statements(*of), "fences": slow})
    steps = lanes.buffered(lambda lane: "new")
    ask(watch, "SELECT pg_advisory_lock(85)")
    found: list[frozenset[LaneKey] | None] = []
    sweeping = threading.Thread(target=lambda: found.append(lanes.sweep(steps)), daemon=True)
    sweeping.start()
    until(
        lambda: ask(watch, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"),
        20,
        "the sweep to wait",
    )
    here = f"WHERE source_table = 'm.a' AND shard = '{a.shard}'"
    ask(watch, f"UPDATE slotkeeper_progress SET position = '{DwsPosition(7).text}' {here}")
    ask(watch, "SELECT pg_advisory_unlock(85)")
    sweeping.join(60)
    assert found == [frozenset(lanes.at) - {a}]
    assert ask(watch, f"SELECT position FROM slotkeeper_progress {here}") == [(DwsPosition(7).text,)]
    assert values(watch, "m.a", "m.b") == [["new"], ["new", "new"]]


@pytest.mark.parametrize("value", ["no", "toolong"])
def test_a_rejected_row_undoes_the_sweep_and_then_its_lane_alone_fails(
    make: Make, watch: pg.Connection, value: str
) -> None:
    lanes = make("m.a", "m.b", "m.c")
    bad, *_ = [lane for lane in lanes.at if lane.source_table == "m.b"]
    steps = lanes.buffered(lambda lane: value if lane == bad else "new")
    assert lanes.sweep(steps) is None
    assert values(watch, "m.a", "m.b", "m.c") == [[], [], []] and stood(watch) == {DwsPosition(0).text}
    for lane, step in steps.items():
        if lane == bad:
            with pytest.raises(RowRefused):
                lanes.alone(step)
            lanes.sink(lane).abandon()
        else:
            assert lanes.alone(step)
    assert values(watch, "m.a", "m.b", "m.c") == [["new", "new"], ["new"], ["new", "new"]]


def test_a_locked_target_leaves_the_sweep_until_its_own_step_succeeds(make: Make, watch: pg.Connection) -> None:
    lanes = make("m.a", "m.b")
    a = [lane for lane in lanes.at if lane.source_table == "m.a"]
    b = [lane for lane in lanes.at if lane.source_table == "m.b"]
    ask(watch, "BEGIN; LOCK TABLE m.b IN ACCESS EXCLUSIVE MODE")
    steps = lanes.buffered(lambda lane: "new")
    assert lanes.sweep(steps) is None
    assert all(lanes.alone(steps[lane]) for lane in a)
    ended: list[bool] = []
    waiting = threading.Thread(target=lambda: ended.append(lanes.alone(steps[b[0]])), daemon=True)
    waiting.start()
    until(lambda: ask(watch, "SELECT 1 FROM pg_locks WHERE NOT granted"), 20, "the step to wait for the lock")
    ask(watch, "ROLLBACK")
    waiting.join(60)
    assert ended == [True]
    assert all(lanes.buffered(lambda lane: "2", lanes=a).values())
    lanes.sink(b[1]).put_back(steps[b[1]].buffered)
    again = lanes.sink(b[0])
    assert again.stage(io.BytesIO(line(2, b[0], "2"))) == 1 and again.detach() is None
    assert again.commit(b[0], lanes.epoch, lanes.at[b[0]], DwsPosition(2), 1)
    assert again.stage(io.BytesIO(line(3, b[0], "3"))) == 1 and again.detach() is not None


@pytest.mark.parametrize("on_bad_row", ["stop", "quarantine"])
def test_two_lanes_of_a_table_with_a_rejected_row_each_lose_no_row(
    make: Make, watch: pg.Connection, on_bad_row: str
) -> None:
    """The first lane isolates its row; the rows that it leaves in the sink do not affect the second."""
    lanes = make("m.a", "m.b", options=SinkOptions(on_bad_row=on_bad_row))
    quarantines = on_bad_row == "quarantine"
    with lanes.session.transaction() as cursor:
        entries.prepare(lanes.session, cursor, key_of(next(iter(lanes.at))), quarantines)
    for sink in lanes.sinks.values():
        sink.target = replace(sink.target, forms=(pg_types.TEXT,))
    steps: Steps = {}
    for lane in lanes.at:
        bad = "no" if lane.source_table == "m.a" else "ok"
        step = lanes.stage(lane, line(1, lane, bad) + line(1, lane, "yes", key=1, sequence=2))
        assert step is not None
        steps[lane] = step
    assert lanes.sweep(steps) is None
    for lane, step in steps.items():
        try:
            assert lanes.alone(step)
        except RowRefused:
            assert lane.source_table == "m.a"
            lanes.sink(lane).abandon()
            if quarantines:
                lines = line(1, lane, "no") + line(1, lane, "yes", key=1, sequence=2)
                assert lanes.sink(lane).stage_isolating(io.BytesIO(lines)) == 2
                assert lanes.sink(lane).commit(lane, lanes.epoch, step.after, step.new, 2)
    assert values(watch, "m.b") == [["ok", "ok", "yes", "yes"]]
    assert values(watch, "m.a") == [["yes", "yes"] if quarantines else []]
    if quarantines:
        assert ask(watch, "SELECT count(*) FROM slotkeeper_quarantine") == [(2,)]


@pytest.mark.parametrize(
    "raises", ["RAISE EXCEPTION 'closed period'", "RAISE EXCEPTION 'broken' USING ERRCODE = 'XX001'"]
)
def test_any_error_that_the_server_reports_is_the_error_of_one_lane(
    make: Make, watch: pg.Connection, raises: str
) -> None:
    lanes = make("m.a", "m.b")
    function = f"CREATE FUNCTION m.f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {raises}; END$$"
    trigger = "BEFORE INSERT ON m.a FOR EACH ROW WHEN (NEW.id = 0) EXECUTE FUNCTION m.f()"
    ask(watch, f"{function}; CREATE TRIGGER t {trigger}")
    steps = lanes.buffered(lambda lane: "new")
    assert lanes.sweep(steps) is None
    failed = []
    for lane, step in steps.items():
        try:
            assert lanes.alone(step)
        except SlotkeeperError:
            failed.append((lane.source_table, lane.shard))
            lanes.sink(lane).abandon()
    assert failed == [("m.a", "dn_1")]
    assert values(watch, "m.a", "m.b") == [["new"], ["new", "new"]]


def test_a_target_that_often_makes_sweeps_fail_is_left_out_longer_each_time(
    make: Make, watch: pg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = make("m.a")
    (sink,), (lane, *_) = lanes.sinks.values(), lanes.at
    monkeypatch.setattr(sink.session, "seconds", iter(range(1_000_000)).__next__)
    found = []
    for _ in range(4):
        alone = 0
        while (step := lanes.stage(lane, line(lanes.at[lane].point + 1, lane, "v"))) is None:
            new = DwsPosition(lanes.at[lane].point + 1)
            assert sink.commit(lane, lanes.epoch, lanes.at[lane], new, 1)
            lanes.at[lane] = new
            alone += 1
        found.append(alone)
        assert lanes.alone(step)
    assert found == [0, 1, 3, 7]


POINTS = ("fences", "effects", "commit", "committed")


@pytest.mark.parametrize("point", POINTS)
def test_a_session_killed_at_any_point_leaves_all_steps_or_none(
    make: Make, watch: pg.Connection, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = make("m.a", "m.b")
    pid = lanes.session.ready().info.backend_pid

    def kill() -> None:
        ask(watch, f"SELECT pg_terminate_backend({pid}, 10000)")

    fences, effects, commit = small_step.take_fences, small_step.apply, pg.Connection.commit

    def killed(call: Callable[..., Any], before: bool) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            if before:
                kill()
            found = call(*given)
            if not before:
                kill()
            return found

        return run

    if point == "fences":
        monkeypatch.setattr(small_step, "take_fences", killed(fences, before=True))
    elif point != "committed":
        monkeypatch.setattr(small_step, "apply", killed(effects, before=point == "effects"))
    else:

        def lost(connection: pg.Connection) -> None:
            commit(connection)
            if connection.info.backend_pid == pid and ask(watch, "SELECT 1 FROM m.a"):
                kill()
                raise pg.DriverError("the answer was lost")

        monkeypatch.setattr(pg.Connection, "commit", lost)
    steps = lanes.buffered(lambda lane: "new")
    with pytest.raises(SlotkeeperError) as caught:
        lanes.sweep(steps)
    assert point == "committed" or isinstance(caught.value, Unreachable)
    monkeypatch.undo()
    rows = lanes.sink(next(iter(lanes.at))).read_rows(list(lanes.at))
    assert rows is not None
    moved = {row.position for row in rows.values()}
    assert moved == {DwsPosition(1 if point == "committed" else 0)}
    assert values(watch, "m.a", "m.b") == [["new", "new"] if point == "committed" else []] * 2


def test_of_two_workers_only_one_commits_each_lane_and_no_lane_waits(make: Make, watch: pg.Connection) -> None:
    """A worker of an earlier epoch that was left behind commits its own sweep of the same lanes at the same time."""
    old = make("m.a", "m.b", "m.c", "m.d")
    before = old.buffered(lambda lane: "old")
    new = make("m.a", "m.b", "m.c", "m.d", again=True)
    after = new.buffered(lambda lane: "new")
    found: list[frozenset[LaneKey] | None] = []
    zombie = threading.Thread(target=lambda: found.append(old.sweep(before)), daemon=True)
    zombie.start()
    passed = new.sweep(after)
    zombie.join(60)
    assert found == [frozenset()] and passed is not None
    for lane in set(after) - passed:
        assert new.alone(after[lane])
    assert values(watch, "m.a", "m.b", "m.c", "m.d") == [["new", "new"]] * 4


def test_random_sweeps_have_the_effect_of_steps_that_are_taken_alone(make: Make, watch: pg.Connection) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng, tables = random.Random(seed), ("m.a", "m.b", "m.c")
    together, single = make(*tables), make(*(f"{table}_1" for table in tables))
    together.epoch = single.epoch
    for _ in range(60):
        steps: Steps = {}
        for lane in list(together.at):
            point = together.at[lane].point + 1
            lines = b"".join(_event(rng, point, lane, sequence) for sequence in range(0, 2 * rng.randrange(12), 2))
            other = LaneKey(lane.source, f"{lane.source_table}_1", lane.slot, lane.shard)
            ours, theirs = together.stage(lane, lines), single.stage(other, lines)
            assert ours is not None and theirs is not None and single.alone(theirs)
            buffer_again(single.sink(other))
            steps[lane] = ours
        if rng.random() < 0.2:
            ask(watch, "UPDATE slotkeeper_progress SET epoch = epoch + 1 WHERE source_table = 'm.b' AND shard = 'dn_2'")
        passed = together.sweep(steps)
        assert passed is not None
        ask(watch, f"UPDATE slotkeeper_progress SET epoch = {together.epoch} WHERE source_table = 'm.b'")
        assert all(together.alone(steps[lane]) for lane in set(steps) - passed)
        for sink in together.sinks.values():
            buffer_again(sink)
    assert values(watch, *tables) == values(watch, *(f"{table}_1" for table in tables))
    assert any(values(watch, *tables))


def buffer_again(sink: PostgresSink) -> None:
    """Let a sink buffer its next step, also if a slow machine made its last commit look like a lock."""
    sink._alone, sink._rests = False, 0


def _event(rng: random.Random, point: int, lane: LaneKey, sequence: int) -> bytes:
    key, value = rng.randrange(8), rng.choice([None, "", "a", '"', "\\", "\t"])
    kind = rng.choice("IdUB")
    found = line(point, lane, value, kind, key, sequence)
    if kind == "B":
        found += line(point, lane, value, "U", rng.choice([key, rng.randrange(8)]), sequence + 1)
    return found
