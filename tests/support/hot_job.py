"""A job over five tables of a MariaDB into PostgreSQL or Doris: its commands, waits and checksums; and writers that
change a few hot keys again and again: update, delete and insert, move and swap them.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.drivers import my, pg
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.maria_orders import MariaLoop
from slotkeeper.demo.mariadb import MariaServer
from tests.support import maria
from tests.support import pairs as doris_pair
from tests.support.pairs import MakeMysqlPair, MysqlPair
from tests.support.product import JobProcesses
from tests.support.storm import cli
from tests.support.waiting import until

COLD = 5_000
"""Rows of each table that writers change only in bulk."""
LOCK_SECONDS = 2
DUPLICATE = 1062
DUMPS = "SELECT count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
BACK = 120.0
"""Seconds that a writer waits for a server which crashed."""


@dataclass(frozen=True, slots=True)
class Hot:
    """One table: its columns besides `v`, `w` and `d`, its key, and the values of its hot keys as SQL."""

    name: str
    key: tuple[str, ...]
    types: str
    hot: tuple[tuple[str, ...], ...]
    cold: str
    """The key of cold row `seq`, as in an INSERT."""
    some: str
    """The condition for the cold rows `first` to `last`."""
    beacon: tuple[str, ...]
    """A key that no writer touches."""

    @property
    def ddl(self) -> str:
        columns = f"{self.types}, v BIGINT NOT NULL, w VARCHAR(300), d DECIMAL(12,2)"
        return f"CREATE OR REPLACE TABLE {self.name} ({columns}, PRIMARY KEY ({', '.join(self.key)}))"

    @property
    def load(self) -> str:
        return f"INSERT INTO {self.name} SELECT {self.cold}, seq, NULL, seq / 100 FROM seq_1_to_{COLD}"

    def at(self, key: tuple[str, ...]) -> str:
        return " AND ".join(f"{column} = {value}" for column, value in zip(self.key, key, strict=True))

    def to(self, key: tuple[str, ...]) -> str:
        """The assignments that move a row to a key."""
        return ", ".join(f"{column} = {value}" for column, value in zip(self.key, key, strict=True))


NUMBERS = Hot(
    "ods.numbers",
    ("id",),
    "id BIGINT",
    tuple((str(-one),) for one in range(1, 9)),
    "seq",
    "id BETWEEN {first} AND {last}",
    ("1000000",),
)
NAMES = Hot(
    "ods.names",
    ("region", "name"),
    "region INT, name VARCHAR(40)",
    tuple((str(region), f"'key {letter}'") for region in (1, 2) for letter in "abcd"),
    "3, CONCAT('cold ', LPAD(seq, 6, '0'))",
    "region = 3 AND name BETWEEN 'cold {first:06}' AND 'cold {last:06}'",
    ("0", "'beacon'"),
)
TABLES = (
    NUMBERS,
    NAMES,
    replace(NUMBERS, name="ods.numbers_2"),
    replace(NAMES, name="ods.names_2"),
    replace(NUMBERS, name="ods.numbers_3"),
)
"""Tables of two forms; the job reads all of them over one connection."""


class Writer(MariaLoop):
    """One seeded writer: transactions of several changes over the tables; one in ten is rolled back."""

    def __init__(self, server: MariaServer, seed: int, number: int, pause: float) -> None:
        super().__init__(lambda: connected(server), f"hot-{number}")
        self._chance = random.Random(f"{seed}/{number}")
        self._pause, self._number = pause, number
        self.transactions = self.changes = 0

    def work(self, session: my.Session) -> None:
        chance, changed = self._chance, 0
        session.rows("BEGIN")
        try:
            for _ in range(chance.randint(1, 5)):
                for statement in chance.choice(CHANGES)(self, chance.choice(TABLES)):
                    session.rows(statement)
                    changed += self._count(session)
        except my.DriverError as error:
            if my.code_of(error) != DUPLICATE:
                raise
            session.rows("ROLLBACK")  # another writer has taken the key to which this one moves a row
            return
        rolled_back = chance.random() < 0.1
        session.rows("ROLLBACK" if rolled_back else "COMMIT")
        if not rolled_back:
            self.transactions += 1
            self.changes += changed
        self._ended.wait(chance.expovariate(1 / self._pause))

    @staticmethod
    def _count(session: my.Session) -> int:
        row = session.row("SELECT ROW_COUNT()")
        return max(0, int(row[0])) if row else 0

    # -- changes: the statements of each

    def _values(self, key: tuple[str, ...]) -> str:
        text = self._chance.choice(("NULL", "''", f"'{'x' * self._chance.randrange(250)}'", "'Grüße \\\\N\\t\\'\"'"))
        return f"{', '.join(key)}, {self._chance.randrange(10**12)}, {text}, {self._chance.randrange(10**6)} / 100"

    def update(self, table: Hot) -> list[str]:
        at = table.at(self._chance.choice(table.hot))
        return [f"UPDATE {table.name} SET v = v + 1, d = d + 0.01 WHERE {at}"] * self._chance.randint(1, 4)

    def put(self, table: Hot) -> list[str]:
        """Insert the key, or update it if it exists."""
        values = self._values(self._chance.choice(table.hot))
        return [f"INSERT INTO {table.name} VALUES ({values}) ON DUPLICATE KEY UPDATE v = VALUES(v), w = VALUES(w)"]

    def again(self, table: Hot) -> list[str]:
        """Delete a row and insert it again; in half of the cases, twice."""
        key = self._chance.choice(table.hot)
        pair = [
            f"DELETE FROM {table.name} WHERE {table.at(key)}",
            f"REPLACE INTO {table.name} VALUES ({self._values(key)})",
        ]
        return pair * self._chance.randint(1, 2)

    def flash(self, table: Hot) -> list[str]:
        key = self._chance.choice(table.hot)
        return [
            f"REPLACE INTO {table.name} VALUES ({self._values(key)})",
            f"DELETE FROM {table.name} WHERE {table.at(key)}",
        ]

    def move(self, table: Hot) -> list[str]:
        """Move a row to another key; in half of the cases, change it there and move it back."""
        here, there = self._chance.sample(table.hot, 2)
        found = [
            f"DELETE FROM {table.name} WHERE {table.at(there)}",
            f"UPDATE {table.name} SET {table.to(there)} WHERE {table.at(here)}",
        ]
        if self._chance.random() < 0.5:
            found.append(f"UPDATE {table.name} SET v = v + 1 WHERE {table.at(there)}")
            found.append(f"UPDATE {table.name} SET {table.to(here)} WHERE {table.at(there)}")
        return found

    def swap(self, table: Hot) -> list[str]:
        """Swap the keys of two rows through a third key."""
        one, other = self._chance.sample(table.hot, 2)
        third = (str(-1_000 - self._number), *(f"'third {self._number}'" for _ in table.key[1:]))
        steps = ((one, third), (other, one), (third, other))
        return [f"UPDATE {table.name} SET {table.to(there)} WHERE {table.at(here)}" for here, there in steps]

    def letters(self, table: Hot) -> list[str]:
        """Return a key with other letters that the source considers equal."""
        if table.key != NAMES.key:
            return self.update(table)
        flipped = "IF(BINARY name = LOWER(name), UPPER(name), LOWER(name))"
        return [f"UPDATE {table.name} SET name = {flipped} WHERE {table.at(self._chance.choice(table.hot))}"]

    def shift(self, table: Hot) -> list[str]:
        """Move each cold row to its neighbour's key in one statement, and back."""
        if table.key != NUMBERS.key:
            return self.bulk(table)
        last = self._chance.randint(10, 60)
        up = f"UPDATE {table.name} SET id = id + 1 WHERE id BETWEEN {last - 8} AND {last} ORDER BY id DESC"
        down = f"UPDATE {table.name} SET id = id - 1 WHERE id BETWEEN {last - 7} AND {last + 1} ORDER BY id"
        return [
            f"DELETE FROM {table.name} WHERE id = {last + 1}",
            up,
            *([down] if self._chance.random() < 0.5 else []),
        ]

    def bulk(self, table: Hot) -> list[str]:
        first = self._chance.randint(100, COLD - 100)
        some = table.some.format(first=first, last=first + 29)
        return [f"UPDATE {table.name} SET v = v + 1, w = 'bulk {self._chance.random()}' WHERE {some}"]


