"""DDL of a followed table at a real MariaDB: DDL that retains all rows stops nothing; tables with only a UNIQUE key."""

from __future__ import annotations

import pytest

from slotkeeper.core.errors import Refused, Trouble, TroubleName
from slotkeeper.core.sources.mysql.statements import Effect, Statement
from tests.support.maria import Maria
from tests.support.pairs import TABLE, MakeMysqlPair, MysqlPair
from tests.support.waiting import until

RANGES = """id INT NOT NULL, v INT, u INT NOT NULL, PRIMARY KEY (id)) PARTITION BY RANGE (id) (
    PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN (200)"""
KEEPING = (
    "ADD PARTITION (PARTITION p2 VALUES LESS THAN (300), PARTITION p3 VALUES LESS THAN (400))",
    "REORGANIZE PARTITION p2, p3 INTO (PARTITION p2 VALUES LESS THAN (350), PARTITION p3 VALUES LESS THAN (500))",
    "REBUILD PARTITION ALL",
    "ALTER v SET DEFAULT 5",
    "ALTER COLUMN v DROP DEFAULT",
    "COMMENT = 'RENAME TO x'",
    "ADD INDEX i (v)",
    "RENAME INDEX i TO j",
    "DROP INDEX j",
)


def test_ddl_that_keeps_all_rows_stops_nothing(make_mysql_pair: MakeMysqlPair) -> None:
    pair = make_mysql_pair(RANGES)
    pair.run(f"INSERT INTO {TABLE} SELECT seq, seq, seq FROM seq_1_to_150")
    pair.mirror.start().wait_running()
    pair.run("CREATE OR REPLACE DATABASE other_ods", "CREATE TABLE other_ods.t (id INT PRIMARY KEY)")
    for number, change in enumerate(KEEPING):
        pair.run(f"ALTER TABLE {TABLE} {change}", f"UPDATE {TABLE} SET v = -{number} WHERE id > {number}")
    pair.run(f"INSERT INTO {TABLE} VALUES (450, 1, 1)", "DROP TABLE other_ods.t", "DROP DATABASE other_ods")
    pair.run(f"DELETE FROM {TABLE} WHERE id = 1")
    pair.wait_equal()
    pair.mirror.stop()
    pair.run(f"ALTER TABLE {TABLE} ADD INDEX i (v)", f"UPDATE {TABLE} SET v = 1")
    pair.mirror.start().wait_running()
    pair.wait_equal()
    pair.mirror.stop()


def test_a_list_that_is_reorganized_may_lose_rows_without_an_event(maria: Maria) -> None:
    """The server drops the row whose value no new partition has."""
    lists = "PARTITION BY LIST (id) (PARTITION a VALUES IN (1, 2), PARTITION b VALUES IN (3))"
    maria.run(f"CREATE TABLE t (id INT PRIMARY KEY) {lists}", "INSERT INTO t VALUES (1), (2), (3)")
    maria.mark()
    maria.run("ALTER TABLE t REORGANIZE PARTITION a INTO (PARTITION a VALUES IN (1))")
    assert maria.rows("SELECT * FROM t ORDER BY id") == [(1,), (3,)]
    (statement,) = maria.stream("t").items(blocking=False)
    assert isinstance(statement, Statement) and statement.effect is Effect.EMPTIES


UNIQUE = "v INT, a VARCHAR(9) NOT NULL, b INT NOT NULL, n INT, UNIQUE u (a, b), UNIQUE early (n), UNIQUE half (a(3), n)"


def test_a_table_with_a_unique_key_and_no_primary_key_is_followed_by_it(make_mysql_pair: MakeMysqlPair) -> None:
    pair = make_mysql_pair(UNIQUE)
    pair.run(f"INSERT INTO {TABLE} SELECT seq, concat('k', seq MOD 7), seq, seq FROM seq_1_to_200")
    assert pair.identity().key == ("a", "b")
    pair.mirror.start().wait_running()
    pair.run(f"UPDATE {TABLE} SET v = -v WHERE b < 50", f"UPDATE {TABLE} SET b = b + 1000 WHERE b > 190")
    pair.run(f"DELETE FROM {TABLE} WHERE a = 'k3'", f"ALTER TABLE {TABLE} ADD UNIQUE another (b)")
    pair.run(f"UPDATE {TABLE} SET v = 7 WHERE b = 1")
    pair.wait_equal()
    assert pair.identity().key == ("a", "b")
    pair.run(f"DROP INDEX u ON {TABLE}")
    error = pair.mirror.wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SCHEMA_CHANGED, error


@pytest.mark.parametrize("columns", ["a INT, b INT", "a INT, UNIQUE u (a)", "a TEXT NOT NULL, UNIQUE u (a(5))"])
def test_a_table_whose_rows_nothing_tells_apart_is_refused_by_name(
    make_mysql_pair: MakeMysqlPair, columns: str
) -> None:
    pair: MysqlPair = make_mysql_pair(columns)
    with pytest.raises(Refused, match=f"{TABLE} has no primary key, and no UNIQUE key") as refused:
        pair.identity()
    assert "ADD PRIMARY KEY" in refused.value.hint


def test_a_key_index_that_comes_back_stops_the_lane(make_mysql_pair: MakeMysqlPair) -> None:
    """Between the two statements rows with one key can come and go."""
    pair = make_mysql_pair(UNIQUE)
    pair.run(f"INSERT INTO {TABLE} VALUES (1, 'x', 1, 1)")
    pair.mirror.start().wait_running()
    pair.wait_equal()
    pair.mirror.stop()
    pair.run(f"DROP INDEX u ON {TABLE}", f"ALTER TABLE {TABLE} ADD UNIQUE u (a, b)", f"UPDATE {TABLE} SET v = 2")
    pair.mirror.start()
    until(lambda: pair.mirror.error is not None, 60, "the lane to stop")
    error = pair.mirror.wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SCHEMA_CHANGED, error
