"""A job over the tables of `hot_keys`, from a MariaDB into PostgreSQL or Doris: its commands, waits and checksums."""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.mariadb import MariaServer
from tests.support import doris_pair
from tests.support.hot_keys import TABLES, Hot, connected
from tests.support.mysql_pair import MakeMysqlPair, MysqlPair
from tests.support.processes import JobProcesses
from tests.support.storm import cli
from tests.support.waiting import until

RUNNER = os.environ.get(cli.RUNNER, "spark")
RECOVERY = 600.0
COMMAND = 600.0
Rows = list[tuple[object, ...]]


class HotJob(JobProcesses):
    """The job, and the commands that an operator types about it."""

    def __init__(self, pair: MysqlPair, folder: Path, at_sink: Callable[[str], Rows], draw: random.Random) -> None:
        self.pair, self.at_sink, self.draw = pair, at_sink, draw
        self.name = pair.mirror.job.name
        self.config = pair.config(folder)
        self.store = Store.open(folder / "state")
        self.beacons = self.ensured = 0

    def typed(self, *words: str) -> tuple[int, str]:
        """A command's exit code and output."""
        running = cli.begun(RUNNER, self.config, *words)
        said, _ = running.communicate(timeout=COMMAND)
        return running.returncode, said

    def must(self, *words: str) -> None:
        """A command that has to succeed."""
        code, said = self.typed(*words)
        assert code == 0, f"{words} ended with {code}: {said[-3000:]}; {self.story()}"

    def story(self) -> str:
        """What is known of the job, for a run that has failed."""
        view = self.view()
        return f"{view.state.value} ({view.reason}); events {self.events()[-14:]}; log {self.log()[-3000:]}"

    # -- recovery

    def ensure(self) -> None:
        """What an operator or the timer does about a job that has no process."""
        if self.view().state is JobState.DEAD:
            self.ensured += 1
            self.typed("jobs", "ensure", "--reason", "the timer")

    def settle(self) -> float:
        """Seconds until every transaction that is committed by now has reached both tables."""
        began = time.monotonic()
        self.beacons += 1
        for table in TABLES:
            _put(self.pair.server, table, self.beacons)

        def arrived() -> bool:
            state = self.view().state
            assert state not in (JobState.FAILED, JobState.STOPPED), self.story()
            self.ensure()
            with suppress(pg.DriverError, SlotkeeperError):
                return all(self._beacon(table) >= self.beacons for table in TABLES)
            return False

        try:
            until(arrived, RECOVERY, f"beacon {self.beacons} to arrive")
        except AssertionError as late:
            raise AssertionError(f"{late}; {self.story()}") from None
        return time.monotonic() - began

    def _beacon(self, table: Hot) -> int:
        found = self.at_sink(f"SELECT v FROM {target_of(table)} WHERE {table.at(table.beacon)}")
        return int(str(found[0][0])) if found else 0


def pair_of(make: MakeMysqlPair, server: MariaServer, doris: DorisStandin | None) -> MysqlPair:
    """A job over both tables, which have their cold rows."""
    pair = make(at=server)
    for table in TABLES:
        pair.run(table.ddl, table.load)
    if doris is not None:
        pair.into(doris)
    channels = tuple(ChannelSpec(table.name, target_of(table), create_target=True) for table in TABLES)
    pair.mirror.job = replace(pair.mirror.job, channels=channels)
    return pair


def target_of(table: Hot) -> str:
    return table.name.replace("ods.", "mart.")


def _put(server: MariaServer, table: Hot, number: int) -> None:
    values = f"{', '.join(table.beacon)}, {number}, NULL, NULL"
    with closing(connected(server)) as session:
        session.rows(f"REPLACE INTO {table.name} VALUES ({values})")


def asking(pair: MysqlPair, doris: DorisStandin | None) -> Callable[[str], Rows]:
    """What asks the sink, past the product's own reading of tables."""

    def of_postgres(statement: str) -> Rows:
        with closing(pair.mirror.sink()) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def of_doris(statement: str) -> Rows:
        assert doris is not None
        with closing(MysqlQueries(Login(doris_pair.endpoint(doris), doris_pair.PASSWORD, "test"), "sink")) as queries:
            return queries.rows(statement)

    return of_postgres if doris is None else of_doris


def refuse_difference(job: HotJob) -> int:
    """The rows of both tables, whose checksums have to be the same at source and sink."""
    total = 0
    with closing(connected(job.pair.server)) as session:
        for table in TABLES:
            read = f"SELECT {', '.join(table.key)}, v, w, d FROM "
            there = session.rows(read + table.name)
            here = job.at_sink(read + target_of(table))
            assert _checksum(here) == _checksum(there), (
                f"{table.name}: {sorted(_texts(here) ^ _texts(there), key=repr)[:20]}; {job.story()}"
            )
            total += len(there)
    return total


def _checksum(rows: Rows) -> tuple[int, str]:
    """Count, and a hash of the values as text in the order of the keys' text."""
    ordered = sorted(repr([None if one is None else str(one) for one in row]) for row in rows)
    return len(rows), hashlib.sha256("\n".join(ordered).encode()).hexdigest()


def _texts(rows: Rows) -> set[tuple[str, ...]]:
    return {tuple(map(str, row)) for row in rows}
