"""The statuses of many tables of one MySQL server take a few statements, however many tables there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.errors import Refused, Unreachable
from slotkeeper.core.sources.mysql.retention import MysqlTable
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.tables import read_table, read_tables
from tests.support import maria as support
from tests.support.maria import Maria

TABLES = 50
DEFINITIONS = (
    "CREATE TABLE d1 (id BIGINT PRIMARY KEY, v VARCHAR(20) NOT NULL, w DECIMAL(10,2), INDEX (v), UNIQUE (w, v))",
    "CREATE TABLE d2 (b INT, a INT, c TIMESTAMP(3) NULL, PRIMARY KEY (a, b)) ENGINE = Aria",
    "CREATE TABLE d3 (a INT NOT NULL, z INT NOT NULL, UNIQUE second (z), UNIQUE first (a))",
    "CREATE TABLE `D 4%` (`a``b` INT PRIMARY KEY, t TEXT CHARACTER SET latin1, g INT AS (1) VIRTUAL, u INT UNSIGNED)",
    "CREATE TABLE d5 (a VARCHAR(10), b INT NOT NULL, PRIMARY KEY (a), UNIQUE AAA (b)) WITH SYSTEM VERSIONING",
)


@contextmanager
def opened(maria: Maria) -> Iterator[MysqlSession]:
    session = MysqlSession(login(support.endpoint(maria.server), "slotkeeper/test"))
    session.rows("SELECT 1")
    try:
        yield session
    finally:
        session.close()


def statements(session: MysqlSession, call: Callable[[], object]) -> int:
    """The statements of a call on this session."""
    asked = "SHOW SESSION STATUS LIKE 'Questions'"
    before = int(session.rows(asked)[0][1])
    call()
    return int(session.rows(asked)[0][1]) - before - 1


def test_several_definitions_are_those_that_each_table_has_by_itself(maria: Maria) -> None:
    maria.run(*DEFINITIONS)
    names = [f"{maria.database}.{name}" for name in ("d1", "d2", "d3", "D 4%", "d5")]
    with opened(maria) as session:
        assert read_tables(session, [(name, ()) for name in names]) == [read_table(session, name) for name in names]


@pytest.mark.parametrize("made", ["", "CREATE VIEW x AS SELECT 1 AS a", "CREATE TABLE x (a INT)"])
def test_one_of_several_tables_that_cannot_be_followed_is_named(maria: Maria, made: str) -> None:
    maria.run(DEFINITIONS[0], *([made] if made else []))
    with opened(maria) as session, pytest.raises(Refused, match=rf"{maria.database}\.x"):
        read_tables(session, [(f"{maria.database}.{name}", ()) for name in ("d1", "x")])


def test_the_statuses_of_fifty_tables_take_at_most_five_statements(maria: Maria) -> None:
    maria.run(*(f"CREATE TABLE t{number} (id INT PRIMARY KEY, v INT)" for number in range(TABLES)))
    with opened(maria) as session:
        tables = [
            MysqlTable(session, f"{maria.database}.t{number}", "s", BinlogOptions(binlog=True))
            for number in range(TABLES)
        ]
        alone = [statements(session, lambda one=table: one.read_status(None)) for table in tables]  # type: ignore[misc]
        others = [MysqlTable(session, table.table, "s", table.options) for table in tables]
        for other in others:
            other._opened = session.opened
        first = statements(session, lambda: others[0].read_several(others))
        again = statements(session, lambda: others[0].read_several(others))
        print(f"one by one {sum(alone)}, together {first}, and {again} while the binlog does not move")
        assert (first, again) == (4, 1)
        assert sum(alone) >= TABLES * 4
        assert others[0].read_several(others) == [table.read_status(None) for table in tables]


def test_a_changed_definition_shows_in_the_next_status_of_several(
    maria: Maria, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotkeeper.core.sources.mysql.source.DEFINITION_SECONDS", 0.0)
    maria.run("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    with opened(maria) as session:
        tables = [MysqlTable(session, f"{maria.database}.{name}", "s", BinlogOptions(binlog=True)) for name in "ab"]
        before = tables[0].read_several(tables)
        maria.run("ALTER TABLE b ADD v INT")
        after = tables[0].read_several(tables)
        same = [one[0].fingerprint == other[0].fingerprint for one, other in zip(before, after, strict=True)]
        assert same == [True, False]
        maria.run("DROP TABLE a")
        with pytest.raises(Refused, match=r"\.a"):
            tables[0].read_several(tables)


def test_a_lost_connection_is_opened_again_for_all(maria: Maria) -> None:
    maria.run("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    with opened(maria) as session:
        tables = [MysqlTable(session, f"{maria.database}.{name}", "s", BinlogOptions(binlog=True)) for name in "ab"]
        first = tables[0].read_several(tables)
        (number,) = session.rows("SELECT CONNECTION_ID()")[0]
        maria.run(f"KILL {number}")
        with pytest.raises(Unreachable):
            tables[0].read_several(tables)
        assert tables[0].read_several(tables) == first
