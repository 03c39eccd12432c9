"""Changes to a table's rows without row events: rejected before a start, and a stop at their position in the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.errors import Refused, SlotkeeperError, Trouble, TroubleName
from slotkeeper.core.ports.kinds import FollowedTable, SourceAsked
from slotkeeper.core.sources.mysql.kind import KIND
from slotkeeper.core.sources.mysql.session import MysqlSession
from tests.support import maria as support
from tests.support.maria import Lane, Maria, lane

COLUMNS = "(id INT PRIMARY KEY, v INT, INDEX (v))"
ROWS = "INSERT INTO t SELECT seq, seq FROM seq_1_to_10"


@pytest.fixture
def filled(maria: Maria) -> Maria:
    """A table of ten rows, and another table."""
    maria.run(f"CREATE TABLE t {COLUMNS}", ROWS)
    maria.run("CREATE TABLE o (id INT PRIMARY KEY, v INT)", "CREATE TABLE p (id INT PRIMARY KEY)")
    return maria


@pytest.fixture
def follow(filled: Maria) -> Iterator[Callable[..., Lane]]:
    made: list[Lane] = []

    def make(table: str = "t", cascades_known: bool = False, user: str = "root") -> Lane:
        made.append(Lane(filled.server, f"{filled.database}.{table}", cascades_known, user))
        return made[-1]

    yield make
    for one in made:
        one.close()


def stopped(one: Lane) -> SlotkeeperError:
    with pytest.raises(SlotkeeperError) as caught:
        one.catch_up()
    return caught.value


KEY = "FOREIGN KEY (v) REFERENCES p (id)"


@pytest.mark.parametrize("action", ["ON DELETE CASCADE", "ON UPDATE CASCADE", "ON DELETE SET NULL"])
def test_a_foreign_key_with_cascades_is_refused_by_name_unless_it_is_allowed(
    filled: Maria, follow: Callable[..., Lane], action: str
) -> None:
    """MariaDB writes a table map of the child with the parent's rows, but no rows of the child."""
    filled.run("INSERT INTO p SELECT id FROM t", f"ALTER TABLE t ADD CONSTRAINT `c#1` {KEY} {action}")
    with pytest.raises(Refused) as refused:
        follow().start()
    assert "foreign key c#1 with cascades" in refused.value.message and 'cascades = "allow"' in refused.value.hint
    known = follow(cascades_known=True).start()
    filled.run("UPDATE p SET id = 99 WHERE id = 1" if "UPDATE" in action else "DELETE FROM p WHERE id = 1")
    known.catch_up()
    assert known.changes == 0 and known.rows != known.copied(), "a server that logs cascades need not be rejected"


def test_a_login_with_the_least_rights_sees_the_cascades_too(filled: Maria, follow: Callable[..., Lane]) -> None:
    """For such a login, information_schema.REFERENTIAL_CONSTRAINTS is empty."""
    filled.run("INSERT INTO p SELECT id FROM t", f"ALTER TABLE t ADD {KEY} ON DELETE CASCADE")
    filled.run("CREATE OR REPLACE USER least IDENTIFIED BY ''", f"GRANT SELECT ON {filled.database}.t TO least")
    filled.run("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO least")
    try:
        with pytest.raises(Refused, match="with cascades"):
            follow(user="least").start()
    finally:
        filled.run("DROP USER least")


def test_a_foreign_key_that_restricts_is_followed(filled: Maria, follow: Callable[..., Lane]) -> None:
    filled.run("INSERT INTO p SELECT id FROM t", f"ALTER TABLE t ADD {KEY} ON DELETE RESTRICT")
    one = follow().start()
    filled.run("UPDATE t SET v = 2 WHERE id = 1")
    assert one.catch_up().rows == one.copied()


