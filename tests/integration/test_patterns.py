"""Jobs whose tables are a pattern: tables that are created, dropped, skipped and refused while the job runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.job import GONE, JobState
from slotkeeper.core.domain.spec import ChannelSpec, TablePattern
from slotkeeper.core.engine.driver import tables
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.services.doctor import check_source, grants
from slotkeeper.core.state import files
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.warehouse import Warehouse
from tests.support.hologres import HoloPair, write
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.pairs import MakeMysqlPair, MysqlPair
from tests.support.pairs import doris as doris
from tests.support.waiting import until

EACH = ChannelSpec("", "", create_target=True)


@pytest.fixture(autouse=True)
def lists_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LIST_EVERY", 0.3)


def by_pattern(pair: MysqlPair, folder: Path, *patterns: TablePattern) -> MysqlPair:
    every = patterns or (TablePattern("ods.*", "mart.{table}", (), EACH),)
    pair.mirror.job = replace(pair.mirror.job, channels=(), patterns=every)
    pair.mirror.patterns = folder
    return pair


@pytest.fixture
def pair(make_mysql_pair: MakeMysqlPair, tmp_path: Path) -> MysqlPair:
    return by_pattern(make_mysql_pair(tables=3), tmp_path)


def equal(pair: MysqlPair, name: str) -> Callable[[], bool]:
    return lambda: pair.compare(replace(EACH, source_table=f"ods.{name}", target=f"mart.{name}")).equal


def test_a_new_table_joins_while_the_others_stream(pair: MysqlPair) -> None:
    pair.run(*(f"INSERT INTO ods.{name} SELECT seq, 0 FROM seq_1_to_50" for name in ("t", "t2", "t3")))
    pair.mirror.start().wait_running()
    pair.wait_equal()
    epoch = pair.mirror.heard.epoch
    pair.run("CREATE TABLE ods.n (id BIGINT PRIMARY KEY, v BIGINT)", "INSERT INTO ods.n SELECT seq, 1 FROM seq_1_to_99")
    pair.mirror.wait_table("ods.n", JobState.RUNNING)
    pair.run("UPDATE ods.n SET v = 2 WHERE id < 10", "UPDATE ods.t SET v = 2 WHERE id < 10")
    pair.wait(equal(pair, "n"))
    pair.wait_equal()
    assert [one.source_table for one in pair.mirror.heard.found] == ["ods.n"]
    assert {row.epoch for row in pair.mirror.rows()} == {epoch}, "the other tables did not start again"
    pair.mirror.stop()
    pair.mirror.start().wait_running()
    pair.run("INSERT INTO ods.n VALUES (1000, 0)")
    pair.wait(equal(pair, "n"))
    pair.mirror.stop()


def test_a_table_that_joins_later_is_copied_whatever_the_job_s_start_is(pair: MysqlPair) -> None:
    pair.mirror.job = replace(pair.mirror.job, start="latest")
    pair.run("INSERT INTO ods.t VALUES (1, 1)")
    pair.mirror.start().wait_running()
    pair.run("INSERT INTO ods.t VALUES (2, 2)")
    pair.mirror.stop()
    pair.run("CREATE TABLE ods.n (id BIGINT PRIMARY KEY, v BIGINT)", "INSERT INTO ods.n VALUES (1, 1)")
    pair.mirror.start().wait_running()
    pair.mirror.wait_table("ods.n", JobState.RUNNING)
    pair.run("INSERT INTO ods.n VALUES (2, 2)")
    pair.wait(equal(pair, "n"))
    assert pair.mirror.query(pair.mirror.sink, "SELECT id FROM mart.t") == [(2,)]
    pair.mirror.stop()


def test_many_new_tables_run_apart_only_until_the_next_ones_need_their_sessions(
    pair: MysqlPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST_APART", 2)
    pair.mirror.start().wait_running()
    names = [f"n{number}" for number in range(7)]
    for name in names:
        pair.run(f"CREATE TABLE ods.{name} (id BIGINT PRIMARY KEY, v BIGINT)", f"INSERT INTO ods.{name} VALUES (1, 1)")
    until(lambda: len(pair.mirror.heard.found) == len(names), 30, "the tables to be found")
    for name in names:
        pair.mirror.wait_table(f"ods.{name}", JobState.RUNNING)
    for name in ("t", *names):
        pair.run(f"INSERT INTO ods.{name} VALUES (7, 7)")
    for name in ("t", *names):
        pair.mirror.wait_table(f"ods.{name}", JobState.RUNNING)
        pair.wait(equal(pair, name))
    alone = {thread.name for thread in threading.enumerate() if thread.name.startswith("slotkeeper-ods.")}
    assert len(alone) <= 2, alone
    pair.mirror.stop()


def test_a_dropped_table_is_reported_and_the_others_continue(pair: MysqlPair, tmp_path: Path) -> None:
    pair.run("INSERT INTO ods.t2 SELECT seq, 0 FROM seq_1_to_50")
    pair.mirror.start().wait_running()
    pair.wait_equal()
    pair.run("DROP TABLE ods.t2")
    until(lambda: pair.mirror.heard.tables["ods.t2"].reason == GONE, 30, "the table to be reported as dropped")
    assert pair.mirror.heard.tables["ods.t2"].state == JobState.STOPPED.value
    pair.run("INSERT INTO ods.t VALUES (1, 1)")
    pair.wait(equal(pair, "t"))
    assert len(pair.mirror.query(pair.mirror.sink, "SELECT 1 FROM mart.t2")) == 50, "the target's rows stay"
    assert files.known_tables(tmp_path, pair.mirror.job.name).gone == ("ods.t2",)
    pair.mirror.stop()
    pair.mirror.start().wait_running()
    assert [one.source_table for one in pair.mirror.job.channels] == ["ods.t", "ods.t3"]
    assert pair.mirror.wait_table("ods.t2", JobState.STOPPED).reason == GONE
    pair.mirror.stop()


def test_the_last_table_is_dropped_and_the_job_waits_for_the_next(pair: MysqlPair) -> None:
    pair.run("DROP TABLE ods.t2, ods.t3")
    pair.mirror.start().wait_running()
    pair.run("DROP TABLE ods.t")
    until(lambda: pair.mirror.heard.tables["ods.t"].reason == GONE, 30, "the table to be reported as dropped")
    assert not pair.mirror.ended()
    pair.run("CREATE TABLE ods.u (id BIGINT PRIMARY KEY, v BIGINT)", "INSERT INTO ods.u VALUES (1, 1)")
    pair.mirror.wait_table("ods.u", JobState.RUNNING)
    pair.wait(equal(pair, "u"))
    pair.mirror.stop()


def test_a_table_created_again_under_its_name_is_not_taken_for_the_old_one(pair: MysqlPair) -> None:
    pair.run("INSERT INTO ods.t2 SELECT seq, 0 FROM seq_1_to_50")
    pair.mirror.start().wait_running()
    pair.wait_equal()
    pair.run("DROP TABLE ods.t2")
    until(lambda: pair.mirror.heard.tables["ods.t2"].reason == GONE, 30, "the table to be reported as dropped")
    pair.run("CREATE TABLE ods.t2 (id BIGINT PRIMARY KEY, v BIGINT)", "INSERT INTO ods.t2 VALUES (7, 7)")
    report = pair.mirror.wait_table("ods.t2", JobState.FAILED)
    assert report.trouble in ("SLOT LOST", "SCHEMA CHANGED")
    pair.run("INSERT INTO ods.t VALUES (1, 1)")
    pair.wait(equal(pair, "t"))
    pair.mirror.stop()


def test_a_table_renamed_into_the_pattern_joins_with_its_rows(pair: MysqlPair) -> None:
    pair.run("CREATE OR REPLACE DATABASE other", "CREATE TABLE other.r (id BIGINT PRIMARY KEY, v BIGINT)")
    pair.run("INSERT INTO other.r SELECT seq, 0 FROM seq_1_to_50")
    pair.mirror.start().wait_running()
    pair.run(
        "INSERT INTO other.r VALUES (1000, 0)", "RENAME TABLE other.r TO ods.r", "INSERT INTO ods.r VALUES (1001, 0)"
    )
    pair.mirror.wait_table("ods.r", JobState.RUNNING)
    pair.run("INSERT INTO ods.r VALUES (1002, 0)", "DROP DATABASE other")
    pair.wait(equal(pair, "r"))
    pair.mirror.stop()


def test_views_and_tables_without_key_are_skipped_by_name_until_they_can_be_mirrored(pair: MysqlPair) -> None:
    pair.run("CREATE VIEW ods.v AS SELECT * FROM ods.t", "CREATE TABLE ods.k (id BIGINT, v BIGINT)")
    pair.run(
        "CREATE TABLE ods.b (id BIGINT PRIMARY KEY) WITH SYSTEM VERSIONING",
        "CREATE TABLE ods.`do.t` (id INT PRIMARY KEY)",
    )
    pair.run("CREATE TABLE ods.u (id BIGINT NOT NULL, v BIGINT, UNIQUE (id))", "CREATE SEQUENCE ods.s")
    pair.mirror.start().wait_running()
    until(lambda: len(pair.mirror.heard.unfit) == 5, 30, "the reasons to be reported")
    unfit = pair.mirror.heard.unfit
    assert unfit["ods.v"] == "ods.v is a view"
    assert unfit["ods.s"] == "ods.s is a sequence"
    assert unfit["ods.k"].startswith("ods.k has no primary key")
    assert unfit["ods.b"].startswith("ods.b is system-versioned")
    assert unfit["ods.do.t"].startswith("its name must be schema.table")
    assert [one.source_table for one in pair.mirror.job.channels] == ["ods.t", "ods.t2", "ods.t3", "ods.u"]
    pair.run("ALTER TABLE ods.k ADD PRIMARY KEY (id)")
    pair.mirror.wait_table("ods.k", JobState.RUNNING)
    pair.mirror.stop()


def test_names_with_capitals_spaces_and_wildcards_join_under_their_own_names(pair: MysqlPair) -> None:
    pair.mirror.start().wait_running()
    names = ("Big Order", "a*b", "a?", "[x]", "{table}", "é")
    for name in names:
        pair.run(
            f"CREATE TABLE ods.`{name}` (id BIGINT PRIMARY KEY, v BIGINT)", f"INSERT INTO ods.`{name}` VALUES (1, 1)"
        )
    for name in names:
        pair.mirror.wait_table(f"ods.{name}", JobState.RUNNING)
        pair.wait(equal(pair, name))
    pair.mirror.stop()


def test_a_table_with_its_own_channel_is_that_channel_s_and_exclusions_are_left_out(
    make_mysql_pair: MakeMysqlPair, tmp_path: Path
) -> None:
    own = ChannelSpec("ods.t2", "mart.mine", create_target=True)
    pair = by_pattern(
        make_mysql_pair(tables=3), tmp_path, TablePattern("o*.t*", "mart.{schema}_{table}", ("ods.?3",), EACH)
    )
    pair.mirror.explicit = (own,)
    pair.mirror.start().wait_running()
    found = [(one.source_table, one.target) for one in pair.mirror.job.channels]
    assert found == [("ods.t2", "mart.mine"), ("ods.t", "mart.ods_t")], "without the tables in `except`"
    pair.mirror.stop()


@pytest.mark.parametrize(
    ("patterns", "says"),
    [
        (
            (TablePattern("ods.*", "mart.{table}"), TablePattern("shop.*", "mart.{table}")),
            "no table of source maria matches shop.*",
        ),
        (
            (TablePattern("ods.*", "mart.{table}"), TablePattern("*.t2", "mart.b_{table}")),
            "ods.t2: matches ods.* and *.t2",
        ),
        ((TablePattern("o*.*", "mart.{table}"),), "other.t: its target mart.t is also that of ods.t"),
        ((TablePattern("mysql.*", "mart.{table}"),), "no table of source maria matches mysql.*"),
        ((TablePattern("ods.v", "mart.{table}"),), "no matching table can be mirrored: ods.v: ods.v is a view"),
    ],
)
def test_a_first_start_refuses_by_name(
    pair: MysqlPair, tmp_path: Path, patterns: tuple[TablePattern, ...], says: str
) -> None:
    pair.run(
        "CREATE OR REPLACE DATABASE other",
        "CREATE TABLE other.t (id BIGINT PRIMARY KEY)",
        "CREATE VIEW ods.v AS SELECT 1",
    )
    pair.mirror.job = replace(pair.mirror.job, channels=(), patterns=patterns)
    error = pair.mirror.start().wait_error()
    pair.run("DROP DATABASE other")
    assert isinstance(error, ConfigError)
    assert error.message.endswith(says)


def test_a_conflict_that_comes_later_is_skipped_and_ends_no_job(make_mysql_pair: MakeMysqlPair, tmp_path: Path) -> None:
    pair = by_pattern(make_mysql_pair(tables=2), tmp_path, TablePattern("o*.*", "mart.{table}", (), EACH))
    pair.mirror.start().wait_running()
    pair.run("CREATE OR REPLACE DATABASE oaaa", "CREATE TABLE oaaa.t (id BIGINT PRIMARY KEY)")
    until(lambda: "oaaa.t" in pair.mirror.heard.unfit, 30, "the reason to be reported")
    assert pair.mirror.heard.unfit["oaaa.t"] == "its target mart.t is also that of ods.t"
    pair.mirror.stop()
    pair.mirror.start().wait_running()
    assert [one.source_table for one in pair.mirror.job.channels] == ["ods.t", "ods.t2"]
    pair.mirror.stop()
    pair.run("DROP DATABASE oaaa")


def test_a_login_mirrors_the_tables_that_it_sees_and_others_once_they_are_granted(pair: MysqlPair) -> None:
    grantee = "lister@'%'"
    pair.run(f"CREATE OR REPLACE USER {grantee} IDENTIFIED BY 'a long pass 1'", f"GRANT SELECT ON ods.t TO {grantee}")
    pair.run(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT, BINLOG MONITOR ON *.* TO {grantee}")
    login = replace(pair.mirror.job.source, user="lister", password=SecretRef("command", "echo a long pass 1"))
    pair.mirror.job = replace(pair.mirror.job, source=login)
    pair.mirror.start().wait_running()
    assert [one.source_table for one in pair.mirror.job.channels] == ["ods.t"]
    pair.run(f"GRANT SELECT ON ods.t2 TO {grantee}", "INSERT INTO ods.t2 VALUES (1, 1)")
    pair.mirror.wait_table("ods.t2", JobState.RUNNING)
    pair.wait(equal(pair, "t2"))
    pair.mirror.stop()
    pair.run(f"DROP USER {grantee}")


def test_new_tables_of_mysql_join_a_job_into_doris(pair: MysqlPair, doris: DorisStandin) -> None:
    patterns = pair.mirror.job.patterns
    pair.into(doris)
    pair.mirror.job = replace(pair.mirror.job, channels=(), patterns=patterns)
    pair.run("INSERT INTO ods.t SELECT seq, 0 FROM seq_1_to_50")
    pair.mirror.start().wait_running()
    pair.run("CREATE TABLE ods.n (id BIGINT PRIMARY KEY, v BIGINT)", "INSERT INTO ods.n VALUES (1, 1), (2, 2)")
    pair.mirror.wait_table("ods.n", JobState.RUNNING)
    pair.run("UPDATE ods.n SET v = 7 WHERE id = 1", "DELETE FROM ods.t WHERE id = 1")
    for name in ("n", "t"):
        pair.wait(equal(pair, name))
    pair.mirror.stop()


def test_doctor_lists_the_tables_of_a_pattern_and_the_reasons_of_the_skipped(pair: MysqlPair, tmp_path: Path) -> None:
    pair.run("CREATE VIEW ods.v AS SELECT 1")
    loaded = load(pair.config(tmp_path), {})
    found = [one.text for one in check_source(loaded, loaded.sources["maria"])]
    assert "ods.*: 3 tables to mirror" in found
    assert "ods.v is skipped: ods.v is a view" in found
    assert "readable, with a key; all tables share one binlog" in found
    assert any("GRANT SELECT ON `ods`.* TO" in line for line in dict(grants(loaded))["source maria"])


# -- DWS and Hologres: each table has a slot or positions of its own -----------------------------------------------


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path) -> Mirror:
    for name in ("a", "b"):
        warehouse.create_table(f"ods.{name}", "id bigint NOT NULL, v bigint", ("id",))
    made = make_mirror(warehouse, "ods.a", "mart.a")
    made.job = replace(made.job, channels=(), patterns=(TablePattern("ods.*", "mart.{table}", (), EACH),))
    made.patterns = tmp_path
    return made


def test_a_new_table_of_dws_joins_with_a_slot_of_its_own(mirror: Mirror) -> None:
    mirror.source("CREATE TABLE ods.plain (id bigint PRIMARY KEY)", "CREATE VIEW ods.v AS SELECT 1 AS id")
    mirror.source("GRANT SELECT ON ods.plain TO etl")
    mirror.start().wait_running()
    mirror.source("INSERT INTO ods.a SELECT n, 0 FROM generate_series(1, 50) n")
    mirror.warehouse.create_table("ods.n", "id bigint NOT NULL, v bigint", ("id",))
    mirror.source("INSERT INTO ods.n SELECT n, 0 FROM generate_series(1, 50) n")
    mirror.wait_table("ods.n", JobState.RUNNING)
    mirror.source("UPDATE ods.n SET v = 1 WHERE id < 9", "UPDATE ods.b SET v = 1", "DELETE FROM ods.a WHERE id = 1")
    mirror.job = replace(mirror.job, channels=(*mirror.job.channels, *mirror.heard.found))
    mirror.wait_equal()
    assert [one.source_table for one in mirror.job.channels] == ["ods.a", "ods.b", "ods.n"]
    assert mirror.heard.unfit["ods.v"] == "ods.v is a view"
    assert mirror.heard.unfit["ods.plain"].startswith("ods.plain is neither an HStore")
    mirror.stop()


@pytest.mark.parametrize("point", ["after_first_rows", "before_first_registration", "after_first_registration"])
def test_a_driver_that_ends_while_a_table_of_dws_joins_completes_it_at_the_next_start(
    mirror: Mirror, point: str
) -> None:
    def end() -> None:
        raise KeyboardInterrupt

    probe = At(point, end, armed=False)
    mirror.start(driver_probe=probe).wait_running()
    mirror.source("INSERT INTO ods.a SELECT n, 0 FROM generate_series(1, 50) n")
    probe.armed = True
    mirror.warehouse.create_table("ods.n", "id bigint NOT NULL, v bigint", ("id",))
    mirror.source("INSERT INTO ods.n SELECT n, 0 FROM generate_series(1, 50) n")
    assert isinstance(mirror.wait_error(), KeyboardInterrupt)
    mirror.source("UPDATE ods.n SET v = 1 WHERE id < 9")
    mirror.start().wait_running()
    mirror.wait_table("ods.n", JobState.RUNNING)
    mirror.source("UPDATE ods.n SET v = 2 WHERE id < 5", "UPDATE ods.b SET v = 1")
    assert [one.source_table for one in mirror.job.channels] == ["ods.a", "ods.b", "ods.n"]
    mirror.wait_equal()
    mirror.stop()


def test_a_dropped_table_of_dws_is_reported_and_the_others_continue(mirror: Mirror) -> None:
    mirror.start().wait_running()
    mirror.source("INSERT INTO ods.b SELECT n, 0 FROM generate_series(1, 50) n")
    mirror.wait_equal()
    mirror.source("DROP TABLE ods.b")
    until(lambda: mirror.heard.tables["ods.b"].reason == GONE, 60, "the table to be reported as dropped")
    mirror.source("INSERT INTO ods.a SELECT n, 0 FROM generate_series(1, 50) n")
    mirror.job = replace(mirror.job, channels=mirror.job.channels[:1])
    mirror.wait_equal()
    mirror.stop()


def test_a_new_table_of_hologres_joins_and_a_dropped_one_is_reported(holo_pair: HoloPair, tmp_path: Path) -> None:
    mirror, hologres = holo_pair.mirror, holo_pair.hologres
    mirror.job = replace(mirror.job, channels=(), patterns=(TablePattern("ods.*", "mart.{table}", (), EACH),))
    mirror.patterns = tmp_path
    holo_pair.write((1, 1), (2, 2))
    mirror.start().wait_running()
    hologres.create_table("ods.n", "id bigint, v bigint", ("id",))
    write(hologres, (1, 1), (2, 2), table="ods.n")
    mirror.wait_table("ods.n", JobState.RUNNING)
    write(hologres, (1, 7), (3, 3), table="ods.n")
    new = replace(EACH, source_table="ods.n", target="mart.n")
    until(lambda: sorted(mirror.target_rows(new)) == sorted(mirror.source_rows(new)), 60, "the new table to be equal")
    assert {row.key.shard for row in mirror.rows()} == {"shard_0", "shard_1", "shard_2", "shard_3"}
    mirror.source("DROP TABLE ods.n CASCADE")
    until(lambda: mirror.heard.tables["ods.n"].reason == GONE, 60, "the table to be reported as dropped")
    holo_pair.write((1, 10), (2, None))
    mirror.wait_equal()
    mirror.stop()
