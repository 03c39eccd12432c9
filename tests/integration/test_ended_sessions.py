"""Sessions at a real PostgreSQL sink are ended by their exact name, login and database, and no other session."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from slotkeeper.core.config.secrets import login, resolve
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import ErrorKind, SlotkeeperError
from slotkeeper.core.ports.kinds import StoreSession
from slotkeeper.core.sinks import registry
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.demo.postgres import Server, write_password
from tests.support.standin import drop_database, new_database
from tests.support.waiting import until

_numbers = itertools.count(1)
NAME = "slotkeeper/or_ders/7.3f9a2c.1f"
NEIGHBOURS = (
    "slotkeeper/or_ders/7.3f9a2c.1",  # another task
    "slotkeeper/or_ders/7.3f9a2c.1f0",
    "slotkeeper/or_ders/7.bbbbbb.1f",  # another loop
    "slotkeeper/or_ders/6.3f9a2c.1f",  # another epoch
    "slotkeeper/orxders/7.3f9a2c.1f",  # another job, where _ is any character
    "slotkeeper/or_ders/7",
    "slotkeeper/or_ders/lease",
    "SLOTKEEPER/or_ders/7.3f9a2c.1f",
    "psql",
)


@dataclass
class Place:
    """A database with sessions; a test checks whether they are connected."""

    server: Server
    database: str
    folder: Path
    stack: ExitStack

    def named(self, name: str, database: str = "", endpoint: Endpoint | None = None) -> pg.Connection:
        endpoint = endpoint or self.server.endpoint(database or self.database)
        made = pg.connect(endpoint, resolve(endpoint.password), name, autocommit=True)
        return self.stack.enter_context(closing(made))

    def store(self, endpoint: Endpoint | None = None) -> StoreSession:
        found = registry.open("postgres").connect(
            login(endpoint or self.server.endpoint(self.database), "slotkeeper/or_ders/7.ends"), "public"
        )
        self.stack.callback(found.close)
        return found

    def role(self, name: str) -> Endpoint:
        file = self.folder / name
        run(self.named("maker"), f"CREATE ROLE {name} LOGIN PASSWORD '{write_password(file)}'")
        self.stack.callback(lambda: run(self.named("ender"), f"DROP ROLE {name}"))
        return self.server.endpoint(self.database, name, file)


def run(connection: pg.Connection, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def lives(connection: pg.Connection) -> bool:
    try:
        run(connection, "SELECT 1")
    except pg.DriverError:
        return False
    return True


@pytest.fixture
def place(pg_server: Server, tmp_path: Path) -> Iterator[Place]:
    database = f"ends_{next(_numbers)}"
    new_database(pg_server, database)
    with ExitStack() as stack:
        yield Place(pg_server, database, tmp_path, stack)
    drop_database(pg_server, database)


def test_only_who_goes_by_just_that_name_is_ended(place: Place) -> None:
    mine = [place.named(NAME), place.named(NAME)]
    others = [place.named(name) for name in NEIGHBOURS]
    elsewhere = place.named(NAME, database="postgres")
    store = place.store()
    assert store.end_sessions(NAME) == 2
    until(lambda: not any(map(lives, mine)), 20, "both to be ended")
    assert all(map(lives, others)) and lives(elsewhere)
    assert store.end_sessions(NAME) == 0, "an ended session is not listed"


@pytest.mark.parametrize("name", ["slotkeeper/%", "slotkeeper/or_ders/_.3f9a2c.1_", "\\", "%", "_"])
def test_a_name_is_not_a_pattern(place: Place, name: str) -> None:
    other = place.named(NAME)
    assert place.store().end_sessions(name) == 0
    assert lives(other)


def test_a_stranger_who_has_taken_the_name_is_not_ended_and_an_ordinary_login_ends_its_own(place: Place) -> None:
    etl, eve = place.role("etl_ends"), place.role("eve_ends")
    mine, hers, roots = place.named(NAME, endpoint=etl), place.named(NAME, endpoint=eve), place.named(NAME)
    assert place.store(etl).end_sessions(NAME) == 1
    until(lambda: not lives(mine), 20, "its own to be ended")
    assert lives(hers) and lives(roots)
    assert place.store().end_sessions(NAME) == 1, "the superuser's own"
    assert lives(hers)


def test_a_login_without_the_right_to_end_a_session_is_reported(place: Place) -> None:
    etl = place.role("etl_refused")
    run(place.named("maker"), "REVOKE EXECUTE ON FUNCTION pg_terminate_backend(integer, bigint) FROM PUBLIC")
    mine = place.named(NAME, endpoint=etl)
    with pytest.raises(SlotkeeperError, match="permission denied") as refused:
        place.store(etl).end_sessions(NAME)
    assert refused.value.kind is not ErrorKind.TRANSIENT
    assert lives(mine)


def test_a_session_is_at_work_while_a_statement_of_it_runs(place: Place) -> None:
    works, store = place.named(NAME), place.store()
    assert not store.at_work(NAME)

    def work() -> None:
        with suppress(pg.DriverError):
            run(works, "SELECT pg_sleep(60)")

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: store.at_work(NAME), 20, "it to be at work")
    assert not any(map(store.at_work, NEIGHBOURS))
    store.end_sessions(NAME)
    thread.join()
    until(lambda: not store.at_work(NAME), 20, "it to be over")


def test_the_activity_of_a_session_changes_with_each_of_its_statements(place: Place) -> None:
    endpoint = place.server.endpoint(place.database)
    with closing(SinkSession(endpoint, resolve(endpoint.password), "asking", "public")) as asking:
        assert asking.activity(NAME) == (False, "")
        other = place.named(NAME)
        _, before = asking.activity(NAME)
        assert before
        assert asking.activity(NAME) == (False, before)
        run(other, "SELECT 1")
        until(lambda: asking.activity(NAME)[1] != before, 20, "it to have changed")


def test_a_session_whose_activity_the_server_does_not_track_counts_as_at_work(place: Place) -> None:
    """Otherwise a long build of a view would be ended as lost, again and again."""
    idle = place.named(NAME)
    assert not place.store().at_work(NAME)
    run(idle, "SET track_activities = off")
    assert place.store().at_work(NAME)


def listed(place: Place, pid: int) -> str:
    with place.named("asking").cursor() as cursor:
        cursor.execute("SELECT application_name FROM pg_stat_activity WHERE pid = %s", (pid,))
        return str(cursor.fetchall()[0][0])


def test_a_session_goes_by_another_name_from_task_to_task_and_stays_the_same(place: Place) -> None:
    endpoint = place.server.endpoint(place.database)
    with closing(SinkSession(endpoint, resolve(endpoint.password), "slotkeeper/j/7.aaaaaa.1")) as session:
        pid = session.ready().info.backend_pid
        session.go_by(NAME)
        assert (session.ready().info.backend_pid, listed(place, pid)) == (pid, NAME)
        with session.transaction() as cursor:
            cursor.execute("SELECT current_setting('application_name'), current_setting('transaction_isolation')")
            assert cursor.fetchall() == [(NAME, "read committed")], "it is not in autocommit"
        session.go_by("")
        assert listed(place, pid) == NAME


def test_a_session_that_was_ended_goes_by_its_new_name_when_it_is_opened_again(place: Place) -> None:
    endpoint = place.server.endpoint(place.database)
    with closing(SinkSession(endpoint, resolve(endpoint.password), "slotkeeper/j/7.aaaaaa.1")) as session:
        pid = session.ready().info.backend_pid
        assert place.store().end_sessions("slotkeeper/j/7.aaaaaa.1") == 1
        session.go_by(NAME)
        again = session.ready().info.backend_pid
        assert again != pid
        assert listed(place, again) == NAME


def test_a_server_that_refuses_another_name_keeps_the_old_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = place.server.endpoint(place.database)
    with closing(SinkSession(endpoint, resolve(endpoint.password), NAME)) as session:
        pid = session.ready().info.backend_pid
        say = pg.rename

        def refused(connection: pg.Connection, name: str) -> None:
            run(connection, "SET LOCAL transaction_isolation = 'no such level'")
            say(connection, name)

        monkeypatch.setattr(pg, "rename", refused)
        session.go_by("slotkeeper/j/7.aaaaaa.2")
        session.rollback()
        assert (session.application_name, listed(place, pid)) == (NAME, NAME)
        assert session.ready().info.backend_pid == pid
