"""A round of many lanes over one pair of sessions: which work they share, and which work each lane does separately."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, cast

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.engine.tasks import LaneTask, StreamOutcome, StreamTask
from slotkeeper.core.engine.worker import entries, step
from slotkeeper.core.engine.worker.step import Silence, Sweep, Turn
from slotkeeper.core.errors import RowRefused, SlotkeeperError, TroubleName, Unreachable
from slotkeeper.core.ports.sink import Buffered, BufferedStep, StepSink, Top
from slotkeeper.core.ports.source import Source
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints, ours
from slotkeeper.core.sources.dws.source import DwsSource

NOWHERE = Endpoint("none", "localhost", 1, "none", "none")
JOB = JobSpec("j", NOWHERE, NOWHERE, "s", (ChannelSpec("ods.t", "mart.t"),))
KEPT, BEGIN, END = SyncPoints(1, 1, 5), DwsPosition(1), DwsPosition(9, None, 5)
SHARDS = tuple(Shard(f"dn_{n}", n) for n in range(4))
Place = tuple[str, str]


class Clock(SystemClock):
    """A clock that advances only while a slow server is read."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class Server:
    """Both servers of all lanes; `log` lists the requests."""

    clock: Clock = field(default_factory=Clock)
    log: list[str] = field(default_factory=list)
    hangs: Exception | None = None
    """How a query of all DNs fails."""
    joint: bool = True
    moved: Place = ("", "")
    """A lane whose slot another program has moved."""
    slow: float = 0.0
    missed: Collection[Place] = ()
    bad: Place = ("", "")
    lost: bool = False
    refused: bool = False
    """Whether the sink finds at its first sweep that it does not support sweeps; `refuses` is then set."""
    refuses: bool = False
    committed: list[list[Place]] = field(default_factory=list)
    positions: dict[Place, DwsPosition] = field(default_factory=dict)

    def opened(self, table: str) -> tuple[Source, StepSink]:
        return cast(Source, Table(self, table)), cast(StepSink, Table(self, table))


@dataclass
class Line:
    owner: Table

    def top(self, up_to: Position) -> Top:
        return Top(ours(up_to).point, 1)


@dataclass
class Table:
    """One table's source and sink."""

    server: Server
    name: str
    encoding = Encoding.COPY_TEXT
    names_rows = False

    @property
    def joint_status(self) -> bool:
        return self.server.joint

    next_range, reached = DwsSource.next_range, DwsSource.reached

    @property
    def sweeps(self) -> Table | None:
        return None if self.server.refuses else self

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        self.server.log.append(f"status {self.name} {shard.name if shard else 'all'}")
        if shard is None and self.server.hangs:
            raise self.server.hangs
        kept = {one.name: KEPT for one in SHARDS}
        if self.server.moved[0] == self.name:
            kept[self.server.moved[1]] = SyncPoints(3, 3, 5)
        return [SlotStatus(one, kept[one.name], END, "one") for one in ([shard] if shard else SHARDS)]

    def copy_changes(self, shard: Shard, after: Position, up_to: Position, out: BinaryIO) -> int:
        self.server.log.append(f"read {self.name} {shard.name}")
        self.server.clock.now += self.server.slow
        if ours(after) != BEGIN:
            return 0
        out.write(b"x\n")
        return 1

    def stage(self, reader: BinaryIO) -> int:
        return reader.read().count(b"\n")

    def read_rows(self, keys: Sequence[LaneKey]) -> Mapping[LaneKey, ProgressRow]:
        self.server.log.append(f"rows {len(keys)}")
        return {key: self.row(key) for key in keys}

    def read_row(self, key: LaneKey) -> ProgressRow:
        return self.row(key)

    def row(self, key: LaneKey) -> ProgressRow:
        at = self.server.positions.get((key.source_table, key.shard), BEGIN)
        return ProgressRow(key, 1, "mart.t", at, 1, 0, LaneState.RUNNING, None, None, "channel", "one", None)

    def detach(self) -> Buffered:
        return Line(self)

    def put_back(self, buffered: Buffered) -> None:
        self.server.log.append(f"alone {self.name}")

    def commit(self, key: LaneKey, epoch: int, after: Position, new: Position, rows: int) -> bool:
        if (key.source_table, key.shard) == self.server.bad:
            raise RowRefused("a value is too long", where="sink")
        self.server.committed.append([(key.source_table, key.shard)])
        self.server.positions[key.source_table, key.shard] = ours(new)
        return True

    def sweep(self, steps: Sequence[BufferedStep]) -> set[LaneKey] | None:
        places = [(one.key.source_table, one.key.shard) for one in steps]
        if self.server.lost:
            raise Unreachable("the answer was lost", where="sink")
        self.server.refuses = self.server.refused
        if self.server.bad in places or self.server.refused:
            return None
        passed = [one for one in steps if (one.key.source_table, one.key.shard) not in self.server.missed]
        self.server.committed.append([(one.key.source_table, one.key.shard) for one in passed])
        for one in passed:
            self.server.positions[one.key.source_table, one.key.shard] = ours(one.new)
        return {one.key for one in passed}

    def abandon(self) -> None: ...


