"""Sessions whose server never answers: a driver ends nevertheless, and uses another session for its lease."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.job import JobEvent, WantedState
from slotkeeper.core.drivers import pg
from slotkeeper.core.engine.driver import lease, start, upkeep
from slotkeeper.core.engine.driver.job import JobEnd
from slotkeeper.core.engine.driver.lease import Leases
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sources.dws.kind import DwsConnection
from slotkeeper.core.wiring import driver
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.standin import run
from tests.support.waiting import until

TABLE = "ods.t"


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    for module, name, value in (
        (driver, "CLOSE_WITHIN", 0.2),
        (lease, "END_WAIT", 0.2),
        (upkeep, "LEASE_EVERY", 0.0),
        (start, "LEASE_WAIT", 60.0),
    ):
        monkeypatch.setattr(module, name, value)
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    return make_mirror(warehouse, TABLE, "mart.t")


class Silence:
    """Stops the backend of the job's lease just before it is queried."""

    def __init__(self, mirror: Mirror) -> None:
        self.pid = 0
        self._mirror = mirror
        self._name = f"slotkeeper/{mirror.job.name}/lease"
        self._keep = Leases.keep
        self._wanted, self._asked = threading.Event(), threading.Event()

    def keep(self, leases: Leases) -> None:
        """Replaces `Leases.keep`."""
        if self._wanted.is_set():
            self._wanted.clear()
            os.kill(self.pid, signal.SIGSTOP)
            self._asked.set()
        self._keep(leases)

    def begin(self) -> None:
        """Return once a thread of the driver waits for the answer, or is about to."""
        self._asked.clear()
        (self.pid,) = self.sessions()
        self._wanted.set()
        assert self._asked.wait(20)

    def end(self) -> None:
        """Let it continue; safe to call twice."""
        pid, self.pid = self.pid, 0
        if pid:
            os.kill(pid, signal.SIGCONT)

    def sessions(self) -> list[int]:
        """Return the backends of the lease, including a stopped one."""
        found = f"SELECT pid FROM pg_stat_activity WHERE application_name = '{self._name}'"
        return [pid for (pid,) in self._mirror.query(self._mirror.sink, found)]


@pytest.fixture
def silence(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> Iterator[Silence]:
    made = Silence(mirror)

    def keep(leases: Leases) -> None:
        made.keep(leases)

    monkeypatch.setattr(Leases, "keep", keep)
    yield made
    made.end()


def test_a_lease_whose_session_never_answers_holds_up_neither_another_session_nor_a_wish(
    mirror: Mirror, silence: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.start().wait_running()
    with monkeypatch.context() as sooner:
        silence.begin()
        sooner.setattr(upkeep, "LEASE_LATE", 0.2)
        until(lambda: len(silence.sessions()) > 1, 20, "another session to ask for the lease")
        silence.end()
        until(lambda: len(silence.sessions()) == 1, 20, "the silent one to find its line gone")
    run(mirror.warehouse, f"INSERT INTO {TABLE} VALUES (1, 'x')")
    mirror.wait_equal()
    silence.begin()
    epoch = mirror.heard.epoch
    mirror.pause()
    mirror.wanted = WantedState.RUN
    until(lambda: mirror.heard.events.count(JobEvent.BEGAN) == 2, 20, "the job to start again")
    silence.end()
    until(lambda: mirror.heard.epoch > epoch, 20, "the new start's lanes")
    silence.begin()
    mirror.wanted = WantedState.STOP
    mirror.join(20)
    assert mirror.end is JobEnd.STOPPED


def test_sessions_end_although_a_statement_of_another_thread_is_not_answered(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "CLOSE_WITHIN", 0.1)
    password = warehouse.etl_password_file.read_text(encoding="utf-8").strip()
    connection = DwsConnection(Login(warehouse.endpoint(), password, "slotkeeper/test/silent"))
    session = connection.session
    session.composed_rows(pg.sql.SQL("SELECT 1"), None)
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            session.composed_rows(pg.sql.SQL("SELECT pg_sleep(30)"), None, 60_000)
        except SlotkeeperError as error:
            raised.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    asleep = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
    with warehouse.connect() as watching, watching.cursor() as cursor:

        def sleeps() -> bool:
            cursor.execute(asleep)
            return cursor.fetchone() is not None

        until(sleeps, 10, "the statement to be under way")
    driver._end(connection)
    thread.join(10)
    assert raised and session.fresh
