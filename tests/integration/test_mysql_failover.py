"""A job continues at a replica of its MariaDB without a copy, or is refused with the transactions that prevent it."""

from __future__ import annotations

import io
import random
from contextlib import closing
from dataclasses import replace

import pytest

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.engine.driver import switch
from slotkeeper.core.errors import SlotkeeperError, Trouble, TroubleName, Unclassified
from slotkeeper.core.sources.mysql.position import ours
from slotkeeper.core.sources.mysql.retention import MysqlTable
from slotkeeper.core.sources.mysql.session import MysqlSession
from tests.support import maria
from tests.support.maria_two import Two, ids
from tests.support.maria_two import patience as patience
from tests.support.maria_two import servers as servers
from tests.support.pairs import TABLE, MakeMysqlPair, MysqlPair
from tests.support.waiting import until


def job_at(make: MakeMysqlPair, servers: Two, tables: int = 1) -> MysqlPair:
    """A job whose source has both servers; the first one has its tables."""
    pair = make(at=servers.first, tables=tables)
    pair.mirror.job = replace(pair.mirror.job, source=servers.endpoint)
    return pair


def copied(pair: MysqlPair) -> int:
    return pair.mirror.heard.events.count(JobEvent.COPY_BEGAN)


def refused(pair: MysqlPair, name: TroubleName, words: str) -> SlotkeeperError:
    error = pair.mirror.wait_error(120)
    assert isinstance(error, Trouble), error
    assert error.name is name and words in error.message, error
    return error