def rounds(
    server: Server, tables: int, count: int = 1, deadline: float = 60.0, silence: Silence | None = None
) -> list[Turn]:
    """Some rounds of the lanes of `tables` tables on four DNs each."""
    tasks = [LaneTask(f"ods.t{n}", shard, exactly(KEPT, "one"), 1_000) for n in range(tables) for shard in SHARDS]
    spec = StreamTask(JOB, 1, tuple(tasks), 60.0)
    turns = [Turn(spec, task, server.opened, server.clock, lambda point: None) for task in tasks]
    swept = Sweep(server.clock, 0.0, deadline, silence or Silence())
    for _ in range(count):
        swept.round([turn for turn in turns if not turn.failed])
    return turns


def all_places(tables: int) -> list[Place]:
    return [(f"ods.t{n}", shard.name) for n in range(tables) for shard in SHARDS]


def test_the_lanes_of_a_table_share_their_statuses_and_all_lanes_a_commit() -> None:
    server = Server()
    turns = rounds(server, 2)
    statuses = [one for one in server.log if one.startswith("status")]
    assert statuses == ["status ods.t0 all"] * 2 + ["status ods.t1 all"] * 2
    assert server.committed == [all_places(2)]
    assert [turn.outcome.rows for turn in turns] == [1] * 8
    assert server.log.count("rows 4") == 2
    reads = [n for n, one in enumerate(server.log) if one == "read ods.t0 dn_3"]
    assert server.log[reads[0] + 1] == "status ods.t0 all", "a status is read after all of a table's lanes have read"


def test_the_status_after_a_round_serves_the_next_round() -> None:
    server = Server()
    turns = rounds(server, 1, count=2)
    assert server.log.count("status ods.t0 all") == 3
    assert all(turn.quiet for turn in turns)


def test_a_status_is_judged_for_each_lane() -> None:
    server = Server(moved=("ods.t0", "dn_2"))
    turns = rounds(server, 2)
    errors = {turn.key.shard: turn.outcome.error for turn in turns if turn.failed}
    assert list(errors) == ["dn_2"] and errors["dn_2"] is not None
    assert errors["dn_2"].trouble == TroubleName.SLOT_MOVED.value
    assert server.committed == [[place for place in all_places(2) if place != ("ods.t0", "dn_2")]]


@pytest.mark.parametrize("error", [Unreachable("no answer", where="source"), ValueError("no number")], ids=str)
def test_where_a_query_of_all_dns_fails_each_lane_asks_its_own_dn_for_a_while(error: Exception) -> None:
    server, silence = Server(hangs=error), Silence()
    turns = rounds(server, 3, silence=silence)
    assert [one for one in server.log if one.endswith("all")] == ["status ods.t0 all"]
    assert len([one for one in server.log if one.startswith("status")]) == 1 + 2 * 12
    assert not any(turn.failed for turn in turns)
    assert sum(len(one) for one in server.committed) == 12

    rounds(server, 1, silence=silence)
    assert server.log.count("status ods.t0 all") == 1, "the next task has not forgotten it"
    server.clock.now += step.ALONE_SECONDS
    rounds(server, 1, silence=silence)
    assert server.log.count("status ods.t0 all") == 2


