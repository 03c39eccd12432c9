"""What fires, what it says, and which way out comes first."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from console.monitor.snapshot import JobFacts, Level, Local, MonitorState, TableSeen
from console.views.alerts import ALERT_COLUMNS, Alert, alert_lines, alert_rows, alerts, figures, firing
from console.views.rows import columns_for
from core.domain.ack import Ack
from core.domain.job import JobState
from core.domain.report import JobReport
from core.domain.reset import OpenReset
from core.domain.table import TableReport
from tests.tui.filled import NOW, lane, polled, slot


def monitor(*jobs: JobFacts, tables: tuple[TableSeen, ...] = (), **more: object) -> MonitorState:
    local = replace(Local(NOW, tuple(jobs)), **more)  # type: ignore[arg-type]
    return MonitorState(local, {(one.source, one.table): one for one in tables})


def job(state: JobState | None, level: Level, wrong: str = "", **more: object) -> JobFacts:
    return replace(JobFacts("orders_rt", level, state, wrong, alive=True), **more)  # type: ignore[arg-type]


def seen(hours: float, unread: int | None = 7, name: str = "orders_rt") -> TableSeen:
    found = polled("ods.orders", slot("s1", hours, unread, name))
    return TableSeen("dws1", "ods.orders", NOW, found.slots, found.retained)


def only(found: list[Alert]) -> Alert:
    assert len(found) == 1, [one.rule for one in found]
    return found[0]


def test_nothing_fires_where_a_job_follows_and_its_slot_was_just_registered() -> None:
    assert alerts(monitor(job(JobState.RUNNING, Level.FINE), tables=(seen(0.1),)), NOW) == []
    assert alerts(MonitorState(), NOW) == []


@pytest.mark.parametrize(
    ("made", "rule"),
    [
        (job(JobState.FAILED, Level.CRITICAL, "SLOT LOST: dn_1: gone", trouble="SLOT LOST"), "job_failed"),
        (job(JobState.PAUSED, Level.WARNING, "applies nothing"), "job_paused"),
        (job(JobState.STOPPED, Level.WARNING, "stopped as wanted", alive=False), "job_stopped"),
        (job(JobState.RUNNING, Level.UNKNOWN, "started elsewhere", alive=None), "job_elsewhere"),
        (job(JobState.RUNNING, Level.CRITICAL, "no process: killed?", alive=False), "job_gone"),
        (job(JobState.RUNNING, Level.CRITICAL, "its driver lives and has not reported for 99 s"), "job_silent"),
        (job(JobState.RUNNING, Level.WARNING, "dn_3: retrying 2, next in 4 s"), "job_retrying"),
    ],
)
def test_a_job_in_trouble_fires_under_the_name_of_its_condition(made: JobFacts, rule: str) -> None:
    one = only(alerts(monitor(made), NOW))
    assert (one.rule, one.level, one.goes_to) == (rule, made.level, ("job", "orders_rt"))
    assert one.options and one.ignored


def test_a_lane_that_is_tried_again_is_named_with_what_is_known_of_its_error() -> None:
    lanes = (lane("dn_1", 5), lane("dn_3", 5, retry="retrying 2, next in 4 s", error="could not connect to server"))
    made = job(JobState.RUNNING, Level.WARNING, "dn_3: retrying 2", current=True)
    one = only(alerts(monitor(replace(made, report=JobReport("orders_rt", "r", "RUNNING", lanes=lanes))), NOW))
    assert (one.rule, one.value) == ("job_retrying", "dn_3")
    assert one.means == "dn_3: retrying 2: the server does not answer"
    assert one.options[0].do == "bring the server or the DN back"


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
    made = job(JobState.RUNNING, level, "1 of 2 tables", current=True, only_tables=True, report=report)
    one = only(alerts(monitor(made), NOW))
    assert (one.rule, one.thing, one.level, one.value) == (rule, "orders_rt: ods.b", level, state)
    assert one.since == NOW, "where it comes back it is another alert"
    verb = "resume" if state == "PAUSED" else "start"
    assert f"slotkeeper jobs {verb} orders_rt --table ods.b" in one.options[0].do
    assert all("jobs start orders_rt" not in each.do.replace("orders_rt --table", "") for each in one.options)
    both = replace(made, only_tables=False, wrong="dn_1: retrying 2")
    assert sorted(each.rule for each in alerts(monitor(both), NOW)) == sorted([rule, "job_retrying"])


def test_a_job_that_was_never_started_fires_nothing() -> None:
    assert alerts(monitor(job(None, Level.REST, "never started")), NOW) == []


def test_a_slot_near_its_end_names_the_point_in_time_and_what_is_lost() -> None:
    one = only(alerts(monitor(tables=(seen(23.2, 12_403_118),)), NOW))
    assert (one.rule, one.level, one.limit, one.value) == ("slot_ttl", Level.CRITICAL, "< 4h48m", "48m00s")
    assert one.ignored == "at 03:19:07Z the point expires; 24.8M unread changes are lost to it"
    assert only(alerts(monitor(tables=(seen(14),)), NOW)).level is Level.WARNING


def test_unread_that_is_not_known_is_a_question_mark_and_never_nothing() -> None:
    assert "? unread changes" in only(alerts(monitor(tables=(seen(23.2, None),)), NOW)).ignored


def test_ways_out_that_lose_nothing_come_before_those_that_lose_changes() -> None:
    for one in alerts(monitor(job(JobState.FAILED, Level.CRITICAL, "x"), tables=(seen(23.5),)), NOW):
        said = [text for _, text in alert_lines(one)][2:]
        losing = ["loses nothing" not in text for text in said]
        assert losing == sorted(losing), said


def test_an_unfinished_reset_an_unreadable_store_and_a_damaged_audit_fire() -> None:
    mark = OpenReset("r1", "orders_rt", "ods.orders", "s1")
    found = alerts(monitor(open_resets=(mark,), fault="state file is damaged", damaged=2), NOW)
    assert [one.rule for one in found] == ["reset_open", "store_unreadable", "audit_damaged"]
    assert "slotkeeper slots reset --resume ods.orders s1" in found[0].options[0].do


def test_a_table_that_cannot_be_looked_at_is_unknown_and_not_fine() -> None:
    one = only(alerts(monitor(tables=(TableSeen("dws1", "ods.orders", fault="connection refused"),)), NOW))
    assert (one.rule, one.level) == ("slots_unseen", Level.UNKNOWN)


def test_an_acknowledged_alert_counts_no_more_and_comes_back_when_it_is_another_one() -> None:
    found = alerts(monitor(tables=(seen(23.2), replace(seen(14), table="ods.stock"))), NOW)
    first = found[0]
    acks = {first.key: Ack("li.wei", NOW)}
    assert firing(found, acks, NOW) == found[1:]
    assert figures(found, acks, NOW) == "1 firing, 1 acknowledged, 0 silent"
    assert [row.cells["ack"] for row in alert_rows(found, acks, NOW)] == ["-", "li.wei"]
    later = alerts(monitor(tables=(seen(23.3), replace(seen(14), table="ods.stock"))), NOW)
    assert firing(later, acks, NOW) == later


def test_a_silence_ends_by_itself() -> None:
    found = alerts(monitor(tables=(seen(23.2),)), NOW)
    acks = {found[0].key: Ack("li.wei", NOW, NOW + timedelta(hours=1))}
    assert figures(found, acks, NOW) == "0 firing, 0 acknowledged, 1 silent"
    assert firing(found, acks, NOW + timedelta(hours=1)) == found


def test_hostile_names_are_made_visible() -> None:
    bad = job(JobState.FAILED, Level.CRITICAL, "\x1b]52;c;AAAA\x07", name="\x9bjob")
    one = only(alerts(monitor(bad), NOW))
    shown = " ".join([*alert_rows([one], {}, NOW)[0].cells.values(), *(text for _, text in alert_lines(one))])
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in shown)


def test_the_columns_fit() -> None:
    for width in (60, 80, 100, 140):
        assert sum(one.width + 1 for one in columns_for(ALERT_COLUMNS, width)) <= max(width, 66)


def test_rows_in_quarantine_fire_beside_a_job_that_runs_well() -> None:
    report = JobReport("orders_rt", "r", "RUNNING", quarantined=3)
    one = only(alerts(monitor(job(JobState.RUNNING, Level.FINE, report=report)), NOW))
    assert (one.rule, one.level, one.value) == ("rows_quarantined", Level.WARNING, "3")
    assert one.options[0].do.startswith("slotkeeper errors list orders_rt")
    none = replace(report, quarantined=0)
    assert alerts(monitor(job(JobState.RUNNING, Level.FINE, report=none)), NOW) == []


@pytest.mark.parametrize("state", [JobState.DEAD, JobState.FAILED])
def test_a_job_that_was_killed_is_not_dead_for_as_long_as_it_ran(state: JobState) -> None:
    """Nobody notes the moment; it lived when it last reported, and it had been RUNNING since long before."""
    weeks, seconds = NOW - timedelta(days=21), NOW - timedelta(seconds=9)
    made = job(state, Level.CRITICAL, "no process: killed?", alive=False, changed_at=weeks, reported_at=seconds)
    assert only(alerts(monitor(made), NOW)).since == (seconds if state is JobState.DEAD else weeks)
