"""Each statement that moves a lane's row matches only the row that its caller has read: its epoch, its position, its
state and its decided range. If another session has changed one of them, nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.progress import Decided, LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.target_seen import TargetSeen
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.errors import SlotkeeperError, Superseded, Trouble, TroubleName
from slotkeeper.core.ports.driver import Runner
from slotkeeper.core.ports.sink import BufferedStep
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sinks.postgres.check import seen
from slotkeeper.core.sinks.postgres.progress.beside import PostgresDecisions
from slotkeeper.core.sinks.postgres.progress.store import PostgresProgress
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write import small_step
from slotkeeper.core.sources.dws.position import POSITIONS, DwsPosition, SyncPoints
from slotkeeper.demo.postgres import Server
from tests.support.standin import drop_database, new_database

KEY = LaneKey("dws1", "ods.t", "s", "dn_1")
KEPT, AFTER, END = SyncPoints(10, 10, 5), DwsPosition(10), DwsPosition(20)
EPOCH = 7
PLAN, OTHER = Decided(END, "", 3, "l1"), Decided(END, "", 3, "l2")
ARMED = replace(PLAN, token="77")
ROW = ProgressRow(KEY, 1, "db.mart.t", AFTER, EPOCH, 0, LaneState.RUNNING, None, None, "channel", "one", KEPT)
DATABASE = "fences"


@dataclass
class Fences:
    """The store's statements over one row, which is restored before each attempt."""

    session: SinkSession

    def __post_init__(self) -> None:
        self.store = PostgresProgress(self.session, POSITIONS, KEY, Runner("j", "run", "host", "user", 1))
        self.plans = PostgresDecisions(self.session, POSITIONS)

    def put(self, epoch: int, position: str, state: LaneState, decided: Decided | None) -> None:
        with self.session.transaction() as cursor:
            cursor.execute("DELETE FROM public.slotkeeper_progress")
        self.store.insert([replace(ROW, epoch=epoch, state=state)])
        values = (position, *((decided.end.text, decided.text, decided.rows) if decided else (None, None, None)))
        with self.session.transaction() as cursor:
            update = "UPDATE public.slotkeeper_progress SET position = %s, decided = %s, decided_token = %s,"
            cursor.execute(f"{update} decided_rows = %s", values)

    def stored(self) -> list[tuple[object, ...]]:
        with self.session.transaction() as cursor:
            cursor.execute("SELECT position, changes, decided, decided_token, repeats FROM public.slotkeeper_progress")
            return cursor.fetchall()

    def sweep(self) -> bool:
        step = BufferedStep(KEY, EPOCH, AFTER, END, 3, None)  # type: ignore[arg-type]
        with self.session.transaction() as cursor:
            return KEY in small_step.take_fences(self.session, cursor, [step])


@pytest.fixture
def fences(pg_server: Server) -> Iterator[Fences]:
    new_database(pg_server, DATABASE)
    endpoint = pg_server.endpoint(DATABASE)
    with closing(SinkSession(endpoint, resolve(endpoint.password), "slotkeeper/fences/1")) as session:
        made = Fences(session)
        made.store.create_tables()
        yield made
    drop_database(pg_server, DATABASE)


MOVES: dict[str, tuple[Decided | None, Callable[[Fences], bool]]] = {
    "a step": (None, lambda one: one.store.advance_empty(KEY, EPOCH, AFTER, END)),
    "a sweep": (None, Fences.sweep),
    "a plan": (None, lambda one: one.plans.decide(KEY, EPOCH, AFTER, PLAN)),
    "an armed load": (PLAN, lambda one: one.plans.arm(KEY, EPOCH, AFTER, PLAN, ARMED)),
    "repeats": (PLAN, lambda one: one.plans.repeat(KEY, EPOCH, AFTER, PLAN)),
    "a load sent again": (ARMED, lambda one: one.plans.send_again(KEY, EPOCH, AFTER, ARMED, PLAN)),
    "a withdrawn plan": (PLAN, lambda one: one.plans.withdraw(KEY, EPOCH, AFTER, PLAN)),
    "a settled range": (ARMED, lambda one: one.plans.settle(KEY, EPOCH, AFTER, ARMED)),
}


