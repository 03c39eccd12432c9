"""The order of calls to a sink with labels and to its store, and the effect of each answer of the sink (ADR 41)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import Decided, LaneKey, ProgressRow
from slotkeeper.core.domain.quarantine import LeftOut, Refusal
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.engine.worker.two_part import PlannedSink
from slotkeeper.core.errors import Busy, Refused, RowRefused, SlotkeeperError, Superseded, Trouble
from slotkeeper.core.ports.driver import NOTHING_OUT
from slotkeeper.core.ports.sink import Batch, Fields, Outcome
from tests.unit.engine.test_two_part import END, KEY, LINES, ROW, ZERO

PLAN = Decided(END, "", 3, "a_1")
ARMED = replace(PLAN, token="7")


@dataclass
class Both:
    """A sink and its store in one object, to record the order of the calls to both."""

    row: ProgressRow = ROW
    loads: list[str] = field(default_factory=lambda: ["8", "9", "10", "11"])
    outcomes: list[Outcome] = field(default_factory=lambda: [Outcome.COMMITTED])
    refuses: SlotkeeperError | None = None
    asked: list[str] = field(default_factory=list)
    bad: frozenset[str] = frozenset()
    """Keys whose rows are rejected in a trial."""
    any_there: bool = False
    left_out: LeftOut = NOTHING_OUT
    columns: tuple[str, ...] = ("id",)
    key: tuple[int, ...] = (0,)

    def read_row(self, key: LaneKey) -> ProgressRow:
        return self.row

    def advance_empty(self, key: LaneKey, epoch: int, after: Position, new: Position) -> bool:
        self.asked.append("advance")
        return True

    def _swap(self, name: str, epoch: int, was: Decided | None, now: Decided | None) -> bool:
        self.asked.append(name)
        ours = self.row.decided == was and self.row.epoch == epoch
        self.row = replace(self.row, decided=now) if ours else self.row
        return ours

    def decide(
        self, key: LaneKey, epoch: int, after: Position, decided: Decided, left_out: LeftOut = NOTHING_OUT
    ) -> bool:
        self.left_out = left_out
        return self._swap("plan", epoch, None, decided)

    def quarantined_any(self, key: LaneKey) -> bool:
        return self.any_there

    def arm(self, key: LaneKey, epoch: int, after: Position, was: Decided, armed: Decided) -> bool:
        return self._swap(f"arm {armed.token}", epoch, was, armed)

    def send_again(self, key: LaneKey, epoch: int, after: Position, was: Decided, planned: Decided) -> bool:
        counted = self._swap("count", epoch, was, planned)
        self.row = replace(self.row, repeats=self.row.repeats + was.rows * counted)
        return counted

    def withdraw(self, key: LaneKey, epoch: int, after: Position, planned: Decided) -> bool:
        return self._swap("withdraw", epoch, planned, None)

    def settle(self, key: LaneKey, epoch: int, after: Position, decided: Decided) -> bool:
        self.asked.append("settle")
        self.row = replace(self.row, position=decided.end, decided=None)
        return True

    def label(self, batch: Batch) -> str:
        return "a_1"

    def send(self, batch: Batch, label: str) -> str:
        self.asked.append(f"send {label}")
        assert self.row.decided is not None, "a byte is sent only under a plan"
        if self.refuses:
            raise self.refuses
        assert len(list(batch.rows())) == batch.count
        return self.loads.pop(0)

    def commit(self, label: str, load: str) -> Outcome:
        self.asked.append(f"commit {load}")
        assert self.row.decided is None or self.row.decided.token == load, "only the columns that the row names"
        return self.outcomes.pop(0)

    def abort(self, load: str) -> None:
        self.asked.append(f"abort {load}")

    def clear(self, label: str) -> None:
        self.asked.append(f"clear {label}")

    def trial(self, rows: Callable[[], Iterator[Fields]], count: int, chunk: bool) -> int:
        found = list(rows())
        assert len(found) == count
        return sum(row[3] in self.bad for row in found)

    def refusal(self, row: Fields, chunk: bool) -> Refusal | None:
        return Refusal("22000", "id", "does not fit") if row[3] in self.bad else None

    def abandon(self) -> None:
        pass

    rest = abandon


def made(both: Both) -> PlannedSink:
    return PlannedSink(both, both)  # type: ignore[arg-type]


def committed(both: Both, text: bytes = LINES) -> bool:
    sink = made(both)
    return sink.commit(KEY, 7, ZERO, END, sink.stage(io.BytesIO(text)))


def finished(both: Both, decided: Decided, text: bytes = LINES) -> None:
    both.row = replace(ROW, decided=decided)
    sink = made(both)
    sink.finish(KEY, 7, both.row, lambda: sink.stage(io.BytesIO(text)))


def test_a_range_is_written_down_before_it_is_sent_and_its_load_before_it_is_committed() -> None:
    both = Both()
    assert committed(both)
    assert both.asked == ["plan", "send a_1", "arm 8", "commit 8", "settle"]
    assert both.row == replace(ROW, position=END)


def test_a_step_without_rows_plans_nothing_and_one_that_may_not_plan_sends_nothing() -> None:
    empty, taken = Both(), Both(row=replace(ROW, decided=PLAN))
    assert committed(empty, b"")
    with pytest.raises(Busy, match="the decided range"):
        committed(taken)
    assert (empty.asked, taken.asked) == (["advance"], ["plan"])


def test_a_plan_that_was_left_is_sent_under_its_own_label() -> None:
    both = Both()
    finished(both, PLAN)
    assert both.asked == ["send a_1", "arm 8", "commit 8", "settle"]


def test_a_load_that_was_left_is_committed_without_asking_the_source() -> None:
    both = Both(row=replace(ROW, decided=ARMED))
    made(both).finish(KEY, 7, both.row, lambda: pytest.fail("the source was asked"))
    assert both.asked == ["commit 7", "settle"]


def test_a_label_that_is_finished_settles_without_a_commit() -> None:
    both = Both(loads=[""])
    finished(both, PLAN)
    assert both.asked == ["send a_1", "settle"]


def test_a_load_that_is_certain_to_be_aborted_is_replaced_and_not_counted() -> None:
    both = Both(outcomes=[Outcome.ABORTED, Outcome.COMMITTED])
    finished(both, ARMED)
    assert both.asked == ["commit 7", "send a_1", "arm 8", "commit 8", "settle"]
    assert both.row.repeats == 0


def test_a_forgotten_load_is_counted_before_it_is_sent_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    both = Both(outcomes=[Outcome.UNKNOWN, Outcome.COMMITTED])
    finished(both, ARMED)
    assert both.asked == ["commit 7", "count", "send a_1", "arm 8", "commit 8", "settle"]
    assert both.row.repeats == 3
    assert "no longer knows load 7 or its label" in caplog.text


def test_a_plan_whose_rows_are_refused_is_withdrawn_and_one_that_fails_otherwise_stays() -> None:
    for error, asked in ((RowRefused("r"), "withdraw"), (Refused("r"), "withdraw"), (Busy("b"), "send a_1")):
        both = Both(refuses=error)
        with pytest.raises(type(error)):
            committed(both)
        assert both.asked[-1] == asked


def test_a_plan_with_a_load_is_never_withdrawn() -> None:
    both = Both(refuses=RowRefused("r"), outcomes=[Outcome.ABORTED])
    with pytest.raises(RowRefused):
        finished(both, ARMED)
    assert both.row.decided == ARMED


def test_who_may_not_arm_gives_its_load_up_and_says_why() -> None:
    both = Both()
    both.row = replace(ROW, decided=PLAN)
    sink = made(both)
    was, both.row = both.row, replace(both.row, epoch=8)
    with pytest.raises(Superseded):
        sink.finish(KEY, 7, was, lambda: sink.stage(io.BytesIO(LINES)))
    assert both.asked == ["send a_1", "arm 8", "abort 8"]


def test_loads_that_are_aborted_one_after_another_are_left_to_a_later_task() -> None:
    both = Both(outcomes=[Outcome.ABORTED] * 4)
    with pytest.raises(Busy, match="aborted"):
        finished(both, ARMED)


def test_a_source_that_has_not_all_that_was_planned_has_lost_it() -> None:
    both = Both()
    with pytest.raises(Trouble, match="rows planned up to"):
        finished(both, PLAN, LINES[:9])
    assert both.asked == []


QUARANTINES = SinkOptions(on_bad_row="quarantine", quarantine_limit=2)


def isolated(both: Both, text: bytes = LINES) -> bool:
    sink = PlannedSink(both, both, QUARANTINES)  # type: ignore[arg-type]
    return sink.commit(KEY, 7, ZERO, END, sink.stage_isolating(io.BytesIO(text)))


def test_a_row_that_is_refused_is_held_with_the_plan_and_the_others_are_sent() -> None:
    both = Both(bad=frozenset({"2"}))
    assert isolated(both)
    assert both.asked == ["plan", "send a_1", "arm 8", "commit 8", "settle"]
    assert [(one.key, one.kind, one.point, one.sequence) for one in both.left_out.rows] == [(("2",), "U", 20, 1)]
    assert both.left_out.touched == (("1",), ("2",))


def test_a_step_of_refused_rows_alone_sends_nothing() -> None:
    both = Both(bad=frozenset({"1", "2"}))
    assert isolated(both)
    assert both.asked == ["plan", "settle"]
    assert len(both.left_out.rows) == 2


def test_more_refused_rows_than_the_limit_are_not_looked_for() -> None:
    both = Both(bad=frozenset({"1", "2", "3"}))
    with pytest.raises(Trouble, match="more than quarantine_limit = 2"):
        isolated(both, LINES + b"20\t2\tI\t3\n")
    assert both.asked == []


def test_a_plain_step_ends_entries_of_the_keys_that_it_touches_where_there_are_any() -> None:
    for any_there, touched in ((False, ()), (True, (("1",), ("2",)))):
        both = Both(any_there=any_there)
        sink = PlannedSink(both, both, QUARANTINES)  # type: ignore[arg-type]
        assert sink.commit(KEY, 7, ZERO, END, sink.stage(io.BytesIO(LINES)))
        assert both.left_out.touched == touched


@pytest.mark.parametrize(
    ("left", "outcome", "asked"),
    [
        (PLAN, Outcome.COMMITTED, ["clear a_1", "withdraw"]),
        (ARMED, Outcome.COMMITTED, ["commit 7", "settle"]),
        (ARMED, Outcome.ABORTED, ["commit 7", "clear a_1", "withdraw"]),
        (ARMED, Outcome.UNKNOWN, ["commit 7", "count", "clear a_1", "withdraw"]),
    ],
)
def test_a_plan_that_may_have_left_rows_out_is_committed_or_withdrawn_and_never_sent_again(
    left: Decided, outcome: Outcome, asked: list[str]
) -> None:
    both = Both(row=replace(ROW, decided=left), outcomes=[outcome])
    sink = PlannedSink(both, both, QUARANTINES)  # type: ignore[arg-type]
    sink.finish(KEY, 7, both.row, lambda: pytest.fail("the source was asked"))
    assert both.asked == asked


def test_an_unfinished_replay_is_committed_or_abandoned_whatever_the_job_says() -> None:
    assert ROW.position is not None
    left = replace(ARMED, end=ROW.position, rows=0)
    for outcome, asked in ((Outcome.COMMITTED, "settle"), (Outcome.ABORTED, "withdraw")):
        both = Both(row=replace(ROW, decided=left), outcomes=[outcome])
        made(both).finish(KEY, 7, both.row, lambda: pytest.fail("the source was asked"))
        assert both.asked[-1] == asked


OTHERS = replace(PLAN, label="other_1")


@dataclass
class Withdrawing(Both):
    """Another task plans before each named swap and withdraws before the row is read again, `times` times."""

    swaps: frozenset[str] = frozenset({"plan", "advance"})
    times: int = 1

    def _swap(self, name: str, epoch: int, was: Decided | None, now: Decided | None) -> bool:
        if name not in self.swaps or not self.times:
            return super()._swap(name, epoch, was, now)
        self.times -= 1
        self.row = replace(self.row, decided=OTHERS)
        missed = super()._swap(name, epoch, was, now)
        self.row = replace(self.row, decided=None)
        return missed

    def advance_empty(self, key: LaneKey, epoch: int, after: Position, new: Position) -> bool:
        return self._swap("advance", epoch, None, None)


@pytest.mark.parametrize(("text", "asked"), [(LINES, "plan"), (b"", "advance")])
def test_a_row_that_is_free_again_by_the_time_it_is_read_is_asked_for_once_more(text: bytes, asked: str) -> None:
    both = Withdrawing()
    assert committed(both, text)
    assert both.asked[:2] == [asked, asked]


def test_a_free_row_that_no_swap_ever_hits_is_said_to_be_that() -> None:
    both = Withdrawing(times=99)
    assert not committed(both), "the step reads the row, and ends with a defect"


def test_a_plan_that_another_task_withdrew_causes_no_error_in_the_one_that_was_sending_it() -> None:
    both = Withdrawing(swaps=frozenset({"arm 8"}))
    with pytest.raises(Busy, match="another task has withdrawn the range"):
        committed(both)
    assert both.asked == ["plan", "send a_1", "arm 8", "abort 8"]


def test_of_two_tasks_that_withdraw_one_plan_the_later_one_reads_the_range_again() -> None:
    both = Withdrawing(row=replace(ROW, decided=PLAN), swaps=frozenset({"withdraw"}))
    sink = PlannedSink(both, both, QUARANTINES)  # type: ignore[arg-type]
    with pytest.raises(Busy, match="another task has withdrawn the range"):
        sink.finish(KEY, 7, both.row, lambda: pytest.fail("the source was asked"))
