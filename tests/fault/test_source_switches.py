"""Switches of a MariaDB source at bad times: under a running job behind one address, with a crash of the driver in
the switch, with a range that the sink has and the store has not, and with a server whose history is another one.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

import pytest

from slotkeeper.core.domain.audit import AuditLine
from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.errors import SlotkeeperError, Trouble, TroubleName
from slotkeeper.core.sinks.postgres.progress.beside import PostgresDecisions
from slotkeeper.core.sources.mysql.position import MariaState, ours
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.mariadb import MariaServer
from tests.support import maria
from tests.support.maria_two import Two, ids
from tests.support.maria_two import patience as patience
from tests.support.maria_two import servers as servers
from tests.support.pairs import TABLE, MakeMysqlPair, MysqlPair
from tests.support.pairs import doris as doris
from tests.support.proxy import Proxy
from tests.support.waiting import until


@pytest.fixture
def proxy(servers: Two) -> Iterator[Proxy]:
    """One address for both servers, which leads to the first one."""
    made = Proxy(servers.first.port)
    yield made
    made.close()


def job_at(make: MakeMysqlPair, servers: Two, port: int = 0) -> MysqlPair:
    """A job over both servers, or over the address at `port`."""
    pair = make(at=servers.first)
    source = replace(servers.endpoint, port=port, hosts=()) if port else servers.endpoint
    pair.mirror.job = replace(pair.mirror.job, source=source)
    return pair


def fail_over(pair: MysqlPair, servers: Two) -> None:
    servers.wait_replicated(servers.second, servers.first)
    servers.first.stop(crash=True)
    servers.promote(servers.second)
    pair.follow(servers.second)


def refused(pair: MysqlPair, words: str, *names: TroubleName) -> None:
    error = pair.mirror.wait_error(120)
    assert isinstance(error, Trouble) and error.name in names and words in error.message, error


def kept(pair: MysqlPair) -> list[tuple[Any, ...]]:
    return list(pair.mirror.query(pair.mirror.sink, "SELECT id, v FROM mart.t ORDER BY id"))


class Audit:
    """Implements `slotkeeper.core.engine.driver.context.JobAudit` in memory."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def intent(self, action: str, what: str, reason: str, result: Any) -> AuditLine:
        self.lines.append((action, reason))
        return cast(AuditLine, object())

    def outcome(self, line: AuditLine, said: str, result: Any) -> None:
        self.lines.append(("outcome", said))


def test_a_switch_behind_one_address_is_noticed_before_a_row_is_applied(
    make_mysql_pair: MakeMysqlPair, servers: Two, proxy: Proxy
) -> None:
    pair = job_at(make_mysql_pair, servers, proxy.port)
    audit = pair.mirror.audit = Audit()
    pair.mirror.start().wait_running()
    pair.write((1, 1), (2, 2))
    pair.wait_equal()
    servers.wait_replicated(servers.second, servers.first)
    servers.run(servers.second, "FLUSH BINARY LOGS")
    servers.promote(servers.second)
    proxy.aim(servers.second.port)  # the first server still runs and still has its sessions
    pair.follow(servers.second)
    pair.write((3, 3))
    pair.wait_equal(120)
    pair.mirror.stop()
    assert sum(pair.mirror.changes().values()) == 3 and pair.mirror.heard.events.count(JobEvent.COPY_BEGAN) == 1
    assert audit.lines == [
        ("source switch", "server server-2 answers instead of server server-1"),
        ("outcome", "done: continues without a copy"),
    ]


