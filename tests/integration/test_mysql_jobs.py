"""A job from a real MariaDB into PostgreSQL, with the local runner: copy, stream, DDL, broken connections, restarts."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.errors import AccessRefused, Refused, Trouble, TroubleName
from slotkeeper.demo.doris.server import DorisStandin
from tests.support.pairs import TABLE, MakeMysqlPair, MysqlPair
from tests.support.pairs import doris_endpoint as doris_endpoint
from tests.support.sqlite_pair.pair import supervised
from tests.support.waiting import until

WIDE = """
    a INT UNSIGNED, b VARCHAR(20) CHARACTER SET latin1, id BIGINT UNSIGNED, c DECIMAL(12,4), d DATETIME(6),
    e TIMESTAMP(3) NULL, f DOUBLE, g FLOAT, h VARBINARY(16), i BIT(7), j YEAR, k ENUM('x','y'), l SET('p','q'),
    m TIME(2), n TEXT, o BINARY(4), p DATE, q UUID, PRIMARY KEY (id, b)
"""
VALUES = """
    (4294967295, 'é', 18446744073709551615, -1.5, '2024-02-29 23:59:59.120000', '2024-01-01 00:00:00.5', 1e15, 1.1,
     x'00ff00', b'1010101', 1999, 'y', 'p,q', '-12:34:56.78', 'naïve 😀\\n\\t', x'01', '0001-01-01',
     '123e4567-e89b-12d3-a456-426655440000'),
    (NULL, '', 1, NULL, NULL, NULL, -0.0, 16777216, '', b'0', NULL, NULL, '', NULL, '', NULL, NULL, NULL),
    (0, 'B ', 1, 0.0001, '9999-12-31 23:59:59', '2038-01-19 03:14:07', 1.7976931348623157e308, 1e-10, x'5c4e', b'1',
     2155, 'x', NULL, '838:59:59', '\\\\N', x'41424300', '2024-12-31', NULL)
