"""A report that is repeated while the driver's loop waits: the age of the source's answer grows with the clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from slotkeeper.console.views.rows import STALE_SECONDS
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.elapsed import FRESH_SECONDS
from slotkeeper.core.domain.job import JobEvent, TableReport
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.locks import Blocker, LockWait
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.report import JobReport
from slotkeeper.core.domain.row_counts import Verified, in_a_phrase
from slotkeeper.core.engine.tasks import LocalRunner
from slotkeeper.core.errors import Busy
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.core.sources.mysql.position import MysqlPosition
from slotkeeper.core.spark.narrator import LONGEST, StoreNarrator
from slotkeeper.core.state.observed import last, record
from slotkeeper.core.state.sqlite import Store
from tests.tui.filled import StillClock
from tests.unit.config.samples import VALID
from tests.unit.engine.test_lane_io import LANE


class Told:
    """A narrator over a store, and a clock that the test sets."""

    def __init__(self, folder: Path, lane: Lane) -> None:
        folder.joinpath("c.toml").write_text(VALID, encoding="utf-8")
        self.job = next(iter(load(folder / "c.toml", {}).jobs.values()))
        self.clock = StillClock()
        self.store = Store.open(folder / "state", clock=self.clock)
        self.store.register_job(self.job.name, "c.toml")
        self.store.begin_run(self.job.name, "run-1")
        self.narrator = StoreNarrator(self.store, self.job, "run-1", self.clock, LocalRunner(1))
        self.narrator.lanes({"dn_1": lane}, LaneState.RUNNING, 1, 0)

    def after(self, seconds: float) -> JobReport:
        """The report when a server has not answered for this long and the loop waits for it."""
        self.clock.at += timedelta(seconds=seconds)
        self.narrator.unanswered(f"source dws1 does not answer (for {seconds:.0f} s)", ())
        row = self.store.job(self.job.name)
        assert row is not None and row.report is not None
        return row.report


@pytest.fixture
def told(tmp_path: Path) -> Told:
    now = StillClock().monotonic()
    return Told(tmp_path, replace(LANE, latest=LANE.position, polled_at=now, committed_at=now - 2))


def test_the_age_of_the_sources_answer_grows_while_it_is_not_queried(told: Told) -> None:
    (lane,) = told.after(40.0).lanes
    assert (lane.polled_age, lane.last_commit_age) == (40.0, 42.0)
    (lane,) = told.after(5.0).lanes
    assert (lane.polled_age, lane.last_commit_age) == (45.0, 47.0)


def test_a_delay_grows_while_the_loop_waits_if_a_change_is_pending_and_only_then(told: Told) -> None:
    for pending, delay in ((True, 47.0), (False, 0.0)):
        told.clock.at += timedelta(seconds=60)
        place = MysqlPosition("b.000001", 100, time=int(told.clock.utc().timestamp()) - 7)
        latest = replace(place, offset=900) if pending else place
        lane = replace(LANE, position=place, latest=latest, polled_at=told.clock.monotonic())
        told.narrator.lanes({"dn_1": lane}, LaneState.RUNNING, 1, 0)
        (found,) = told.after(40.0).lanes
        assert (found.delay, found.applied_at) == (delay, place.time)


@pytest.mark.parametrize(("seconds", "behind"), [(FRESH_SECONDS, 0), (FRESH_SECONDS + 1, None)])
def test_a_lane_at_an_old_latest_is_not_called_up_to_date(told: Told, seconds: float, behind: int | None) -> None:
    (lane,) = told.after(seconds).lanes
    assert lane.known_behind == behind


def test_the_end_up_to_which_a_lane_was_empty_is_reported_unless_it_was_of_another_binlog(told: Told) -> None:
    lane, here = replace(LANE, latest=LANE.position), LANE.position.pair[0]
    for found, expected in ((None, None), (here - 1, here - 1), (here, here), (here + 1, None)):
        checked = None if found is None else DwsPosition(found)
        told.clock.at += timedelta(seconds=5)
        told.narrator.lanes({"dn_1": replace(lane, checked=checked)}, LaneState.RUNNING, 1, 0)
        assert told.after(1.0).lanes[0].empty_to == expected, found


def test_a_table_says_since_when_it_is_in_its_state_and_one_that_fails_again_is_later(told: Told) -> None:
    first = told.job.channels[0]
    job = replace(told.job, channels=(first, replace(first, source_table="ods.b", target="m.b")))
    narrator = StoreNarrator(told.store, job, "run-1", told.clock, LocalRunner(1))

    def seen(state: str, reason: str = "") -> tuple[float | None, str]:
        told.clock.at += timedelta(seconds=10)
        narrator.table(TableReport("ods.b", "m.b", state, reason))
        row = told.store.job(job.name)
        assert row is not None and row.report is not None
        return row.report.tables[1].since, row.report.reason

    begun = told.clock.at.timestamp()
    assert seen("RUNNING") == (begun + 10, "")
    assert seen("RUNNING") == (begun + 10, "")
    assert seen("FAILED", "ods.b: gone") == (begun + 30, "1 of 2 tables FAILED: ods.b: gone")
    assert seen("PENDING") == (begun + 40, ""), "the job's report follows at once"
    assert seen("FAILED", "ods.b: gone") == (begun + 50, "1 of 2 tables FAILED: ods.b: gone")


def test_who_waits_for_a_lock_is_in_the_report_as_it_was_measured_and_gone_with_it(told: Told) -> None:
    eve = Blocker(4711, "eve", "psql", "idle in transaction", 42.0, "LOCK TABLE mart.orders", transaction="3/4")
    wait = LockWait(1, "slotkeeper/orders_rt/7", "mart.orders", "RowExclusiveLock", 90.0, None, (eve,))

    def reported() -> JobReport:
        row = told.store.job(told.job.name)
        assert row is not None and row.report is not None
        return row.report

    told.narrator.lock_waits((wait,), "")
    assert reported().lock_waits == (wait,)
    told.narrator.lanes({}, LaneState.RUNNING, 1, 0)
    assert told.after(40.0).lock_waits == (wait,), "reports of the loop in the meantime do not end it"
    told.narrator.lock_waits((), "sink mart: permission denied")
    assert (reported().lock_waits, reported().locks_untold) == ((), "sink mart: permission denied")


def test_a_copy_that_begins_ends_what_was_found_equal_before(told: Told) -> None:
    job, now = told.job, told.clock.utc()
    told.narrator.event(JobEvent.BEGAN)
    told.narrator.event(JobEvent.COPY_BEGAN)
    assert last(told.store) == {}, "nothing was verified yet"
    equal = Verified(job.name, now, "equal", 0, 0, 0, 9, 9, 0.5, "li.wei")
    record(told.store, equal)
    told.clock.at += timedelta(minutes=5)
    told.narrator.event(JobEvent.BEGAN)
    assert last(told.store)[job.name] == equal
    told.narrator.event(JobEvent.COPY_BEGAN)
    found = last(told.store)[job.name]
    assert found.is_void and in_a_phrase(found, told.clock.utc()).startswith("not verified since the copy started")


def test_a_tables_copy_ends_what_was_found_equal_of_its_job(told: Told) -> None:
    first = told.job.channels[0]
    job = replace(told.job, channels=(first, replace(first, source_table="ods.b", target="m.b")))
    narrator = StoreNarrator(told.store, job, "run-1", told.clock, LocalRunner(1))
    equal = Verified(job.name, told.clock.utc(), "equal", 0, 0, 0, 9, 9, 0.5, "li.wei")
    record(told.store, equal)
    narrator.table(TableReport("ods.b", "m.b", "RUNNING"))
    assert last(told.store)[job.name] == equal
    narrator.table(TableReport("ods.b", "m.b", "SNAPSHOT"))
    assert last(told.store)[job.name].by_whom == "copy of m.b"


def test_reports_that_take_long_are_written_less_often_but_never_older_than_a_console_takes_for_current(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[float] = []
    put, takes = told.store.put_report, 0.0

    def slow(report: JobReport) -> bool:
        written.append(told.clock.monotonic())
        told.clock.at += timedelta(seconds=takes)
        return put(report)

    monkeypatch.setattr(told.store, "put_report", slow)
    for takes, pause in ((0.0, 1.0), (0.01, 2.0), (9.0, 3.0), (0.0, 1.0)):
        for _ in range(60):
            told.clock.at += timedelta(seconds=0.125)
            told.narrator.lanes({"dn_1": LANE}, LaneState.RUNNING, 1, 0)
        assert max(pause, takes) <= written[-1] - written[-2] <= max(pause, takes) + 0.25
    assert LONGEST < STALE_SECONDS


def test_an_error_of_the_shared_reader_is_reported_once_with_its_code_and_its_end(told: Told) -> None:
    said = "source dws1: the same server_id (another replica uses this server_id, 77)"
    for _ in range(3):
        told.narrator.shared_reader(Busy(said, "", "1236", "source"))
    found = told.after(1.0).shared_reader
    assert found is not None
    assert (found.message, found.cause) == ("SK-1801", said.partition(": ")[2])
    told.narrator.shared_reader(None)
    assert told.after(1.0).shared_reader is None
    events = [one.text for one in told.store.events(told.job.name) if one.event == "shared reader"]
    assert sorted(events) == sorted([found.cause, "reads again"])
