"""The demo's sinks by the value of `--sink`: the configuration of each, and how the demo reads it.

The progress rows of every sink are in the embedded PostgreSQL; Doris is a stand-in that identifies itself as one. The
sinks do not depend on the demo's source.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol

from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.text import install
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.drivers.pg_table import over
from slotkeeper.core.errors import ConfigError, SlotkeeperError
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.verify.compare import Comparison, Opened, compare, open_pair
from slotkeeper.demo import postgres
from slotkeeper.demo.markers import MarkerReader, SeenMarkers
from slotkeeper.demo.postgres import Server

DATABASE = USER = "mart"
TARGET = "mart.orders"
SINK = "mart"
"""The name of the demo's sink in its configuration, for any kind."""
STORE = "rows"
"""The name of the PostgreSQL server that stores the progress rows of a sink that cannot store them itself."""

_POSTGRES = """\
[sinks.{name}]
kind = "postgres"
host = "{at.host}"
port = {at.port}
database = "{at.database}"
user = "{at.user}"
password_file = "{at.password.ref}"
sslmode = "disable"
"""
_DORIS = """\
# A stand-in for Apache Doris.
[sinks.{name}]
kind = "doris"
host = "{host}"
port = {query}
http_port = {http}
user = "{user}"
password_file = "{password}"
sslmode = "disable"
progress_store = "{store}"
"""
_READ_EVERY_S = 0.1
_READ_AT_ONCE = 200


def postgres_table(name: str, at: Endpoint) -> str:
    """Return the part of the configuration for a PostgreSQL sink."""
    return _POSTGRES.format(name=name, at=at)


class Reader(Protocol):
    """A thread that reports the markers that it reads in the sink."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...


class DemoSink(Protocol):
    """A server as target; `note` describes it, `cannot_prove` lists what a run against it does not prove."""

    note: str
    cannot_prove: Sequence[str]
    at_store: bool
    """Whether the sink is the embedded PostgreSQL itself."""

    def prepare(self, store: Server, folder: Path) -> None:
        """Prepare the sink; `store` is the embedded PostgreSQL, whose database and user already exist."""

    def tables(self, store: Endpoint) -> str:
        """Return the sink's part of the configuration."""

    def compare(self, source: Opened, table: str) -> Comparison:
        """Compare the source's table with the target, row by row."""

    def reader(self, marker: SeenMarkers) -> Reader:
        """Return a thread that reports markers in the target; not started."""

    def close(self) -> None:
        """Stop the sink; safe to call twice, and before `prepare`."""


class PostgresTarget:
    """The embedded PostgreSQL, which is its own store."""

    note = "PostgreSQL"
    cannot_prove: Sequence[str] = ()
    at_store = True

    def __init__(self) -> None:
        self._server: Server | None = None

    def prepare(self, store: Server, folder: Path) -> None:
        self._server = store

    def tables(self, store: Endpoint) -> str:
        return postgres_table(SINK, store)

    def compare(self, source: Opened, table: str) -> Comparison:
        with closing(self._connect(autocommit=False)) as target:
            return compare(*open_pair(source, table, over(target), TARGET))

    def reader(self, marker: SeenMarkers) -> Reader:
        return MarkerReader(lambda: self._connect(autocommit=False), TARGET, marker)

    def _connect(self, autocommit: bool) -> pg.Connection:
        assert self._server is not None
        return self._server.connect(DATABASE, autocommit=autocommit)

    def close(self) -> None:
        return


class DorisTarget:
    """The stand-in for Doris, in this process; its progress rows are in the embedded PostgreSQL."""

    at_store = False

    def __init__(self) -> None:
        try:
            from slotkeeper.demo import doris
            from slotkeeper.demo.doris import server
        except ImportError as error:
            what = f"the stand-in for Apache Doris needs {error.name}, which is not installed"
            raise ConfigError(what, f"install the extra demo: {install('demo')}") from None
        self.note: str = doris.STANDIN
        self.cannot_prove: Sequence[str] = doris.CANNOT_PROVE
        self._make = server.DorisStandin
        self._standin: server.DorisStandin | None = None
        self._password_file = Path()

    def prepare(self, store: Server, folder: Path) -> None:
        self._password_file = folder / "doris.password"
        self._standin = self._make(password=postgres.write_password(self._password_file))
        self._standin.tables.create_database(DATABASE)

    def tables(self, store: Endpoint) -> str:
        assert self._standin is not None
        ports = self._standin.ports
        named = {"host": self._standin.host, "query": ports.query, "http": ports.frontend, "user": self._standin.user}
        mine = _DORIS.format(name=SINK, store=STORE, password=self._password_file, **named)
        return f"{mine}\n{postgres_table(STORE, store)}"

    def compare(self, source: Opened, table: str) -> Comparison:
        with closing(sinks.open("doris").tables(self._login(), 600_000)) as target:
            return compare(*open_pair(source, table, target.table, TARGET))

    def reader(self, marker: SeenMarkers) -> Reader:
        return PollingReader(MysqlQueries(self._login(), "sink"), marker)

    def _login(self) -> Login:
        assert self._standin is not None
        where = Endpoint(SINK, self._standin.host, self._standin.ports.query, "", self._standin.user, sslmode="disable")
        return Login(where, self._standin.password, "slotkeeper/demo")

    def close(self) -> None:
        if self._standin is not None:
            self._standin.close()


class PollingReader(threading.Thread):
    """Polls a target for markers over the MySQL protocol; a marker's number is its order number."""

    def __init__(
        self, queries: MysqlQueries, marker: SeenMarkers, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(name="marker-reader", daemon=True)
        self._queries = queries
        self._marker = marker
        self._monotonic = monotonic
        self._stop_asked = threading.Event()

    def run(self) -> None:
        name = ".".join(f"`{part}`" for part in TARGET.split("."))
        while not self._stop_asked.wait(_READ_EVERY_S):
            wanted = self._marker.unseen()[:_READ_AT_ONCE]
            if not wanted:
                continue
            numbers = ", ".join(map(str, wanted))
            try:
                found = self._queries.rows(f"SELECT order_no FROM {name} WHERE cust < 0 AND order_no IN ({numbers})")
            except SlotkeeperError:
                continue  # the next poll repeats the query
            self._marker.saw([int(row[0]) for row in found], self._monotonic())
        self._queries.close()

    def stop(self) -> None:
        """Ask the thread to end; safe to call twice."""
        self._stop_asked.set()


KINDS: Mapping[str, Callable[[], DemoSink]] = {"postgres": PostgresTarget, "doris": DorisTarget}
"""The sinks by the value of `--sink`; the first is the default."""
