"""The order of calls to a sink and its separate store, and the parts of a decided range that are written again."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace

import pytest

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import Decided, LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.quarantine import LeftOut
from slotkeeper.core.engine.worker.two_part import IN_MEMORY, StagedRows, TwoPartSink
from slotkeeper.core.errors import Busy, Defect, Refused, Superseded, Trouble, TroubleName
from slotkeeper.core.ports.driver import NOTHING_OUT
from slotkeeper.core.ports.sink import Batch, Top
from slotkeeper.core.sources.dws.position import DwsPosition

KEY = LaneKey("dws1", "ods.t", "slot", "dn_1")
ZERO, END = DwsPosition(10, 2), DwsPosition(20, 1)
ROW = ProgressRow(KEY, 1, "db.t", ZERO, 7, 0, LaneState.RUNNING, None, None, "c", "i", None)
LINES = b"12\t0\tI\t1\n20\t0\tB\t2\n20\t1\tU\t2\n"
LATE = b"20\t2\tI\t3\n"
"""An event at the range's last point that was not yet visible when the range was decided."""


@dataclass
class Both:
    """A sink and its store in one object, to record the order of the calls to both."""

    row: ProgressRow = ROW
    token: str = ""
    known: bool = True
    asked: list[str] = field(default_factory=list)
    written: list[list[str | None]] = field(default_factory=list)

    def read_row(self, key: LaneKey) -> ProgressRow:
        return self.row

    def advance_empty(self, key: LaneKey, epoch: int, after: Position, new: Position) -> bool:
        self.asked.append("advance")
        return True

    def decide(self, key: LaneKey, epoch: int, after: Position, decided: Decided, held: LeftOut = NOTHING_OUT) -> bool:
        self.asked.append("decide")
        free = self.row.decided is None and self.row.position == after and self.row.epoch == epoch
        self.row = replace(self.row, decided=decided) if free else self.row
        return free

    def repeat(self, key: LaneKey, epoch: int, after: Position, decided: Decided) -> bool:
        self.asked.append("repeat")
        ours = self.row.decided == decided and self.row.epoch == epoch
        self.row = replace(self.row, repeats=self.row.repeats + decided.rows) if ours else self.row
        return ours

    def settle(self, key: LaneKey, epoch: int, after: Position, decided: Decided) -> bool:
        self.asked.append("settle")
        ours = self.row.decided == decided and self.row.epoch == epoch
        self.row = replace(self.row, position=decided.end, decided=None) if ours else self.row
        return ours

    def prepare(self, batch: Batch) -> str:
        self.asked.append("prepare")
        return self.token

    def commit(self, token: str) -> bool:
        self.asked.append(f"commit {token}")
        return self.known

    def discard(self, token: str) -> None:
        self.asked.append(f"discard {token}")

    def write(self, batch: Batch) -> None:
        self.asked.append("write")
        self.written += [list(row) for row in batch.rows()]
        assert len(self.written) == batch.count

    def abandon(self) -> None:
        self.asked.append("abandon")

    rest = abandon


def made(both: Both) -> TwoPartSink:
    return TwoPartSink(both, both)  # type: ignore[arg-type]


def committed(both: Both, text: bytes = LINES) -> bool:
    sink = made(both)
    rows = sink.stage(io.BytesIO(text))
    return sink.commit(KEY, 7, ZERO, END, rows)


def finished(both: Both, text: bytes = LINES, rows: int = 3) -> None:
    both.row = replace(ROW, decided=Decided(END, both.token, rows)) if both.row is ROW else both.row
    sink = made(both)
    try:
        sink.finish(KEY, 7, both.row, lambda: sink.stage(io.BytesIO(text)))
    finally:
        sink.abandon()
        both.asked.pop()
        both.asked.pop()