"""


def test_a_copy_and_the_stream_make_the_target_equal(mysql_pair: MysqlPair, seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    mysql_pair.run(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_1_to_3000")
    mysql_pair.mirror.start()
    for _ in range(50):
        mysql_pair.write(*((key, chance.choice([None, key * 7])) for key in {chance.randrange(4000) for _ in range(9)}))
    mysql_pair.mirror.wait_running()
    mysql_pair.wait_equal()
    mysql_pair.write((3, 33), (4, None), (40_000, None), (40_001, 1))
    mysql_pair.run("FLUSH BINARY LOGS", f"UPDATE {TABLE} SET id = 50000 WHERE id = 5")
    mysql_pair.wait_equal()
    mysql_pair.mirror.stop()
    mysql_pair.write((3, 34))
    mysql_pair.mirror.start().wait_running()
    mysql_pair.wait_equal()
    mysql_pair.mirror.stop()
    assert [row.state for row in mysql_pair.mirror.rows()] == [LaneState.RUNNING]


def test_a_key_of_inet6_is_one_row_by_copy_and_by_stream(make_mysql_pair: MakeMysqlPair) -> None:
    pair = make_mysql_pair("k INET6 PRIMARY KEY, v INT")
    keys = ("1:2:3:4:5:6:0:8", "1:0:3:4:5:6:7:8", "0:2:3:4:5:6:7:0")
    values = ", ".join(f"('{key}', 0)" for key in keys)
    pair.run(f"INSERT INTO {TABLE} VALUES {values}")
    pair.mirror.start().wait_running()
    pair.run(f"UPDATE {TABLE} SET v = 1", f"INSERT INTO {TABLE} VALUES ('::ffff:0:0', 1)")
    pair.wait_equal()
    pair.mirror.stop()


def test_every_type_is_the_same_by_copy_and_by_stream(make_mysql_pair: MakeMysqlPair) -> None:
    pair = make_mysql_pair(WIDE)
    pair.run(f"INSERT INTO {TABLE} VALUES {VALUES}")
    pair.mirror.start().wait_running()
    pair.wait_equal()
    pair.run(f"DELETE FROM {TABLE}", f"INSERT INTO {TABLE} VALUES {VALUES}")
    pair.run(f"UPDATE {TABLE} SET a = 7 WHERE id = 1")
    pair.wait_equal()
    pair.mirror.stop()
    assert pair.compare().rows_sink == 3


def test_two_channels_follow_one_stream_each_its_own_table(make_mysql_pair: MakeMysqlPair) -> None:
    pair = make_mysql_pair(tables=2)
    pair.run(*(f"INSERT INTO ods.{name} SELECT seq, 0 FROM seq_1_to_100" for name in ("t", "t2")))
    pair.mirror.start().wait_running()
    for value in range(5):
        pair.transaction(*(f"UPDATE ods.{name} SET v = {value + 1} WHERE id < 10" for name in ("t", "t2", "t")))
    pair.wait_equal()
    pair.mirror.stop()
    assert sorted(pair.mirror.changes().values()) == [90, 90]


def test_columns_are_mapped_by_name(make_mysql_pair: MakeMysqlPair) -> None:
    pair = make_mysql_pair("z TEXT, id INT PRIMARY KEY, v INT")
    mapped = ChannelSpec(TABLE, "mart.t", create_target=True, columns=(("id", "key"), ("v", "value")))
    pair.mirror.job = replace(pair.mirror.job, channels=(mapped,))
    pair.run(f"INSERT INTO {TABLE} VALUES ('a', 1, 2), (NULL, 2, NULL)")
    pair.mirror.start().wait_running()
    pair.run(f"INSERT INTO {TABLE} VALUES ('c', 3, 4)", f"DELETE FROM {TABLE} WHERE id = 1")
    pair.wait_equal()
    pair.mirror.stop()


@pytest.mark.parametrize(
    ("ddl", "name"),
    [
        (f"ALTER TABLE {TABLE} ADD COLUMN w INT", TroubleName.SCHEMA_CHANGED),
        (f"ALTER TABLE {TABLE} DROP COLUMN v, ADD COLUMN v BIGINT DEFAULT 7", TroubleName.SCHEMA_CHANGED),
        (f"TRUNCATE {TABLE}", TroubleName.SLOT_LOST),
        (f"SET binlog_format = 'STATEMENT'; UPDATE {TABLE} SET v = -1 WHERE id = 3", TroubleName.SLOT_LOST),
    ],
    ids=["shape", "same_shape", "truncate", "statement"],
)
def test_what_has_no_row_events_stops_the_lane_and_drops_nothing(
    mysql_pair: MysqlPair, ddl: str, name: TroubleName
) -> None:
    mysql_pair.run(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_1_to_20")
    mysql_pair.mirror.start().wait_running()
    mysql_pair.wait_equal()
    mysql_pair.write((1, 100), (2, None))
    mysql_pair.run(*ddl.split("; "))
    error = mysql_pair.mirror.wait_error()
    assert isinstance(error, Trouble) and error.name is name, error
    (row,) = mysql_pair.mirror.rows()
    assert row.position is not None
    if name is TroubleName.SLOT_LOST or "DROP" in ddl:
        mirror = mysql_pair.mirror
        assert mirror.query(mirror.sink, "SELECT v FROM mart.t WHERE id <= 3 ORDER BY id") == [(100,), (3,)]


def test_a_ddl_that_changes_no_column_stops_nothing(mysql_pair: MysqlPair) -> None:
    mysql_pair.run(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_1_to_20")
    mysql_pair.mirror.start().wait_running()
    mysql_pair.run(f"ALTER TABLE {TABLE} ADD INDEX by_v (v)", f"OPTIMIZE TABLE {TABLE}", f"ANALYZE TABLE {TABLE}")
    mysql_pair.run("CREATE TABLE ods.other (id INT)", "INSERT INTO ods.other VALUES (1)", "DROP TABLE ods.other")
    mysql_pair.write((5, 6))
    mysql_pair.wait_equal()
    mysql_pair.mirror.stop()


def test_a_killed_line_loses_and_doubles_nothing(mysql_pair: MysqlPair) -> None:
    mysql_pair.run(f"INSERT INTO {TABLE} SELECT seq, 0 FROM seq_1_to_100")
    mysql_pair.mirror.start().wait_running()
    for value in range(1, 6):
        mysql_pair.run("BEGIN", f"UPDATE {TABLE} SET v = {value} WHERE id <= 50")
        for (session,) in mysql_pair.rows(
            "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
        ):
            mysql_pair.run(f"KILL {session}")
        mysql_pair.run(f"UPDATE {TABLE} SET v = {value} WHERE id > 50", "COMMIT")
        mysql_pair.wait_equal()
    mysql_pair.mirror.stop()
    assert sum(mysql_pair.mirror.changes().values()) == 5 * 100 * 2


def test_a_purged_position_is_named_and_never_skipped(mysql_pair: MysqlPair) -> None:
    mysql_pair.run(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_1_to_20")
    mysql_pair.mirror.start().wait_running()
    mysql_pair.wait_equal()
    mysql_pair.mirror.stop()
    mysql_pair.write((1, 100))
    mysql_pair.run("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    newest = mysql_pair.rows("SHOW MASTER STATUS")[0][0]

    def purged() -> bool:
        mysql_pair.run(f"PURGE BINARY LOGS TO '{newest}'")
        return len(mysql_pair.rows("SHOW BINARY LOGS")) == 1

    until(purged, 20, "the old binlogs to be purged")
    error = mysql_pair.mirror.start().wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SLOT_LOST, error


def test_a_transaction_that_is_open_during_the_copy_is_in_the_stream(mysql_pair: MysqlPair) -> None:
    mysql_pair.run(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_1_to_20")
    mysql_pair.run("BEGIN", f"UPDATE {TABLE} SET v = 100 WHERE id = 1", f"INSERT INTO {TABLE} VALUES (21, 21)")
    mysql_pair.mirror.start().wait_running()
    mysql_pair.run("COMMIT")
    mysql_pair.wait_equal()
    mysql_pair.mirror.stop()
    assert sum(mysql_pair.mirror.changes().values()) == 3


@pytest.mark.parametrize("more", [0, 4000], ids=["behind", "beyond"])
def test_a_binlog_that_was_reset_is_named_whatever_is_in_it_since(mysql_pair: MysqlPair, more: int) -> None:
    mysql_pair.run(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_1_to_2000")
    mysql_pair.mirror.start().wait_running()
    mysql_pair.wait_equal()
    mysql_pair.mirror.stop()
    mysql_pair.run("RESET MASTER")
    if more:
        (row,) = mysql_pair.mirror.rows()
        assert row.position is not None
        until(lambda: _grown(mysql_pair, row.position), 60, "the new binlog to be longer than the old one was")
    error = mysql_pair.mirror.start().wait_error(120)
    assert isinstance(error, Trouble) and error.name is TroubleName.SOURCE_OLDER, error


def _grown(pair: MysqlPair, position: Position | None) -> bool:
    """Write more rows; return whether the binlog has grown past a position."""
    file, offset = pair.rows("SHOW MASTER STATUS")[0][:2]
    assert position is not None
    if (int(str(file).rpartition(".")[2]), int(offset)) > (position.pair[0] >> 40, position.pair[0] & (1 << 40) - 1):
        return True
    pair.run(f"UPDATE {TABLE} SET v = v + 1", "FLUSH BINARY LOGS")
    return False


def test_odd_names_are_names(make_mysql_pair: MakeMysqlPair) -> None:
    columns = '`id%s` INT, `Key``"x` VARCHAR(20) CHARACTER SET utf8mb4, `select` TEXT'
    pair = make_mysql_pair(columns + ', PRIMARY KEY (`Key``"x`, `id%s`)')
    pair.session.rows(f"INSERT INTO {TABLE} VALUES (1, 'Ä', 'x'), (2, 'a', NULL), (3, 'B', ''), (4, 'b ', '')")
    pair.mirror.job = replace(
        pair.mirror.job, binlog=replace(pair.mirror.job.binlog, full_sync_binlog_batch_read_size=1)
    )
    pair.mirror.start().wait_running()
    pair.session.rows(f"UPDATE {TABLE} SET `select` = 'y'")
    pair.session.rows(f"DELETE FROM {TABLE} WHERE `Key``\"x` = 'b'")
    pair.wait_equal()
    pair.mirror.stop()


def test_a_login_without_the_rights_is_refused_with_the_grant(mysql_pair: MysqlPair) -> None:
    user = "poor@'127.0.0.0/255.0.0.0'"
    mysql_pair.run(f"CREATE OR REPLACE USER {user} IDENTIFIED BY ''", f"GRANT SELECT ON {TABLE} TO {user}")
    poor = replace(mysql_pair.mirror.job.source, user="poor", password=SecretRef())
    mysql_pair.mirror.job = replace(mysql_pair.mirror.job, source=poor)
    error = mysql_pair.mirror.start().wait_error()
    assert isinstance(error, AccessRefused), error
    assert "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'poor'@'127.0.0.0/255.0.0.0'" in error.hint, (
        "of this account, not of another host's account"
    )


@pytest.mark.parametrize(
    ("setting", "good", "bad"),
    [("binlog_format", "ROW", "MIXED"), ("binlog_row_image", "FULL", "MINIMAL"), ("log_bin_compress", "OFF", "ON")],
)
def test_a_server_that_writes_no_whole_rows_is_refused(
    mysql_pair: MysqlPair, setting: str, good: str, bad: str
) -> None:
    mysql_pair.run(f"SET GLOBAL {setting} = '{bad}'")
    try:
        error = mysql_pair.mirror.start().wait_error()
    finally:
        mysql_pair.run(f"SET GLOBAL {setting} = '{good}'")
    assert isinstance(error, Refused), error
    assert setting in error.message


def test_a_row_filter_is_asked_of_copy_stream_and_comparison(make_mysql_pair: MakeMysqlPair) -> None:
    pair = make_mysql_pair()
    channel = ChannelSpec(TABLE, "mart.t", create_target=True, where='"v" >= 10')
    pair.mirror.job = replace(pair.mirror.job, channels=(channel,))
    pair.run(f"INSERT INTO {TABLE} VALUES (1, 5), (2, 10), (3, NULL)")
    pair.mirror.start().wait_running()
    pair.write((1, 11), (2, 9), (4, 12), (5, 1))
    mirror = pair.mirror
    until(
        lambda: mirror.query(mirror.sink, "SELECT id FROM mart.t ORDER BY id") == [(1,), (4,)], 60, "the rows accepted"
    )
    mirror.stop()


def test_it_goes_into_a_doris_too(mysql_pair: MysqlPair, doris: DorisStandin) -> None:
    mirror = mysql_pair.mirror
    mirror.job = replace(
        mirror.job,
        channels=(ChannelSpec(TABLE, "mart.t"),),
        sink=doris_endpoint(doris),
        sink_kind="doris",
        store=mirror.job.sink,
        store_kind=mirror.job.sink_kind,
    )
    mysql_pair.run(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_1_to_500")
    mirror.start().wait_running()
    mysql_pair.write((1, 100), (2, None), (600, 6))
    mysql_pair.run(f"UPDATE {TABLE} SET id = 700 WHERE id = 5")
    mysql_pair.wait_equal()
    mirror.stop()
    assert sum(mirror.changes().values()) == 2 + 1 + 1 + 2


@pytest.mark.spark
@pytest.mark.chaos
def test_it_runs_on_spark(
    make_mysql_pair: MakeMysqlPair, tmp_path: Path, spark_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(spark_cache))
    pair = make_mysql_pair(tables=2)
    pair.run(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_1_to_1000", "INSERT INTO ods.t2 VALUES (1, 1)")
    with supervised(pair, tmp_path, "spark") as job:
        job.wait_for(JobState.RUNNING)
        for value in range(20):
            pair.transaction(f"UPDATE {TABLE} SET v = {-value - 1} WHERE id <= 10", "UPDATE ods.t2 SET v = v + 1")
        pair.wait_equal()
        report = job.wait_for(JobState.RUNNING).report
        assert report is not None
        assert (report.unit, report.place, report.keeps_positions) == ("bytes", "binlog position", False)
        assert job.stop().state is JobState.STOPPED
    assert sorted(pair.mirror.changes().values()) == [40, 400]
