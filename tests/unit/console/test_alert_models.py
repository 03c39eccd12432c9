"""Alerts: when they fire, their texts, and the order of their remedies."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from slotkeeper.console.monitor.snapshot import Level, MonitorState, TableSeen
from slotkeeper.console.views.alerts import ALERT_COLUMNS, Alert, alert_lines, alert_rows, alerts, figures, firing
from slotkeeper.console.views.rows import columns_for
from slotkeeper.core.domain.fault import Ack
from slotkeeper.core.domain.job import JobState, TableReport, WantedState
from slotkeeper.core.domain.report import Condition, JobReport, JobStatus
from slotkeeper.core.domain.reset import OpenReset
from tests.tui.filled import NOW, polled, slot
from tests.unit.console.judged import shown


def monitor(*jobs: JobStatus, tables: tuple[TableSeen, ...] = (), **more: Any) -> MonitorState:
    return MonitorState(shown(*jobs, now=NOW, **more), {(one.source, one.table): one for one in tables})


def job(state: JobState, reason: str = "", **more: object) -> JobStatus:
    made = JobStatus(
        "orders_rt", state, WantedState.RUN, reason, run="r", supervisor_alive=True, driver_alive=True,
        reported=True, report=JobReport("orders_rt", "r", state.value), reported_at=NOW, changed_at=NOW,
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def gone(state: JobState, reason: str = "", **more: object) -> JobStatus:
    return job(state, reason, supervisor_alive=False, driver_alive=False, **more)


def seen(hours: float, unread: int | None = 7, name: str = "orders_rt") -> TableSeen:
    found = polled("ods.orders", slot("s1", hours, unread, name))
    return TableSeen("dws1", "ods.orders", NOW, found.slots, found.retained)


def only(found: list[Alert]) -> Alert:
    assert len(found) == 1, [one.rule for one in found]
    return found[0]


def test_nothing_fires_where_a_job_follows_and_its_slot_was_just_registered() -> None:
    assert alerts(monitor(job(JobState.RUNNING), tables=(seen(0.1),)), NOW) == []
    assert alerts(MonitorState(), NOW) == []


@pytest.mark.parametrize(
    ("made", "rule", "level"),
    [
        (gone(JobState.FAILED, "SLOT LOST: dn_1: gone", trouble="SLOT LOST"), "job_failed", Level.CRITICAL),
        (job(JobState.PAUSED), "job_paused", Level.WARNING),
        (gone(JobState.STOPPED, "stopped as requested"), "job_stopped", Level.WARNING),
        (gone(JobState.RUNNING, "started elsewhere", elsewhere=True), "job_elsewhere", Level.UNKNOWN),
        (gone(JobState.DEAD, "no process found; possibly killed"), "job_dead", Level.CRITICAL),
        (job(JobState.RUNNING, reported_at=NOW - timedelta(seconds=99)), "driver_silent", Level.WARNING),
    ],
)
def test_a_job_in_trouble_fires_under_the_name_of_its_condition(made: JobStatus, rule: str, level: Level) -> None:
    one = only(alerts(monitor(made), NOW))
    assert (one.rule, one.level, one.goes_to) == (rule, level, ("job", "orders_rt"))
    assert one.options and one.ignored


def test_a_server_that_does_not_answer_is_named_with_what_is_known_of_its_error() -> None:
    down = Condition("sink", "sink mart", "Connection refused", NOW.timestamp() - 40, ("dn_1", "dn_2"), 2, 3)
    made = job(JobState.RUNNING, report=JobReport("orders_rt", "r", "RUNNING", conditions=(down,)))
    one = only(alerts(monitor(made), NOW))
    assert (one.rule, one.value, one.since) == ("sink_fails", "try 3", NOW - timedelta(seconds=40))
    assert (one.means, one.ignored) == ("sink mart: Connection refused", "2 of 2 DNs wait")
    assert (one.code, len(one.options)) == ("SK-2104", 1), "the action of another cause is not used"


@pytest.mark.parametrize(
    ("state", "rule", "level"),
    [
        ("FAILED", "table_failed", Level.CRITICAL),
        ("STOPPED", "table_stopped", Level.WARNING),
        ("PAUSED", "table_paused", Level.WARNING),
    ],
)
def test_a_table_that_does_not_go_on_fires_by_itself_in_place_of_its_job(state: str, rule: str, level: Level) -> None:
    found = (
        TableReport("ods.a", "m.a", "RUNNING"),
        TableReport("ods.b", "m.b", state, trouble="SLOT LOST" if state == "FAILED" else "", since=NOW.timestamp()),
    )
    report = JobReport("orders_rt", "r", "RUNNING", tables=found)
    made = job(JobState.RUNNING, report=report)
    one = only(alerts(monitor(made), NOW))
    assert (one.rule, one.thing, one.level, one.value) == (rule, "orders_rt: ods.b", level, state)
    assert one.since == NOW, "if it returns, it is another alert"
    verb = "resume" if state == "PAUSED" else "start"
    assert f"slotkeeper jobs {verb} orders_rt --table ods.b" in one.options[0].do
    assert all("jobs start orders_rt" not in each.do.replace("orders_rt --table", "") for each in one.options)
    down = Condition("sink", "sink mart", "refused", NOW.timestamp(), ("dn_1",), 2)
    both = replace(made, report=replace(report, conditions=(down,)))
    assert sorted(each.rule for each in alerts(monitor(both), NOW)) == sorted([rule, "sink_fails"])


def test_a_slot_near_its_end_names_the_point_in_time_and_what_is_lost() -> None:
    one = only(alerts(monitor(tables=(seen(23.2, 12_403_118),)), NOW))
    assert (one.rule, one.level, one.limit, one.value) == ("slot_ttl", Level.CRITICAL, "< 4h48m", "48m00s")
    assert one.means == "slot s1 of ods.orders: 48m00s of its TTL of 1d00h left on dn_1"
    assert (
        one.ignored
        == "expires at 03:19:07Z unless its consumer confirms a position; its 24,806,236 unread changes would be lost"
    )
    assert only(alerts(monitor(tables=(seen(14),)), NOW)).level is Level.WARNING


def test_unread_that_is_not_known_has_no_number_and_is_never_nothing() -> None:
    assert (
        "unless its consumer confirms a position; its unread changes would be lost"
        in only(alerts(monitor(tables=(seen(23.2, None),)), NOW)).ignored
    )


def test_ways_out_that_lose_nothing_come_before_those_that_lose_changes() -> None:
    for one in alerts(monitor(gone(JobState.FAILED, "x"), tables=(seen(23.5),)), NOW):
        said = [text for _, text in alert_lines(one)][2:]
        losing = ["loses nothing" not in text for text in said]
        assert losing == sorted(losing), said


def test_an_unfinished_reset_an_unreadable_store_and_a_damaged_audit_fire() -> None:
    mark = OpenReset("r1", "orders_rt", "ods.orders", "s1")
    found = alerts(monitor(resets=(mark,), fault="state file is damaged", damaged=2), NOW)
    assert [one.rule for one in found] == ["reset_open", "audit_damaged", "store_unreadable"]
    assert "slotkeeper slots reset --resume ods.orders s1" in found[0].options[0].do


def test_a_table_that_cannot_be_looked_at_is_unknown_and_not_fine() -> None:
    one = only(alerts(monitor(tables=(TableSeen("dws1", "ods.orders", fault="connection refused"),)), NOW))
    assert (one.rule, one.level) == ("slots_unseen", Level.UNKNOWN)


def test_an_acknowledged_alert_counts_no_more_and_comes_back_when_it_is_another_one() -> None:
    found = alerts(monitor(tables=(seen(23.2), replace(seen(14), table="ods.stock"))), NOW)
    first = found[0]
    acks = {first.ack_keys[0]: Ack("li.wei", NOW)}
    assert firing(found, acks, NOW) == found[1:]
    assert figures(found, acks, NOW) == "1 firing, 1 acknowledged, 0 silenced"
    assert [row.cells["ack"] for row in alert_rows(found, acks, NOW)] == ["-", "li.wei"]
    later = alerts(monitor(tables=(replace(seen(23.2), table="ods.other"), replace(seen(14), table="ods.stock"))), NOW)
    assert firing(later, acks, NOW) == later


def test_a_silence_ends_by_itself() -> None:
    found = alerts(monitor(tables=(seen(23.2),)), NOW)
    acks = {found[0].ack_keys[0]: Ack("li.wei", NOW, NOW + timedelta(hours=1))}
    assert figures(found, acks, NOW) == "0 firing, 0 acknowledged, 1 silenced"
    assert firing(found, acks, NOW + timedelta(hours=1)) == found


def test_hostile_names_are_made_visible() -> None:
    bad = gone(JobState.FAILED, "\x1b]52;c;AAAA\x07", name="\x9bjob")
    one = only(alerts(monitor(bad), NOW))
    shown = " ".join([*alert_rows([one], {}, NOW)[0].cells.values(), *(text for _, text in alert_lines(one))])
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in shown)


def test_the_columns_fit() -> None:
    for width in (60, 80, 100, 140):
        assert sum(one.width + 1 for one in columns_for(ALERT_COLUMNS, width)) <= max(width, 66)


def test_rows_in_quarantine_fire_beside_a_job_that_runs_well() -> None:
    report = JobReport("orders_rt", "r", "RUNNING", quarantined=3)
    one = only(alerts(monitor(job(JobState.RUNNING, report=report)), NOW))
    assert (one.rule, one.level, one.value) == ("rows_quarantined", Level.WARNING, "3")
    assert "slotkeeper errors list orders_rt" in one.options[0].do
    none = replace(report, quarantined=0)
    assert alerts(monitor(job(JobState.RUNNING, report=none)), NOW) == []


@pytest.mark.parametrize("state", [JobState.DEAD, JobState.FAILED])
def test_a_job_that_was_killed_is_not_dead_for_as_long_as_it_ran(state: JobState) -> None:
    """No process records the moment; the job ran until its last report, and had been RUNNING for a long time."""
    weeks, seconds = NOW - timedelta(days=21), NOW - timedelta(seconds=9)
    made = gone(state, "no process found; possibly killed", changed_at=weeks, reported_at=seconds)
    assert only(alerts(monitor(made), NOW)).since == (seconds if state is JobState.DEAD else weeks)


def test_the_statement_that_raises_a_ttl_names_the_table_once() -> None:
    one = only(alerts(monitor(tables=(seen(23.2),)), NOW))
    (raised,) = [each.do for each in one.options if "binlog_ttl" in each.do]
    assert raised == "raise binlog_ttl in the source: ALTER TABLE ods.orders SET (binlog_ttl = ...)"
