"""The time left of a slot's TTL: read from the options, never guessed, and its texts."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from slotkeeper.core.domain.ttl import DEFAULT_SECONDS, Severity, TimeLeft, Ttl, left_of, ttl_of

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", Ttl(DEFAULT_SECONDS, True)),
        ("orientation=column,enable_hstore_opt=on,enable_binlog=on", Ttl(DEFAULT_SECONDS, True)),
        ("enable_binlog=on,binlog_ttl=600", Ttl(600)),
        ("{enable_binlog=on,binlog_ttl='7200'}", Ttl(7200)),
        ("BINLOG_TTL=60", Ttl(60)),
        ("my_binlog_ttl=60", Ttl(DEFAULT_SECONDS, True)),
        ("binlog_ttl=soon", Ttl(None)),
        ("binlog_ttl=0", Ttl(None)),
        ("enable_binlog_timestamp=on,binlog_ttl=60", Ttl(60, by_record=True)),
    ],
)
def test_the_ttl_is_read_from_the_options(options: str, found: Ttl) -> None:
    assert ttl_of(options) == found


@pytest.mark.parametrize(
    ("age", "seconds", "severity"),
    [(0, 100, Severity.FINE), (50, 50, Severity.FINE), (51, 49, Severity.WARN), (80, 20, Severity.WARN),
     (81, 19, Severity.CRITICAL), (100, 0, Severity.CRITICAL), (500, 0, Severity.CRITICAL)],
)  # fmt: skip
def test_what_is_left_has_a_clock_time_and_a_word(age: int, seconds: int, severity: Severity) -> None:
    at = NOW - timedelta(seconds=age)
    assert left_of(at, Ttl(100), NOW) == TimeLeft(at + timedelta(seconds=100), seconds, severity)


def test_the_unknown_stays_unknown() -> None:
    assert left_of(None, Ttl(100), NOW) is None
    assert left_of(NOW, Ttl(None), NOW) is None


def test_a_setting_beyond_all_dates_is_a_time_far_away() -> None:
    now = datetime(2026, 11, 26, tzinfo=timezone.utc)
    left = left_of(now, ttl_of("binlog_ttl=" + "9" * 18), now)
    assert left is not None and left.expires_at.year == 2127 and left.severity is Severity.FINE