def test_cascades_that_an_alter_adds_stop_the_lane_there(filled: Maria, follow: Callable[..., Lane]) -> None:
    filled.run("INSERT INTO p SELECT id FROM t")
    one = follow().start()
    filled.run("UPDATE t SET v = 2 WHERE id = 1", f"ALTER TABLE t ADD {KEY} ON DELETE CASCADE")
    filled.run("DELETE FROM p WHERE id = 5")
    error = stopped(one)
    assert isinstance(error, Refused) and "cascades" in error.message and "ON DELETE CASCADE" in error.message
    assert one.rows[("1",)] == ("1", "2") and ("5",) in one.rows, "the changes before it are applied"


def test_a_system_versioned_table_is_refused_by_name_and_where_an_alter_makes_it_one(
    filled: Maria, follow: Callable[..., Lane]
) -> None:
    one = follow().start()
    filled.run("UPDATE t SET v = 2 WHERE id = 1", "ALTER TABLE t ADD SYSTEM VERSIONING", "DELETE FROM t WHERE id = 2")
    error = stopped(one)
    assert isinstance(error, Refused) and "system-versioned" in error.message
    with pytest.raises(Refused, match="is system-versioned: a DELETE retains the row"):
        follow().start()


def test_an_engine_whose_rows_are_elsewhere_is_refused_by_name(filled: Maria, follow: Callable[..., Lane]) -> None:
    filled.run("CREATE TABLE a (id INT PRIMARY KEY) ENGINE=MyISAM")
    filled.run("CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MERGE UNION=(a) INSERT_METHOD=LAST")
    with pytest.raises(Refused, match="has engine MRG_MyISAM"):
        follow("m").start()
    with pytest.raises(Refused, match=r"is part of the MERGE table .*\.m"):
        follow("a").start()


@pytest.mark.parametrize("engine", ["MyISAM", "Aria", "MEMORY"])
def test_a_table_without_transactions_is_followed(filled: Maria, follow: Callable[..., Lane], engine: str) -> None:
    filled.run(f"ALTER TABLE t ENGINE = {engine}")
    one = follow().start()
    filled.run("BEGIN", "UPDATE t SET v = 3 WHERE id < 4", "INSERT INTO o VALUES (1, 1)", "ROLLBACK")
    filled.run("DELETE FROM t WHERE id = 9")
    assert one.catch_up().rows == one.copied() and one.changes == 5


@pytest.mark.chaos
def test_a_memory_table_after_a_restart_of_the_server_is_a_lost_slot() -> None:
    """The server writes a TRUNCATE when the table is first used."""
    server = support.begin()
    try:
        session = support.log_in(server)
        session.rows("CREATE DATABASE d")
        session.rows("CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE = MEMORY")
        session.rows("INSERT INTO d.t VALUES (1)")
        session.close()
        with lane(server, "d.t") as before:
            server.restart()
            session = support.log_in(server)
            session.rows("INSERT INTO d.t VALUES (2)")
            session.close()
            one = Lane(server, "d.t").resume(before)
            error = stopped(one)
            one.close()
            assert isinstance(error, Trouble) and error.name is TroubleName.SLOT_LOST and "TRUNCATE" in error.message
    finally:
        support.end(server)


TRUSTED = "SET GLOBAL log_bin_trust_function_creators = 1"
FUNCTION = "CREATE FUNCTION f() RETURNS INT MODIFIES SQL DATA BEGIN UPDATE t SET v = v + 1; RETURN 1; END"


