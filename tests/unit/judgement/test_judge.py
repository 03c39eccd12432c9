"""The judgement: each fault, the party that caused it, its start, and when it ends; a pure function of all facts."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from slotkeeper.core.domain.fault import RULES, Fault, Party, Severity, worst
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.domain.report import GIVEN_UP, Condition, JobReport, JobStatus, LaneReport
from slotkeeper.core.domain.views import ViewReport
from slotkeeper.core.judgement.facts import Facts, JobSeen, Limits, Machine, SlotSeen
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.judgement.servers import CAUSES, UNKNOWN

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
LANE = LaneReport("dn_1", 1, "running", "applying", "10/3", "12", None, 99, 0.25)
DNS = tuple(f"dn_{number}" for number in range(1, 5))
VIEW = JobStatus(
    "orders", JobState.RUNNING, WantedState.RUN, run="r1", supervisor_alive=True, driver_alive=True,
    report=JobReport("orders", "r1", "RUNNING"), reported_at=NOW, reported=True, changed_at=NOW - timedelta(hours=1),
)  # fmt: skip


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def told(view: JobStatus = VIEW, **more: object) -> tuple[Fault, ...]:
    return judge(Facts(NOW, (JobSeen(view, **more),)))  # type: ignore[arg-type]


def by(*conditions: Condition, **more: object) -> JobStatus:
    assert VIEW.report is not None
    return replace(VIEW, report=replace(VIEW.report, conditions=conditions), **more)  # type: ignore[arg-type]


def test_a_job_that_follows_has_no_fault() -> None:
    assert told(lags=dict.fromkeys(DNS, 0.4)) == ()


def test_a_sink_that_is_down_is_named_with_its_words_since_when_and_who_waits() -> None:
    (one,) = told(by(Condition("sink", "sink mart", "Connection refused", ago(40).timestamp(), DNS, 4, 7)))
    assert one.said(NOW) == "sink mart: Connection refused, 40 s, 4 of 4 DNs wait"
    assert (one.party, one.severity, one.since) == (Party.SINK, Severity.WARNING, ago(40))


def test_a_condition_is_the_servers_fault_with_the_code_and_the_act_that_its_driver_found() -> None:
    refused = 'FATAL:  password authentication failed for user "etl"'
    for party in ("source", "sink"):
        condition = Condition(party, f"{party} x", refused, ago(40).timestamp(), DNS, 4, 7, "", "SK-1102", "Write it.")
        (one,) = told(by(condition))
        assert (one.rule, one.severity) == (f"{party}_fails", Severity.WARNING)
        assert (one.code, one.do) == ("SK-1102", "Write it.")
    (bare,) = told(by(Condition("sink", "sink x", refused, ago(40).timestamp(), DNS, 4, 7)))
    assert bare.code == RULES["sink_fails"].code, "from a driver of the previous version, which found none"
    assert "jobs logs" in bare.do


def test_rows_in_quarantine_name_the_newest_by_entry_and_key() -> None:
    newest = "entry 7: cust = 3, order_no = 90001 (23514)"
    report = replace(VIEW.report or JobReport("orders", "r1", "RUNNING"), quarantined=2, quarantined_newest=newest)
    (one,) = told(replace(VIEW, report=report))
    assert one.cause == f"2 rows in quarantine; the newest is {newest}"


def test_a_view_that_failed_or_does_not_follow_is_named_with_its_action_and_no_other_view_is() -> None:
    at = NOW.timestamp()
    views = (
        ViewReport("dws.ok", "RUNNING", at - 900, waiting=40, fresh_at=at - 2),
        ViewReport("dws.built", "BUILDING", at - 900),
        ViewReport("dws.wrong", "FAILED", at - 40, 'column "x" does not exist'),
        ViewReport("dws.old", "STALE", at - 400, "TRUNCATE of mart.items"),
        ViewReport("dws.stale", "STALE", at - 5, "TRUNCATE of mart.items"),
        ViewReport("dws.slow", "RUNNING", at - 900, waiting=9_000, fresh_at=at - 45),
    )
    assert VIEW.report is not None
    failed, old, slow = told(replace(VIEW, report=replace(VIEW.report, views=views)))
    assert (failed.rule, failed.thing, failed.severity, failed.since) == (
        "view_failed", "dws.wrong", Severity.CRITICAL, ago(40),
    )  # fmt: skip
    assert "`slotkeeper views rebuild orders dws.wrong`" in failed.do
    assert (old.rule, old.thing, old.severity, old.cause) == (
        "view_late", "dws.old", Severity.CRITICAL, "TRUNCATE of mart.items",
    )  # fmt: skip
    assert (slow.thing, slow.severity, slow.value) == ("dws.slow", Severity.WARNING, "45 s")
    assert slow.cause == "9,000 changes wait for a round" and "views explain orders dws.slow" in slow.do
    (all_of_them,) = told(replace(VIEW, report=replace(VIEW.report, views_untold="the sink is PostgreSQL 14")))
    assert (all_of_them.rule, all_of_them.party, all_of_them.severity) == ("view_late", Party.SINK, Severity.WARNING)


def test_what_holds_a_job_comes_before_what_delays_it_and_that_before_what_may_come() -> None:
    down = Condition("sink", "sink mart", "refused", ago(5).timestamp(), DNS[:1], 4)
    found = told(by(down), lags={"dn_2": 60.0}, crashes=(ago(100), ago(200), ago(300)))
    assert [one.rule for one in found] == ["sink_fails", "lag", "crash_loop"]


def test_every_rule_has_a_code_of_its_own_and_no_server_cause_has_it() -> None:
    codes = [one.code for one in RULES.values()] + [cause.code for cause in (*CAUSES, UNKNOWN)]
    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"SK-\d{4}", code) for code in codes)


def test_what_lasts_five_minutes_is_critical() -> None:
    (one,) = told(by(Condition("dn", "dn_2", "no answer", ago(300).timestamp(), ("dn_2",), 4)))
    assert (one.party, one.severity, one.effect) == (Party.DN, Severity.CRITICAL, "1 of 4 DNs waits")


def test_a_lane_that_waits_for_a_server_is_not_blamed_for_its_lag_too() -> None:
    down = by(Condition("sink", "sink mart", "refused", ago(90).timestamp(), DNS[:2], 4))
    found = told(down, lags={"dn_1": 90.0, "dn_2": 90.0, "dn_3": 45.0, "dn_4": 1.0})
    assert [(one.rule, one.name) for one in found] == [("sink_fails", "sink mart"), ("lag", "dn_3")]


def test_that_a_step_took_too_long_does_not_explain_a_lag() -> None:
    slow = by(Condition("process", "this job's driver", f"dn_1: {GIVEN_UP}", ago(9).timestamp(), ("dn_1",), 4))
    assert [one.rule for one in told(slow, lags={"dn_1": 40.0})] == ["driver_retries", "lag"]


def test_a_lane_whose_lag_cannot_be_measured_is_late_by_the_time_it_was_watched() -> None:
    (one,) = told(lags={"dn_1": None, "dn_2": 0.3}, least_lags={"dn_1": 41.0})
    assert (one.rule, one.name, one.cause) == ("lag", "dn_1", "at least 41 s behind its source")
    assert told(lags={"dn_1": None}, least_lags={"dn_1": 29.0}) == ()


@pytest.mark.parametrize(
    ("lag", "severity"), [(29.0, None), (30.0, Severity.WARNING), (300.0, Severity.CRITICAL), (None, None)]
)
def test_a_lag_counts_from_its_limits_on(lag: float | None, severity: Severity | None) -> None:
    assert worst(told(lags={"dn_1": lag, "dn_2": 0.0})) is severity


@pytest.mark.parametrize("state", [JobState.SNAPSHOT, JobState.CATCHING_UP, JobState.PENDING])
def test_the_lag_of_a_copy_causes_no_fault(state: JobState) -> None:
    assert told(replace(VIEW, state=state, changed_at=ago(20)), lags={"dn_1": 4_000.0}) == ()


def test_a_driver_that_was_killed_is_reported_until_another_has_reported() -> None:
    restarting = replace(VIEW, driver_alive=False, state=JobState.PENDING)
    (one,) = told(restarting, crashes=(ago(8), ago(700)), crash="killed by SIGKILL")
    assert one.said(NOW).startswith("the driver: RESTARTING, 1 crash in 10 min, the last: killed by SIGKILL, 8 s")
    assert (one.rule, one.party) == ("driver_crashed", Party.PROCESS)
    begins = replace(VIEW, state=JobState.PENDING, started_at=ago(60), changed_at=ago(5))
    assert [one.rule for one in told(begins, crashes=(ago(8),))] == ["driver_crashed"], (
        "according to the previous driver's report"
    )
    assert told(begins, crashes=(ago(61),)) == (), "from the run before this start"
    assert told(crashes=(ago(8), ago(700)), crash="killed by SIGKILL") == (), "a crash that is over is an event"


def test_several_crashes_in_ten_minutes_are_a_loop_also_while_the_driver_runs() -> None:
    crashes = (ago(8), ago(599), ago(700))
    (one,) = told(crashes=crashes, crash="exit 137")
    assert (one.rule, one.party, one.value) == ("crash_loop", Party.PROCESS, "2")
    assert one.cause == "2 crashes in 10 min, the last: exit 137" and one.effect.startswith("running again")
    (restarting,) = told(replace(VIEW, driver_alive=False), crashes=crashes)
    assert restarting.rule == "driver_crashed", "of the two, the one that blocks it now"
    assert told(crashes=(ago(8), ago(600))) == ()


def test_a_shared_reader_that_another_replica_ended_is_a_warning_and_explains_no_lag() -> None:
    assert VIEW.report is not None
    act = "Find the other replica with this server_id."
    one = Condition("source", "source m", "the same server_id", ago(400).timestamp(), message="SK-1801", act=act)
    view = replace(VIEW, report=replace(VIEW.report, shared_reader=one))
    (found,) = told(view)
    assert (found.rule, found.severity, found.code, found.do) == ("reader_fails", Severity.WARNING, "SK-1801", act)
    assert found.said(NOW) == "shared reader of source m: the same server_id, 6 min"
    assert {one.rule for one in told(view, lags={"dn_1": 40.0})} == {"reader_fails", "lag"}


def test_a_new_start_does_not_end_what_was_wrong_before_it_has_reported() -> None:
    before = replace(VIEW, reported=False)
    (one,) = told(before, crashes=(ago(3),))
    assert one.cause.startswith("RESTARTING")


def test_a_pause_says_who_asked_for_it_and_why() -> None:
    (one,) = told(replace(VIEW, state=JobState.PAUSED), asked_by="eva uid 1000", asked_why="index build")
    assert one.said(NOW).startswith("paused by eva uid 1000: reason: index build, 60 min")
    assert (one.party, one.do) == (
        Party.PERSON, "`slotkeeper jobs resume orders` continues from its position",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("trouble", "party"),
    [("SLOT LOST", Party.SLOT), ("SINK OLDER", Party.SINK), ("SOURCE OLDER", Party.SOURCE), ("", Party.PROCESS)],
)
def test_a_job_that_failed_names_whose_fault_it_was(trouble: str, party: Party) -> None:
    ended = replace(VIEW, state=JobState.FAILED, trouble=trouble, reason=f"{trouble}: dn_1: why".removeprefix(": "))
    (one,) = told(replace(ended, supervisor_alive=False, driver_alive=False))
    assert (one.rule, one.party, one.severity) == ("job_failed", party, Severity.CRITICAL)
    assert one.said(NOW).count(trouble or "job orders") == 1, "a fault is named once"


def test_a_job_that_a_server_has_refused_is_that_servers() -> None:
    said = 'sink mart (h:5432/m as etl): connection to server at "h", port 5432 failed: FATAL: password refused'
    (one,) = told(replace(VIEW, state=JobState.FAILED, reason=said))
    assert (one.rule, one.party, one.name, one.cause) == (
        "job_failed",
        Party.SINK,
        "sink mart",
        "FATAL: password refused",
    )
    assert one.code == "SK-2304", "with words that no line of the table contains"
    refused = said.replace("password refused", 'permission denied for table "orders"')
    (one,) = told(replace(VIEW, state=JobState.FAILED, reason=refused))
    assert one.code == "SK-1101"
    (own,) = told(replace(VIEW, state=JobState.FAILED, reason="five crashes"))
    assert (own.party, own.name) == (Party.PROCESS, "job orders")


def test_a_job_that_was_taken_over_was_not_stopped_on_this_host() -> None:
    over = replace(
        VIEW, state=JobState.STOPPED, trouble="SUPERSEDED", reason="a later start of this job has taken over"
    )
    (one,) = told(over, asked_by="eve")
    assert (one.rule, one.party, one.name) == ("job_stopped", Party.PROCESS, "job orders")
    (stopped,) = told(replace(over, trouble=""), asked_by="eve")
    assert (stopped.party, stopped.name) == (Party.PERSON, "stopped by eve")


@pytest.mark.parametrize(("apart", "said"), [(90.2, "90 s ahead of"), (-3.0, "3 s behind"), (2.0, ""), (None, "")])
def test_clocks_that_differ_by_more_than_two_seconds_are_told(apart: float | None, said: str) -> None:
    assert VIEW.report is not None
    found = told(replace(VIEW, report=replace(VIEW.report, clock_apart=apart)))
    assert [(one.rule, one.cause) for one in found] == [("clocks_differ", f"{said} this host's clock")] * bool(said)


@pytest.mark.parametrize(
    ("party", "cause", "lanes", "told_too"),
    [
        ("sink", "canceling statement due to lock timeout", ("dn_1",), False),
        ("process", "dn_1: a step did not end in time and was cancelled", ("dn_1",), False),
        ("process", "dn_2: a step did not end in time and was cancelled", ("dn_2",), True),
        ("sink", "Connection refused", ("dn_1",), True),
    ],
)
def test_the_effects_of_a_lock_are_reported_as_the_lock_alone(
    party: str, cause: str, lanes: tuple[str, ...], told_too: bool
) -> None:
    assert VIEW.report is not None
    waits = (LockWait(5, "slotkeeper/orders/1", "mart.orders", "ShareLock", ago(20).timestamp()),)
    at = [replace(LANE, shard=dn, target="mart.orders" if dn == "dn_1" else "mart.other") for dn in ("dn_1", "dn_2")]
    met = Condition(party, "somebody", cause, ago(9).timestamp(), lanes, 2)
    report = replace(VIEW.report, lock_waits=waits, lanes=tuple(at), conditions=(met,))
    found = [one.rule for one in told(replace(VIEW, report=report))]
    assert found[0] == "lock_waits" and (len(found) == 2) is told_too


def test_unknown_is_never_fine() -> None:
    away = replace(VIEW, elsewhere=True, supervisor_alive=False, driver_alive=False, reason="started elsewhere")
    assert worst(told(away)) is Severity.UNKNOWN
    assert worst(judge(Facts(NOW, machine=Machine("/s", "state file is damaged")))) is Severity.UNKNOWN
    assert worst(judge(Facts(NOW, refused={"b": "unknown key"}))) is Severity.UNKNOWN


def test_a_disk_that_fills_is_reported_before_it_is_full() -> None:
    (nearly,) = judge(Facts(NOW, machine=Machine("/s", free=200 << 20)))
    assert (nearly.rule, nearly.severity, nearly.value) == ("disk_nearly_full", Severity.WARNING, "200 MiB")
    (full,) = judge(Facts(NOW, machine=Machine("/s", full="the disk at / is full", free=0)))
    assert (full.rule, full.severity) == ("disk_full", Severity.CRITICAL)
    assert judge(Facts(NOW, machine=Machine("/s", free=1 << 33))) == ()


def slot(left: float, **more: object) -> SlotSeen:
    made = SlotSeen("dws1", "ods.orders", "s1", "orders", NOW, True, NOW + timedelta(seconds=left), 1_000.0, 7, "dn_1")
    return replace(made, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("left", "severity"), [(501, None), (499, Severity.WARNING), (199, Severity.CRITICAL), (0, Severity.CRITICAL)]
)
def test_a_ttl_has_one_severity_by_the_part_that_is_left(left: float, severity: Severity | None) -> None:
    assert worst(judge(Facts(NOW, slots=(slot(left),)))) is severity


def test_a_lost_slot_has_no_time_left() -> None:
    gone = slot(900, exists=False)
    (one,) = judge(Facts(NOW, (JobSeen(VIEW),), (gone,)))
    assert judge(Facts(NOW, slots=(gone,))) == (), "a job that was never started needs no slot yet"
    over = replace(VIEW, state=JobState.CANCELLED)
    assert judge(Facts(NOW, (JobSeen(over),), (gone, slot(1)))) == (), "neither does a job that has ended permanently"
    assert (one.rule, one.value) == ("slot_absent", "ABSENT") and "left" not in one.said(NOW)


def test_the_worst_comes_first_and_of_these_the_newest() -> None:
    source = Condition("source", "source dws1", "refused", ago(9).timestamp(), DNS, 4)
    sink = Condition("sink", "sink mart", "refused", ago(90).timestamp(), DNS, 4)
    found = judge(Facts(NOW, (JobSeen(by(source, sink)),), (slot(100),)))
    assert [one.rule for one in found] == ["slot_ttl", "source_fails", "sink_fails"]


def test_limits_are_the_configurations() -> None:
    late = Facts(NOW, (JobSeen(VIEW, {"dn_1": 12.0}),), limits=Limits(lag_warning=10.0))
    assert [one.rule for one in judge(late)] == ["lag"]


def test_what_a_full_disk_keeps_from_being_recorded_is_neither_silence_nor_lag_and_no_hosts_fault() -> None:
    silent = replace(VIEW, reported_at=ago(57))
    disk, job = judge(
        Facts(NOW, (JobSeen(silent, lags={"dn_1": 56.0}),), machine=Machine("/s", full="the disk is full"))
    )
    assert (disk.rule, job.rule, job.severity) == ("disk_full", "driver_silent", Severity.UNKNOWN)
    assert "its reports cannot be stored while the disk of the state folder is full" in job.said(NOW)
    assert job.effect == "its state and lag are unknown" and "Free space on that disk" in job.do
    assert "hangs" not in f"{disk}{job}"


def test_a_job_that_was_taken_over_is_applied_by_the_later_start_and_one_whose_slot_is_lost_has_no_ttl() -> None:
    over = replace(
        VIEW, state=JobState.STOPPED, trouble="SUPERSEDED", reason="a later start of this job has taken over"
    )
    (one,) = told(over)
    assert one.effect == "the later start applies the changes and confirms the slot"
    (lost,) = told(replace(VIEW, state=JobState.FAILED, trouble="SLOT LOST", reason="SLOT LOST: dn_1: gone"))
    assert lost.effect.endswith("the unread changes are lost: the target lacks them until a new snapshot")
    assert "slot expires" not in lost.effect


def test_a_job_that_awaits_its_copy_is_a_warning_that_names_its_start() -> None:
    do = "`slotkeeper jobs start orders` starts the copy within 24 h"
    awaits = replace(VIEW, state=JobState.AWAITS_COPY, reason="reset R1: reset to snapshot", safe=do)
    (one,) = told(awaits, asked_by="eve")
    assert (one.rule, one.code, one.severity) == ("awaits_copy", "SK-2309", Severity.WARNING)
    assert (one.name, one.do) == ("job orders", do) and "the target shows the old rows" in one.effect