def test_a_foreign_server_that_takes_over_the_address_of_a_running_job_gives_it_no_row(
    make_mysql_pair: MakeMysqlPair, servers: Two, proxy: Proxy
) -> None:
    """It has the same server_id, table, login, file names and GTIDs, and a longer binlog."""
    pair = job_at(make_mysql_pair, servers, proxy.port)
    pair.mirror.start().wait_running()
    pair.write((1, 1))
    pair.wait_equal()
    foreign = maria.begin(ids(1))
    try:
        servers.run(
            foreign,
            f"CREATE USER etl@'127.0.0.1' IDENTIFIED BY '{servers.password}'",
            "GRANT ALL ON *.* TO etl@'127.0.0.1'",
            "CREATE DATABASE ods",
            "CREATE TABLE ods.t (id BIGINT PRIMARY KEY, v BIGINT)",
            *(f"INSERT INTO ods.t VALUES ({number}, 0)" for number in range(100)),
        )
        proxy.aim(foreign.port)
        refused(pair, "", TroubleName.SOURCE_OLDER, TroubleName.POSITIONS_DIFFER)
        assert kept(pair) == [(1, 1)]
    finally:
        maria.end(foreign)


class Crash(BaseException):
    """The driver ends here."""


@pytest.mark.parametrize("point", ["after_switch_intent", "after_switch"])
def test_a_driver_that_crashes_in_the_switch_continues_where_exactly_its_transactions_end(
    make_mysql_pair: MakeMysqlPair, servers: Two, point: str
) -> None:
    pair = job_at(make_mysql_pair, servers)
    pair.mirror.start().wait_running()
    pair.write((1, 1), (2, 2))
    pair.wait_equal()
    pair.mirror.stop()
    fail_over(pair, servers)
    pair.write((1, 10), (3, 3))

    def crash(here: str) -> None:
        if here == point:
            raise Crash

    pair.mirror.start(driver_probe=crash)
    until(pair.mirror.ended, 60, "the driver to crash")
    assert isinstance(pair.mirror.error, Crash)
    pair.mirror.start().wait_running()
    pair.wait_equal(60)
    pair.mirror.stop()
    assert (JobEvent.SWITCHED in pair.mirror.heard.events) == (point == "after_switch_intent")
    assert sum(pair.mirror.changes().values()) == 2 + 3


