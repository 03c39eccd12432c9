"""A job continues at a replica of its MariaDB without a copy, or is refused with the transactions that prevent it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.errors import SlotkeeperError, Trouble, TroubleName
from slotkeeper.demo.mariadb import MariaServer
from tests.support import maria
from tests.support.maria_two import Two, ids, two
from tests.support.pairs import TABLE, MakeMysqlPair, MysqlPair
from tests.support.waiting import until


@pytest.fixture
def servers() -> Iterator[Two]:
    with two() as made:
        yield made


def job_at(make: MakeMysqlPair, servers: Two) -> MysqlPair:
    """A job whose source has both servers; the first one has its table."""
    pair = make(at=servers.first)
    pair.mirror.job = replace(pair.mirror.job, source=servers.endpoint)
    return pair


def follow(pair: MysqlPair, server: MariaServer) -> None:
    """Read and compare at another server from now on."""
    pair.session.close()
    pair.session = maria.log_in(server)
    pair.server = server


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
        pair.write(*((key, key * 3) for key in {chance.randrange(600) for _ in range(9)}))
    pair.wait_equal()
    servers.run(servers.second, "FLUSH BINARY LOGS")
    servers.wait_replicated(servers.second, servers.first)
    before = sum(pair.mirror.changes().values())
    servers.first.stop(crash=True)
    servers.promote(servers.second)
    follow(pair, servers.second)
    for number in range(20):
        pair.write((number, -number - 1), (1000 + number, 1))
    pair.wait_equal(120)
    assert copied(pair) == 1 and JobEvent.SWITCHED in pair.mirror.heard.events
    assert sum(pair.mirror.changes().values()) == before + 1 + 19 * 3 + 2
    (row,) = pair.mirror.rows()
    assert row.fingerprint.startswith("server-2:")
    pair.mirror.stop()
