"""The demo's source kinds: stand-ins for DWS and Hologres, and a MariaDB if the host has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.text import see
from slotkeeper.core.drivers import my
from slotkeeper.core.sources import registry
from slotkeeper.core.verify.compare import Opened
from slotkeeper.demo import ledger, maria_orders, mariadb, orders, running
from slotkeeper.demo.hologres.instance import Hologres
from slotkeeper.demo.ledger import Tally
from slotkeeper.demo.maria_orders import SHARD, MariaMarker, MariaWorkload
from slotkeeper.demo.mariadb import MariaServer
from slotkeeper.demo.orders import TABLE
from slotkeeper.demo.run import WRITERS, Demo, DemoOptions, Marking, Writing, configuration

SOURCE = "maria"

_SECTION = """\
# Written by `slotkeeper demo --source mysql`; the source is a real MariaDB.
[sources.{name}]
dialect = "mysql"
host = "{at.host}"
port = {at.port}
user = "{at.user}"
password_file = "{at.password.ref}"
sslmode = "disable"
environment = "LOCAL"
"""


_HOLOGRES = """\
# Written by `slotkeeper demo --source hologres`; the source is a stand-in for Hologres.
[sources.holo1]
dialect = "{dialect}"
host = "{source.host}"
port = {source.port}
database = "{source.database}"
user = "{source.user}"
password_file = "{source.password.ref}"
sslmode = "disable"
environment = "DEMO"
"""


class HologresDemo(Demo):
    """A demo whose source is a stand-in for Hologres, read with SQL or as a stream."""

    dialect = "hologres"
    begun = "position <> ''"
    mirrors = stays = False
    has_read_by = True

    @property
    def note(self) -> str:  # type: ignore[override]
        """The source's description."""
        way = "stream" if self.options.binlog_options.get("read_by") == "stream" else "SQL"
        return f"stand-in for Hologres (read by {way}), not Hologres"

    def make_source(self) -> None:
        """Create the source's table and load its rows; then turn on its binlog."""
        made = self.warehouse = Hologres.install(self._servers[0], self.options.dns)
        self._opened.callback(made.close)
        self._say(f"loading {self.options.rows:,} rows into {TABLE} on {self.options.dns} shards")
        made.create_table(TABLE, orders.DDL_COLUMNS, orders.KEY, orders.DISTRIBUTE_BY, binlog=False)
        with closing(made.connect()) as connection:
            ledger.create(connection)
            orders.load(connection, self.options.rows, self.options.seed)
        made.set_property(TABLE, "binlog.level", "replica")

    def written_down(self, sink: str) -> str:
        """Return the text of the configuration."""
        assert self.warehouse is not None
        section = _HOLOGRES.format(source=self.warehouse.endpoint(), dialect=self.dialect)
        return configuration(section, sink, self.state_folder, self.options, "holo1")


class HologresSlotDemo(HologresDemo):
    """The same demo with a version before 2.1, whose server stores a slot's position."""

    dialect = "hologres_slot"

    @property
    def note(self) -> str:  # type: ignore[override]
        """The source's description."""
        return f"{super().note}; the slot follows Slotkeeper's progress rows"

    def make_source(self) -> None:
        """Create the source as for `hologres`, and grant the login the rights for a slot."""
        super().make_source()
        assert isinstance(self.warehouse, Hologres)
        self.warehouse.let_replicate(TABLE)
        self.warehouse.version("Hologres 1.3.41 (stand-in, not Hologres)")


def maria_section(here: Endpoint) -> str:
    """Return the source's table of the configuration."""
    return _SECTION.format(name=SOURCE, at=here)


class MariaDemo(Demo):
    """A demo whose source is a MariaDB."""

    servers = ("sink",)
    begun = "position <> ''"
    mirrors = False
    one_lane = True

    def __init__(self, options: DemoOptions, say: Callable[[str], None]) -> None:
        mariadb.find_programs()
        super().__init__(options, say)
        self._maria: MariaServer | None = None

    @property
    def note(self) -> str:  # type: ignore[override]
        """The source's description."""
        return f"MariaDB, not MySQL; differences: {see('mysql')}"

    def make_source(self) -> None:
        """Start the server and load the table."""
        self._say("starting the source: MariaDB")
        self._maria = mariadb.create(self.folder / running.MARIA)
        self._say(f"loading {self.options.rows:,} rows into {TABLE}")
        with closing(self._session()) as session:
            maria_orders.create(session)
            maria_orders.load(session, self.options.rows, self.options.seed)
        self._maria.create_login(maria_orders.LOGIN, *maria_orders.GRANTS)

    def start_job(self) -> None:
        """Start the job and wait until its position is recorded, so that the writers write during the copy."""
        self._say("starting the job: supervisor, Spark driver, JVM")
        clock = SystemClock()
        began = clock.monotonic()
        self._started(lambda: self.recording() == 1)
        self.spark["start_s"] = round(clock.monotonic() - began, 1)

    def _endpoint(self) -> Endpoint:
        """Return the job's endpoint, whose login has only the rights of a job."""
        return self._server().endpoint(SOURCE, maria_orders.LOGIN)

    def _session(self) -> my.Session:
        return self._server().session()

    def _server(self) -> MariaServer:
        assert self._maria is not None
        return self._maria

    def incident_source(self) -> MariaServer:
        """Return the source for an incident of a MySQL source."""
        return self._server()

    def written_down(self, sink: str) -> str:
        """Return the text of the configuration."""
        return configuration(maria_section(self._endpoint()), sink, self.state_folder, self.options, SOURCE)

    def workload(self) -> Writing:
        """Return the writers."""
        options = self.options
        return MariaWorkload(self._session, WRITERS, options.rate, options.seed, options.rows)

    def marking(self) -> Marking:
        """Return the thread that writes marker rows."""
        return MariaMarker(self._session)

    def lanes(self) -> list[str]:
        """Return the name of the only lane."""
        return [SHARD]

    def booked(self) -> Tally:
        """Return the events that the writers recorded in the ledger."""
        with closing(self._session()) as session:
            return {SHARD: maria_orders.totals(session)}

    @contextmanager
    def source_tables(self) -> Iterator[Opened]:
        """Yield the function that opens the source's tables for the comparison, as `verify` does."""
        with closing(registry.open("mysql").tables(login(self._endpoint(), "slotkeeper-demo"), 600_000)) as tables:
            yield tables.table

    def sessions(self) -> list[str]:
        """Return the commands that open a superuser session on each server."""
        server = self._server()
        client = f"mariadb --defaults-extra-file={server.client_file} -h {mariadb.HOST} -P {server.port} --skip-ssl"
        return [f"{SOURCE}: {client}", *self.sink_sessions()]

    def end_source(self) -> None:
        """Stop the server and delete its files."""
        server, self._maria = self._maria, None
        if server is not None:
            server.discard()


KINDS: dict[str, type[Demo]] = {
    "dws": Demo,
    "hologres": HologresDemo,
    "hologres_slot": HologresSlotDemo,
    "mysql": MariaDemo,
}
"""The sources by the value of `--source`; the first is the default."""