def test_rows_are_seen_only_once_their_range_is_decided_and_settled_only_then() -> None:
    plain, kept = Both(), Both(token="one")
    assert committed(plain) and committed(kept)
    assert plain.asked == ["prepare", "decide", "write", "settle"]
    assert kept.asked == ["prepare", "decide", "commit one", "settle"]
    assert plain.row == kept.row == replace(ROW, position=END)
    assert plain.written[0] == ["12", "0", "I", "1"]


def test_a_step_without_rows_decides_nothing() -> None:
    both = Both()
    assert committed(both, b"")
    assert both.asked == ["advance"]


def test_what_may_not_be_decided_is_discarded_and_not_written() -> None:
    both = Both(token="one", row=replace(ROW, position=END))
    assert not committed(both)
    assert both.asked == ["prepare", "decide", "discard one"]


def test_a_token_that_is_known_finishes_a_range_without_asking_the_source() -> None:
    both = Both(token="one")
    both.row = replace(ROW, decided=Decided(END, "one", 3))
    made(both).finish(KEY, 7, both.row, lambda: pytest.fail("the source was asked"))
    assert both.asked == ["commit one", "settle"]


@pytest.mark.parametrize("token", ["", "one"])
def test_what_the_sink_does_not_know_is_counted_and_then_written_again(token: str) -> None:
    both = Both(token=token, known=False)
    finished(both)
    assert [one for one in both.asked if not one.startswith("commit")] == ["repeat", "write", "settle"]
    assert (both.row.repeats, both.row.position) == (3, END)


def test_a_token_that_is_forgotten_at_once_is_counted_too() -> None:
    both = Both(token="one", known=False)
    assert committed(both)
    assert both.asked == ["prepare", "decide", "commit one", "repeat", "write", "settle"]


def test_the_decided_range_is_written_again_and_nothing_that_shows_late_at_its_end() -> None:
    both = Both()
    finished(both, LINES + LATE)
    assert [row[:2] for row in both.written] == [["12", "0"], ["20", "0"], ["20", "1"]]


@pytest.mark.parametrize("text", [b"", LINES[:9], LATE])
def test_a_source_that_has_not_all_that_was_decided_has_lost_it(text: bytes) -> None:
    both = Both()
    with pytest.raises(Trouble, match="rows planned up to") as lost:
        finished(both, text)
    assert lost.value.name is TroubleName.SLOT_LOST
    assert (both.asked, both.written) == ([], [])


def test_who_finds_it_settled_by_another_worker_comes_again_and_who_is_superseded_ends() -> None:
    settled, superseded = Both(), Both()
    for both, row in ((settled, replace(ROW, position=END)), (superseded, replace(ROW, epoch=8))):
        sink, was = made(both), replace(ROW, decided=Decided(END, "", 3))
        both.row = row
        with pytest.raises(Busy if both is settled else Superseded):
            sink.finish(KEY, 7, was, lambda: sink.stage(io.BytesIO(LINES)))  # noqa: B023 - called at once
        sink.abandon()
        assert both.written == []


def test_an_event_of_no_known_type_is_a_defect_and_the_end_of_the_range_is_reported() -> None:
    sink = made(Both())
    sink.stage(io.BytesIO(LINES))
    assert tuple(sink.top(DwsPosition(point, None)) for point in (20, 12, 30)) == (
        Top(20, 1),
        Top(20, 0),
        Top(20, None),
    )
    sink.stage(io.BytesIO(b"1\t0\t?\t1\n"))
    with pytest.raises(Defect, match="unknown type"):
        sink.top(DwsPosition(1, None))
    with pytest.raises(Refused, match="cannot quarantine"):
        sink.stage_isolating(io.BytesIO(b""))
    sink.abandon()


def test_rows_that_do_not_fit_into_memory_wait_in_a_file() -> None:
    line = b"1\t0\tI\t" + b"x" * 1_000_000 + b"\n"
    count = IN_MEMORY // len(line) + 2
    staged = StagedRows(io.BytesIO(line * count))
    assert staged.count == count == sum(1 for _ in staged.rows()) == sum(1 for _ in staged.rows())
    staged.close()