def test_a_running_job_continues_at_the_replica_without_a_copy(
    make_mysql_pair: MakeMysqlPair, servers: Two, seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    pair = job_at(make_mysql_pair, servers)
    pair.run(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_1_to_500")
    pair.mirror.start().wait_running()
    for _ in range(20):
        pair.write(*((key, key * 3) for key in {chance.randrange(1, 600) for _ in range(9)}))
    pair.wait_equal()
    servers.run(servers.second, "FLUSH BINARY LOGS")
    servers.wait_replicated(servers.second, servers.first)
    before = sum(pair.mirror.changes().values())
    servers.first.stop(crash=True)
    servers.promote(servers.second)
    pair.follow(servers.second)
    for number in range(20):
        pair.write((number, -number - 1), (1000 + number, 1))
    pair.wait_equal(120)
    assert copied(pair) == 1 and JobEvent.SWITCHED in pair.mirror.heard.events
    assert sum(pair.mirror.changes().values()) == before + 2 + 19 * 3
    (row,) = pair.mirror.rows()
    assert row.fingerprint.startswith("server-2:")
    pair.mirror.stop()


def test_a_table_without_changes_continues_too(make_mysql_pair: MakeMysqlPair, servers: Two) -> None:
    """Its position moved over changes of another table, and has their GTIDs."""
    pair = job_at(make_mysql_pair, servers, tables=2)
    pair.mirror.start().wait_running()
    for number in range(1, 6):
        pair.write((number, number))
    pair.wait_equal()
    newest = pair.rows("SHOW MASTER STATUS")[0][1]

    def moved() -> bool:
        places = [row.position for row in pair.mirror.rows()]
        return all(place is not None and ours(place).offset == newest for place in places)

    until(moved, 60, "both lanes to reach the end of the binlog")
    servers.wait_replicated(servers.second, servers.first)
    servers.first.stop(crash=True)
    servers.promote(servers.second)
    pair.follow(servers.second)
    pair.run("INSERT INTO ods.t2 VALUES (1, 1)", "INSERT INTO ods.t VALUES (9, 9)")
    pair.wait_equal(120)
    pair.mirror.stop()
    assert copied(pair) == 1 and pair.mirror.heard.events.count(JobEvent.SWITCHED) == 1
    assert sorted(pair.mirror.changes().values()) == [1, 6]


@pytest.mark.chaos
def test_the_former_source_is_the_source_again_once_it_has_caught_up(
    make_mysql_pair: MakeMysqlPair, servers: Two
) -> None:
    pair = job_at(make_mysql_pair, servers)
    pair.mirror.start().wait_running()
    pair.write((1, 1), (2, 2))
    pair.wait_equal()
    servers.wait_replicated(servers.second, servers.first)
    servers.first.stop(crash=True)
    servers.promote(servers.second)
    pair.follow(servers.second)
    pair.write((3, 3))
    pair.wait_equal(120)
    servers.first.start()
    servers.follow(servers.first, servers.second)
    servers.wait_replicated(servers.first, servers.second)
    servers.second.stop(crash=True)
    servers.promote(servers.first)
    pair.follow(servers.first)
    pair.write((4, 4))
    pair.wait_equal(120)
    assert copied(pair) == 1 and pair.mirror.heard.events.count(JobEvent.SWITCHED) == 2
    pair.mirror.stop()
    assert sum(pair.mirror.changes().values()) == 4


def test_a_job_stays_at_its_server_while_that_answers(make_mysql_pair: MakeMysqlPair, servers: Two) -> None:
    pair = job_at(make_mysql_pair, servers)
    pair.mirror.start().wait_running()
    pair.write((1, 1))
    pair.wait_equal()
    pair.mirror.stop()
    first, second = servers.endpoint.hosts
    pair.mirror.job = replace(pair.mirror.job, source=replace(servers.endpoint, hosts=(second, first)))
    pair.mirror.start().wait_running()
    pair.write((2, 2))
    pair.wait_equal()
    pair.mirror.stop()
    assert JobEvent.SWITCHED not in pair.mirror.heard.events


def test_a_server_that_lacks_the_jobs_transactions_is_refused_with_their_names(
    make_mysql_pair: MakeMysqlPair, servers: Two
) -> None:
    pair = job_at(make_mysql_pair, servers)
    pair.mirror.start().wait_running()
    pair.write((1, 1))
    pair.wait_equal()
    servers.wait_replicated(servers.second, servers.first)
    servers.run(servers.second, "STOP SLAVE")
    (there,) = pair.rows("SELECT @@gtid_binlog_pos")[0]
    last = int(str(there).rpartition("-")[2])
    pair.write((2, 2))
    pair.write((3, 3))
    pair.wait_equal()
    servers.first.stop(crash=True)
    servers.promote(servers.second)
    refused(
        pair,
        TroubleName.POSITIONS_DIFFER,
        f"lacks transactions that the job has applied: 0-1-{last + 1} to 0-1-{last + 2}",
    )
    servers.run(servers.second, "INSERT INTO ods.t VALUES (9, 9)")  # its own history is now longer
    pair.mirror.start()
    refused(pair, TroubleName.POSITIONS_DIFFER, f"0-1-{last + 1} to 0-1-{last + 2}")
    (row,) = pair.mirror.rows()
    assert row.fingerprint.startswith("server-1:"), "nothing was changed"


def test_a_replica_that_has_not_executed_everything_yet_is_waited_for(
    make_mysql_pair: MakeMysqlPair, servers: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switch, "PATIENCE", 60.0)
    pair = job_at(make_mysql_pair, servers)
    pair.mirror.start().wait_running()
    servers.run(servers.second, "STOP SLAVE SQL_THREAD")
    pair.write((1, 1))
    pair.write((2, 2))
    pair.wait_equal()
    servers.wait_received(servers.second, servers.first)
    servers.first.stop(crash=True)
    until(lambda: any("lacks transactions" in one for one in pair.mirror.heard.retries), 60, "the replica to be behind")
    servers.run(servers.second, "START SLAVE SQL_THREAD")
    pair.follow(servers.second)
    until(lambda: pair.rows("SELECT count(*) FROM ods.t") == [(2,)], 30, "the replica to have both rows")
    servers.promote(servers.second)
    pair.write((3, 3))
    pair.wait_equal(120)
    pair.mirror.stop()
    assert copied(pair) == 1 and sum(pair.mirror.changes().values()) == 3


@pytest.mark.chaos
def test_a_replica_with_a_transaction_of_its_own_is_refused_with_its_name(
    make_mysql_pair: MakeMysqlPair, servers: Two
) -> None:
    servers.run(servers.second, "SET GLOBAL gtid_strict_mode = OFF")
    pair = job_at(make_mysql_pair, servers)
    pair.mirror.start().wait_running()
    pair.write((1, 1))
    pair.wait_equal()
    servers.wait_replicated(servers.second, servers.first)
    servers.run(servers.second, "CREATE TABLE ods.own (id INT)")
    own = str(servers.rows(servers.second, "SELECT @@gtid_binlog_pos")[0][0])
    assert own.startswith("0-2-")
    pair.write((2, 2))
    pair.wait_equal()
    servers.wait_replicated(servers.second, servers.first)
    servers.first.stop(crash=True)
    servers.promote(servers.second)
    refused(pair, TroubleName.POSITIONS_DIFFER, f"that the job lacks: {own}")


@pytest.mark.chaos
def test_a_replica_that_has_purged_what_the_job_needs_is_refused_as_lost(
    make_mysql_pair: MakeMysqlPair, servers: Two
) -> None:
    pair = job_at(make_mysql_pair, servers)
    pair.mirror.start().wait_running()
    pair.write((1, 1))
    pair.wait_equal()
    pair.mirror.stop()
    (there,) = pair.rows("SELECT @@gtid_binlog_pos")[0]
    last = int(str(there).rpartition("-")[2])
    pair.write((2, 2))
    pair.write((3, 3))
    servers.wait_replicated(servers.second, servers.first)
    servers.run(servers.second, "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    newest = servers.rows(servers.second, "SHOW MASTER STATUS")[0][0]

    def purged() -> bool:
        servers.run(servers.second, f"PURGE BINARY LOGS TO '{newest}'")
        return len(servers.rows(servers.second, "SHOW BINARY LOGS")) == 1

    until(purged, 20, "the replica's binlogs to be purged")
    servers.first.stop(crash=True)
    servers.promote(servers.second)
    pair.mirror.start()
    refused(
        pair,
        TroubleName.SLOT_LOST,
        f"purged binlog files with transactions that the job has not applied: 0-1-{last + 1}",
    )


@pytest.mark.parametrize(
    "server_id", [pytest.param(1, id="same_id"), pytest.param(7, id="other_id", marks=pytest.mark.chaos)]
)
def test_a_foreign_server_with_the_same_names_and_a_longer_binlog_is_refused(
    make_mysql_pair: MakeMysqlPair, servers: Two, server_id: int
) -> None:
    """Table, login and file names are the same, and so are the GTIDs if it has the same server_id."""
    pair = job_at(make_mysql_pair, servers)
    pair.mirror.start().wait_running()
    pair.write((1, 1))
    pair.wait_equal()
    pair.mirror.stop()
    foreign = maria.begin(ids(server_id))
    try:
        servers.run(
            foreign,
            f"CREATE USER etl@'127.0.0.1' IDENTIFIED BY '{servers.password}'",
            "GRANT ALL ON *.* TO etl@'127.0.0.1'",
            "CREATE DATABASE ods",
            "CREATE TABLE ods.t (id BIGINT PRIMARY KEY, v BIGINT)",
            *(f"INSERT INTO ods.t VALUES ({number}, 0)" for number in range(200)),
        )
        at_foreign = replace(servers.endpoint, port=foreign.port, hosts=())
        pair.mirror.job = replace(pair.mirror.job, source=at_foreign)
        pair.mirror.start()
        if server_id == 1:
            refused(pair, TroubleName.SOURCE_OLDER, "another history with the same GTIDs")
        else:
            refused(pair, TroubleName.POSITIONS_DIFFER, "lacks transactions that the job has applied")
        mirror = pair.mirror
        assert mirror.query(mirror.sink, "SELECT id, v FROM mart.t") == [(1, 1)], "none of its rows was applied"
    finally:
        maria.end(foreign)


def test_a_chunk_of_a_copy_is_not_read_at_another_server(make_mysql_pair: MakeMysqlPair, servers: Two) -> None:
    """A replica that is behind would return rows older than the start of the copy's stream."""
    job_at(make_mysql_pair, servers).run(f"INSERT INTO {TABLE} VALUES (1, 1)")
    servers.wait_replicated(servers.second, servers.first)
    for expected, answers in (("server-1", False), ("server-2", True)):
        source = replace(maria.endpoint(servers.second), server=expected)
        session = MysqlSession(Login(source, servers.second.password(), "slotkeeper/test"))
        table = MysqlTable(session, TABLE, "lane", BinlogOptions(binlog=True))
        with closing(table):
            (chunk,) = table.plan_chunks(100)
            if answers:
                assert table.copy_chunk(chunk, io.BytesIO()) == 1
            else:
                with pytest.raises(Unclassified, match="server server-2 answers instead of server server-1"):
                    table.copy_chunk(chunk, io.BytesIO())


def test_a_switch_during_a_copy_is_refused(make_mysql_pair: MakeMysqlPair, servers: Two) -> None:
    pair = job_at(make_mysql_pair, servers)
    pair.run(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_1_to_5000")
    servers.wait_replicated(servers.second, servers.first)

    def switch(point: str) -> None:
        if point == "after_copy_began":
            servers.first.stop(crash=True)
            servers.promote(servers.second)

    pair.mirror.start(driver_probe=switch)
    refused(pair, TroubleName.POSITIONS_DIFFER, "during a copy")
