"""The search for a row that the sink rejects: a job that stops there reports the row's key, or else the first error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, cast

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.engine.worker.step import Stepper, StepPlan, nothing
from slotkeeper.core.errors import RowRefused, SlotkeeperError, Unreachable
from slotkeeper.core.ports.sink import StepSink
from slotkeeper.core.ports.source import Source
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints

STATUS = SlotStatus(Shard("dn_1", 1), SyncPoints(1, 1, 5), DwsPosition(9, None, 5), "one")
REFUSED = RowRefused("sink mart: a row does not fit", code="23514", where="sink")
NAMED = RowRefused("sink mart: row id = 7: a row does not fit", code="23514", where="sink")
LOST = Unreachable("sink mart: connection lost", code="08006", where="sink")


@dataclass
class Refusing:
    """A sink that rejects a step; the results of the search for the row are set by the test."""

    pieces: SlotkeeperError
    names_rows: bool = True
    encoding = Encoding.COPY_TEXT
    isolated: int = 0

    def stage(self, reader: BinaryIO) -> int:
        raise REFUSED

    def stage_isolating(self, reader: BinaryIO) -> int:
        self.isolated += 1
        raise self.pieces

    def abandon(self) -> None:
        """Do nothing: nothing is open."""


class Rows:
    """A source with one range."""

    def next_range(self, after: DwsPosition, status: SlotStatus, width: int, begins: bool = False) -> DwsPosition:
        return DwsPosition(9)

    def copy_changes(self, shard: Shard, after: DwsPosition, up_to: DwsPosition, out: BinaryIO) -> int:
        out.write(b"x\n")
        return 1


def ended_by(sink: Refusing, on_bad_row: str) -> SlotkeeperError:
    lane = LaneKey("dws1", "ods.t", "slot", "dn_1")
    plan = StepPlan(lane, 7, exactly(SyncPoints(1, 1), "one"), 10, SinkOptions(on_bad_row=on_bad_row))
    stepper = Stepper(cast(Source, Rows()), cast(StepSink, sink), plan, SystemClock(), nothing)
    with pytest.raises(SlotkeeperError) as ended:
        stepper.read(lambda: STATUS, DwsPosition(1))
    return ended.value


def test_a_job_that_stops_at_a_bad_row_ends_with_its_key() -> None:
    assert ended_by(Refusing(NAMED), "stop") is NAMED


def test_what_comes_up_while_the_row_is_looked_for_is_not_why_the_job_ends() -> None:
    assert ended_by(Refusing(LOST), "stop") is REFUSED


def test_a_sink_that_names_no_row_is_not_asked_again() -> None:
    sink = Refusing(NAMED, names_rows=False)
    assert (ended_by(sink, "stop"), sink.isolated) == (REFUSED, 0)


def test_a_job_that_quarantines_hears_of_whatever_came_up() -> None:
    assert ended_by(Refusing(LOST, names_rows=False), "quarantine") is LOST
