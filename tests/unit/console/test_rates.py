"""Rates, sparklines and arrivals from successive reports."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.console.monitor.rates import CELLS, Busy, JobTracks, Sample, Track, bottleneck
from slotkeeper.console.views.rows import bars
from slotkeeper.core.domain.report import JobReport, LaneReport

LANE = LaneReport(
    "dn_1", 1, "running", "idle", "100/-1", "140", "100", 9, 1.0, "", "", "", 0.5, 0.0, 0.0, 0.0, at=100, latest_at=140,
    behind=40,
)  # fmt: skip
REPORT = JobReport("orders", "r1", "RUNNING", lanes=(LANE,), changes=9)


def fed(*samples: Sample) -> Track:
    track = Track()
    for one in samples:
        track.see(one)
    return track


def test_nothing_is_known_before_two_samples() -> None:
    track = fed(Sample(0.0, "r1", 100, 10, 20))
    assert (track.rate(1.0), track.eta(1.0)) == (None, None)
    assert track.spark(1.0) == (None,) * CELLS


def test_a_new_run_and_a_counter_that_fell_give_no_rate() -> None:
    assert fed(Sample(0.0, "r1", 0), Sample(5.0, "r2", 12_000_000)).rate(5.0) is None
    track = fed(Sample(0.0, "r1", 900), Sample(5.0, "r1", 100), Sample(10.0, "r1", 600))
    assert track.rate(10.0) == 100.0
    assert [cell for cell in track.spark(10.0) if cell is not None] == [100.0]


def test_a_gap_is_not_spread_over_what_came_after_it() -> None:
    track = fed(Sample(0.0, "r1", 0), Sample(5.0, "r1", 50), Sample(300.0, "r1", 90_000), Sample(305.0, "r1", 90_050))
    assert track.rate(305.0) == 10.0
    assert max(cell for cell in track.spark(305.0) if cell is not None) == 10.0


def test_a_sparkline_has_a_cell_for_each_part_of_ten_minutes() -> None:
    samples = [Sample(float(at), "r1", at * 10 if at < 300 else 3_000) for at in range(0, 600, 5)]
    track = fed(*samples)
    assert len(track.spark(599.0)) == CELLS
    assert track.spark(599.0)[1] == 10.0
    assert track.spark(599.0)[-1] == 0.0
    assert track.spark(599.0 + 1_200.0) == (None,) * CELLS


def test_an_arrival_is_shown_only_where_the_lane_comes_nearer() -> None:
    nearer = fed(Sample(0.0, "r1", 0, 0, 1_000), Sample(10.0, "r1", 1, 200, 1_100))
    assert nearer.eta(10.0) == 90.0
    away = fed(Sample(0.0, "r1", 0, 0, 1_000), Sample(10.0, "r1", 1, 100, 1_200))
    assert away.eta(10.0) is None
    there = fed(Sample(0.0, "r1", 0, 0, 1_000), Sample(10.0, "r1", 1, 1_000, 1_000))
    assert there.eta(10.0) == 0.0
    assert fed(Sample(0.0, "r1", 0, 0, None), Sample(10.0, "r1", 1, 9, 99)).eta(10.0) is None


def test_shares_of_busy_time_restart_with_a_driver() -> None:
    tracks = JobTracks()
    for at, read, write in ((0.0, 10.0, 50.0), (5.0, 0.0, 0.0), (10.0, 1.0, 3.0)):
        tracks.see(at, replace(REPORT, lanes=(replace(LANE, read_s=read, write_s=write),)))
    assert tracks.busy() == Busy(0.25, 0.75, 0.0)


def test_reports_without_the_seconds_give_no_shares() -> None:
    tracks = JobTracks()
    for at in (0.0, 5.0):
        tracks.see(at, replace(REPORT, lanes=(replace(LANE, read_s=None),)))
    assert tracks.busy() is None


def test_rows_copied_and_events_applied_are_not_one_counter() -> None:
    tracks = JobTracks()
    tracks.see(0.0, JobReport("orders", "r1", "SNAPSHOT", snapshot_rows=5_000_000))
    tracks.see(5.0, JobReport("orders", "r1", "SNAPSHOT", snapshot_rows=5_001_000))
    assert tracks.whole.rate(5.0) == 200.0
    tracks.see(10.0, REPORT)
    assert tracks.whole.rate(10.0) is None


def test_a_side_is_the_bottleneck_where_it_is_retried_or_takes_the_time_of_a_job_that_is_behind() -> None:
    retried = replace(REPORT, lanes=(replace(LANE, retry="retrying 1, next in 2 s", side="sink"),))
    assert bottleneck(retried, None, None) == "sink"
    assert bottleneck(REPORT, Busy(0.8, 0.1, 0.1), 60.0) == "source"
    assert bottleneck(REPORT, Busy(0.8, 0.1, 0.1), 2.0) == ""
    assert bottleneck(REPORT, Busy(0.5, 0.4, 0.1), 60.0) == ""


def test_every_glyph_of_the_ascii_set_is_ascii() -> None:
    assert bars([10.0**power for power in range(-1, 7)], ascii_only=True).isascii()
