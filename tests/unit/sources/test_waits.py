"""Sessions that wait at a source, from any answer of a server: long statements, leading comments, names in a GRANT."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from slotkeeper.core.domain.source_waits import DDL, VACUUM_FULL, to_do
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import SourceWaits
from slotkeeper.core.sources.dws.doctor import READ_SECONDS, DwsWaits
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.mysql import doctor as of_mysql
from slotkeeper.core.sources.mysql.session import MysqlSession

LONG = f"ods.{'a' * 63}"


class Answers:
    """A session that answers each query by its name or text, and with no rows by default."""

    user = "'etl'@'%'"

    def __init__(self, answers: Mapping[str, list[tuple[Any, ...]]]) -> None:
        self._answers = answers
        self.refuses: set[str] = set()
        self.clock, self.step = 0.0, 0.0

    def rows(self, question: str, *_: object, **__: object) -> list[tuple[Any, ...]]:
        if question in self.refuses:
            raise Refused("there is no such list")
        return self._answers.get(question, [])

    def seconds(self) -> float:
        self.clock += self.step
        return self.clock

    def answered(self, *_: object) -> tuple[list[str], list[tuple[Any, ...]]]:
        return [], []


def dws(answers: Mapping[str, list[tuple[Any, ...]]], table: str = LONG) -> SourceWaits:
    session = cast("DwsSession", Answers({"consumed": [(False,)], **answers}))
    return SourceWaits(DwsWaits(session, "Etl-2", {table: {"s": "orders"}}).ask)


def test_a_vacuum_is_reported_whose_client_writes_a_comment_first_and_whose_table_has_a_long_name() -> None:
    statement = f"/* ApplicationName=DBeaver 24.1 - Script-12.sql */ VACUUM (FULL, ANALYZE, VERBOSE) {LONG}"
    row = (7, "eve", "gsql", "active", 9.0, statement, 12, 9.0, "")
    (one,) = dws({"here": [row]}).read(100.0)
    assert (one.what, one.table) == (VACUUM_FULL, LONG)


def test_a_scale_out_at_many_tables_is_reported_for_all_by_answers_of_which_none_takes_long() -> None:
    tables = {f"ods.t{number}": {"s": "orders"} for number in range(9)}
    row = (7, "omm", "gs_redis", "active", 9.0, "INSERT INTO ods.x", 12, 9.0, "")
    answers = Answers({"consumed": [(False,)], "here": [row]})
    reader = SourceWaits(DwsWaits(cast("DwsSession", answers), "etl", tables).ask)
    answers.step = READ_SECONDS / 5
    told = [len(reader.read(100.0 + number)) for number in range(9)]
    assert 0 < told[0] < 9 and told[-1] == 9 and told == sorted(told)


def test_the_grant_that_shows_other_sessions_quotes_its_login() -> None:
    reader = dws({})
    reader.read(100.0)
    assert '`GRANT gs_role_read_all_stats TO "Etl-2"`' in reader.hidden


def test_the_ddl_is_reported_and_not_a_reader_after_it_whose_client_writes_a_comment_first() -> None:
    waiting = [
        (3, "bob", "ods", "Waiting for table metadata lock", 9, "/* ApplicationName=DBeaver */ SELECT * FROM orders"),
        (4, "eve", "ods", "Waiting for table metadata lock", 9, "ALTER TABLE orders ADD b int # it's\n, COMMENT 'x'"),
    ]
    owners = [("ods.orders", 99, "etl", "slotkeeper/orders/3.ab/copy", "Sleep", 20, None)]
    answers = Answers({of_mysql._WAITING: waiting, of_mysql._BY_SCHEMA: owners})
    asked = {"ods.orders": {"s": "orders"}}
    (one,) = SourceWaits(of_mysql.MysqlWaits(cast("MysqlSession", answers), "etl", asked).ask).read(100.0)
    assert (one.what, one.waiter.pid, one.behind) == (DDL, 4, 1)
    assert "`KILL 4`" in to_do(one) and "KILL 3" not in to_do(one)


def test_where_only_transactions_are_told_a_job_is_not_blamed_while_another_login_has_one_as_old() -> None:
    waiting = [(4, "eve", "ods", "Waiting for table metadata lock", 9, "ALTER TABLE orders ADD b int")]
    ours, theirs = ("", 99, "etl", None, "Sleep", 20, None), ("", 7, "bob", None, "Sleep", 30, None)
    later, waiter = ("", 8, "bob", None, "Sleep", 3, None), ("", 4, "eve", None, "Query", 9, "ALTER TABLE orders")
    asked = {"ods.orders": {"s": "orders"}}

    def reader(*owners: tuple[Any, ...]) -> SourceWaits:
        answers = Answers({of_mysql._WAITING: waiting, of_mysql._PROCESS: [(0,)], of_mysql._BY_TRANSACTION: [*owners]})
        answers.refuses = {of_mysql._BY_PLUGIN}
        return SourceWaits(of_mysql.MysqlWaits(cast("MysqlSession", answers), "etl", asked).ask)

    alone = reader(ours, later, waiter)
    assert [one.sessions[0].pid for one in alone.read(100.0)] == [99] and not alone.hidden
    doubtful = reader(ours, theirs)
    assert not doubtful.read(100.0)
    assert doubtful.hidden.startswith("hidden: pid 4") and "locked by pid 99 of a job or by pid 7 of another login" in (
        doubtful.hidden
    )


def test_no_statement_asks_for_all_of_what_another_session_runs_which_may_be_a_gigabyte() -> None:
    asked = (of_mysql._WAITING, of_mysql._OURS, of_mysql._BY_SCHEMA, of_mysql._BY_PLUGIN, of_mysql._BY_TRANSACTION)
    for statement in asked:
        assert (
            re.findall(r"\w*info\b(?!\w)", re.sub(r"LEFT\([a-z_.]*info, 4096\)|metadata_lock_info", "", statement))
            == []
        )