CHANGES: tuple[Callable[[Writer, Hot], list[str]], ...] = (
    Writer.update, Writer.update, Writer.put, Writer.put, Writer.again, Writer.flash, Writer.move, Writer.swap,
    Writer.letters, Writer.shift, Writer.bulk,
)  # fmt: skip


def connected(server: MariaServer) -> my.Session:
    """A session at the server, once it answers."""

    def tried() -> my.Session | None:
        with suppress(my.DriverError):
            session = maria.log_in(server)
            session.rows(f"SET SESSION innodb_lock_wait_timeout = {LOCK_SECONDS}")
            return session
        return None

    return until(tried, BACK, "the MariaDB to answer")


RUNNER = os.environ.get(cli.RUNNER, "spark")
RECOVERY = 600.0
COMMAND = 600.0
Rows = list[tuple[object, ...]]


class HotJob(JobProcesses):
    """The job, and the commands that an operator runs for it."""

    def __init__(self, pair: MysqlPair, folder: Path, at_sink: Callable[[str], Rows], draw: random.Random) -> None:
        self.pair, self.at_sink, self.draw = pair, at_sink, draw
        self.name = pair.mirror.job.name
        self.config = pair.config(folder)
        self.store = Store.open(folder / "state")
        self.beacons = self.ensured = 0

    def typed(self, *words: str) -> tuple[int, str]:
        running = cli.begun(RUNNER, self.config, *words)
        said, _ = running.communicate(timeout=COMMAND)
        return running.returncode, said

    def must(self, *words: str) -> None:
        code, said = self.typed(*words)
        assert code == 0, f"{words} ended with {code}: {said[-3000:]}; {self.story()}"

    def story(self) -> str:
        """Diagnostics of the job, for a run that has failed."""
        view = self.view()
        return f"{view.state.value} ({view.reason}); events {self.events()[-14:]}; log {self.log()[-3000:]}"

    def doubled(self) -> int:
        """The rows that the sink may have received twice, by its store."""
        report = self.view().report
        assert report is not None
        return report.repeats

    def dumps(self) -> int:
        """The number of binlog dump connections at the source."""
        with closing(connected(self.pair.server)) as session:
            return int(session.rows(DUMPS)[0][0])

    # -- recovery

    def ensure(self) -> None:
        """The command of an operator or the timer for a job that has no process."""
        if self.view().state is JobState.DEAD:
            self.ensured += 1
            self.typed("jobs", "ensure", "--reason", "the timer")

    def settle(self) -> float:
        """Seconds until every earlier commit has reached every target."""
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
    """A job over all tables, which have their cold rows."""
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
    """Return a function that queries the sink without Slotkeeper's own code."""

    def of_postgres(statement: str) -> Rows:
        with closing(pair.mirror.sink()) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def of_doris(statement: str) -> Rows:
        assert doris is not None
        with closing(
            MysqlQueries(Login(doris_pair.doris_endpoint(doris), doris_pair.PASSWORD, "test"), "sink")
        ) as queries:
            return queries.rows(statement)

    return of_postgres if doris is None else of_doris


def refuse_difference(job: HotJob) -> int:
    """Check that the checksums of both tables are the same at source and sink."""
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
