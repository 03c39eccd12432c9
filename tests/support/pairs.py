"""Jobs between two kinds of servers, run by the local runner: from the DWS stand-in into the stand-ins for Doris and
Hologres, and from the run's MariaDB into PostgreSQL. A sink other than PostgreSQL has a PostgreSQL as its store.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec, RetryOptions, SinkOptions, TableAsked
from slotkeeper.core.drivers import my
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.verify.compare import Comparison, compare, open_pair
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.hologres.sink_side import HologresSinkSide
from slotkeeper.demo.mariadb import MariaServer
from slotkeeper.demo.warehouse import Warehouse
from tests.support import maria as marias
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import server
from tests.support.standin import drop_database, new_database
from tests.support.waiting import until

PASSWORD, VARIABLE = "geheim-doris-1", "SLOTKEEPER_TEST_DORIS"
SCHEMA, TABLE, TARGET = "ods", "ods.t", "mart.t"
SIMPLE = "id BIGINT PRIMARY KEY, v BIGINT"
QUICK = RetryOptions(wait_initial=1, wait_max=50, wait_jitter=1)
_numbers = itertools.count(1)


@dataclass
class Pair:
    """A job that has not been started."""

    mirror: Mirror

    def compare(self, channel: ChannelSpec | None = None) -> Comparison:
        """Both tables of a channel as `verify` compares them."""
        job = self.mirror.job
        read = channel or job.channels[0]
        left = sources.open(job.source_kind).tables(login(job.source, "verify"), 60_000)
        right = sinks.open(job.sink_kind).tables(login(job.sink, "verify"), 60_000)
        with closing(left), closing(right):
            mapping = dict(read.columns) or None
            return compare(*open_pair(left.table, read.source_table, right.table, read.target, mapping))

    def equal(self) -> bool:
        """Whether the tables of every channel are the same."""
        return all(self.compare(channel).equal for channel in self.mirror.job.channels)

    def wait_equal(self, seconds: float = 60) -> None:
        self.wait(self.equal, seconds, "source and target to be equal")

    def wait(
        self, reached: Callable[[], bool], seconds: float = 60, what: str = "the target to be as expected"
    ) -> None:
        """Wait for a condition; fail at once if the job has ended with an error."""

        def asked() -> bool:
            if self.mirror.error is not None:
                raise self.mirror.error
            return reached()

        until(asked, seconds, what)

    def repeats(self) -> int:
        """The number of rows that the store has counted as repeated."""
        return sum(row.repeats for row in self.mirror.rows())


@dataclass
class FromWarehouse(Pair):
    """Reads `ods.t (id, v)` of the stand-in for DWS."""

    warehouse: Warehouse

    def write(self, *changes: tuple[int, int | None]) -> None:
        """One transaction of the source: keys and new values; None deletes."""
        put = f"INSERT INTO {TABLE} VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = excluded.v"
        with closing(self.warehouse.connect(False)) as connection:
            with connection.cursor() as cursor:
                for key, value in changes:
                    if value is None:
                        cursor.execute(f"DELETE FROM {TABLE} WHERE id = %s", (key,))
                    else:
                        cursor.execute(put, (key, value))
            connection.commit()


@dataclass
class DorisPair(FromWarehouse):
    doris: DorisStandin


@dataclass
class HologresPair(FromWarehouse):
    hologres: HologresSinkSide

    def options(self, **given: object) -> None:
        """Change the sink's options of the job."""
        options: SinkOptions = replace(self.mirror.job.sink_options, **given)  # type: ignore[arg-type]
        self.mirror.job = replace(self.mirror.job, sink_options=options)


@pytest.fixture
def doris(monkeypatch: pytest.MonkeyPatch) -> Iterator[DorisStandin]:
    """A separate stand-in with one table."""
    monkeypatch.setenv(VARIABLE, PASSWORD)
    with DorisStandin(password=PASSWORD) as made:
        made.create(TARGET, "id BIGINT NOT NULL, v BIGINT", ("id",))
        yield made


def doris_endpoint(doris: DorisStandin) -> Endpoint:
    ports = doris.ports
    where = Endpoint("dor", doris.host, ports.query, f"{doris.host}:{ports.frontend}", doris.user)
    return replace(where, password=SecretRef("env", VARIABLE), http_port=ports.frontend, sslmode="disable")


def into_sink(job: JobSpec, sink: Endpoint, kind: str) -> JobSpec:
    """The job from `ods.t` into another sink, with its PostgreSQL as the store."""
    there = replace(job, sink=sink, sink_kind=kind, store=job.sink, store_kind=job.sink_kind)
    return replace(there, channels=(ChannelSpec(TABLE, TARGET),), retry=QUICK)


