"""A DDL that waits at a MariaDB for the transaction of a job's copy: found, hidden without PROCESS, cleared."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import pytest

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.source_waits import DDL, SourceWait, cause, effect, to_do
from slotkeeper.core.drivers import my
from slotkeeper.core.ports.source import SourceWaits
from slotkeeper.core.sources import registry
from slotkeeper.core.sources.mysql import doctor
from tests.support.maria import Maria, endpoint, log_in
from tests.support.waiting import until

READER = "etl_waits"
REFRESHED = 0.15
"""Seconds between two queries: InnoDB does not refresh a list of transactions that is read every 0.1 s."""


@dataclass
class Stage:
    """A table with a transaction of a job's login, and a DDL of another login that waits for it."""

    maria: Maria
    stack: ExitStack
    table: str

    def login(self, user: str) -> my.Session:
        session = log_in(self.maria.server, user) if user else log_in(self.maria.server)
        self.stack.callback(session.close)
        return session

    def copy(self) -> my.Session:
        session = self.login(READER)
        session.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        session.rows(f"SELECT COUNT(*) FROM {self.table}")
        return session

    def begins(self, statement: str) -> None:
        session = log_in(self.maria.server)
        session.seconds = 300.0

        def go() -> None:
            with suppress(my.DriverError):
                session.rows(statement)
            session.close()

        thread = threading.Thread(target=go)
        thread.start()
        self.stack.callback(thread.join)
        self.stack.callback(session.sever)

    def reader(self) -> SourceWaits:
        at = Login(endpoint(self.maria.server, READER), "", "slotkeeper-locks/orders")
        session = registry.open("mysql").connect(at)
        self.stack.callback(session.close)
        found = session.doctor.waits({self.table: {"orders_slot": "orders"}})
        assert found is not None
        return found


def first(reader: SourceWaits, behind: int = 0) -> SourceWait:
    """Return the wait, once this number of sessions is queued after it."""

    def one() -> SourceWait | None:
        return next((wait for wait in reader.read(time.time()) if (wait.behind or 0) >= behind), None)

    return until(one, 20, "a wait to be found", REFRESHED)


@pytest.fixture
def stage(maria: Maria) -> Iterator[Stage]:
    table = f"{maria.database}.orders"
    maria.run(f"CREATE TABLE {table} (id int PRIMARY KEY, v int)", f"INSERT INTO {table} VALUES (1, 1)")
    maria.run(f"CREATE USER {READER}@'%'", f"GRANT SELECT ON {table} TO {READER}@'%'")
    maria.run(f"GRANT PROCESS ON *.* TO {READER}@'%'")
    with ExitStack() as stack:
        yield Stage(maria, stack, table)
    maria.run(f"DROP USER {READER}@'%'")


def holds(stage: Stage, reader: SourceWaits) -> None:
    copy = stage.copy()
    assert not reader.read(time.time()) and not reader.hidden
    stage.begins(f"ALTER TABLE {stage.table} ADD COLUMN c int /* 'secret' */")
    first(reader)
    stage.begins(f"INSERT INTO {stage.table} VALUES (2, 2)")
    wait = first(reader, 1)
    assert (wait.what, wait.table, wait.behind, wait.jobs) == (DDL, stage.table, 1, ("orders",))
    assert wait.waiter.user == "root" and "ALTER TABLE" in cause(wait, None) and "secret" not in cause(wait, None)
    (pid,) = [one.pid for one in wait.sessions]
    assert f"`KILL {pid}`" in to_do(wait) and "`slotkeeper jobs pause orders`" in to_do(wait)
    assert "lock_wait_timeout" in effect(wait)
    copy.rows("ROLLBACK")
    until(lambda: not reader.read(time.time()), 20, "it to be cleared", REFRESHED)


def test_a_ddl_that_waits_for_the_copy_s_transaction_is_named_with_the_session_and_what_ends_it(stage: Stage) -> None:
    holds(stage, stage.reader())


def test_the_plugin_tells_which_session_has_the_lock(stage: Stage) -> None:
    try:
        stage.maria.run("INSTALL SONAME 'metadata_lock_info'")
    except my.DriverError as error:
        pytest.skip(f"the server has no metadata_lock_info: {error}")
    stage.stack.callback(stage.maria.run, "UNINSTALL SONAME 'metadata_lock_info'")
    idle = stage.login(READER)
    idle.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    holds(stage, stage.reader())


@pytest.mark.parametrize("statement", [doctor._BY_SCHEMA, doctor._BY_TRANSACTION, doctor._PROCESS, doctor._LIMIT])
def test_each_question_is_one_that_the_server_knows(stage: Stage, statement: str) -> None:
    stage.maria.rows(statement)


def test_a_login_without_process_says_hidden(stage: Stage) -> None:
    stage.maria.run(f"REVOKE PROCESS ON *.* FROM {READER}@'%'")
    stage.copy()
    stage.begins(f"ALTER TABLE {stage.table} ADD COLUMN c int")
    reader = stage.reader()
    seen: Sequence[SourceWait] = reader.read(time.time())
    assert (
        not seen
        and reader.hidden.startswith("hidden: this login cannot see other")
        and "GRANT PROCESS" in reader.hidden
    )


def test_a_ddl_of_another_table_does_not_concern_the_job(stage: Stage) -> None:
    other = f"{stage.maria.database}.orders_old"
    stage.maria.run(f"CREATE TABLE {other} (id int PRIMARY KEY)", f"GRANT SELECT ON {other} TO {READER}@'%'")
    session = stage.login(READER)
    session.rows("START TRANSACTION")
    session.rows(f"SELECT COUNT(*) FROM {other}")
    stage.begins(f"DROP TABLE {other}")
    reader = stage.reader()
    until(lambda: stage.maria.rows(doctor._WAITING.replace("%%", "%")), 20, "it to wait")
    assert not reader.read(time.time())
    session.rows("ROLLBACK")
