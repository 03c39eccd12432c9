"""Sessions whose server never answers: a driver ends all the same, and tries another session for its lease.

Next door: `test_one_writer.py` has leases that are lost, and that others take.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from core import wiring_driver
from core.domain.job import JobEvent, Wish
from core.drivers import pg
from core.embedded.warehouse import Warehouse
from core.engine import attend, lease, start
from core.engine.job import JobEnd
from core.engine.lease import Leases
from core.errors import Unreachable
from core.sources.dws.session import DwsSession
from tests.support.mirror import MakeMirror, Mirror
from tests.support.standin import run
from tests.support.waiting import until

TABLE = "ods.t"


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    for module, name, value in (
        (wiring_driver, "CLOSE_WITHIN", 0.2),
        (lease, "END_WAIT", 0.2),
        (attend, "LEASE_EVERY", 0.0),
        (start, "LEASE_WAIT", 60.0),
    ):
        monkeypatch.setattr(module, name, value)
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    return make_mirror(warehouse, TABLE, "mart.t")


@pytest.fixture
def silent(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The job runs, and the backend of its lease was stopped right before it was asked; its pid."""
    armed, asked, keep = threading.Event(), threading.Event(), Leases.keep
    name = f"slotkeeper/{mirror.job.name}/lease"
    found: list[int] = []

    def stopping(self: Leases) -> None:
        if armed.is_set() and not asked.is_set():
            os.kill(found[0], signal.SIGSTOP)
            asked.set()
        keep(self)

    monkeypatch.setattr(Leases, "keep", stopping)
    mirror.start().wait_running()
    pids = mirror.query(mirror.sink, f"SELECT pid FROM pg_stat_activity WHERE application_name = '{name}'")
    found += [pid for (pid,) in pids]
    armed.set()
    assert asked.wait(20)
    try:
        yield found[0]
    finally:
        os.kill(found[0], signal.SIGCONT)


def test_a_driver_ends_although_the_session_of_its_lease_never_answers(mirror: Mirror, silent: int) -> None:
    mirror.wish = Wish.STOP
    mirror.join(20)
    assert mirror.end is JobEnd.STOPPED


def test_a_pause_and_its_end_obey_wishes_although_the_session_of_the_lease_never_answers(
    mirror: Mirror, silent: int
) -> None:
    mirror.pause()
    mirror.wish = Wish.RUN
    until(lambda: mirror.heard.events.count(JobEvent.BEGAN) == 2, 20, "the job to start again")
    mirror.wish = Wish.STOP
    mirror.join(20)
    assert mirror.end is JobEnd.STOPPED


def test_another_session_is_tried_for_a_lease_whose_own_never_answers(
    mirror: Mirror, silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attend, "LEASE_LATE", 0.3)
    name = f"slotkeeper/{mirror.job.name}/lease"
    there = f"SELECT pid FROM pg_stat_activity WHERE application_name = '{name}' AND pid <> {silent}"
    until(lambda: mirror.query(mirror.sink, there), 20, "another session to ask for the lease")
    os.kill(silent, signal.SIGCONT)  # it finds its line gone
    run(mirror.warehouse, f"INSERT INTO {TABLE} VALUES (1, 'x')")
    mirror.wait_equal()
    mirror.stop()


def test_sessions_end_although_a_statement_of_another_thread_is_not_answered(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring_driver, "CLOSE_WITHIN", 0.1)
    password = warehouse.etl_password_file.read_text(encoding="utf-8").strip()
    session = DwsSession(warehouse.endpoint(), password, "slotkeeper/test/silent")
    session.composed_rows(pg.sql.SQL("SELECT 1"), None)
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            session.composed_rows(pg.sql.SQL("SELECT pg_sleep(30)"), None, 60_000)
        except Unreachable as error:
            raised.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    asleep = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
    with warehouse.connect() as watching, watching.cursor() as cursor:

        def sleeps() -> bool:
            cursor.execute(asleep)
            return cursor.fetchone() is not None

        until(sleeps, 10, "the statement to be under way")
    wiring_driver._end(session)
    thread.join(10)
    assert raised and session.fresh
