"""Lag in seconds from pairs of a time and the latest position at that time."""

from __future__ import annotations

from slotkeeper.core.domain.elapsed import FRESH_SECONDS, Curve


def test_a_lane_that_does_not_advance_lags_more_and_more() -> None:
    curve = Curve()
    lags = []
    for second in range(0, 7_205, 5):
        curve.see(float(second), 1_000 + second * 10)
        if second in (1_200, 3_600, 7_200):
            lags.append(curve.lag(1_000 + 600 * 10, float(second)))
    assert [round(lag) for lag in lags if lag is not None] == [600, 3_000, 6_600]


def test_no_lag_is_reported_across_a_clock_that_was_set_back() -> None:
    curve = Curve()
    for second in range(0, 4_000, 5):
        curve.see(float(second), 1_000 + second)
    assert curve.lag(1_500, 3_995.0) == 3_495.0
    assert curve.lag(1_500, 395.0) is None, "it would be none at all"
    curve.see(400.0, 6_000)
    assert (curve.lag(1_500, 401.0), curve.lag(6_000, 401.0)) == (None, 0.0)


def test_a_quiet_source_causes_no_lag_while_it_is_polled() -> None:
    curve = Curve()
    for second in range(0, 3_600, 5):
        curve.see(float(second), 1_000)
    assert len(curve) == 1
    assert curve.lag(1_000, 3_596.0) == 0.0
    assert curve.lag(1_000, 3_595.0 + FRESH_SECONDS + 60) == FRESH_SECONDS + 60


def test_a_position_from_before_the_first_look_is_unknown() -> None:
    curve = Curve()
    curve.see(0.0, 1_000)
    assert curve.lag(999, 5.0) is None
    assert Curve().lag(0, 5.0) is None


def test_a_latest_that_falls_starts_over() -> None:
    curve = Curve()
    curve.see(0.0, 5_000)
    curve.see(5.0, 100)
    assert curve.lag(50, 6.0) is None
    assert curve.lag(100, 6.0) == 0.0


def test_a_day_of_looks_stays_small_and_still_tells_hours() -> None:
    curve = Curve()
    for second in range(0, 86_400, 5):
        curve.see(float(second), second * 40)
    assert len(curve) < 700
    lag = curve.lag(40_000 * 40, 86_400.0)
    assert lag is not None
    assert abs(lag - 46_400) < 301


def test_a_late_report_is_left_out() -> None:
    curve = Curve()
    curve.see(10.0, 100)
    curve.see(5.0, 200)
    assert curve.lag(100, 12.0) == 0.0
