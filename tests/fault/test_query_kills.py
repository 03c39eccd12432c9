"""A query's writer is killed before and after each statement, even COMMIT: each batch is written once.

Killed means that no rollback is sent and the connection is closed. The test then acts as Spark does: it may abort the
batch, and the next run takes it again under new tokens. `tests/spark` uses Spark itself.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.ports.sink import QueryBatch
from slotkeeper.demo.postgres import Server
from tests.support.oracle import Event, Oracle, Rules, history
from tests.support.query_effects import QUERY, QueryEffects
from tests.support.standin import drop_database, new_database

DATABASE = "query_kills"
When = Literal["before", "after"]


class Killed(BaseException):
    """The process has exited."""


class Killer:
    """Kills at the `nth` statement since it was `armed`; `said` are the statements that were started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nth, self.when, self.armed = 0, "before", False
        self.said: list[str] = []
        for kind, name in ((pg.Cursor, "execute"), (pg.Cursor, "copy_expert"), (pg.Connection, "commit")):
            monkeypatch.setattr(kind, name, self._wrapped(getattr(kind, name), name))

    def _wrapped(self, does: Callable[..., Any], name: str) -> Callable[..., Any]:
        def called(one: Any, *values: Any, **named: Any) -> Any:
            if not self.armed:
                return does(one, *values, **named)
            self.said.append(name)
            here = len(self.said) == self.nth
            if here and self.when == "before":
                self._kill(one)
            answer = does(one, *values, **named)
            if here:
                self._kill(one)
            return answer

        return called

    def _kill(self, one: Any) -> None:
        self.armed = False
        pg.sever(one if isinstance(one, pg.Connection) else one.connection)
        raise Killed

    def kills(self, nth: int, when: When, does: Callable[[], object]) -> bool:
        """Whether the process was killed at its nth statement; False if it has fewer."""
        self.nth, self.when, self.said, self.armed = nth, when, [], True
        try:
            does()
        except Killed:
            return True
        finally:
            self.armed = False
        return False


@pytest.fixture(scope="module")
def target(pg_server: Server) -> Iterator[QueryEffects]:
    new_database(pg_server, DATABASE)
    effects = QueryEffects(pg_server, DATABASE, "mart.orders")
    yield effects
    effects.close()
    drop_database(pg_server, DATABASE)


@pytest.fixture
def batches(seed: int) -> list[list[Event]]:
    draw = random.Random(seed)
    made: list[list[Event]] = [[], [], []]
    for one in range(20):
        events = history(draw, one).events
        cuts = sorted(draw.choices(range(len(events) + 1), k=2))
        for place, (begin, end) in enumerate(itertools.pairwise([0, *cuts, len(events)])):
            made[place] += events[begin:end]
    return made


def taken_again(target: QueryEffects, batches: list[list[Event]], aborts: bool) -> bool:
    """Spark's calls after a kill in batch 1; whether the batch was there already."""
    if aborts:
        with target.opened() as sink:
            sink.admit()
            sink.discard()
    before = target.versions()
    there = not target.batch(1, batches[1])
    assert not there or target.versions() == before, "an existing batch is not written again"
    assert target.batch(2, batches[2])
    oracle = Oracle(Rules(), {})
    oracle.apply(event for batch in batches for event in batch)
    assert target.rows() == oracle.rows
    assert target.fence() == [(QUERY, 2, sum(map(len, batches)))], "each batch counts once"
    return there


def begin(target: QueryEffects, batches: list[list[Event]]) -> None:
    target.start_over()
    target.fill([])
    assert target.batch(0, batches[0])


def walk(target: QueryEffects, batches: list[list[Event]], killer: Killer, when: When, whole: bool) -> list[bool]:
    """Kill at each statement of a batch (or of its commit only); return, by statement, whether the batch was there."""
    found: list[bool] = []
    for nth in itertools.count(1):
        begin(target, batches)
        if whole:
            killed = killer.kills(nth, when, lambda: target.batch(1, batches[1]))
        else:
            with target.opened(SinkOptions()) as sink:
                sink.admit()
                staged = [target.stage(sink, part) for part in (batches[1][:7], batches[1][7:])]
                killed = killer.kills(nth, when, lambda: sink.commit(QueryBatch(QUERY, 1), staged))  # noqa: B023
        if not killed:
            return found
        found.append(taken_again(target, batches, aborts=nth % 2 == 0))
    raise AssertionError


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.chaos), "after"])
def test_a_commit_killed_at_any_statement_is_there_once(
    target: QueryEffects, batches: list[list[Event]], monkeypatch: pytest.MonkeyPatch, when: When
) -> None:
    killer = Killer(monkeypatch)
    found = walk(target, batches, killer, when, whole=False)
    assert len(found) >= 8 and killer.said[-1] == "commit"
    assert not any(found[:-1]), "before COMMIT, no row is visible"
    assert found[-1] is (when == "after"), "behind COMMIT all is"


@pytest.mark.chaos
@pytest.mark.parametrize("tries", [False, True], ids=["general", "optimistic, which may miss"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_batch_killed_at_any_statement_is_there_once(
    target: QueryEffects, batches: list[list[Event]], monkeypatch: pytest.MonkeyPatch, when: When, tries: bool
) -> None:
    if tries:
        monkeypatch.setattr("slotkeeper.core.sinks.postgres.write.routing.SHARE", 10**9)
        monkeypatch.setattr("slotkeeper.core.sinks.postgres.write.query_sink.routing.LEAST", 1)
        monkeypatch.setattr("slotkeeper.core.sinks.postgres.write.query_sink.PostgresQuerySink._once", lambda *_: True)
    found = walk(target, batches, Killer(monkeypatch), when, whole=True)
    assert len(found) > 30 and found[-1], "the last statements delete the staged rows after COMMIT"
    assert found == sorted(found), "visible only from COMMIT on"


def test_a_batch_of_a_driver_that_lives_on_behind_the_next_one_is_refused(
    target: QueryEffects, batches: list[list[Event]]
) -> None:
    begin(target, batches)
    with target.opened() as late:
        staged = target.stage(late, batches[1])
        assert target.batch(1, batches[1]) and target.batch(2, batches[2])
        before = target.versions()
        with pytest.raises(Exception, match="already has batch 2 of this query"):
            late.commit(QueryBatch(QUERY, 1), [staged])
        assert target.versions() == before
