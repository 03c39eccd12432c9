"""A transaction commits on the connection on which it began: a session that is lost in between is Unreachable.

The session ends between a statement and its commit: unnoticed, noticed by a use of it, or closed by another thread.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Dialect, Session
from slotkeeper.core.errors import SlotkeeperError, Unreachable
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.core.sources.dws.session import DWS, QUIET, DwsSession
from slotkeeper.demo.postgres import Server
from tests.support.effects import planned
from tests.support.quarantined import QUARANTINING, Target, line
from tests.support.standin import drop_database, new_database
from tests.support.waiting import until

DATABASE = "transactions"
Loss = Callable[[SinkSession], None]


@pytest.fixture(scope="module")
def target(pg_server: Server) -> Iterator[Target]:
    new_database(pg_server, DATABASE)
    made = Target(pg_server, DATABASE, "public.t", "id bigint PRIMARY KEY, v text", ("id", "v"))
    yield made
    made.close()
    drop_database(pg_server, DATABASE)


def ended(target: Target, application: str) -> None:
    """End the server's side of sessions by their name, and wait until they have exited."""
    where = f"FROM pg_stat_activity WHERE application_name = '{application}'"
    target.run(f"SELECT pg_terminate_backend(pid) {where}")
    until(lambda: not target.asked(f"SELECT 1 {where}"), 10, "the session to end")


@pytest.fixture(autouse=True)
def streaming(target: Target) -> None:
    target.run("UPDATE slotkeeper_progress SET state = 'running'")


@pytest.fixture(params=["ended", "ended and noticed", "closed"])
def lose(request: pytest.FixtureRequest, target: Target) -> Loss:
    def act(session: SinkSession) -> None:
        if request.param == "closed":
            session.close()
        else:
            ended(target, session.application_name)
        if request.param == "ended and noticed":
            session.rollback()

    return act


def test_a_transaction_whose_session_was_lost_before_its_commit_is_not_done(target: Target, lose: Loss) -> None:
    session = target.session
    target.run("DROP TABLE IF EXISTS kept", "CREATE TABLE kept (id integer)")
    with pytest.raises(Unreachable), session.transaction() as cursor:
        cursor.execute("INSERT INTO public.kept VALUES (1)")
        lose(session)
    assert target.asked("SELECT * FROM kept") == []
    with session.transaction() as cursor:
        cursor.execute("INSERT INTO public.kept VALUES (2)")
    assert target.asked("SELECT * FROM kept") == [(2,)]


def test_a_session_reopened_inside_a_transaction_does_not_commit_for_it(target: Target, lose: Loss) -> None:
    session = target.session
    target.run("DROP TABLE IF EXISTS kept", "CREATE TABLE kept (id integer)")
    with pytest.raises(Unreachable), session.transaction() as cursor:
        cursor.execute("INSERT INTO public.kept VALUES (1)")
        lose(session)
        session.close()
        with session.transaction() as other:
            other.execute("INSERT INTO public.kept VALUES (2)")
    assert target.asked("SELECT * FROM kept") == [(2,)]


