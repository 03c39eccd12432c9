"""The clocks of source, sink and this host are set an hour back and forward: no change is lost or duplicated.

Only differences between a server's times can matter, so the source's clock is set by moving its stored times the other
way. The sink's clock is set by functions that replace its `now()` and `clock_timestamp()`, since one of its times
becomes a number there (an epoch).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import slotkeeper.core.services.reset
import slotkeeper.core.state.audit
import slotkeeper.core.state.sqlite
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.audit import Phase
from slotkeeper.core.domain.reset import Goal, TargetKind
from slotkeeper.core.domain.ttl import Severity, Ttl
from slotkeeper.core.engine.driver import start
from slotkeeper.core.errors import ErrorKind, Refused, SlotkeeperError
from slotkeeper.core.services.slot_commands import own_lanes
from slotkeeper.core.slots.status import put_together
from slotkeeper.demo.warehouse import Warehouse
from tests.fault.test_reset import followed
from tests.fault.test_strangers_lock import twin
from tests.integration.test_starts import TABLE as SHORT_TABLE
from tests.integration.test_starts import _short_lived as short_lived
from tests.support.mirror import At, MakeMirror, Mirror, orders, written
from tests.support.resetting import EARLIEST, SNAPSHOT, Crash, Resetting
from tests.support.waiting import until

HOUR = 3_600.0


class SetClock(SystemClock):
    """This host's clock; `by` is the offset, in seconds. The monotonic clock is not changed."""

    def __init__(self, by: float = 0.0) -> None:
        super().__init__()
        self.by = by

    def utc(self) -> datetime:
        return super().utc() + timedelta(seconds=self.by)


