"""Who waits at a source, out of what a server may answer: long statements, names in front of them, names in a GRANT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from slotkeeper.core.domain.source_waits import DDL, VACUUM_FULL, to_do
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import WaitsAsked
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.dws.waits import DwsWaits
from slotkeeper.core.sources.mysql import waits as of_mysql
from slotkeeper.core.sources.mysql.session import MysqlSession

LONG = f"ods.{'a' * 63}"


class Answers:
    """A session that answers each question by its name or text, and with no rows where none is given."""

    user = "'etl'@'%'"

    def __init__(self, answers: Mapping[str, list[tuple[Any, ...]]]) -> None:
        self._answers = answers
        self.refuses: set[str] = set()

    def rows(self, question: str, *_: object, **__: object) -> list[tuple[Any, ...]]:
        if question in self.refuses:
            raise Refused("there is no such list")
        return self._answers.get(question, [])

    def answered(self, *_: object) -> tuple[list[str], list[tuple[Any, ...]]]:
        return [], []


def dws(answers: Mapping[str, list[tuple[Any, ...]]], table: str = LONG) -> DwsWaits:
    session = cast("DwsSession", Answers({"consumed": [(False,)], **answers}))
    return DwsWaits(session, "Etl-2", WaitsAsked({table: {"s": "orders"}}))


def test_a_vacuum_is_told_whose_client_writes_a_comment_first_and_whose_table_has_a_long_name() -> None:
    statement = f"/* ApplicationName=DBeaver 24.1 - Script-12.sql */ VACUUM (FULL, ANALYZE, VERBOSE) {LONG}"
    row = (7, "eve", "gsql", "active", 9.0, statement, 12, 9.0, "")
    (one,) = dws({"here": [row]}).read(100.0)
    assert (one.what, one.table) == (VACUUM_FULL, LONG)


def test_the_grant_that_shows_other_sessions_quotes_its_login() -> None:
    reader = dws({})
    reader.read(100.0)
    assert '`GRANT gs_role_read_all_stats TO "Etl-2"`' in reader.hidden


def test_the_ddl_is_told_and_not_a_reader_after_it_whose_client_writes_a_comment_first() -> None:
    waiting = [
        (3, "bob", "ods", "Waiting for table metadata lock", 9, "/* ApplicationName=DBeaver */ SELECT * FROM orders"),
        (4, "eve", "ods", "Waiting for table metadata lock", 9, "ALTER TABLE orders ADD b int # it's\n, COMMENT 'x'"),
    ]
    owners = [("ods.orders", 99, "etl", "slotkeeper/orders/3.ab/copy", "Sleep", 20, None)]
    answers = Answers({of_mysql._WAITING: waiting, of_mysql._BY_SCHEMA: owners})
    asked = WaitsAsked({"ods.orders": {"s": "orders"}})
    (one,) = of_mysql.MysqlWaits(cast("MysqlSession", answers), "etl", asked).read(100.0)
    assert (one.what, one.waiter.pid, one.behind) == (DDL, 4, 1)
    assert "`KILL 4`" in to_do(one) and "KILL 3" not in to_do(one)


def test_where_only_transactions_are_told_a_job_is_not_blamed_while_another_login_has_one_as_old() -> None:
    waiting = [(4, "eve", "ods", "Waiting for table metadata lock", 9, "ALTER TABLE orders ADD b int")]
    ours, theirs = ("", 99, "etl", None, "Sleep", 20, None), ("", 7, "bob", None, "Sleep", 30, None)
    later, waiter = ("", 8, "bob", None, "Sleep", 3, None), ("", 4, "eve", None, "Query", 9, "ALTER TABLE orders")
    asked = WaitsAsked({"ods.orders": {"s": "orders"}})

    def reader(*owners: tuple[Any, ...]) -> of_mysql.MysqlWaits:
        answers = Answers({of_mysql._WAITING: waiting, of_mysql._PROCESS: [(0,)], of_mysql._BY_TRANSACTION: [*owners]})
        answers.refuses = {of_mysql._BY_PLUGIN}
        return of_mysql.MysqlWaits(cast("MysqlSession", answers), "etl", asked)

    alone = reader(ours, later, waiter)
    assert [one.sessions[0].pid for one in alone.read(100.0)] == [99] and not alone.hidden
    doubtful = reader(ours, theirs)
    assert not doubtful.read(100.0)
    assert doubtful.hidden.startswith("hidden: pid 4") and "for pid 99 of a job or for pid 7 of another login" in (
        doubtful.hidden
    )
