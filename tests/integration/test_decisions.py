"""The store's part for a sink with a separate store: each operation changes one row in its expected state only."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace

import pytest

from slotkeeper.core.domain.progress import Decided, LaneState
from slotkeeper.core.domain.reset import ResetEntry, Swap, row_from, row_values
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.driver import Repeats, Runner
from slotkeeper.core.sinks.postgres.progress.beside import PostgresDecisions
from slotkeeper.core.sinks.postgres.progress.resets import PostgresResets
from slotkeeper.core.sources.dws.position import POSITIONS, DwsPosition
from slotkeeper.demo.postgres import Server
from tests.support.effects import planned
from tests.support.quarantined import Target
from tests.support.standin import drop_database, new_database

DATABASE = "decisions"
ZERO, TEN, LATER = DwsPosition(0), DwsPosition(10, 3), DwsPosition(20)
RANGE = Decided(TEN, "token", 4)


@pytest.fixture(scope="module")
def made(pg_server: Server) -> Iterator[Target]:
    new_database(pg_server, DATABASE)
    target = Target(pg_server, DATABASE, "public.t", "id bigint PRIMARY KEY, v text", ("id", "v"))
    yield target
    target.close()
    drop_database(pg_server, DATABASE)


@pytest.fixture
def target(made: Target) -> Target:
    """A lane in state running at position 0, with nothing decided, and no chunks."""
    made.run(
        "UPDATE slotkeeper_progress SET state = 'running', position = '0/-1', changes = 0, repeats = 0,"
        " decided = NULL, decided_token = NULL, decided_rows = NULL",
        "DELETE FROM slotkeeper_chunks",
    )
    return made


@pytest.fixture
def store(target: Target) -> PostgresDecisions:
    return PostgresDecisions(target.session, POSITIONS)


def test_a_range_is_decided_once_and_settled_once(target: Target, store: PostgresDecisions) -> None:
    assert store.decide(target.lane, target.epoch, ZERO, RANGE)
    assert not store.decide(target.lane, target.epoch, ZERO, replace(RANGE, end=LATER))
    row = store.read_row(target.lane)
    assert row is not None
    assert (row.position, row.decided, row.changes) == (ZERO, RANGE, 0)
    assert store.settle(target.lane, target.epoch, ZERO, RANGE)
    assert not store.settle(target.lane, target.epoch, ZERO, RANGE)
    row = store.read_row(target.lane)
    assert row is not None
    assert (row.position, row.decided, row.changes, row.repeats) == (TEN, None, 4, 0)


def test_a_load_may_be_committed_only_where_the_row_names_it(target: Target, store: PostgresDecisions) -> None:
    lane, epoch, plan = target.lane, target.epoch, replace(RANGE, token="", label="a_1")
    first, second = replace(plan, token="7"), replace(plan, token="8")
    assert not store.arm(lane, epoch, ZERO, plan, first)
    assert store.decide(lane, epoch, ZERO, plan)
    assert not store.arm(lane, epoch - 1, ZERO, plan, first)
    assert store.arm(lane, epoch, ZERO, plan, first)
    assert not store.arm(lane, epoch, ZERO, plan, second)
    assert not store.withdraw(lane, epoch, ZERO, plan)
    assert store.arm(lane, epoch, ZERO, first, second)
    row = store.read_row(lane)
    assert row is not None
    assert row.decided == second
    assert not store.settle(lane, epoch, ZERO, first), "the other load would be committed after the next range"
    assert not store.send_again(lane, epoch, ZERO, first, plan)
    assert store.send_again(lane, epoch, ZERO, second, plan)
    assert target.store.repeats() == Repeats(4, 0)
    assert store.withdraw(lane, epoch, ZERO, plan)
    row = store.read_row(lane)
    assert row is not None
    assert (row.position, row.decided) == (ZERO, None)


def test_repeats_are_counted_as_long_as_the_range_is_the_decided_one(target: Target, store: PostgresDecisions) -> None:
    assert not store.repeat(target.lane, target.epoch, ZERO, RANGE)
    assert store.decide(target.lane, target.epoch, ZERO, RANGE)
    assert store.repeat(target.lane, target.epoch, ZERO, RANGE)
    assert store.repeat(target.lane, target.epoch, ZERO, RANGE)
    assert not store.repeat(target.lane, target.epoch, ZERO, replace(RANGE, end=LATER))
    assert store.settle(target.lane, target.epoch, ZERO, RANGE)
    assert not store.repeat(target.lane, target.epoch, ZERO, RANGE)
    assert target.store.repeats() == Repeats(8, 0)


@pytest.mark.parametrize("state", [LaneState.CREATING, LaneState.COPYING])
def test_nothing_is_decided_before_the_copy_has_ended(
    target: Target, store: PostgresDecisions, state: LaneState
) -> None:
    target.run(f"UPDATE slotkeeper_progress SET state = '{state.value}'")
    assert not store.decide(target.lane, target.epoch, ZERO, RANGE)


def test_an_earlier_epoch_moves_nothing(target: Target, store: PostgresDecisions) -> None:
    old = target.epoch - 1
    assert not store.decide(target.lane, old, ZERO, RANGE)
    assert store.decide(target.lane, target.epoch, ZERO, RANGE)
    assert not store.repeat(target.lane, old, ZERO, RANGE)
    assert not store.settle(target.lane, old, ZERO, RANGE)


def test_no_step_and_no_idle_lane_passes_what_is_decided(target: Target, store: PostgresDecisions) -> None:
    assert store.decide(target.lane, target.epoch, ZERO, RANGE)
    assert not target.store.advance_empty(target.lane, target.epoch, ZERO, LATER)
    sink = target.sink()
    sink.stage(io.BytesIO(b"1\t0\tI\t7\tx\n"))
    assert not sink.commit(target.lane, target.epoch, ZERO, LATER, 1)
    row = sink.read_row(target.lane)
    assert row is not None
    with pytest.raises(Refused, match="has a pending range of another sink kind"):
        sink.finish(target.lane, target.epoch, row, lambda: 0)


def test_a_chunk_that_may_have_been_written_is_counted_when_it_is_taken_again(
    target: Target, store: PostgresDecisions
) -> None:
    planned(target.store, target.epoch)
    target.run("UPDATE slotkeeper_progress SET state = 'copying'")
    take = (target.lane, target.epoch, 0)
    assert not store.end_chunk(*take)
    assert store.begin_chunk(*take, 5)
    assert [chunk.number for chunk in target.store.chunks_left()] == [0]
    assert store.begin_chunk(*take, 6)
    assert store.end_chunk(*take)
    assert not store.begin_chunk(*take, 6)
    assert (target.store.chunks_left(), target.store.repeats()) == ([], Repeats(0, 6))


def test_tables_that_were_made_before_get_the_columns(target: Target, store: PostgresDecisions) -> None:
    columns = ("decided", "decided_token", "decided_rows", "repeats")
    drops = ", ".join(f"DROP COLUMN {name}" for name in columns)
    target.run(f"ALTER TABLE slotkeeper_progress {drops}", "ALTER TABLE slotkeeper_chunks DROP COLUMN repeats")
    target.run("DROP TABLE slotkeeper_versions")
    target.store.create_tables()
    assert store.decide(target.lane, target.epoch, ZERO, RANGE)


def test_a_reset_gives_up_what_is_decided_and_counts_it(target: Target, store: PostgresDecisions) -> None:
    assert store.decide(target.lane, target.epoch, ZERO, RANGE)
    resets = PostgresResets(target.session, POSITIONS, target.lane, Runner("job", "run", "host", "user", 1))
    resets.make_table()
    place = (target.lane.source, target.lane.source_table, target.lane.slot, "public.t")
    resets.insert_reset(ResetEntry("r", "job", *place, "plan", "begun", "me", "why", "{}", "{}"))
    was = store.read_row(target.lane)
    assert was is not None
    swap = Swap([was], [row_from(row_values(replace(was, position=LATER)), POSITIONS)])
    assert resets.write("r", "rows written", swap, target.epoch) == []
    row = store.read_row(target.lane)
    assert row is not None
    assert (row.position, row.decided, row.repeats) == (LATER, None, RANGE.rows)


def test_a_reset_that_raised_no_epoch_is_distinguished_from_one_that_did_whatever_its_last_message(
    target: Target,
) -> None:
    """An earlier version has stored other texts."""
    resets = PostgresResets(target.session, POSITIONS, target.lane, Runner("job", "run", "host", "user", 1))
    resets.make_table()
    place = (target.lane.source, target.lane.source_table, target.lane.slot, "public.t")
    for id in ("begun", "never"):
        resets.insert_reset(ResetEntry(id, "job", *place, f"plan of {id}", "backed up", "me", "why", "{}", "{}"))
        resets.step(id, "rolled back", "it had not begun: nothing had been written")
    resets.note_epoch("begun", 7)
    assert [raised for _, raised in resets.ended()] == [7]
