"""A job from MariaDB under kills: connections cut in mid-transaction, server crashes, driver kills, large changes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.drivers import my
from slotkeeper.demo.mariadb import MariaServer
from tests.support import maria as support
from tests.support.pairs import TABLE, MakeMysqlPair, MysqlPair
from tests.support.sqlite_pair.pair import supervised

pytestmark = pytest.mark.chaos

KEYS, KILLS, CRASHES, DRIVERS = 400, 20, 5, 20
KILLS_OF_A_START = 4
"""A supervisor stops a job whose driver ends five times in ten minutes."""
DUMPS = "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"


@pytest.fixture
def durable() -> Iterator[MariaServer]:
    server = support.begin({"sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1"})
    yield server
    support.end(server)


class Writing:
    """Transactions of random changes, with an account of their events."""

    def __init__(self, pair: MysqlPair, seed: str) -> None:
        print(f"seed {seed}")
        self.pair, self.chance, self.events = pair, random.Random(seed), 0
        self.rows: dict[int, int] = {}

    def write(self, kill: bool = False) -> None:
        """Run one transaction; if `kill`, cut the connections of all readers in the middle of it."""
        pair, keys = self.pair, sorted({self.chance.randrange(KEYS) for _ in range(8)})
        pair.run("BEGIN")
        for key in keys:
            self._change(key)
            if kill and key == keys[len(keys) // 2]:
                for (session,) in pair.rows(DUMPS):
                    with suppress(my.DriverError):
                        pair.run(f"KILL {session}")
        pair.run("COMMIT")

    def _change(self, key: int) -> None:
        value = self.chance.randrange(10**9)
        if key in self.rows and self.chance.random() < 0.3:
            self.pair.run(f"DELETE FROM {TABLE} WHERE id = {key}")
            del self.rows[key]
            self.events += 1
        elif key in self.rows:
            self.pair.run(f"UPDATE {TABLE} SET v = {value} WHERE id = {key}")
            self.events += 2 * (self.rows[key] != value)
            self.rows[key] = value
        else:
            self.pair.run(f"INSERT INTO {TABLE} VALUES ({key}, {value})")
            self.rows[key] = value
            self.events += 1


def refuse_loss(pair: MysqlPair, writing: Writing) -> None:
    """Both tables equal the written rows, and the number of applied events is exact."""
    pair.wait_equal(120)
    assert pair.compare().rows_sink == len(writing.rows)
    assert sum(pair.mirror.changes().values()) == writing.events


def test_cut_lines_and_crashes_of_the_server_lose_and_double_nothing(
    make_mysql_pair: MakeMysqlPair, durable: MariaServer, seed: int
) -> None:
    pair = make_mysql_pair(at=durable)
    writing = Writing(pair, f"{seed}/cuts")
    pair.mirror.start().wait_running()
    cuts = ["kill"] * KILLS + ["crash"] * CRASHES
    writing.chance.shuffle(cuts)
    for cut in cuts:
        for _ in range(5):
            writing.write()
        writing.write(kill=cut == "kill")
        if cut == "crash":
            pair.session.close()
            durable.restart(crash=True)
            pair.session = support.log_in(durable)
            pair.mirror.heard.retries.clear()
    refuse_loss(pair, writing)
    pair.mirror.stop()


def test_a_driver_killed_twenty_times_loses_and_doubles_nothing(
    make_mysql_pair: MakeMysqlPair, tmp_path: Path, seed: int
) -> None:
    pair = make_mysql_pair()
    writing = Writing(pair, f"{seed}/drivers")
    for _ in range(DRIVERS // KILLS_OF_A_START):
        with supervised(pair, tmp_path, "local") as job:
            job.wait_for(JobState.RUNNING)
            for _ in range(KILLS_OF_A_START):
                for _ in range(5):
                    writing.write()
                job.kill_driver()
                writing.write()
            refuse_loss(pair, writing)
            assert job.stop().state is JobState.STOPPED


def test_a_transaction_of_half_a_million_rows_needs_no_memory_of_its_size(make_mysql_pair: MakeMysqlPair) -> None:
    import resource

    pair = make_mysql_pair("id INT PRIMARY KEY, v BIGINT, w VARCHAR(200)")
    pair.mirror.start().wait_running()
    pair.run(f"INSERT INTO {TABLE} VALUES (0, 0, '')")
    pair.wait_equal()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pair.session.seconds = 300
    pair.run(f"INSERT INTO {TABLE} SELECT seq, seq, repeat('x', 200) FROM seq_1_to_500000")
    pair.wait_equal(300)
    pair.mirror.stop()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"500,000 rows of one transaction, some 115 MB of binlog: {grown:.0f} MiB more at most")
    assert grown < 100
