"""A step applies and confirms nothing unless the source's status and the lane's row are those that it expects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, cast

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import Decided, LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.spec import ChannelSpec, Constant, JobSpec, SinkOptions
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.engine.tasks import LaneTask, StreamTask
from slotkeeper.core.engine.worker.columns import plan_of
from slotkeeper.core.engine.worker.step import Stepper, StepPlan, Turn, nothing
from slotkeeper.core.errors import SlotkeeperError, Superseded, Trouble, TroubleName
from slotkeeper.core.ports.sink import Top
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints, ours
from slotkeeper.core.sources.dws.source import DwsSource

DN = Shard("dn_1", 1)
KEY = LaneKey("dws1", "ods.t", "s", DN.name)
KEPT, AT = SyncPoints(10, 10, 5), DwsPosition(10)
GOOD = SlotStatus(DN, KEPT, DwsPosition(20, None, 5), "one")
ROW = ProgressRow(KEY, 1, "mart.t", AT, 7, 0, LaneState.RUNNING, None, None, "channel", "one", None)
NAMED = {
    TroubleName.SLOT_MOVED: replace(GOOD, kept=SyncPoints(11, 10, 5)),
    TroubleName.SLOT_LOST: replace(GOOD, kept=SyncPoints(0, 10, 5)),
    TroubleName.SCHEMA_CHANGED: replace(GOOD, fingerprint="two"),
    "purged": replace(GOOD, oldest=DwsPosition(15)),
}


@dataclass
class Pair:
    """A source with one row to read, and a sink; `statuses` are the answers of the source; the last one is repeated."""

    statuses: list[SlotStatus]
    row: ProgressRow = ROW
    log: list[str] = field(default_factory=list)
    encoding = Encoding.COPY_TEXT
    sweeps = None
    names_rows = False
    next_range, reached = DwsSource.next_range, DwsSource.reached

    def status(self) -> SlotStatus:
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]

    def read_status(self, shard: Shard) -> list[SlotStatus]:
        return [self.status()]

    def copy_changes(self, shard: Shard, after: Position, up_to: Position, out: BinaryIO) -> int:
        out.write(b"1\n")
        return 1

    def stage(self, reader: BinaryIO) -> int:
        self.log.append(f"staged {reader.read().decode().strip()}")
        return 1

    def top(self, up_to: Position) -> Top:
        return Top(ours(up_to).point, 1)

    def read_row(self, key: LaneKey) -> ProgressRow:
        return self.row

    def commit(self, key: LaneKey, epoch: int, after: Position, new: Position, rows: int) -> bool:
        self.log.append("committed")
        return True

    def finish(self, key: LaneKey, epoch: int, row: ProgressRow, read_again: Any) -> None:
        read_again()
        self.log.append("finished")

    def abandon(self) -> None:
        pass


def stepper(pair: Pair, constant: Constant | None = None, kept: SyncPoints = KEPT) -> Stepper:
    rows = plan_of(ChannelSpec("s.t", "t.t", constant=constant))
    plan = StepPlan(KEY, 7, exactly(kept, "one"), 1_000, SinkOptions(), rows)
    return Stepper(cast("Any", pair), cast("Any", pair), plan, SystemClock(), nothing)


def name_of(error: SlotkeeperError) -> object:
    return error.name if isinstance(error, Trouble) else type(error)


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("good", [0, 1], ids=["before the read", "after the read"])
def test_a_status_that_is_not_the_expected_one_ends_the_step_without_a_commit(name: Any, good: int) -> None:
    pair = Pair([*[GOOD] * good, NAMED[name]])
    with pytest.raises(Trouble) as caught:
        stepper(pair).read(pair.status, AT)
    assert caught.value.name is (TroubleName.SLOT_LOST if name == "purged" else name)
    assert "committed" not in pair.log


def test_a_slot_ahead_of_the_row_ends_the_step_although_the_job_registered_it() -> None:
    ahead = SyncPoints(15, 15, 5)
    pair = Pair([replace(GOOD, kept=ahead)])
    with pytest.raises(Trouble) as caught:
        stepper(pair, kept=ahead).read(pair.status, AT)
    assert (caught.value.name, pair.log) == (TroubleName.SINK_OLDER, [])


def test_a_decided_range_is_read_again_with_its_constant_and_between_two_statuses() -> None:
    decided = replace(ROW, decided=Decided(DwsPosition(15), "", 1))
    pair = Pair([GOOD], decided)
    stepper(pair, Constant("shard", "part")).finish(pair.status, decided)
    assert pair.log == ["staged 1\tpart", "finished"]
    pair = Pair([GOOD, NAMED[TroubleName.SLOT_LOST]], decided)
    with pytest.raises(Trouble):
        stepper(pair).finish(pair.status, decided)
    assert "finished" not in pair.log


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (replace(ROW, epoch=8), Superseded),
        (replace(ROW, epoch=6), TroubleName.SINK_OLDER),
        (replace(ROW, state=LaneState.COPYING), TroubleName.SINK_OLDER),
        (replace(ROW, position=None), TroubleName.SINK_OLDER),
    ],
    ids=["a later start", "an earlier start", "a copy", "no position"],
)
def test_a_worker_begins_only_at_a_row_of_its_own_start_and_of_a_stream(row: ProgressRow, found: object) -> None:
    pair = Pair([GOOD])
    nowhere = Endpoint("none", "localhost", 1, "none", "none")
    job = JobSpec("j", nowhere, nowhere, "s", (ChannelSpec("ods.t", "mart.t"),))
    task = LaneTask("ods.t", DN, exactly(KEPT, "one"), 1_000)
    turn = Turn(StreamTask(job, 7, (task,), 1.0), task, lambda _: cast("Any", (pair, pair)), SystemClock(), nothing)
    turn.open()
    with pytest.raises(SlotkeeperError) as caught:
        turn.begin(row)
    assert name_of(caught.value) is found
    turn.begin(ROW)
    assert turn.after == AT