def test_an_empty_step_whose_session_was_lost_is_not_taken_for_done(
    target: Target, lose: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, new = target.store, DwsPosition(target.position.point + 1)
    run = store.session.run

    def then_lost(*what: object) -> pg.Cursor:
        done = run(*what)  # type: ignore[arg-type]
        assert done.rowcount == 1
        lose(store.session)
        return done

    with monkeypatch.context() as patched, pytest.raises(Unreachable):
        patched.setattr(store.session, "run", then_lost)
        store.advance_empty(target.lane, target.epoch, target.position, new)
    row = store.read_row(target.lane)
    assert row is not None and row.position == target.position


@pytest.mark.parametrize("isolating", [False, True], ids=["plain", "isolating"])
def test_a_chunk_whose_session_was_lost_before_its_commit_stays_planned(
    target: Target, lose: Loss, isolating: bool
) -> None:
    target.run("TRUNCATE t")
    planned(target.store, target.epoch)
    sink = target.sink(QUARANTINING)
    take = sink.copy_chunk_isolating if isolating else sink.copy_chunk
    assert take(target.lane, target.epoch, 0, io.BytesIO(line((1, "one")))) == 1
    lose(sink.session)
    with pytest.raises(Unreachable):
        sink.finish_chunk()
    assert [chunk.number for chunk in target.store.chunks_left()] == [0]
    assert target.rows() == []
    assert target.chunk(sink, [(1, "one")], plan=False) is False
    assert target.rows() == [(1, "one")]


@pytest.mark.parametrize("isolating", [False, True], ids=["plain", "isolating"])
def test_a_step_whose_session_was_lost_after_staging_is_not_taken(target: Target, lose: Loss, isolating: bool) -> None:
    target.run("TRUNCATE t")
    sink = target.sink(replace(QUARANTINING, copy_write_batch_size=1))
    stage = sink.stage_isolating if isolating else sink.stage
    assert stage(io.BytesIO(line((1, 1, "I", 1, "one")))) == 1
    lose(sink.session)
    with pytest.raises(Unreachable):
        sink.commit(target.lane, target.epoch, target.position, DwsPosition(target.position.point + 1), 1)
    sink.abandon()
    row = target.store.read_row(target.lane)
    assert row is not None and row.position == target.position
    assert not target.step(sink, [(1, 1, "I", 1, "one")])
    assert target.rows() == [(1, "one")]


def test_a_small_step_whose_session_was_lost_before_its_commit_takes_effect_once(target: Target, lose: Loss) -> None:
    target.run("TRUNCATE t")
    sink, new = target.sink(SinkOptions()), DwsPosition(target.position.point + 1)
    assert sink.stage(io.BytesIO(line((1, 1, "I", 1, "one")))) == 1
    lose(sink.session)
    try:
        assert sink.commit(target.lane, target.epoch, target.position, new, 1)
        target.position = new
    except Unreachable:  # the session had not noticed its end
        sink.abandon()
        assert not target.step(sink, [(1, 1, "I", 1, "one")])
    row = target.store.read_row(target.lane)
    assert row is not None and row.position == new
    assert target.rows() == [(1, "one")]


def test_nothing_is_committed_once_it_was_abandoned(target: Target) -> None:
    target.run("TRUNCATE t")
    planned(target.store, target.epoch)
    sink = target.sink(QUARANTINING)
    sink.copy_chunk(target.lane, target.epoch, 0, io.BytesIO(line((1, "one"))))
    sink.abandon()
    with pytest.raises(Unreachable):
        sink.finish_chunk()
    assert [chunk.number for chunk in target.store.chunks_left()] == [0]


def test_a_cursor_at_the_source_whose_session_is_ended_has_not_read_all(pg_server: Server, target: Target) -> None:
    endpoint = replace(pg_server.endpoint(DATABASE), name="dws1")
    session = DwsSession(endpoint, resolve(endpoint.password), "slotkeeper/reader")

    def put(row: tuple[object, ...]) -> None:
        if row == ("1",):
            ended(target, "slotkeeper/reader")

    with pytest.raises(Unreachable):
        session.cursor_out(pg.sql.SQL("SELECT n::text FROM generate_series(1, 3) n"), put, 10_000, 100)
    assert session.fresh


@pytest.mark.parametrize(("given", "limit"), [(None, "2s"), (700, "700ms"), (0, "0")])
def test_a_statement_has_the_limit_of_its_call_where_that_is_named_and_0_is_none(
    pg_server: Server, target: Target, given: int | None, limit: str
) -> None:
    endpoint = replace(pg_server.endpoint(DATABASE), name="dws1")
    session = DwsSession(endpoint, resolve(endpoint.password), "slotkeeper/limits")
    assert session.composed_rows(pg.sql.SQL("SHOW statement_timeout"), None, given) == [(limit,)]
    session.close()


@pytest.mark.parametrize("dialect", [DWS, QUIET], ids=["dws", "quiet"])
def test_a_quiet_session_stays_after_what_a_server_refuses_and_any_other_is_dropped(
    pg_server: Server, target: Target, dialect: Dialect
) -> None:
    endpoint = replace(pg_server.endpoint(DATABASE), name="dws1")
    session = Session(endpoint, resolve(endpoint.password), "slotkeeper/refused", dialect)
    with pytest.raises(SlotkeeperError):
        session.composed_rows(pg.sql.SQL("SELECT 1 / 0"), None)
    assert session.fresh is not dialect.quiet
    session.composed_rows(pg.sql.SQL("SELECT 1"), None)
    ended(target, "slotkeeper/refused")
    with pytest.raises(Unreachable):
        session.composed_rows(pg.sql.SQL("SELECT 1"), None)
    assert session.fresh