def _reading(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    warehouse.create_table(TABLE, "id bigint, v bigint", ("id",), ("id",))
    return make_mirror(warehouse, TABLE, TARGET)


@pytest.fixture
def doris_pair(warehouse: Warehouse, make_mirror: MakeMirror, doris: DorisStandin) -> DorisPair:
    mirror = _reading(warehouse, make_mirror)
    mirror.job = into_sink(mirror.job, doris_endpoint(doris), "doris")
    return DorisPair(mirror, warehouse, doris)


@pytest.fixture
def hologres_pair(warehouse: Warehouse, make_mirror: MakeMirror) -> Iterator[HologresPair]:
    mirror, database = _reading(warehouse, make_mirror), f"holo_{next(_numbers)}"
    new_database(warehouse.server, database)
    hologres = HologresSinkSide(warehouse.server, database)
    hologres.create(TARGET, "id bigint, v bigint", ("id",))
    mirror.job = into_sink(mirror.job, replace(warehouse.server.endpoint(database), name="holo"), "hologres")
    yield HologresPair(mirror, warehouse, hologres)
    mirror.close()
    drop_database(warehouse.server, database)


@dataclass
class MysqlPair(Pair):
    """Reads the tables of `session`, which is the superuser's."""

    server: MariaServer
    session: my.Session

    def run(self, *statements: str) -> None:
        """Run statements, each in its own transaction."""
        for statement in statements:
            self.session.rows(statement)

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        return self.session.rows(statement)

    def transaction(self, *statements: str) -> None:
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

    def follow(self, server: MariaServer) -> None:
        """Write and compare at another server from now on."""
        self.session.close()
        self.session, self.server = marias.log_in(server), server

    def config(self, folder: Path) -> Path:
        """Write a configuration with this job alone and its own state folder."""
        job = self.mirror.job
        lines = [
            f"[sources.{job.source.name}]",
            'dialect = "mysql"',
            *(
                [f"hosts = {list(job.source.hosts)}".replace("'", '"')]
                if job.source.hosts
                else [f'host = "{job.source.host}"', f"port = {job.source.port}"]
            ),
            f'user = "{job.source.user}"',
            f'password_{job.source.password.how} = "{job.source.password.ref}"',
            'sslmode = "disable"',
        ]
        return write_config(folder, job, _sinks(job) + "\n".join(lines), ["create_target = true"])

    def into(self, doris: DorisStandin) -> None:
        """Mirror into the stand-in for Doris, with the PostgreSQL as its store."""
        self.mirror.job = into_sink(self.mirror.job, doris_endpoint(doris), "doris")

    def identity(self, table: str = TABLE) -> TableIdentity:
        session = sources.open("mysql").connect(login(self.mirror.job.source, "test"))
        with closing(session):
            return session.table(TableAsked.of(self.mirror.job.of(table))).source.identify()


def write_config(folder: Path, job: JobSpec, servers: str, of_channel: Sequence[str] = ()) -> Path:
    """A configuration with one job and its own state folder; `of_channel` are further lines of each channel."""
    lines = [servers, f"[jobs.{job.name}]"]
    lines += [f'source = "{job.source.name}"', f'sink = "{job.sink.name}"', f'slot = "{job.slot}"']
    for one in job.channels:
        lines += [
            f"[[jobs.{job.name}.channels]]",
            f'from = "{one.source_table}"',
            f'into = "{one.target}"',
            *of_channel,
        ]
    for block in job.patterns:
        lines += [f"[[jobs.{job.name}.channels]]", f'from = "{block.source}"', f'into = "{block.into}"', *of_channel]
        lines += [f"except = {list(block.excluded)}".replace("'", '"')] if block.excluded else []
    lines += [f"[jobs.{job.name}.binlog]", "binlog = true", "[state]", f'dir = "{folder / "state"}"']
    path = folder / "slotkeeper.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


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
            retry=QUICK,
        )
        return MysqlPair(mirror, where, session)

    yield make
    for session in opened:
        with suppress(my.DriverError):  # from a server that has been ended in the meantime
            session.rows(f"DROP DATABASE IF EXISTS {SCHEMA}")
        session.close()


@pytest.fixture
def mysql_pair(make_mysql_pair: MakeMysqlPair) -> MysqlPair:
    """A job over a table `(id, v)`, not started."""
    return make_mysql_pair()