def test_where_a_status_of_all_shards_costs_more_than_one_each_lane_asks_for_its_own() -> None:
    server = Server(joint=False)
    rounds(server, 2)
    assert not [one for one in server.log if one.endswith("all")]
    assert server.committed == [all_places(2)]


def test_a_lane_that_the_sweep_left_out_commits_alone() -> None:
    server = Server(missed=[("ods.t0", "dn_1")])
    rounds(server, 2)
    assert server.committed[-1] == [("ods.t0", "dn_1")]
    assert len(server.committed) == 2 and server.log.count("alone ods.t0") == 1


def test_after_a_rejected_sweep_only_the_lane_of_the_rejected_row_fails() -> None:
    server = Server(bad=("ods.t1", "dn_0"))
    turns = rounds(server, 2)
    assert [turn.key.shard for turn in turns if turn.failed] == ["dn_0"]
    assert server.committed == [[place] for place in all_places(2) if place != ("ods.t1", "dn_0")]


def test_where_the_sink_finds_that_it_can_have_no_sweeps_the_buffered_steps_commit_alone() -> None:
    server = Server(refused=True)
    turns = rounds(server, 2)
    assert server.committed == [[place] for place in all_places(2)]
    assert not any(turn.failed for turn in turns)


def test_a_lost_answer_ends_all_lanes_of_the_sweep_and_nothing_is_committed_from_memory() -> None:
    server = Server(lost=True)
    turns = rounds(server, 2)
    assert all(turn.failed and turn.outcome.rows == 0 for turn in turns)
    assert server.committed == [] and not [one for one in server.log if one.startswith("alone")]


@pytest.mark.parametrize(("slow", "together"), [(0.0, [12]), (step.BUFFERED_SECONDS / 3, [4, 4, 4])])
def test_steps_do_not_wait_long_for_the_reads_of_others(slow: float, together: list[int]) -> None:
    server = Server(slow=slow)
    rounds(server, 3)
    assert [len(one) for one in server.committed] == together


def test_no_transaction_has_many_more_steps_than_the_limit() -> None:
    server = Server()
    rounds(server, 20)
    assert [len(one) for one in server.committed] == [step.MOST_LANES, step.MOST_LANES, 80 - 2 * step.MOST_LANES]


def test_after_the_deadline_only_the_first_lane_has_a_turn() -> None:
    server = Server()
    turns = rounds(server, 3, deadline=0.0)
    assert [turn.outcome.waited is not None for turn in turns] == [True] + [False] * 11
    assert server.committed == [[("ods.t0", "dn_0")]]


def test_a_lane_that_cannot_be_opened_ends_alone() -> None:
    server = Server()
    opened = server.opened

    def refused(table: str) -> tuple[Source, StepSink]:
        if table == "ods.t1":
            raise SlotkeeperError("the target is gone", where="sink")
        return opened(table)

    server.opened = refused  # type: ignore[method-assign]
    turns = rounds(server, 3)
    assert {turn.task.table for turn in turns if turn.failed} == {"ods.t1"}
    assert server.committed == [[place for place in all_places(3) if place[0] != "ods.t1"]]


def test_the_outcome_of_a_task_has_every_lane() -> None:
    server = Server()
    tasks = [LaneTask(f"ods.t{n}", shard, exactly(KEPT, "one"), 1_000) for n in range(3) for shard in SHARDS]
    spec = StreamTask(JOB, 1, tuple(tasks), 0.0)
    outcome: StreamOutcome = entries.stream_lanes(spec, [server.opened], server.clock)
    assert {(one.table, one.shard) for one in outcome.lanes} == {(task.table, task.shard) for task in tasks}


def test_what_ends_a_share_unexpectedly_is_an_error_of_each_of_its_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(swept: Sweep, turns: Sequence[Turn]) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(Sweep, "round", broken)
    server = Server()
    tasks = [LaneTask(f"ods.t{n}", shard, exactly(KEPT, "one"), 1_000) for n in range(4) for shard in SHARDS]
    outcome = entries.stream_lanes(StreamTask(JOB, 1, tuple(tasks), 9.0), [server.opened] * 2, server.clock)
    assert len(outcome.lanes) == 16
    assert all(one.error is not None and one.waited is not None for one in outcome.lanes)