@pytest.mark.parametrize("name", [pytest.param("decide", marks=pytest.mark.chaos), "settle"])
def test_a_range_that_the_sink_may_have_is_finished_at_the_other_server(
    make_mysql_pair: MakeMysqlPair,
    servers: Two,
    doris: DorisStandin,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """The driver crashes with the range planned and not sent, or committed in Doris and not settled in the store."""
    pair = job_at(make_mysql_pair, servers)
    pair.into(doris)
    pair.mirror.start().wait_running()
    pair.write((1, 1))
    pair.wait_equal()
    real: Any = getattr(PostgresDecisions, name)
    armed: list[bool] = [True]

    def broken(*given: Any) -> Any:
        if armed:
            found = real(*given) if name == "decide" else True
            pair.mirror.wanted = type(pair.mirror.wanted).STOP
            armed.clear()
            if name == "settle":
                raise SlotkeeperError("the store is gone")
            assert found
            raise SlotkeeperError("the worker is gone")
        return real(*given)

    monkeypatch.setattr(PostgresDecisions, name, broken)
    pair.write((1, 2), (5, 5), (6, 6))
    until(pair.mirror.ended, 60, "the job to end with an open range")
    (row,) = pair.mirror.rows()
    assert row.decided is not None
    fail_over(pair, servers)
    pair.write((7, 7))
    pair.mirror.start().wait_running()
    pair.wait_equal(120)
    pair.mirror.stop()
    (row,) = pair.mirror.rows()
    assert row.decided is None and row.fingerprint.startswith("server-2:")
    assert sum(pair.mirror.changes().values()) == 1 + 4 + 1


def test_rows_prepared_before_the_switch_take_effect_where_they_commit_after_it(
    make_mysql_pair: MakeMysqlPair, servers: Two
) -> None:
    pair = job_at(make_mysql_pair, servers)
    pair.mirror.start().wait_running()
    pair.write((1, 1))
    with closing(maria.log_in(servers.first)) as session:
        for statement in ("XA START 'x'", f"INSERT INTO {TABLE} VALUES (50, 50)", "XA END 'x'", "XA PREPARE 'x'"):
            session.rows(statement)
    pair.write((2, 2))
    pair.wait_equal()
    (row,) = pair.mirror.rows()
    assert ours(row.position).pending if row.position else False
    fail_over(pair, servers)
    pair.run("FLUSH BINARY LOGS", "XA COMMIT 'x'")
    pair.write((3, 3))
    pair.wait_equal(120)
    pair.mirror.stop()
    assert kept(pair) == [(1, 1), (2, 2), (3, 3), (50, 50)]
    assert sum(pair.mirror.changes().values()) == 4


@pytest.mark.chaos
def test_a_domain_that_only_the_new_server_has_is_read_from_its_first_transaction_on(
    make_mysql_pair: MakeMysqlPair, servers: Two
) -> None:
    pair = job_at(make_mysql_pair, servers)
    pair.mirror.start().wait_running()
    pair.write((1, 1))
    pair.wait_equal()
    fail_over(pair, servers)
    pair.run("SET SESSION gtid_domain_id = 7", f"INSERT INTO {TABLE} VALUES (2, 2)")
    pair.run("SET SESSION gtid_domain_id = 0", f"INSERT INTO {TABLE} VALUES (3, 3)")
    pair.wait_equal(120)
    pair.mirror.stop()
    assert sum(pair.mirror.changes().values()) == 3
    (row,) = pair.mirror.rows()
    assert row.position is not None
    gtids = ours(row.position).gtids
    assert isinstance(gtids, MariaState) and set(gtids.last) == {0, 7} and gtids.whole


def other_histories() -> list[tuple[str, Callable[[Two, MysqlPair], None]]]:
    def reset(servers: Two, pair: MysqlPair) -> None:
        fail_over(pair, servers)
        pair.run("RESET MASTER", *(f"UPDATE {TABLE} SET v = v + 1" for _ in range(50)))

    def restored(servers: Two, pair: MysqlPair) -> None:
        """The first server is restored from the backup, and reuses its numbers."""
        first = servers.first
        first.stop()
        last = int(time.time())
        _copy(first, "backup", "data")
        first.start()
        until(lambda: int(time.time()) > last, 5, "another second to begin")
        pair.follow(first)
        pair.run(*(f"UPDATE {TABLE} SET v = v + {number}" for number in range(3, 60)))

    return [("binlog reset at the new server", reset), ("former server from an older backup", restored)]


def _copy(server: MariaServer, name: str, into: str) -> None:
    subprocess.run(["rm", "-rf", str(server.place / into)], check=True)
    subprocess.run(["cp", "-a", str(server.place / name), str(server.place / into)], check=True)


@pytest.mark.parametrize(("what", "act"), other_histories(), ids=[what for what, _ in other_histories()])
def test_a_history_that_was_written_again_is_refused(
    make_mysql_pair: MakeMysqlPair, servers: Two, what: str, act: Callable[[Two, MysqlPair], None]
) -> None:
    pair = job_at(make_mysql_pair, servers)
    pair.run(f"INSERT INTO {TABLE} VALUES (1, 1)")
    servers.wait_replicated(servers.second, servers.first)
    pair.session.close()
    servers.first.stop()
    _copy(servers.first, "data", "backup")
    servers.first.start()
    pair.session = maria.log_in(servers.first)
    pair.mirror.start().wait_running()
    pair.write((2, 2))
    pair.write((3, 3))
    pair.wait_equal()
    before = kept(pair)
    pair.mirror.stop()
    act(servers, pair)
    pair.mirror.start()
    refused(pair, "", TroubleName.SOURCE_OLDER, TroubleName.POSITIONS_DIFFER)
    print(f"{what}: {pair.mirror.error}")
    assert kept(pair) == before