@pytest.mark.parametrize(
    ("made", "changed", "named"),
    [
        (["CREATE VIEW w AS SELECT * FROM t"], "UPDATE w SET v = 0", "w, a view"),
        (
            ["CREATE TRIGGER x AFTER INSERT ON o FOR EACH ROW DELETE FROM t WHERE id = NEW.id"],
            "INSERT INTO o VALUES (1, 1)",
            "o, a table with a trigger",
        ),
        ([TRUSTED, FUNCTION], "INSERT INTO o VALUES (1, f())", "f, a stored routine"),
        ([TRUSTED, FUNCTION], "SELECT f()", "f, a stored routine"),
        ([TRUSTED, FUNCTION, "CREATE VIEW w AS SELECT f() AS a"], "INSERT INTO o SELECT 1, a FROM w", "w, a view"),
    ],
    ids=["view", "trigger", "function_in_insert", "function", "function_in_view"],
)
def test_dml_as_text_that_reaches_the_table_unnamed_stops_the_lane_there(
    filled: Maria, follow: Callable[..., Lane], made: list[str], changed: str, named: str
) -> None:
    filled.run(*made)
    one = follow().start()
    filled.run("UPDATE t SET v = 77 WHERE id = 10", "SET binlog_format = STATEMENT", changed)
    error = stopped(one)
    assert isinstance(error, Trouble) and error.name is TroubleName.SLOT_LOST
    assert f"it references {named}" in error.message and "binlog_format = ROW" in error.hint
    assert one.rows[("10",)] == ("10", "77") and one.rows != one.copied()


def test_dml_as_text_of_other_base_tables_is_passed_over(filled: Maria, follow: Callable[..., Lane]) -> None:
    one = follow().start()
    filled.run("SET binlog_format = STATEMENT", "INSERT INTO o SELECT * FROM t", "BEGIN", "UPDATE o SET v = 5")
    filled.run("DELETE FROM o WHERE id = 1", "COMMIT", "SET binlog_format = ROW", "UPDATE t SET v = 5 WHERE id = 1")
    assert one.catch_up().rows == one.copied() and one.changes == 2


def test_a_trigger_that_was_there_when_a_statement_ran_and_is_gone_since_is_found(
    filled: Maria, follow: Callable[..., Lane]
) -> None:
    filled.run("CREATE TRIGGER x AFTER INSERT ON o FOR EACH ROW DELETE FROM t WHERE id = NEW.id")
    one = follow().start()
    filled.run("SET binlog_format = STATEMENT", "INSERT INTO o VALUES (1, 1)", "DROP TRIGGER x")
    error = stopped(one)
    assert "had a trigger until" in error.message and "DROP TRIGGER x" in error.message


