"""This host is named as the cause only if the job lacked its resources during the late step."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from slotkeeper.core.domain.fault import RULES, Fault, Party, Severity
from slotkeeper.core.domain.host import HostReport, HostShare
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.domain.report import GIVEN_UP, Condition, JobStatus
from slotkeeper.core.judgement.facts import Facts, JobSeen
from slotkeeper.core.judgement.host import FRESH, GOT, pressure
from slotkeeper.core.judgement.judge import judge
from tests.unit.judgement.test_judge import DNS, LANE, NOW, VIEW, ago, by, told

STARVED = HostShare(10.0, 0.99, 0.0, 0.0, None, 0.11, 0.05, 0.2, 1.9, 0.1, 0.8, 0.0)
"""20 busy loops for each of two CPUs: the threads of the job waited nine times as long as they ran."""
QUIET = HostShare(10.0, 0.08, 0.0, 0.0, None, 0.11, 0.05, 0.2, 0.01, 0.02, 0.95, 0.01)
LOADED = HostReport(NOW.timestamp(), 2, 80.2, sink_here=True, short=STARVED, long=STARVED)
FINE = HostReport(NOW.timestamp(), 2, 0.4, sink_here=True, short=QUIET, long=QUIET)
STATEMENT = "canceling statement due to statement timeout"


def lagging(age: float = 2.0) -> JobStatus:
    assert VIEW.report is not None
    return replace(VIEW, report=replace(VIEW.report, lanes=(replace(LANE, last_commit_age=age),)))


def lag(host: HostReport | None, age: float = 2.0, seconds: float = 40.0) -> tuple[Fault, ...]:
    return told(lagging(age), lags={"dn_1": seconds}, host=host)


def limited(host: HostReport, party: str = "sink", cause: str = STATEMENT) -> list[Fault]:
    return list(told(by(Condition(party, f"{party} mart", cause, ago(20).timestamp(), DNS, 4, 2)), host=host))


def test_a_starved_host_is_named_before_the_lag_that_comes_of_it_and_the_sink_is_not() -> None:
    first, second = lag(LOADED)
    assert first.said(NOW) == "this host: 2 CPUs, load 80; the driver got 11 % of one CPU"
    assert (first.rule, first.party, first.code) == ("host_starved", Party.MACHINE, RULES["host_starved"].code)
    assert (second.rule, second.party) == ("lag", Party.DN)
    assert "sink" not in f"{first} {second}".lower().replace("party.sink", "")


def test_a_slow_sink_on_a_quiet_host_is_named_and_the_host_is_not() -> None:
    (one,) = lag(FINE)
    assert (one.rule, one.party) == ("lag", Party.SINK)
    assert "the sink takes 97 % of the step time" in one.cause


def test_a_step_that_takes_longer_than_the_window_is_judged_by_those_before_it() -> None:
    none = replace(QUIET, read=0.0, write=0.0, register=0.0)
    assert [one.party for one in lag(replace(FINE, short=none, long=none, steps=QUIET))] == [Party.SINK]
    assert [one.party for one in lag(replace(FINE, short=none, long=none, steps=none))] == [Party.DN]


def test_a_slow_sink_elsewhere_on_a_starved_host_names_both_and_the_host_first() -> None:
    slept = replace(STARVED, ran=0.1, waited=0.3, write=3.0)
    found = lag(replace(LOADED, sink_here=False, short=slept, long=slept))
    assert [(one.rule, one.party) for one in found] == [("host_starved", Party.MACHINE), ("lag", Party.SINK)]


@pytest.mark.parametrize("here", [True, None])
def test_a_sink_that_is_on_the_starved_host_or_may_be_is_not_blamed_for_what_the_host_lacks(here: bool | None) -> None:
    slept = replace(STARVED, ran=0.1, waited=0.3, write=3.0)
    found = lag(replace(LOADED, sink_here=here, short=slept, long=slept))
    assert [one.party for one in found] == [Party.MACHINE, Party.DN]


def test_the_window_is_that_of_the_step_and_a_load_that_is_over_names_no_process() -> None:
    over = replace(LOADED, short=QUIET, long=STARVED)
    assert [one.rule for one in lag(over, age=2.0)] == ["lag"]
    assert [one.rule for one in lag(over, age=50.0)] == ["host_starved", "lag"], "a step that began under load"
    begun = replace(LOADED, short=STARVED, long=QUIET)
    assert [one.rule for one in lag(begun, age=2.0)] == ["host_starved", "lag"]
    assert [one.rule for one in lag(begun, age=50.0)] == ["lag"], "the step used its time before the load began"


def test_a_time_limit_of_a_sink_on_this_host_is_the_hosts_while_that_is_starved_and_else_the_sinks() -> None:
    assert [one.rule for one in limited(LOADED)] == ["host_starved"]
    assert [one.rule for one in limited(replace(LOADED, sink_here=False))] == ["host_starved", "sink_fails"]
    assert [one.rule for one in limited(FINE)] == ["sink_fails"]
    assert [one.rule for one in limited(LOADED, "process", GIVEN_UP)] == ["host_starved", "driver_retries"]


@pytest.mark.parametrize("cause", ["Connection refused", 'password authentication failed for user "etl"', "deadlock"])
def test_what_a_server_refuses_is_its_own_on_every_host(cause: str) -> None:
    assert [one.rule for one in limited(LOADED, "sink", cause)] == ["sink_fails"]


def test_a_worker_that_the_kernel_killed_for_memory_is_reported_where_the_control_group_counted_it() -> None:
    died = "a Spark worker exited during a task"
    (one,) = limited(replace(FINE, oom_kills_new=2), "process", died)
    assert one.cause == f"{died}, out of memory: its control group recorded 2 out-of-memory kills since its start"
    for host in (FINE, replace(FINE, oom_kills_new=0)):
        assert [one.cause for one in limited(host, "process", died)] == [died]


def test_the_hosts_fault_is_as_bad_as_what_it_explains() -> None:
    assert [one.severity for one in lag(LOADED)] == [Severity.WARNING] * 2
    assert [one.severity for one in lag(LOADED, seconds=400.0)] == [Severity.CRITICAL] * 2


def test_a_starved_host_causes_no_fault_while_a_job_keeps_up_and_one_when_it_is_late() -> None:
    assert lag(LOADED, seconds=1.0) == ()
    assert [one.rule for one in lag(LOADED, seconds=12.0)] == ["host_starved"]


def test_a_reading_that_is_old_or_of_no_process_or_absent_names_no_process() -> None:
    old = replace(LOADED, at=(NOW - timedelta(seconds=FRESH + 1)).timestamp())
    ahead = replace(LOADED, at=(NOW + timedelta(hours=1)).timestamp())
    for host in (old, ahead, None, replace(LOADED, short=None, long=None)):
        assert [one.rule for one in lag(host)] == ["lag"]
    gone = replace(lagging(), supervisor_alive=False, driver_alive=False)
    rules = {one.rule for one in judge(Facts(NOW, (JobSeen(gone, {"dn_1": 40.0}, host=LOADED),)))}
    assert "host_starved" not in rules


def test_a_busy_host_that_gives_the_job_what_it_needs_is_not_named() -> None:
    given = replace(STARVED, ran=0.5, waited=0.49)
    assert given.got is not None and given.got > GOT
    assert pressure(given, LOADED) == ""
    idle = replace(STARVED, ran=0.001, waited=0.05)
    assert pressure(idle, LOADED) == "", "a job that needs little CPU time is not delayed by a busy CPU"


def test_what_is_not_known_is_never_taken_for_a_figure() -> None:
    without_psi = replace(STARVED, cpu_stalled=None)
    assert pressure(without_psi, LOADED)
    assert pressure(without_psi, replace(LOADED, load=None)) == ""
    assert pressure(without_psi, replace(LOADED, load=1.0)) == ""
    without_schedstat = replace(STARVED, ran=None, waited=None)
    assert pressure(without_schedstat, LOADED), "both the pressure and the load show it"
    assert pressure(without_schedstat, replace(LOADED, load=2.0)) == "", (
        "other programs wait, and there is one program too many"
    )
    assert pressure(HostShare(10.0), HostReport(0.0)) == ""
    assert pressure(replace(without_schedstat, driver_cpu=None), LOADED) == "2 CPUs, load 80"
    assert (
        pressure(replace(STARVED, driver_cpu=0.004), LOADED)
        == "2 CPUs, load 80; the driver got less than 1 % of one CPU"
    )


def test_a_cpu_limit_is_named_as_what_it_is_also_on_a_quiet_host() -> None:
    cut = replace(QUIET, ran=0.2, waited=1.9, throttled=0.93, cpu_stalled=0.02)
    told = pressure(cut, replace(FINE, load=0.4))
    throttled = "the CPU limit throttled the job in 93 % of its periods"
    assert told == f"2 CPUs, load 0; {throttled}; the driver got 11 % of one CPU"
    assert pressure(replace(cut, throttled=0.1), FINE) == ""


def test_memory_that_tasks_wait_for_is_named_with_what_is_left() -> None:
    short = replace(QUIET, memory_stalled=0.41)
    assert pressure(short, replace(FINE, available=120 << 20)) == (
        "tasks waited for memory 41 % of the time; 120 MiB available"
    )
    assert pressure(replace(QUIET, memory_stalled=0.2), FINE) == ""


def test_a_job_that_has_failed_waits_for_no_host_while_its_supervisor_ends() -> None:
    failed = replace(lagging(), state=JobState.FAILED, reason="SLOT LOST: dn_1: gone", trouble="SLOT LOST")
    assert failed.lives
    assert [one.rule for one in told(failed, lags={"dn_1": 40.0}, host=LOADED)] == ["job_failed"]


def test_a_job_that_waits_for_a_silent_server_is_not_starved_by_what_its_few_threads_wait_for_a_cpu() -> None:
    idle = replace(STARVED, driver_cpu=0.04, ran=0.06, waited=0.15)
    found = lag(replace(LOADED, short=idle, long=idle))
    assert [one.rule for one in found] == ["lag"]


def test_a_driver_that_only_waits_for_a_lock_did_not_want_a_cpu() -> None:
    idle = replace(STARVED, driver_cpu=0.01, ran=0.03, waited=0.35)
    host = replace(LOADED, load=12.2, short=idle, long=idle)
    assert idle.got is not None and idle.got < GOT
    assert pressure(idle, host) == "", "a thread that always needs a CPU gets a sixth of one here"
    assert [one.rule for one in lag(host)] == ["lag"], "also after the lock has gone"
    assert pressure(replace(idle, ran=0.2, waited=1.9), host) != ""


def test_a_host_is_not_named_for_lanes_that_wait_for_a_lock() -> None:
    view = lagging()
    assert view.report is not None
    waits = (LockWait(5, "slotkeeper/orders/1", "mart.orders", "ShareLock", ago(20).timestamp()),)
    locked = replace(view.report.lanes[0], target="mart.orders")
    for lanes, rules in (((locked,), ["lock_waits"]), ((locked, replace(locked, shard="dn_2", target="m.o")), None)):
        report = replace(view.report, lock_waits=waits, lanes=lanes)
        lags = {lane.name: 12.0 for lane in lanes}
        found = [one.rule for one in told(replace(view, report=report), lags=lags, host=LOADED)]
        assert found == rules or (rules is None and "host_starved" in found)
    assert [one.rule for one in limited(LOADED, "sink", "canceling statement due to lock timeout")] == ["sink_fails"]


def test_a_server_that_gave_no_answer_in_time_is_named_where_waiting_for_a_cpu_took_less_than_half_of_it() -> None:
    some = replace(STARVED, ran=0.03, waited=0.4)
    host = replace(LOADED, sink_here=False, short=some, long=some)
    assert [one.rule for one in limited(host, "source", "the source gave no answer within 15 s")] == ["source_fails"]