def test_a_move_matches_only_the_row_that_was_read(fences: Fences) -> None:
    for name, (decided, move) in MOVES.items():
        running = LaneState.RUNNING
        fences.put(EPOCH, AFTER.text, running, decided)
        before = fences.stored()
        assert move(fences) and fences.stored() != before, name
        others = {
            "a later start": (EPOCH + 1, AFTER.text, running, decided),
            "an earlier start": (EPOCH - 1, AFTER.text, running, decided),
            "a later position": (EPOCH, DwsPosition(15).text, running, decided),
            "an earlier position": (EPOCH, DwsPosition(9).text, running, decided),
            "a copy": (EPOCH, AFTER.text, LaneState.COPYING, decided),
            "another decided range": (EPOCH, AFTER.text, running, replace(decided or PLAN, end=DwsPosition(19))),
        }
        if decided is not None and name != "repeats":
            others["another load"] = (EPOCH, AFTER.text, running, replace(OTHER, token="78"))
        for why, row in others.items():
            fences.put(*row)
            there = fences.stored()
            assert not move(fences), (name, why)
            assert fences.stored() == there, (name, why)


def test_rows_are_counted_as_repeats_before_they_can_be_written_again(fences: Fences) -> None:
    for move in ("repeats", "a load sent again"):
        decided, act = MOVES[move]
        fences.put(EPOCH, AFTER.text, LaneState.RUNNING, decided)
        assert act(fences)
        assert fences.stored()[0][-1] == PLAN.rows


def test_each_epoch_is_a_number_that_was_never_used_before(fences: Fences) -> None:
    fences.put(EPOCH, AFTER.text, LaneState.RUNNING, None)
    first = fences.store.raise_epoch()
    assert first > 1_000_000_000_000, "a restored sink must not assign the epoch of a running driver"
    assert fences.store.raise_epoch() > first
    with fences.session.transaction() as cursor:
        cursor.execute("UPDATE public.slotkeeper_progress SET epoch = 9000000000000000")  # the clock was set back
    assert fences.store.raise_epoch() == 9_000_000_000_000_001


def raised(call: Callable[[], object]) -> object:
    with pytest.raises(SlotkeeperError) as caught:
        call()
    return caught.value.name if isinstance(caught.value, Trouble) else type(caught.value)


def test_a_copy_ends_once_and_each_of_its_chunks_is_taken_once_by_its_own_start(fences: Fences) -> None:
    fences.put(EPOCH, AFTER.text, LaneState.CREATING, None)
    copies = Turn(EPOCH, 1, (LaneState.CREATING,), LaneState.COPYING)
    fences.store.begin_copy(copies, [Chunk(1, (), ()), Chunk(2, (), ())], "direct")
    assert raised(lambda: fences.store.set_state(copies)) is TroubleName.SINK_OLDER, "it is copying already"

    def taken(number: int, epoch: int = EPOCH) -> bool:
        place = {"source": KEY.source, "source_table": KEY.source_table, "slot": KEY.slot}
        return fences.session.changed("take_chunk", {**place, "number": number, "epoch": epoch}) == 1

    assert not taken(1, EPOCH - 1)
    assert taken(1) and not taken(1)
    ends = Turn(EPOCH, 1, (LaneState.COPYING,), LaneState.CATCHING_UP)
    assert raised(lambda: fences.store.end_copy(ends, {})) is TroubleName.SINK_OLDER, "a chunk is missing"
    assert taken(2)
    fences.store.end_copy(ends, {KEY.shard: END})
    runs = Turn(EPOCH, 1, (LaneState.CATCHING_UP,), LaneState.RUNNING)
    assert raised(lambda: fences.store.set_state(runs)) is TroubleName.SINK_OLDER, (
        "its row is before the recorded point"
    )
    later = Turn(EPOCH - 1, 1, (LaneState.CATCHING_UP,), LaneState.RUNNING)
    assert raised(lambda: fences.store.set_state(later)) is Superseded


def test_a_target_has_one_writer_whether_as_a_whole_or_in_parts(fences: Fences) -> None:
    for there, new in (("mart.t", "mart.t"), ("mart.t", "mart.t [c=1]"), ("mart.t [c=1]", "mart.t")):
        fences.put(EPOCH, AFTER.text, LaneState.RUNNING, None)
        with fences.session.transaction() as cursor:
            cursor.execute("UPDATE public.slotkeeper_progress SET target = %s", (there,))
        other = replace(ROW, key=replace(KEY, source_table="ods.other"), target=new)
        assert raised(lambda row=other: fences.store.insert([row])) is not None  # type: ignore[misc]


def test_a_recorded_target_change_outlives_a_registration_that_began_before_it(fences: Fences) -> None:
    fences.put(EPOCH, AFTER.text, LaneState.RUNNING, None)
    with fences.session.transaction() as cursor:
        fine = TargetSeen(1, 1, "f", {}, "p", 0, 0, "1:1:")
        seen.write(fences.session, cursor, KEY, replace(fine, why="was emptied"))
    with fences.store.registration(KEY, EPOCH) as lock:
        lock.record(KEPT, fine.text)
    record = fences.store.target_record()
    assert record is not None and record.why == "was emptied"