def test_a_trigger_that_is_made_right_after_the_server_was_asked_is_found_by_the_next_statement(
    filled: Maria, follow: Callable[..., Lane], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, asked = follow().start(), MysqlSession.rows
    trigger = "CREATE TRIGGER x AFTER INSERT ON o FOR EACH ROW DELETE FROM t WHERE id = NEW.id"
    unasked = [trigger, "SET binlog_format = STATEMENT", "INSERT INTO o VALUES (2, 2)"]

    def rows(self: MysqlSession, statement: str, values: Sequence[object] = (), seconds: float = 20.0) -> list[Any]:
        found = asked(self, statement, values, seconds)
        if "information_schema.routines" in statement and unasked:
            filled.run(*unasked)
            unasked.clear()
        return found

    monkeypatch.setattr(MysqlSession, "rows", rows)
    filled.run("SET binlog_format = STATEMENT", "INSERT INTO o VALUES (1, 1)", "SET binlog_format = ROW")
    one.catch_up()
    assert not unasked
    assert "it references o, a table with a trigger" in stopped(one).message


@pytest.mark.parametrize("gone", ["DROP TABLE o", "RENAME TABLE o TO o2", "CREATE OR REPLACE TABLE o (id INT)"])
def test_a_table_that_is_gone_since_may_have_had_a_trigger(
    filled: Maria, follow: Callable[..., Lane], gone: str
) -> None:
    filled.run("CREATE TRIGGER x AFTER INSERT ON o FOR EACH ROW DELETE FROM t WHERE id = NEW.id")
    one = follow().start()
    filled.run("SET binlog_format = STATEMENT", "INSERT INTO o VALUES (1, 1)", gone)
    assert "may have been a view or had a trigger" in stopped(one).message


def test_a_login_that_does_not_see_every_trigger_passes_over_no_dml_as_text(
    filled: Maria, follow: Callable[..., Lane]
) -> None:
    filled.run("CREATE OR REPLACE USER least IDENTIFIED BY ''", f"GRANT SELECT ON {filled.database}.t TO least")
    filled.run("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO least")
    try:
        one = follow(user="least").start()
        filled.run("SET binlog_format = STATEMENT", "INSERT INTO o VALUES (1, 1)")
        assert "GRANT SELECT, TRIGGER, EXECUTE ON *.*" in stopped(one).message
    finally:
        filled.run("SET binlog_format = ROW", "DROP USER least")


@pytest.mark.parametrize(
    "ddl",
    [
        "RENAME TABLE `a#b` TO x, t TO y",
        "RENAME TABLE `a-- b` TO x, t TO y",
        "RENAME /* ' */ TABLE o TO `'`, t TO `''`",
        "SET STATEMENT max_statement_time = 10 FOR TRUNCATE t",
        "TRUNCATE /*!50000 t */",
        "TRUNCATE /*M!100100 t */",
    ],
)
def test_a_name_is_not_hidden_by_what_stands_before_it(filled: Maria, follow: Callable[..., Lane], ddl: str) -> None:
    filled.run("CREATE TABLE `a#b` (id INT)", "CREATE TABLE `a-- b` (id INT)")
    one = follow().start()
    filled.run(ddl, f"CREATE TABLE IF NOT EXISTS t {COLUMNS}")
    error = stopped(one)
    assert isinstance(error, Trouble) and error.name is TroubleName.SLOT_LOST


def test_ansi_quotes_and_backslashes_are_read_as_the_session_reads_them(
    filled: Maria, follow: Callable[..., Lane]
) -> None:
    filled.run("CREATE TABLE `b#` (id INT)")
    one = follow().start()
    filled.run("SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'")
    filled.run("CREATE TABLE n (a VARCHAR(9) DEFAULT '\\') COMMENT 'x'", 'RENAME TABLE "b#" TO x, "t" TO y')
    filled.run(f"CREATE TABLE t {COLUMNS}")
    assert "RENAME TABLE" in stopped(one).message


def test_a_name_of_a_gbk_client_is_found(maria: Maria) -> None:
    maria.run("CREATE TABLE `表` (id INT PRIMARY KEY)", "INSERT INTO `表` VALUES (1)")
    with lane(maria.server, f"{maria.database}.表") as one:
        maria.run("SET character_set_client = gbk")
        maria.session._raw.query("TRUNCATE `表`".encode("gbk"))
        maria.run("SET NAMES utf8mb4")
        assert "TRUNCATE" in stopped(one).message


def test_doctor_names_cascades_versions_and_engines(filled: Maria) -> None:
    database = filled.database
    filled.run("INSERT INTO p SELECT id FROM t", f"ALTER TABLE t ADD {KEY} ON DELETE CASCADE")
    filled.run("CREATE TABLE h (id INT PRIMARY KEY) WITH SYSTEM VERSIONING")
    filled.run("CREATE TABLE a (id INT PRIMARY KEY) ENGINE = MyISAM")
    where = support.endpoint(filled.server)

    def asked(table: str, cascades: str = "refuse") -> list[tuple[Level, str]]:
        channel = ChannelSpec(f"{database}.{table}", "mart.t", cascades=cascades)
        job = JobSpec("j", where, where, "s", (channel,), source_kind="mysql")
        tables = (FollowedTable(f"{database}.{table}", (job,)),)
        session = KIND.connect(Login(where, filled.server.password(), "slotkeeper/doctor"))
        try:
            found = list(session.doctor.findings(SourceAsked("m", where, tables, False, str), SystemClock().utc))
        finally:
            session.close()
        return [(one.level, one.text) for one in found if one.place.endswith(f".{table}")]

    assert any(level is Level.FAIL and "with cascades" in text for level, text in asked("t"))
    assert all(level is Level.OK for level, _ in asked("t", "allow"))
    assert any(level is Level.FAIL and "system-versioned" in text for level, text in asked("h"))
    assert any(level is Level.WARN and "not transactional" in text for level, text in asked("a"))
