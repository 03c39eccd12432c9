"""The sink's session ends at every statement of an isolating step, chunk and replay: nothing is lost or doubled."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slotkeeper.core.domain.quarantine import EntryState
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sinks.postgres.quarantine.replay import Replays
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.demo.postgres import Server
from tests.support.effects import planned
from tests.support.quarantined import QUARANTINING, Target, line
from tests.support.standin import drop_database, new_database

DATABASE = "held_faults"
BAD = 99_999
ROWS = [(1, 1), (2, BAD), (3, 3)]
EVENTS = [
    *[(1, n, "I", *row) for n, row in enumerate(ROWS)],
    *[(1, 10, "B", 10, None), (1, 11, "U", 11, BAD)],
    *[(1, 12, "d", 12, None)],
]


EVERY = pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.chaos)])


class Ending:
    """Ends the session before the nth statement that it sends; `sent` counts the statements.

    The test takes each statement in turn, or one in every few from a random one on.
    """

    def __init__(self, target: Target, monkeypatch: pytest.MonkeyPatch, seed: int, every: int) -> None:
        self.every, self.nth, self.sent = every, 0 if every == 1 else seed % every + 1 - every, 0
        ending = self

        class Cursor(pg.Cursor):
            def execute(self, query: Any, vars: Any = None) -> None:
                ending.passed(self)
                super().execute(query, vars)

            def copy_expert(self, sql: Any, file: Any, size: int = 8192) -> None:
                ending.passed(self)
                super().copy_expert(sql, file, size)

        real = SinkSession.ready

        def ready(session: SinkSession) -> pg.Connection:
            connection = real(session)
            if session is target.session:
                connection.cursor_factory = Cursor
            return connection

        monkeypatch.setattr(SinkSession, "ready", ready)
        self.target = target

    def passed(self, cursor: pg.Cursor) -> None:
        self.sent += 1
        if self.sent == self.nth:
            self.target.run(f"SELECT pg_terminate_backend({cursor.connection.get_backend_pid()}, 5000)")

    def everywhere(self, act: Callable[[], object], unchanged: Callable[[], None]) -> int:
        """End it at each statement in turn until a run completes; return the number of statements."""
        while True:
            self.nth, self.sent = self.nth + self.every, 0
            try:
                act()
            except SlotkeeperError:
                at, self.nth, self.sent = self.nth, 0, -10_000
                unchanged()
                self.nth = at
            else:
                self.nth = 0
                return self.sent


@pytest.fixture
def target(pg_server: Server) -> Iterator[Target]:
    new_database(pg_server, DATABASE)
    made = Target(pg_server, DATABASE, "public.t", "id bigint PRIMARY KEY, n smallint", ("id", "n"))
    made.run("INSERT INTO public.t VALUES (10, 0), (12, 0)")
    yield made
    made.close()
    drop_database(pg_server, DATABASE)


def state(target: Target) -> object:
    position = target.asked("SELECT position, changes FROM slotkeeper_progress")
    chunks = target.asked("SELECT state FROM slotkeeper_chunks")
    entries = target.asked("SELECT key, state, tries FROM slotkeeper_quarantine ORDER BY id")
    return target.rows(), position, chunks, entries


@EVERY
def test_a_careful_step_is_all_or_nothing(
    target: Target, monkeypatch: pytest.MonkeyPatch, seed: int, every: int
) -> None:
    before, text = state(target), b"".join(map(line, EVENTS))
    ending = Ending(target, monkeypatch, seed, every)

    def act() -> None:
        sink = target.sink(QUARANTINING)
        try:
            rows = sink.stage_isolating(io.BytesIO(text))
            assert sink.commit(target.lane, target.epoch, DwsPosition(0), DwsPosition(1), rows)
        except BaseException:
            sink.abandon()
            raise

    def unchanged() -> None:
        assert state(target) == before, f"seed {seed}, statement {ending.nth}"

    assert ending.everywhere(act, unchanged) > 40
    assert target.rows() == [(1, 1), (3, 3), (10, 0)]
    assert target.asked("SELECT position, changes FROM slotkeeper_progress") == [("1/-1", len(EVENTS))]
    assert sorted(entry.key for entry in target.listed()) == [("10",), ("11",), ("2",)]
    sink = target.sink(QUARANTINING)
    sink.stage_isolating(io.BytesIO(text))
    assert not sink.commit(target.lane, target.epoch, DwsPosition(0), DwsPosition(1), len(EVENTS)), (
        "it was taken already"
    )
    assert len(target.listed(states=())) == 3


@EVERY
def test_a_careful_chunk_is_all_or_nothing(
    target: Target, monkeypatch: pytest.MonkeyPatch, seed: int, every: int
) -> None:
    target.run("DELETE FROM public.t")
    planned(target.store, target.epoch)
    before, text = state(target), b"".join(map(line, ROWS))
    ending = Ending(target, monkeypatch, seed, every)

    def act() -> None:
        sink = target.sink(QUARANTINING)
        try:
            assert sink.copy_chunk_isolating(target.lane, target.epoch, 0, io.BytesIO(text)) == 3
            sink.finish_chunk()
        except BaseException:
            sink.abandon()
            raise

    def unchanged() -> None:
        assert state(target) == before, f"seed {seed}, statement {ending.nth}"

    assert ending.everywhere(act, unchanged) > 20
    assert target.rows() == [(1, 1), (3, 3)]
    assert [entry.key for entry in target.listed()] == [("2",)]
    assert target.sink(QUARANTINING).copy_chunk_isolating(target.lane, target.epoch, 0, io.BytesIO(text)) is None


@EVERY
def test_a_replay_is_all_or_nothing(target: Target, monkeypatch: pytest.MonkeyPatch, seed: int, every: int) -> None:
    assert target.step(target.sink(QUARANTINING), EVENTS)
    target.run("ALTER TABLE public.t ALTER COLUMN n TYPE integer")
    before, pair = state(target), max(entry.id for entry in target.listed())
    ending = Ending(target, monkeypatch, seed, every)

    def act() -> None:
        target.session.close()
        done = Replays(target.session, target.lane).replay(pair, target.table, QUARANTINING, "somebody", "cured")
        assert done.state is EntryState.REPLAYED
        assert len(done.ids) == 2

    def unchanged() -> None:
        assert state(target) == before, f"seed {seed}, statement {ending.nth}"

    assert ending.everywhere(act, unchanged) > 8
    assert target.rows() == [(1, 1), (3, 3), (11, BAD)]
