"""A job into the stand-in for Hologres: it copies and follows in each mode, and survives lost writers."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.errors import Refused, RowRefused
from slotkeeper.core.ports.sink import Batch
from slotkeeper.core.services.doctor import promise_of
from slotkeeper.core.sinks.hologres import statements
from slotkeeper.core.sinks.hologres.kind import HologresConnection
from slotkeeper.core.sinks.hologres.sink import HologresSink
from slotkeeper.core.sinks.postgres.progress.beside import PostgresDecisions
from tests.support.pairs import TABLE, TARGET, HologresPair
from tests.support.sqlite_pair.kills import Killed, Kills
from tests.support.waiting import until

KEY = LaneKey("dws1", TABLE, "slot", "dn_1")
IDENTITY = TableIdentity(1, (Column("id", "bigint", True), Column("v", "bigint")), ("id",), "s")


def own_column(pair: HologresPair, strategy: str) -> None:
    """The target has a column that the source lacks, and rows before the job starts."""
    pair.hologres.drop(TARGET)
    pair.hologres.create(TARGET, "id bigint, v bigint, own text DEFAULT 'new'", ("id",))
    pair.hologres.run(statements.SQL(f"INSERT INTO {TARGET} VALUES (1, 0, 'kept'), (2, 0, 'kept')"))
    pair.options(conflict_strategy=strategy)
    pair.mirror.job = replace(pair.mirror.job, on_existing="merge")


def target(pair: HologresPair) -> list[tuple[object, ...]]:
    return pair.hologres.rows(f"SELECT * FROM {TARGET} ORDER BY id")


def test_a_table_is_copied_and_followed(hologres_pair: HologresPair) -> None:
    pair = hologres_pair
    pair.write(*((key, key) for key in range(1_200)))
    pair.mirror.start().wait_running()
    pair.write((1, -1), (2, None), (5_000, 5))
    pair.write((1, None), (1, 7), (5_000, None))
    with closing(pair.warehouse.connect(True)) as line, line.cursor() as cursor:
        cursor.execute("UPDATE ods.t SET v = -id WHERE id > 50")
    pair.wait_equal()
    assert pair.repeats() == 0
    assert promise_of(pair.mirror.job) == "each change takes effect at least once; repeats are counted"


@pytest.mark.parametrize(
    ("strategy", "copied", "changed"),
    [
        ("update", [(1, 1, "kept"), (2, 2, "kept")], [(1, 5, "kept"), (2, 6, "new"), (3, 3, "new")]),
        ("replace", [(1, 1, None), (2, 2, None)], [(1, 5, None), (2, 6, None), (3, 3, None)]),
        ("ignore", [(1, 0, "kept"), (2, 0, "kept")], [(1, 0, "kept"), (2, 6, "new"), (3, 3, "new")]),
    ],
)
def test_a_row_that_is_there_is_updated_replaced_or_left(
    hologres_pair: HologresPair, strategy: str, copied: list[Any], changed: list[Any]
) -> None:
    pair = hologres_pair
    own_column(pair, strategy)
    pair.write((1, 1), (2, 2))
    pair.mirror.start().wait_running()
    assert target(pair) == copied
    pair.write((1, 5), (2, None), (3, 3))
    pair.write((2, 6))
    pair.wait(lambda: target(pair) == changed)


def watched(monkeypatch: pytest.MonkeyPatch, here: Callable[[str], None]) -> None:
    """Call `here` before and after each operation of the protocol, and around each statement of a write."""
    for owner, name in [
        (HologresSink, "prepare"),
        (PostgresDecisions, "decide"),
        (PostgresDecisions, "repeat"),
        (HologresSink, "_run"),
        (PostgresDecisions, "settle"),
    ]:
        real: Any = getattr(owner, name)

        def moved(*given: Any, real: Any = real, name: str = name) -> Any:
            here(f"before_{name}")
            answer = real(*given)
            here(f"after_{name}")
            return answer

        monkeypatch.setattr(owner, name, moved)


class Writing:
    """Inserts of increasing keys, and changes of a few that are written again and again."""

    def __init__(self, pair: HologresPair, chance: random.Random, again: bool) -> None:
        self.pair, self.chance, self.again = pair, chance, again
        self.last = 10

    def some(self) -> bool:
        rows = [(self.last + number, number) for number in range(1, self.chance.randint(2, 9))]
        self.last = rows[-1][0]
        changed = [(self.chance.randint(1, 9), self.chance.choice((None, self.last))) for _ in range(3)]
        self.pair.write(*rows, *(changed if self.again else ()))
        return False


def killed(pair: HologresPair, monkeypatch: pytest.MonkeyPatch, kills: Kills, writing: Writing, count: int) -> int:
    """Kill workers, and occasionally the driver; returns the number of drivers."""
    mirror, drivers = pair.mirror, 0
    monkeypatch.setattr(statements, "MOST_ROWS", 2)
    mirror.make_runner = lambda: kills.runner(mirror.capacity)
    watched(monkeypatch, kills.here)
    mirror.start()
    mirror.wait_running()

    def hit() -> bool:
        if mirror.error is not None:
            raise mirror.error
        return kills.hit.is_set() or writing.some() or kills.hit.wait(0.05)

    for _ in range(count):
        kills.arm()
        until(hit, 60, "a worker to be killed")
        if writing.chance.random() < 0.2:
            drivers += 1
            mirror.stop()
            mirror.start(driver_probe=_die)
            until(lambda: mirror.ended() or writing.some(), 60, "the driver to be killed")
            assert isinstance(mirror.wait_error(), Killed)
            mirror.start()
            mirror.wait_running()
    kills.disarm()
    return drivers


def _die(point: str) -> None:
    raise Killed(point)


COUNTS = [4, pytest.param(50, marks=[pytest.mark.chaos, pytest.mark.timeout(3600)])]


@pytest.mark.parametrize("count", COUNTS)
def test_killed_workers_lose_nothing_and_leave_both_tables_equal(
    hologres_pair: HologresPair, monkeypatch: pytest.MonkeyPatch, count: int, seed: int
) -> None:
    print(f"seed {seed}")
    pair, chance = hologres_pair, random.Random(seed)
    kills, writing = Kills(chance, lives_on=0.0), Writing(hologres_pair, chance, again=True)
    drivers = killed(pair, monkeypatch, kills, writing, count)
    pair.wait_equal(120)
    pair.wait(lambda: {row.decided for row in pair.mirror.rows()} == {None})  # a killed worker's writes are settled
    pair.mirror.stop()
    kills.wait_for_all()
    print(f"{dict(kills.at)}, {drivers} drivers killed, {writing.last} keys, {pair.repeats()} rows counted as repeats")
    assert pair.equal()


@pytest.mark.parametrize("count", COUNTS)
def test_workers_that_live_on_unseen_lose_nothing_and_every_repeat_is_counted(
    hologres_pair: HologresPair, monkeypatch: pytest.MonkeyPatch, count: int, seed: int
) -> None:
    """Every event is a row that is written only once, so that a lost event is missing and repeats are visible."""
    print(f"seed {seed}")
    pair, chance = hologres_pair, random.Random(seed)
    log = pair.hologres.log_writes(TARGET, "id")
    kills, writing = Kills(chance), Writing(hologres_pair, chance, again=False)
    drivers = killed(pair, monkeypatch, kills, writing, count)
    pair.wait_equal(120)
    pair.mirror.stop()
    kills.wait_for_all()
    (rows, writes), repeats = pair.hologres.rows(f"SELECT count(DISTINCT key), count(*) FROM {log}")[0], pair.repeats()
    print(f"{dict(kills.at)}, {kills.lived_on} lived on, {drivers} drivers killed, {rows} rows, {writes} writes")
    assert rows == writing.last - 10, "lost"
    assert isinstance(writes, int)
    assert isinstance(rows, int)
    assert writes - rows <= repeats, "repeats that were not counted"
    print(f"{writes - rows} rows written again, {repeats} counted")


def test_a_writer_that_stood_still_leaves_an_older_row_so_no_more_is_promised(hologres_pair: HologresPair) -> None:
    pair = hologres_pair
    session = HologresConnection(login(pair.mirror.job.sink, "test"))
    sink = session.batch_sink(pair.mirror.job, IDENTITY, "direct")
    older = Batch(KEY, "1", 1, lambda: iter([("1", "0", "I", "1", "10")]))
    newer = Batch(KEY, "2", 2, lambda: iter([("2", "0", "B", "1", "10"), ("2", "1", "U", "1", "20")]))
    for one in (older, newer, older):
        assert sink.prepare(one) == ""
        sink.write(one)
    session.close()
    assert target(pair) == [(1, 10)]
    assert not sink.commit("a token of another kind")


def test_a_null_that_the_target_refuses_stops_the_job_before_the_range_is_decided(hologres_pair: HologresPair) -> None:
    pair = hologres_pair
    pair.hologres.drop(TARGET)
    pair.hologres.create(TARGET, "id bigint, v bigint NOT NULL", ("id",))
    pair.write((1, 1))
    pair.mirror.start().wait_running()
    with closing(pair.warehouse.connect(True)) as line, line.cursor() as cursor:
        cursor.execute("INSERT INTO ods.t VALUES (2, NULL)")
    error = pair.mirror.wait_error()
    assert isinstance(error, RowRefused)
    assert "column 'v' rejects NULL" in error.message
    assert {row.decided for row in pair.mirror.rows()} == {None}


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ("id bigint, v integer", {}, "mart.t.v is integer, but bigint in the source"),
        ("id bigint, w bigint", {}, "mart.t has no column 'v'"),
        ("id bigint, v bigint, w bigint NOT NULL", {}, "mart.t.w requires a value"),
        (
            "id bigint, v bigint, w bigint NOT NULL DEFAULT 0",
            {"conflict_strategy": "replace"},
            "mart.t.w is NOT NULL, but",
        ),
        ("id bigint, v bigint", {"write_mode": "copy_merge"}, 'write_mode = "copy_merge" is not supported'),
        ("id bigint, v bigint", {"write_mode": "update"}, 'write_mode = "update" is not supported'),
        ("id bigint, v bigint", {"ignore_null_when_update": True}, "ignore_null_when_update is not supported"),
    ],
)
def test_a_target_that_cannot_be_mirrored_into_is_refused_by_name(
    hologres_pair: HologresPair, columns: str, options: dict[str, Any], says: str
) -> None:
    pair = hologres_pair
    pair.hologres.drop(TARGET)
    pair.hologres.create(TARGET, columns, ("id",))
    pair.options(**options)
    with closing(HologresConnection(login(pair.mirror.job.sink, "test"))) as session:
        with pytest.raises(Refused) as told:
            session.target(pair.mirror.job).admit(IDENTITY)
        assert says in told.value.message
        with pytest.raises(Refused):
            session.batch_sink(pair.mirror.job, IDENTITY, "direct")


def test_a_target_that_is_none_is_refused_by_name(hologres_pair: HologresPair) -> None:
    pair = hologres_pair
    pair.hologres.run(
        statements.SQL("CREATE TABLE mart.parts (id bigint, v bigint, PRIMARY KEY (id)) PARTITION BY LIST (id)"),
        statements.SQL("CREATE VIEW mart.seen AS SELECT 1::bigint AS id, 2::bigint AS v"),
        statements.SQL("CREATE TABLE mart.other_key (id bigint, v bigint PRIMARY KEY)"),
        statements.SQL("CREATE TABLE mart.second_key (id bigint PRIMARY KEY, v bigint UNIQUE)"),
    )
    with closing(HologresConnection(login(pair.mirror.job.sink, "test"))) as session:
        for name, says in {
            "mart.parts": "the parent of physical partitions",
            "mart.seen": "is a view",
            "mart.gone": "does not exist",
            "mart.other_key": r"the primary key of mart.other_key is \(v\), but \(id\) in the source",
            "mart.second_key": "another unique key",
        }.items():
            job = replace(pair.mirror.job, channels=(ChannelSpec(TABLE, name),))
            with pytest.raises(Refused, match=says):
                session.target(job).admit(IDENTITY)


def test_the_stand_in_refuses_what_a_hologres_refuses(hologres_pair: HologresPair) -> None:
    pair = hologres_pair
    with pytest.raises(Refused, match="does not support key columns of type numeric"):
        pair.hologres.create("mart.n", "id numeric(5,2)", ("id",))
    with pytest.raises(Refused, match="does not support columns of type xml"):
        pair.hologres.create("mart.n", "id bigint, v xml", ("id",))
    with closing(pair.warehouse.server.connect(pair.hologres.database, autocommit=False)) as line:
        with line.cursor() as cursor:
            cursor.execute(f"INSERT INTO {TARGET} VALUES (1, 1)")
            with pytest.raises(Exception, match="several writing statements in one transaction"):
                cursor.execute(f"DELETE FROM {TARGET}")
        line.rollback()
        with line.cursor() as cursor:
            cursor.execute(f"INSERT INTO {TARGET} VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = 2")
        line.commit()
        with line.cursor() as cursor, pytest.raises(Exception, match="UPDATE with shard keys"):
            cursor.execute(f"UPDATE {TARGET} SET id = 5")
        line.rollback()
    assert target(pair) == [(1, 1)]
