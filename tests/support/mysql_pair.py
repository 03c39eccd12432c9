"""A job from the run's MariaDB into PostgreSQL, run by the local runner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec, RetryOptions
from slotkeeper.core.drivers import my
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.verify.compare import Comparison, compare, open_pair
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.mariadb import MariaServer
from slotkeeper.demo.warehouse import Warehouse
from tests.support import maria as marias
from tests.support.doris_pair import endpoint as doris_endpoint
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import server
from tests.support.waiting import until

SCHEMA, TABLE, TARGET = "ods", "ods.t", "mart.t"
SIMPLE = "id BIGINT PRIMARY KEY, v BIGINT"


@dataclass
class MysqlPair:
    """A job that has not been started, the server that it reads, and a session of its superuser."""

    server: MariaServer
    session: my.Session
    mirror: Mirror

    def run(self, *statements: str) -> None:
        """Statements, each committed by itself."""
        for statement in statements:
            self.session.rows(statement)

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        return self.session.rows(statement)

    def transaction(self, *statements: str) -> None:
        """Statements in one transaction."""
        self.run("BEGIN", *statements, "COMMIT")

    def write(self, *changes: tuple[int, int | None]) -> None:
        """One transaction of `ods.t`: keys and new values; None deletes."""
        self.transaction(
            *(
                f"DELETE FROM {TABLE} WHERE id = {key}"
                if value is None
                else f"INSERT INTO {TABLE} VALUES ({key}, {value}) ON DUPLICATE KEY UPDATE v = {value}"
                for key, value in changes
            )
        )

    def compare(self, channel: ChannelSpec | None = None) -> Comparison:
        """Both tables of a channel as `verify` compares them."""
        job = self.mirror.job
        read = channel or job.channels[0]
        left = sources.open(job.source_kind).tables(login(job.source, "verify"), 60_000)
        right = sinks.open(job.sink_kind).tables(login(job.sink, "verify"), 60_000)
        with closing(left), closing(right):
            mapping = dict(read.columns) or None
            return compare(*open_pair(left.table, read.source_table, right.table, read.target, mapping))

    def wait_equal(self, seconds: float = 60) -> None:
        """Wait until the tables of every channel are equal."""

        def equal() -> bool:
            if self.mirror.error is not None:
                raise self.mirror.error
            return all(self.compare(channel).equal for channel in self.mirror.job.channels)

        until(equal, seconds, "source and target to be equal")

    def config(self, folder: Path) -> Path:
        """Write a configuration with this job alone and a state folder of its own."""
        job = self.mirror.job
        lines = [
            f"[sources.{job.source.name}]",
            'dialect = "mysql"',
            f'host = "{job.source.host}"',
            f"port = {job.source.port}",
            f'user = "{job.source.user}"',
            f'password_{job.source.password.how} = "{job.source.password.ref}"',
            'sslmode = "disable"',
            f"[jobs.{job.name}]",
            f'source = "{job.source.name}"',
            f'sink = "{job.sink.name}"',
            f'slot = "{job.slot}"',
        ]
        for channel in job.channels:
            lines += [f"[[jobs.{job.name}.channels]]", f'from = "{channel.source_table}"', f'into = "{channel.target}"']
            lines += ["create_target = true"]
        lines += [f"[jobs.{job.name}.binlog]", "binlog = true", "[state]", f'dir = "{folder / "state"}"']
        path = folder / "slotkeeper.toml"
        path.write_text(_sinks(job) + "\n".join(lines) + "\n", encoding="utf-8")
        return path

    def into(self, doris: DorisStandin) -> None:
        """Mirror into the stand-in for Doris, whose store is the PostgreSQL."""
        job = self.mirror.job
        there = replace(job, sink=doris_endpoint(doris), sink_kind="doris", store=job.sink, store_kind=job.sink_kind)
        self.mirror.job = replace(there, channels=(ChannelSpec(TABLE, TARGET),))

    def identity(self, table: str = TABLE) -> TableIdentity:
        """A table as the source has it."""
        session = sources.open("mysql").connect(login(self.mirror.job.source, "test"))
        with closing(session):
            return session.source(self.mirror.job.of(table)).identify()


def _sinks(job: JobSpec) -> str:
    """The sink's part of a configuration, and that of the store beside it."""
    if job.sink_kind == "postgres":
        return server("sinks", job.sink)
    at = job.sink
    assert job.store is not None
    lines = [
        f"[sinks.{at.name}]",
        f'kind = "{job.sink_kind}"',
        f'host = "{at.host}"',
        f"port = {at.port}",
        f"http_port = {at.http_port}",
        f'user = "{at.user}"',
        f'password_{at.password.how} = "{at.password.ref}"',
        'sslmode = "disable"',
        f'progress_store = "{job.store.name}"',
    ]
    return server("sinks", job.store) + "\n".join(lines) + "\n\n"


MakeMysqlPair = Callable[..., MysqlPair]


@pytest.fixture
def make_mysql_pair(
    warehouse: Warehouse, make_mirror: MakeMirror, maria_server: MariaServer
) -> Iterator[MakeMysqlPair]:
    """Makes a job over tables of the schema `ods`, each with its columns; `at` is another server than the run's own."""
    opened: list[my.Session] = []

    def make(columns: str = SIMPLE, *more: str, at: MariaServer | None = None, tables: int = 1) -> MysqlPair:
        where = at or maria_server
        session = marias.log_in(where)
        opened.append(session)
        names = [TABLE, *(f"{SCHEMA}.t{number}" for number in range(2, tables + 1))]
        session.rows(f"CREATE OR REPLACE DATABASE {SCHEMA}")
        session.rows(f"USE {SCHEMA}")
        for name in names:
            session.rows(f"CREATE TABLE {name} ({columns})")
        mirror = make_mirror(warehouse, TABLE, TARGET)
        mirror.job = replace(
            mirror.job,
            source=marias.endpoint(where),
            source_kind="mysql",
            channels=tuple(ChannelSpec(name, name.replace(SCHEMA, "mart"), create_target=True) for name in names),
            retry=RetryOptions(wait_initial=1, wait_max=50, wait_jitter=1),
        )
        return MysqlPair(where, session, mirror)

    yield make
    for session in opened:
        with suppress(my.DriverError):  # of a server that was ended meanwhile
            session.rows(f"DROP DATABASE IF EXISTS {SCHEMA}")
        session.close()


@pytest.fixture
def mysql_pair(make_mysql_pair: MakeMysqlPair) -> MysqlPair:
    """A job over a table `(id, v)`, not started."""
    return make_mysql_pair()
