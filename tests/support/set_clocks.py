"""Clocks that a test sets: that of a sink's server, of a source's, and of this host, each by any number of seconds.

Only differences between a server's times can matter to anybody, so the source's clock is set by moving what it has
written down the other way. The sink's is set by functions of our own in the place of its `now()` and
`clock_timestamp()`, since there one of its times becomes a number (an epoch).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

import slotkeeper.core.services.reset
import slotkeeper.core.state.audit
import slotkeeper.core.state.sqlite
from slotkeeper.core.clock import SystemClock
from tests.support.mirror import Mirror

HOUR = 3_600.0


class SetClock(SystemClock):
    """This host's clock; `by` is what it was set forward by, in seconds. The monotonic one runs on."""

    def __init__(self, by: float = 0.0) -> None:
        super().__init__()
        self.by = by

    def utc(self) -> datetime:
        return super().utc() + timedelta(seconds=self.by)


def can_set_sink(mirror: Mirror) -> Callable[[float], None]:
    """Make the clock of a mirror's sink one that can be set; before the job opens any session there."""
    functions = [
        statement
        for name, kind in (("now", "STABLE"), ("clock_timestamp", "VOLATILE"))
        for statement in (
            f"CREATE FUNCTION clocks.{name}() RETURNS timestamptz {kind} LANGUAGE internal AS '{name}'",
            # one expression, which the planner puts in the place of the call: by its number the built-in one is called
            f"CREATE OR REPLACE FUNCTION pg_catalog.{name}() RETURNS timestamptz {kind} LANGUAGE sql"
            f" AS $$SELECT clocks.{name}() + clocks.by()$$",
        )
    ]
    mirror.at_sink(
        "CREATE SCHEMA clocks",
        "CREATE TABLE clocks.ahead AS SELECT 0::float8 AS seconds",
        "CREATE FUNCTION clocks.by() RETURNS interval STABLE LANGUAGE sql"
        " AS $$SELECT seconds * interval '1 second' FROM clocks.ahead$$",
        "GRANT USAGE ON SCHEMA clocks TO PUBLIC",
        "GRANT SELECT ON clocks.ahead TO PUBLIC",
        *functions,
    )
    return lambda seconds: mirror.at_sink(f"UPDATE clocks.ahead SET seconds = {seconds}")


def can_set_source(mirror: Mirror) -> Callable[[float], None]:
    """The same for the stand-in: what it has written down moves by the difference, the other way."""
    at = 0.0

    def act(seconds: float) -> None:
        nonlocal at
        moved, at = at - seconds, seconds
        mirror.source(
            f"UPDATE dws.slot SET sync_timestamp = sync_timestamp + {moved} * interval '1 second'",
            f"UPDATE dws.binlog_tx SET ts_us = ts_us + ({moved} * 1000000)::bigint",
        )

    return act


def set_here(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """A clock of this host for what opens one by itself: resets, the audit, the state store."""
    clock = SetClock()
    for module in (slotkeeper.core.services.reset, slotkeeper.core.state.audit, slotkeeper.core.state.sqlite):
        monkeypatch.setattr(module, "SystemClock", lambda *_: clock)
    return clock
