"""A small world in which the incidents of `slotkeeper.demo.incidents` happen: a stand-in, a sink, one supervised job.

Commands are the product's, in this process; the job's driver is a separate process with threads instead of Spark.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import doctor
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.launch import control
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.launch.launch import Launch, Limits
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo import maria_orders, orders, postgres, workload
from slotkeeper.demo import sources as demo_sources
from slotkeeper.demo.incidents.record import Answer, AtSink, Incident, Manual, World
from slotkeeper.demo.incidents.small_disk import small_disk
from slotkeeper.demo.mariadb import MariaServer
from slotkeeper.demo.run import JOB, SINK_USER, DemoOptions, configuration
from slotkeeper.demo.warehouse import Warehouse
from tests.support import maria
from tests.support.jobs import Jobs
from tests.support.standin import drop_database, new_database, run
from tests.support.waiting import until

DRIVER = Path(__file__).with_name("local_driver.py")
LAUNCH = Launch((sys.executable, "-P", str(DRIVER)), limits=Limits(poll=0.05, leftover=1.0))
ROWS = 400
SECONDS = 60.0
ALERTS = '\n[alerts]\ncrashes = "15s"\ndisk_free = "1m"\n'
"""The job waits for the end of a crash, and a small disk has less space than usual."""
_numbers = itertools.count(1)


class _Local:
    """Replaces `Launch` in a command that starts a job."""

    parse = Launch.parse

    def __new__(cls) -> Launch:  # type: ignore[misc]
        return LAUNCH


class MakeWorld(Protocol):
    """Makes the world of an incident for this test, which is skipped if the incident cannot be made on this host."""

    def __call__(self, incident: Incident, beside: str = "") -> AbstractContextManager[World]:
        """As `_world`."""


@pytest.fixture
def make_world(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seed: int
) -> MakeWorld:
    """Worlds in this test's folder."""

    def make(incident: Incident, beside: str = "") -> AbstractContextManager[World]:
        if incident.small_disk and os.geteuid():
            pytest.skip("only root can mount a small disk")
        return _world(incident, warehouse, tmp_path, monkeypatch, capsys, seed, beside)

    return make


def alerts_soon(made: World) -> None:
    """Add `ALERTS` to the configuration; a demo on a small disk has [alerts] as its last table."""
    text = made.config.read_text(encoding="utf-8")
    made.config.write_text(text.partition("\n[alerts]\n")[0] + ALERTS, encoding="utf-8")


NOT_TO_BE_HAD = "sink-deadlock"
"""The session that holds the lock does not end it when asked: the printed alternative for that case is carried out."""


def manual_acts(incident: Incident, made: World) -> list[Callable[[], object]]:
    """Return the acts of its record's fix that no Slotkeeper command performs."""
    return [
        partial(made.at_sink, step.text) if isinstance(step, AtSink) else partial(step.act, made)
        for step in incident.cure
        if isinstance(step, AtSink | Manual)
    ]


@contextmanager
def _world(
    incident: Incident,
    warehouse: Warehouse,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seed: int,
    beside: str,
) -> Iterator[World]:
    """The world of one incident, with its job RUNNING; all of it ends with the block.

    `beside` is a second table of the job, if any: `id` and `name`, with ten rows. `warehouse` is the source; for an
    incident of a MySQL source it has only the sink.
    """
    number = next(_numbers)
    database, user = f"incident_{number}", f"{SINK_USER}_{number}"
    monkeypatch.setattr(control, "Launch", _Local)
    monkeypatch.setattr(doctor, "_ask_java", lambda: {"version": "21", "home": "/j", "origin": "PATH"})
    with ExitStack() as stack:
        secret = _sink(stack, warehouse, database, user, folder)
        config, state = folder / "slotkeeper.toml", folder / "disk" / "state"
        if incident.small_disk:
            stack.enter_context(small_disk(state.parent))
        sink = warehouse.server.endpoint(database, user, secret)
        options = DemoOptions(sink_options=incident.options, small_disk=incident.small_disk)
        source = _maria(stack, seed) if incident.source == "mysql" else _loaded(warehouse, seed)
        text = (
            configuration(
                demo_sources.maria_section(source.endpoint(demo_sources.SOURCE, maria_orders.LOGIN)),
                sink,
                state,
                options,
                demo_sources.SOURCE,
            )
            if isinstance(source, MariaServer)
            else configuration(source.endpoint(), sink, state, options)
        )
        config.write_text(_with_table(text, warehouse, beside) if beside else text, "utf-8")
        store = stack.enter_context(Store.open(state))
        stack.callback(Jobs(store, folder).end_all)
        made = World(source, warehouse.server, database, user, secret, config, state, _runner(config, capsys))
        stack.callback(made.opened.close)
        control.start(store, JOB, str(config), LAUNCH, patience=Patience(SECONDS))
        until(lambda: observe(store, JOB).state is JobState.RUNNING, SECONDS, "the job to be RUNNING")
        yield made


def _loaded(warehouse: Warehouse, seed: int) -> Warehouse:
    workload.create(warehouse)
    with closing(warehouse.connect()) as connection:
        orders.load(connection, ROWS, seed)
    return warehouse


def _maria(stack: ExitStack, seed: int) -> MariaServer:
    """A separate MariaDB for the incident, because some incidents crash it."""
    server = maria.begin()
    stack.callback(maria.end, server)
    with closing(server.session()) as session:
        maria_orders.create(session)
        maria_orders.load(session, ROWS, seed)
    server.create_login(maria_orders.LOGIN, *maria_orders.GRANTS)
    return server


def _with_table(text: str, warehouse: Warehouse, table: str) -> str:
    warehouse.create_table(table, "id bigint NOT NULL, name text", ("id",))
    run(warehouse, f"INSERT INTO {table} SELECT n, 'item ' || n FROM generate_series(1, 10) n")
    binlog, into = f"[jobs.{JOB}.binlog]\n", f"mart.{table.partition('.')[2]}"
    channel = f'[[jobs.{JOB}.channels]]\nfrom = "{table}"\ninto = "{into}"\ncreate_target = true\n\n'
    return text.replace(binlog, channel + binlog)


def _sink(stack: ExitStack, warehouse: Warehouse, database: str, user: str, folder: Path) -> Path:
    """A database and a user of its own at the warehouse's server; the file with the user's password."""
    server, secret = warehouse.server, folder / f"{user}.password"
    password = postgres.write_password(secret)
    new_database(
        server,
        database,
        f"CREATE ROLE {user} LOGIN PASSWORD '{password}'",
        f"GRANT CREATE ON DATABASE {database} TO {user}",
        f"GRANT CREATE ON SCHEMA public TO {user}",
    )

    def gone() -> None:
        drop_database(server, database)
        with closing(server.connect("postgres")) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP ROLE {user}")

    stack.callback(gone)
    return secret


def _runner(config: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Sequence[str]], Answer]:
    def run(words: Sequence[str]) -> Answer:
        capsys.readouterr()
        code = main([*words] if "--config" in words else [*words, "--config", str(config)])
        said = capsys.readouterr()
        return Answer(code, said.out + said.err)

    return run
