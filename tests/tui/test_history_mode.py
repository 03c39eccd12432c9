"""History from a real store, as the recorder stored it and the screens show it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from textual.pilot import Pilot

from slotkeeper.console.monitor.history import LOG_NOT_RECORDED, Past
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.row_counts import Verified
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.launch.launch import Limits
from slotkeeper.core.launch.seen import gather
from slotkeeper.core.launch.supervisor import Recorder
from slotkeeper.core.state.observed import record
from tests.tui.filled import NOW, Filled, begin, console, driven, lane, press, screen
from tests.tui.planted import until
from tests.tui.recorded import EVERY, live

MINUTE = timedelta(minutes=1)


def recorded(folder: Path, trouble: str = "SLOT LOST") -> Filled:
    """orders_rt runs for ten minutes and then fails with this condition; stock_rt stops reporting after two."""
    made = console(folder, filled=False)
    made.clock.at = NOW
    begin(made.store, "stock_rt", lane("dn_1", 100))
    live(made.store, made.clock, "stock_rt", NOW + 2 * MINUTE, lane("dn_1", 100))
    made.clock.at = NOW
    begin(made.store, "orders_rt", lane("dn_1", 88_512_330))
    troubled = lane("dn_2", 88_512_330, retry="retrying 2, next in 4 s", error="refused", side="source")
    live(made.store, made.clock, "orders_rt", NOW + 10 * MINUTE, lane("dn_1", 88_512_330), troubled)
    made.store.apply("orders_rt", JobEvent.FAILED, "gave up", trouble)
    made.store.end_run("run-orders_rt", 10, "gave up")
    made.store.record_event("orders_rt", "failed", "gave up")
    Recorder(made.store, "orders_rt", Limits()).tick(now=True)
    made.clock.at = NOW + timedelta(hours=1)
    return made


def test_a_job_far_behind_when_first_seen_is_late_by_the_time_it_was_watched(
    tmp_path: Path,
) -> None:
    made = console(tmp_path, filled=False)
    made.clock.at = NOW
    begin(made.store, "orders_rt", lane("dn_1", 100))
    stuck = lane("dn_1", 100, latest_at=900_000, behind=899_900, retry="retrying 2", error="too slow", side="process")
    live(made.store, made.clock, "orders_rt", NOW + timedelta(seconds=45), stuck)
    seen = gather(made.store, None, made.clock.at)
    assert seen.jobs[0].lags == {"dn_1": None}
    (late,) = [fault for fault in judge(seen) if fault.rule == "lag"]
    assert late.cause == "at least 45 s behind its source"


def past(made: Filled) -> Past:
    return Past(made.feed.reader.loaded, made.store.folder.path, made.clock)


def test_a_past_moment_shows_jobs_as_they_were(tmp_path: Path) -> None:
    made = recorded(tmp_path)
    at = NOW + 9 * MINUTE
    local = past(made).local(at, "orders_rt")
    assert local.fault == ""
    jobs = {job.name: job for job in local.jobs}
    orders = jobs["orders_rt"]
    assert orders.state is not None
    assert (orders.state.value, orders.level) == ("RUNNING", Level.CRITICAL)
    assert orders.rate == 500.0
    assert [cell for cell in orders.spark if cell is not None][-1] == 500.0
    assert orders.throughput["dn_1"].lag == 0.0
    assert orders.throughput["dn_2"].rate == 0.0
    assert orders.lag_seconds is not None
    assert round(orders.lag_seconds) == 540
    assert local.events == ()
    assert local.detail is not None
    assert local.detail.log == (LOG_NOT_RECORDED,)


def test_a_job_whose_frames_end_although_it_lived_is_unknown(tmp_path: Path) -> None:
    local = past(recorded(tmp_path)).local(NOW + 5 * MINUTE)
    stock = next(job for job in local.jobs if job.name == "stock_rt")
    assert (stock.level, stock.alive, stock.rate, stock.behind) == (Level.UNKNOWN, None, None, None)
    assert "nothing was recorded after 02:33:07" in stock.wrong


def test_a_stopped_job_keeps_its_state_and_its_lag_grows(tmp_path: Path) -> None:
    made = recorded(tmp_path)
    local = past(made).local(NOW + 50 * MINUTE)
    orders = next(job for job in local.jobs if job.name == "orders_rt")
    assert orders.state is not None
    assert (orders.state.value, orders.trouble, orders.exit_code) == ("FAILED", "SLOT LOST", 10)
    assert orders.throughput["dn_1"].lag is not None
    assert orders.throughput["dn_1"].lag >= 40 * 60
    assert [one.event for one in local.events] == ["failed"]


def test_errors_and_verifies_of_later_are_not_there_yet(tmp_path: Path) -> None:
    made = recorded(tmp_path)
    made.clock.at = NOW + MINUTE
    made.store.record_error("orders_rt", "source", "X", "refused")
    made.clock.at = NOW + 6 * MINUTE
    made.store.record_error("orders_rt", "source", "X", "refused")
    record(made.store, Verified("orders_rt", NOW + 3 * MINUTE, "equal", 0, 0, 0, 9, 9, 1.0, "me"))
    before, between, after = (past(made).local(NOW + n * MINUTE) for n in (0, 2, 7))
    assert [[one.count for one in each.errors] for each in (before, between, after)] == [[], [1], [2]]
    assert between.errors[0].last_at == between.errors[0].first_at
    assert "at least once by this time" in between.errors[0].message
    verified = [next(one for one in each.jobs if one.name == "orders_rt").verified for each in (between, after)]
    assert verified[0] is None
    assert verified[1] is not None


def test_steps_go_from_frame_to_frame(tmp_path: Path) -> None:
    made = recorded(tmp_path)
    it = past(made)
    start = it.begin()
    assert start is not None
    assert start.at == NOW + 10 * MINUTE
    back = it.stepped(start.toward(-1, 0.0))
    assert back.at == start.at - EVERY
    assert it.stepped(back.toward(1, 9.0)).at == start.at
    assert it.go(back, "02:33").at == NOW - timedelta(seconds=7) + 2 * MINUTE
    assert it.stepped(start.play()).playing is False


def test_a_store_without_frames_has_no_past(tmp_path: Path) -> None:
    made = console(tmp_path)
    assert past(made).begin() is None
    local = past(made).local(NOW)
    assert {job.level for job in local.jobs if job.name == "orders_rt"} == {Level.UNKNOWN}


@driven(recorded)
async def test_R_shows_what_was_recorded_and_steps_through_it_and_nothing_can_be_done_there(
    made: Filled, pilot: Pilot[int]
) -> None:
    await press(pilot, "R")
    shown = await until(pilot, made.app, "HISTORY 02:41:07Z")
    assert "FAILED" in shown
    await press(pilot, "less_than_sign")
    shown = await until(pilot, made.app, "HISTORY 02:41:02Z")
    assert "orders_rt" in shown and "RUNNING" in shown
    await press(pilot, "a")
    assert "actions are not available in history" in screen(made.app)
    await press(pilot, "greater_than_sign")
    await until(pilot, made.app, "HISTORY 02:41:07Z")
    await press(pilot, "3")
    assert "no slot status recorded at that time" in screen(made.app)
    await press(pilot, "1", "R")
    assert "HISTORY" not in screen(made.app) and made.app.now == made.clock.at


@driven(recorded)
async def test_a_moment_is_typed_and_f_plays_from_there_to_the_end(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "colon", *"at", "space", *"02:40:50", "enter")
    await until(pilot, made.app, "HISTORY 02:40:50Z")
    await press(pilot, "p")
    assert "actions are not available in history; press R to leave it; f plays" in screen(made.app)
    await press(pilot, "f")
    await until(pilot, made.app, "HISTORY 02:40:52Z")
    await until(pilot, made.app, "HISTORY 02:40:57Z")
    await press(pilot, "f")
    assert "playback stopped" in screen(made.app)
    await press(pilot, "colon", *"at", "space", *"25:00", "enter")
    await until(pilot, made.app, "enter a time as 02:28")


@driven(recorded, size=(80, 50))
async def test_the_detail_of_a_job_is_that_of_the_moment(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "colon", *"at", "space", *"02:35", "enter")
    await until(pilot, made.app, "HISTORY 02:35:00Z")
    made.app.open("job", "orders_rt", "2")
    shown = await until(pilot, made.app, LOG_NOT_RECORDED)
    assert "dn_2" in shown and "retrying 2" in shown


@driven()
async def test_where_nothing_is_recorded_history_says_so_and_does_not_begin(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "R")
    await until(pilot, made.app, "no history recorded yet")
    assert made.app.history is None
