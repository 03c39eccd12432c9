"""The sink's side of a lane's states: they change by compare-and-swap, and steps commit only in the last two."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.errors import Superseded, Trouble, TroubleName
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sinks.postgres.session import COPY_LIMIT_MS, lengthen
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.demo.postgres import Server
from tests.support.quarantined import Target
from tests.support.standin import drop_database, new_database

STATES = {state: state in (LaneState.CATCHING_UP, LaneState.RUNNING) for state in LaneState}
DATABASE = "turns"


@pytest.fixture(scope="module")
def made(pg_server: Server) -> Iterator[Target]:
    new_database(pg_server, DATABASE)
    target = Target(pg_server, DATABASE, "public.t", "id bigint PRIMARY KEY, v text", ("id", "v"))
    yield target
    target.close()
    drop_database(pg_server, DATABASE)


@pytest.fixture
def target(made: Target) -> Target:
    """A lane in state running at position 0, and no chunks."""
    made.run("UPDATE slotkeeper_progress SET state = 'running', position = '0/-1'", "DELETE FROM slotkeeper_chunks")
    return made


def state(target: Target, wanted: LaneState) -> None:
    target.run(f"UPDATE slotkeeper_progress SET state = '{wanted.value}'")


def turn(target: Target, came_from: LaneState, to: LaneState, lanes: int = 1) -> Turn:
    return Turn(target.epoch, lanes, (came_from,), to)


@pytest.mark.parametrize("now", STATES)
def test_a_step_commits_only_once_the_copy_has_ended(target: Target, now: LaneState) -> None:
    state(target, now)
    one, two, three = (DwsPosition(point) for point in (0, 1, 2))
    sink = target.sink()
    assert sink.stage(io.BytesIO(b"1\t0\tI\t%d\tx\n" % list(LaneState).index(now))) == 1
    assert sink.commit(target.lane, target.epoch, one, two, 1) is STATES[now]
    after = two if STATES[now] else one
    assert target.store.advance_empty(target.lane, target.epoch, after, three) is STATES[now]


@pytest.mark.parametrize("now", LaneState)
def test_a_turn_is_taken_from_the_state_before_it_only(target: Target, now: LaneState) -> None:
    state(target, now)
    wanted = turn(target, LaneState.CATCHING_UP, LaneState.RUNNING)
    if now is LaneState.CATCHING_UP:
        target.store.set_state(wanted)
    else:
        with pytest.raises(Trouble) as raised:
            target.store.set_state(wanted)
        assert raised.value.name is TroubleName.SINK_OLDER
    assert target.store.rows()[0].state is (LaneState.RUNNING if now is LaneState.CATCHING_UP else now)


def test_a_turn_that_does_not_hit_every_lane_hits_none(target: Target) -> None:
    with pytest.raises(Trouble) as raised:
        target.store.set_state(turn(target, LaneState.RUNNING, LaneState.CREATING, lanes=2))
    assert raised.value.name is TroubleName.PROGRESS_LOST
    assert target.store.rows()[0].state is LaneState.RUNNING


def test_a_turn_of_an_older_epoch_is_superseded(target: Target) -> None:
    with pytest.raises(Superseded):
        target.store.set_state(Turn(target.epoch - 1, 1, (LaneState.RUNNING,), LaneState.CREATING))


@pytest.mark.parametrize(
    "lost", ["UPDATE slotkeeper_chunks SET state = 'planned' WHERE number = 1", "DELETE FROM slotkeeper_chunks"]
)
def test_a_copy_that_lacks_a_chunk_does_not_end_and_leaves_the_target_alone(target: Target, lost: str) -> None:
    state(target, LaneState.CREATING)
    chunks = [Chunk(0, (), ("0",)), Chunk(1, ("0",), ("1",))]
    begin, end = (turn(target, *pair) for pair in zip(list(LaneState), list(LaneState)[1:3], strict=False))
    target.store.begin_copy(begin, chunks, "direct", lambda cursor: None)
    assert target.store.way_of_copy() == "direct"
    touched: list[object] = []
    target.run("UPDATE slotkeeper_chunks SET state = 'done'", lost)
    with pytest.raises(Trouble) as raised:
        target.store.end_copy(end, {}, touched.append)
    assert raised.value.name is TroubleName.SINK_OLDER
    assert (touched, target.store.rows()[0].state) == ([], LaneState.COPYING)
    target.run("DELETE FROM slotkeeper_chunks")
    target.run("UPDATE slotkeeper_progress SET chunks = 0")
    target.store.end_copy(end, {"dn_1": DwsPosition(9, None)}, touched.append)
    assert len(touched) == 1
    row = target.store.rows()[0]
    assert (row.state, row.noted_end) == (LaneState.CATCHING_UP, DwsPosition(9, None))


@pytest.mark.parametrize(("given", "limit"), [(600_000, COPY_LIMIT_MS), (2 * COPY_LIMIT_MS, 2 * COPY_LIMIT_MS), (0, 0)])
def test_a_copys_limits_are_those_of_its_transaction_alone(target: Target, given: int, limit: int) -> None:
    limits = "('statement_timeout', 'idle_in_transaction_session_timeout')"
    asked = f"SELECT setting::bigint FROM pg_settings WHERE name IN {limits}"
    with target.session.transaction() as cursor:
        lengthen(cursor, given)
        cursor.execute(asked)
        assert cursor.fetchall() == [(limit,), (limit,)]
    with target.session.transaction() as cursor:
        cursor.execute(asked)
        assert sorted(cursor.fetchall()) == [(60_000,), (600_000,)]