def can_set_sink(mirror: Mirror) -> Callable[[float], None]:
    """Replace the clock of a mirror's sink with one that can be set; call it before the job opens a session there."""
    functions = [
        statement
        for name, kind in (("now", "STABLE"), ("clock_timestamp", "VOLATILE"))
        for statement in (
            f"CREATE FUNCTION clocks.{name}() RETURNS timestamptz {kind} LANGUAGE internal AS '{name}'",
            # one expression, which the planner inlines: the built-in function is called by its number
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
    """The same for the stand-in: its stored times move by the difference, the other way."""
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
    """Set the clock of this host for code that opens its own: resets, the audit, the state store."""
    clock = SetClock()
    for module in (slotkeeper.core.services.reset, slotkeeper.core.state.audit, slotkeeper.core.state.sqlite):
        monkeypatch.setattr(module, "SystemClock", lambda *_: clock)
    return clock


Jumps = dict[str, Callable[[float], None]]


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, seed: int) -> Mirror:
    return orders(make_mirror, warehouse, seed)


def clocks_of(mirror: Mirror) -> Jumps:
    """Return, by server, the function that sets its clock ahead by this number of seconds."""
    here = SetClock()
    mirror.clock = here
    return {
        "source": can_set_source(mirror),
        "sink": can_set_sink(mirror),
        "here": lambda seconds: setattr(here, "by", seconds),
    }


def registered_again(mirror: Mirror, enough: int) -> None:
    until(lambda: mirror.heard.registrations >= enough, 30, "a registration behind it")


@pytest.mark.parametrize("place", ["source", "sink", "here"])
def test_a_running_job_does_not_mind_a_clock_that_is_set(mirror: Mirror, place: str, seed: int) -> None:
    set_clock = clocks_of(mirror)[place]
    mirror.start().wait_running()
    for number, seconds in enumerate((HOUR, 0.0, -HOUR, 0.0)):
        enough = mirror.heard.registrations + 1
        with written(mirror, seed + number, changes=60):
            set_clock(seconds)
        mirror.wait_applied(mirror.booked())
        registered_again(mirror, enough)
    waits = ("waiting for", "an open transaction may exist")
    assert not [text for text in mirror.heard.retries if not any(words in text for words in waits)]
    epoch = mirror.heard.epoch
    mirror.stop()
    set_clock(-HOUR)
    with written(mirror, seed + 9, changes=60):
        pass
    mirror.start().wait_running()
    mirror.wait_applied(mirror.booked())
    assert mirror.heard.epoch > epoch, "an epoch only grows, whatever the sink's clock says"
    mirror.stop()


def test_a_lease_is_kept_and_taken_over_by_sessions_and_epochs_not_by_age(
    mirror: Mirror, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "LEASE_WAIT", 0.5)
    set_clock = can_set_sink(mirror)
    mirror.start().wait_running()
    set_clock(-HOUR)
    second = twin(mirror)
    error = second.start().wait_error()
    assert isinstance(error, Refused)
    assert "last report before the sink's clock was set back" in error.message or " s ago" in error.message
    set_clock(HOUR)
    assert isinstance(twin(mirror).start().wait_error(), Refused), "an old row does not free the lease"
    set_clock(-HOUR)
    second.take_over = True
    with written(mirror, seed):
        second.start().wait_running()
        first = mirror.wait_error()
    assert isinstance(first, SlotkeeperError) and first.kind is ErrorKind.SUPERSEDED
    second.wait_applied(second.booked())
    second.stop()


@pytest.fixture
def resetting(warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path) -> Resetting:
    return followed(make_mirror, warehouse, seed, tmp_path)


@pytest.mark.parametrize(("seconds", "said"), [(-HOUR, "the clock was set back"), (HOUR, "has expired")])
def test_a_plan_that_waits_ends_with_its_own_host_s_clock(
    resetting: Resetting, seconds: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = set_here(monkeypatch)
    plan, before = resetting.plan(EARLIEST), resetting.places()
    clock.by = seconds
    with pytest.raises(Refused, match=said):
        resetting.execute(plan)
    assert resetting.places() == before
    clock.by = 0.0
    resetting.execute(plan)


def killed() -> None:
    raise Crash("killed")


@pytest.mark.parametrize("seconds", [-HOUR, HOUR])
def test_a_plan_does_not_mind_the_clocks_of_the_servers(resetting: Resetting, seconds: float) -> None:
    plan = resetting.plan(EARLIEST)
    can_set_source(resetting.mirror)(seconds)
    can_set_sink(resetting.mirror)(seconds)
    backup = resetting.execute(plan).reset
    resetting.undo(backup)


def test_an_undo_asks_for_epochs_where_the_sink_s_clock_was_set_back(resetting: Resetting) -> None:
    """A start that came after the reset may have recreated the target, and its time was before the reset's end."""
    mirror = resetting.mirror
    set_clock = can_set_sink(mirror)
    mirror.at_sink("TRUNCATE mart.orders")
    backup = Goal(TargetKind.BACKUP, backup=resetting.reset(SNAPSHOT).reset)
    assert not resetting.plan(backup).failed, "no start came"
    set_clock(-HOUR)
    mirror.start(driver_probe=At("before_first_registration", killed)).wait_error()
    assert [check.name for check in resetting.plan(backup).failed] == ["target unchanged"]


def test_records_that_go_by_age_are_not_believed_to_be_there_where_the_sink_s_clock_was_set_back(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = short_lived(warehouse, make_mirror, 600)
    set_clock = can_set_sink(mirror)
    mirror.start().wait_running()
    mirror.stop()
    set_clock(-HOUR)
    mirror.source(f"INSERT INTO {SHORT_TABLE} VALUES (1, 'unread')")
    error = mirror.start().wait_error()
    assert isinstance(error, Refused) and "the sink's clock was set back by at least 3" in error.message
    set_clock(HOUR)
    late = mirror.start().wait_error()
    assert isinstance(late, SlotkeeperError) and "the source deletes this table's records after 600 s" in late.message


def test_a_ttl_counts_by_the_source_s_clock_alone(mirror: Mirror) -> None:
    set_sink = can_set_sink(mirror)
    mirror.start().wait_running()
    mirror.stop()
    now = SetClock().utc()
    ttl = Ttl(86_400)
    (first, *_) = put_together(ttl, None, now, None, None, {"s": own_lanes(mirror.job, now)}).slot("s").shards
    assert first.left is not None and 86_000 < first.left.seconds <= 86_400
    set_sink(HOUR)
    (late, *_) = put_together(ttl, None, now, None, None, {"s": own_lanes(mirror.job, now)}).slot("s").shards
    assert late.left is not None and late.left.seconds == pytest.approx(86_400 - HOUR, abs=400)
    assert late.left.severity is Severity.FINE
    set_sink(-HOUR)
    (early, *_) = put_together(ttl, None, now, None, None, {"s": own_lanes(mirror.job, now)}).slot("s").shards
    assert early.left is None, "a clock that was set back proves nothing about the registration"


def test_audit_lines_stay_in_the_order_in_which_they_were_written(
    resetting: Resetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = set_here(monkeypatch)
    done = resetting.reset(EARLIEST)
    clock.by = -HOUR
    resetting.undo(done.reset)
    clock.by = HOUR
    resetting.reset(EARLIEST)
    lines = resetting.lines()
    assert [line.phase for line in lines] == [Phase.INTENT, Phase.OUTCOME] * 3
    assert all(one.action_id == two.action_id for one, two in zip(lines[::2], lines[1::2], strict=True))
    assert lines[2].at < lines[1].at - timedelta(minutes=50) and lines[4].at > lines[1].at + timedelta(minutes=50)
