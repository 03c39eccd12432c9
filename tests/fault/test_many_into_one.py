"""Tables of one MariaDB into one target, each with its own constant: one table does not affect the others' rows.

`verify` compares a part with its table; parts that must not change are compared by the location of each row.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.reset import Goal, TargetKind
from slotkeeper.core.domain.spec import ChannelSpec, Constant, JobSpec
from slotkeeper.core.engine.driver import lease
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.services.verify import verify
from slotkeeper.core.wiring import worker
from slotkeeper.demo.doris.server import DorisStandin
from tests.support.mirror import At, Mirror
from tests.support.pairs import MakeMysqlPair, MysqlPair
from tests.support.pairs import doris as doris
from tests.support.resetting import Resetting
from tests.support.waiting import until

COLUMN, TARGET = "shop_id", "mart.orders"


def parts(pair: MysqlPair, values: Sequence[str | int], target: str = TARGET) -> MysqlPair:
    """Let each table of the pair write to one target with its own value."""
    job = pair.mirror.job
    channels = tuple(
        ChannelSpec(one.source_table, target, create_target=True, constant=Constant(COLUMN, value))
        for one, value in zip(job.channels, values, strict=True)
    )
    pair.mirror.job = replace(job, channels=channels)
    return pair


@pytest.fixture
def shops(make_mysql_pair: MakeMysqlPair) -> Callable[..., MysqlPair]:
    """Makes a job of `number` tables with 300 rows each, with the same keys and different values."""

    def make(number: int) -> MysqlPair:
        pair = parts(make_mysql_pair(tables=number), [f"eu_{n}" for n in range(1, number + 1)])
        for n, one in enumerate(pair.mirror.job.channels, 1):
            pair.run(f"INSERT INTO {one.source_table} SELECT seq, seq * 10 + {n} FROM seq_1_to_300")
        return pair

    return make


def equal(pair: MysqlPair) -> bool:
    """Whether each table equals its part of the target, and the target has no other rows."""
    found = [verify(job, False, lambda done, planned: None) for job in pair.mirror.job.narrowed]
    (whole,) = pair.mirror.query(pair.mirror.sink, f"SELECT count(*) FROM {TARGET}")[0]
    return all(one.equal for one in found) and whole == sum(one.rows_source for one in found)


def wait_equal(pair: MysqlPair) -> None:
    pair.wait(lambda: equal(pair), 60, "each table to equal its part")


def places(mirror: Mirror, but: str) -> list[tuple[Any, ...]]:
    """Return the location of each row of the other parts and the transaction that wrote it; both must not change."""
    rows = f"SELECT ctid::text, xmin::text, t::text FROM {TARGET} t WHERE {COLUMN} <> '{but}' ORDER BY 1"
    return mirror.query(mirror.sink, rows)


def write(pair: MysqlPair, chance: random.Random, table: str, number: int = 30) -> None:
    """Change rows of one table; some of the changes are changed keys."""
    for _ in range(number):
        key = chance.randrange(1, 400)
        pair.run(
            chance.choice(
                (
                    f"REPLACE INTO {table} VALUES ({key}, {chance.randrange(10**6)})",
                    f"DELETE FROM {table} WHERE id = {key}",
                    f"UPDATE IGNORE {table} SET id = id + 1000 WHERE id = {key}",
                    f"UPDATE {table} SET v = v + 1 WHERE id BETWEEN {key} AND {key + 5}",
                )
            )
        )


def stop_table(mirror: Mirror, table: str) -> None:
    mirror.want(table, WantedState.STOP)
    mirror.wait_table(table, JobState.STOPPED)


def resetting(mirror: Mirror, table: str, folder: Path) -> Resetting:
    one = SimpleNamespace(job=mirror.job.of(table), consents=mirror.consents)
    return Resetting(cast(Mirror, one), folder)


def test_eight_tables_into_one_target_one_of_them_reset_under_writes(
    shops: Callable[..., MysqlPair], tmp_path: Path, seed: int
) -> None:
    print(f"seed {seed}")
    pair, chance = shops(8), random.Random(seed)
    mirror = pair.mirror
    mirror.job = replace(mirror.job, on_existing="replace")
    mirror.start()
    for one in mirror.job.channels:
        write(pair, chance, one.source_table, 10)
    mirror.wait_running()
    wait_equal(pair)
    for one in mirror.job.channels:
        write(pair, chance, one.source_table, 20)
    wait_equal(pair)
    table, value = "ods.t5", "eu_5"
    before = places(mirror, value)
    stop_table(mirror, table)
    mirror.at_sink(f"UPDATE {TARGET} SET v = -1 WHERE {COLUMN} = '{value}' AND id % 3 = 0")
    mirror.at_sink(f"INSERT INTO {TARGET} (id, v, {COLUMN}) VALUES (99999, 1, '{value}')")
    write(pair, chance, table)
    resetting(mirror, table, tmp_path).reset(Goal(TargetKind.SNAPSHOT))
    write(pair, chance, table)
    assert places(mirror, value) == before
    mirror.want(table, WantedState.RUN, anew=True)
    write(pair, chance, table)
    mirror.wait_table(table, JobState.RUNNING)
    assert places(mirror, value) == before, "the copy of one table touched the others' rows"
    for one in mirror.job.channels:
        write(pair, chance, one.source_table, 10)
    wait_equal(pair)
    mirror.stop()


def test_a_truncated_table_is_copied_again_and_only_its_part_is_emptied(
    shops: Callable[..., MysqlPair], tmp_path: Path
) -> None:
    pair = shops(3)
    mirror = pair.mirror
    mirror.job = replace(mirror.job, on_existing="replace")
    mirror.start().wait_running()
    wait_equal(pair)
    before = places(mirror, "eu_2")
    pair.run("TRUNCATE ods.t2", "INSERT INTO ods.t2 VALUES (1, 1)")
    report = mirror.wait_table("ods.t2", JobState.FAILED)
    assert report.trouble == "SLOT LOST"
    resetting(mirror, "ods.t2", tmp_path).reset(Goal(TargetKind.SNAPSHOT))
    mirror.want("ods.t2", WantedState.RUN, anew=True)
    mirror.wait_table("ods.t2", JobState.RUNNING)
    wait_equal(pair)
    assert places(mirror, "eu_2") == before
    mirror.stop()


@pytest.mark.parametrize("way", ["replace", "merge"])
@pytest.mark.parametrize(
    "point",
    ["after_first_rows", "before_first_registration", "after_copy_began", "before_chunk_commit", "after_chunk_commit"],
)
def test_a_copy_that_is_killed_at_a_step_is_finished_and_leaves_other_rows_alone(
    shops: Callable[..., MysqlPair], point: str, way: str
) -> None:
    pair = shops(2)
    mirror = pair.mirror
    mirror.job = replace(mirror.job, on_existing=way)
    mirror.at_sink(
        "CREATE SCHEMA mart",
        f"CREATE TABLE {TARGET} ({COLUMN} text, id bigint, v bigint, PRIMARY KEY ({COLUMN}, id))",
        f"INSERT INTO {TARGET} SELECT 'eu_1', n, -n FROM generate_series(1, 300) n",
        f"INSERT INTO {TARGET} SELECT 'other', n, -n FROM generate_series(1, 100) n",
    )

    def kill() -> None:
        mirror.wanted = WantedState.STOP
        raise RuntimeError("killed")

    at = At(point, kill)
    driver = point in ("after_first_rows", "before_first_registration", "after_copy_began")
    with suppress(RuntimeError, SlotkeeperError):
        mirror.run_here(**{"driver_probe" if driver else "probe": at})
    assert at.done.is_set()
    mirror.start().wait_running()
    pair.run("UPDATE ods.t SET v = 7 WHERE id < 50", "DELETE FROM ods.t2 WHERE id > 250")
    parted = f"SELECT {COLUMN}, count(*), sum(v)::bigint FROM {TARGET} GROUP BY 1 ORDER BY 1"
    rows = {n: pair.rows(f"SELECT count(*), sum(v) FROM ods.t{n}")[0] for n in ("", "2")}
    expected = [("eu_1", *map(int, rows[""])), ("eu_2", *map(int, rows["2"])), ("other", 100, -5050)]
    pair.wait(lambda: mirror.query(mirror.sink, parted) == expected, 60, f"the target to be {expected}")
    mirror.stop()


def test_a_part_with_rows_is_refused_and_an_empty_part_of_a_filled_target_is_not(
    shops: Callable[..., MysqlPair],
) -> None:
    pair = shops(2)
    mirror = pair.mirror
    mirror.at_sink(
        "CREATE SCHEMA mart",
        f"CREATE TABLE {TARGET} ({COLUMN} varchar(70), id bigint, v bigint, PRIMARY KEY ({COLUMN}, id))",
        f"INSERT INTO {TARGET} VALUES ('other', 1, 1), ('eu_2', 1, 1)",
    )
    report = mirror.start().wait_table("ods.t2", JobState.FAILED)
    assert "target mart.orders [shop_id=eu_2] is not empty" in report.reason
    mirror.at_sink(f"DELETE FROM {TARGET} WHERE {COLUMN} = 'eu_2'")
    mirror.want("ods.t2", WantedState.RUN, anew=True)
    mirror.wait_table("ods.t2", JobState.RUNNING)
    assert [row.state for row in mirror.rows()] == [LaneState.RUNNING] * 2
    mirror.stop()


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (f"(id bigint PRIMARY KEY, v bigint, {COLUMN} text)", "has another unique key (id)"),
        (f"({COLUMN} text, id bigint UNIQUE, v bigint, PRIMARY KEY ({COLUMN}, id))", "has another unique key (id)"),
        ("(id bigint PRIMARY KEY, v bigint)", "has no column 'shop_id'"),
        (f"({COLUMN} bigint, id bigint, v bigint, PRIMARY KEY ({COLUMN}, id))", "column 'shop_id' is bigint"),
    ],
)
def test_a_constant_that_is_no_column_of_the_targets_key_is_refused(
    shops: Callable[..., MysqlPair], made: str, says: str
) -> None:
    mirror = shops(2).mirror
    mirror.at_sink("CREATE SCHEMA mart", f"CREATE TABLE {TARGET} {made}")
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert says in error.message


def test_one_writer_per_part_and_none_for_the_whole(
    shops: Callable[..., MysqlPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "TARGET_WAIT", 0.2)
    pair = shops(2)
    mirror = pair.mirror
    mirror.start().wait_running()
    job, mine = mirror.job, mirror.job.channels[0]
    for number, (channel, schema, refused) in enumerate(
        [
            (replace(mine, constant=None), "public", True),
            (mine, "public", True),
            (replace(mine, constant=None), "apart", True),
            (mine, "apart", True),
            (replace(mine, constant=Constant(COLUMN, "us")), "apart", False),
        ]
    ):
        other = Mirror.__new__(Mirror)
        vars(other).update(vars(mirror))
        mirror.at_sink("CREATE SCHEMA IF NOT EXISTS apart")
        other.job = replace(
            job, name=f"other_{number}", slot=f"other_{number}", channels=(channel,), progress_schema=schema
        )
        other.start()
        if refused:
            error = other.wait_error()
            assert isinstance(error, Refused), (channel, error)
            assert "belongs to" in error.message, error
        else:
            other.wait_running()
            other.stop()
    assert mirror.error is None
    until(lambda: mirror.query(mirror.sink, f"SELECT count(*) FROM {TARGET}") == [(900,)], 30, "all to be there")
    mirror.stop()


def test_the_locks_of_parts_exclude_only_the_same_part_and_the_whole_target(shops: Callable[..., MysqlPair]) -> None:
    mirror = shops(2).mirror
    mirror.start().wait_running()
    mirror.stop()
    first, second = (worker.open_progress(job, "test", worker.who(job, "test")) for job in mirror.job.narrowed)
    try:
        assert first.take_target("t [c=1]") and first.take_target("t [c=1]")
        assert [second.take_target(one) for one in ("t", "t [c=1]", "t [c=2]")] == [False, False, True]
        assert [len(second.target_owners(one)) for one in ("t", "t [c=1]", "t [c=2]", "t [c=3]")] == [1, 1, 0, 0]
        second.give_back("t [c=2]")
        assert not second.take_target("t")
        first.give_back("t [c=1]")
        assert second.take_target("t")
        assert not first.take_target("t [c=1]")
        assert len(first.target_owners("t [c=1]")) == 1
    finally:
        first.close()
        second.close()


def test_a_quarantined_row_of_a_part_is_replayed_into_it(shops: Callable[..., MysqlPair]) -> None:
    pair = shops(2)
    mirror = pair.mirror
    mirror.job = replace(mirror.job, sink_options=replace(mirror.job.sink_options, on_bad_row="quarantine"))
    mirror.at_sink(
        "CREATE SCHEMA mart",
        f"CREATE TABLE {TARGET} ({COLUMN} text, id bigint, v bigint CHECK (v <> 666), PRIMARY KEY ({COLUMN}, id))",
    )
    pair.run("UPDATE ods.t2 SET v = 666 WHERE id = 5")
    mirror.start().wait_running()
    pair.run("UPDATE ods.t SET v = 666 WHERE id = 5", "UPDATE ods.t2 SET v = 666 WHERE id = 7")
    pair.wait(lambda: mirror.heard.rows_quarantined == 3, 60, "three rows to be quarantined")
    before = places(mirror, "eu_2")
    mirror.at_sink(f"ALTER TABLE {TARGET} DROP CONSTRAINT orders_v_check")
    job = mirror.job.of("ods.t2")
    with closing(worker.store_session(mirror.job, "test")) as session:
        quarantine = session.quarantine()
        for number in quarantine.ids(job.lane_key()):
            quarantine.replay(number, job, job.lane_key(), pair.identity("ods.t2"), "a test", "it fits now")
        assert places(mirror, "eu_2") == before
    assert verify(job, False, lambda done, planned: None).equal
    found = verify(mirror.job.of("ods.t"), False, lambda done, planned: None)
    assert (found.equal, found.quarantined.keys) == (True, (("5",),))
    mirror.stop()


@pytest.mark.parametrize("way", ["postgres", "doris"])
def test_a_constant_makes_a_part_of_the_target(make_mysql_pair: MakeMysqlPair, doris: DorisStandin, way: str) -> None:
    """`constant`, in a created target of either kind: whole numbers, changed keys, and differences in one part only."""
    pair = make_mysql_pair("id BIGINT, k VARCHAR(20), v BIGINT, PRIMARY KEY (id, k)", tables=3)
    mirror, channels = pair.mirror, parts(pair, [2**40, 2**40 + 1, -(2**50)]).mirror.job.channels
    if way == "doris":
        pair.into(doris)
    mirror.job = replace(mirror.job, channels=channels)
    tables = [one.source_table for one in channels]
    for one in tables:
        pair.run(f"INSERT INTO {one} SELECT seq % 7, seq, seq FROM seq_1_to_100")
    mirror.start().wait_running()
    pair.run(f"UPDATE {tables[1]} SET k = concat('new ', k) WHERE id = 3", f"DELETE FROM {tables[2]} WHERE id = 5")

    def same(job: JobSpec) -> bool:
        return verify(job, False, lambda done, planned: None).equal

    pair.wait(lambda: all(map(same, mirror.job.narrowed)))
    pair.run(f"UPDATE {tables[0]} SET v = -v")
    pair.wait(lambda: all(map(same, mirror.job.narrowed)))
    mirror.stop()
    pair.run(f"UPDATE {tables[1]} SET v = 0 WHERE id = 2")
    found = [verify(job, False, lambda done, planned: None) for job in mirror.job.narrowed]
    assert [(one.missing.count, one.extra.count, one.equal) for one in found] == [
        (0, 0, True),
        (0, 0, False),
        (0, 0, True),
    ]


def test_a_filled_part_of_a_doris_is_refused_and_its_delete_is_named(
    make_mysql_pair: MakeMysqlPair, doris: DorisStandin
) -> None:
    pair = parts(make_mysql_pair(tables=2), ["eu_1", "eu_2"])
    mirror, channels = pair.mirror, pair.mirror.job.channels
    pair.into(doris)
    pair.run(*(f"INSERT INTO {one.source_table} VALUES (1, 1)" for one in channels))
    mirror.job = replace(mirror.job, channels=channels)
    mirror.start().wait_running()
    pair.wait(lambda: all(verify(job, False, lambda done, planned: None).equal for job in mirror.job.narrowed))
    mirror.stop()
    for way, said in (("replace", f"DELETE FROM `mart`.`orders` WHERE `{COLUMN}` = 'eu_1'"), ("refuse", "empty it")):
        mirror.job = replace(mirror.job, slot=f"again_{way}", name=f"again_{way}", channels=channels[:1])
        mirror.job = replace(mirror.job, on_existing=way, progress_schema=f"again_{way}")
        mirror.at_sink(f"CREATE SCHEMA again_{way}")
        error = mirror.start().wait_error()
        assert isinstance(error, Refused)
        assert f"target mart.orders [{COLUMN}=eu_1] is not empty" in error.message
        assert said in error.hint
