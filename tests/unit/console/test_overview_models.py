"""The overview's summary of all jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slotkeeper.console.monitor.health import complete, facts
from slotkeeper.console.monitor.rates import Busy
from slotkeeper.console.monitor.snapshot import NOT_READ, JobFacts, LanePace, Level, Local
from slotkeeper.console.views.jobs import acts, in_sync, job_rows
from slotkeeper.console.views.overview import at_work, trust, without_jobs
from slotkeeper.console.views.verdict import verdict
from slotkeeper.core.config.load import load_usable
from slotkeeper.core.domain.audit import Actor, AuditLine, Phase
from slotkeeper.core.domain.fault import Fault, Party, Severity
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.report import JobReport, JobStatus, LaneReport
from slotkeeper.core.domain.reset import OpenReset
from slotkeeper.core.domain.row_counts import Verified, in_a_phrase
from tests.unit.config.samples import VALID

NOW = datetime(2026, 11, 21, 2, 31, 7, tzinfo=timezone.utc)
LANE = LaneReport("dn_1", 1, "running", "idle", "100/-1", "140", "100", 9, 1.0, at=100, latest_at=140, behind=40)
REPORT = JobReport("a", "r1", "RUNNING", lanes=(LANE, replace(LANE, shard="dn_2")))
JOB = JobFacts("a", Level.FINE, JobState.RUNNING, alive=True, report=REPORT, current=True)
EQUAL = Verified("a", NOW - timedelta(hours=2, minutes=5), "equal", 0, 0, 0, 9, 9, 1.0, "me")
DIFFERENT = replace(EQUAL, verdict="different", differences=3, at=NOW - timedelta(minutes=12))


def test_no_job_is_said_to_be_absent_before_the_store_was_read() -> None:
    assert without_jobs(NOT_READ) == [(Level.REST, "Status   Reading the state store ...")]
    assert "unknown" in without_jobs(Local(NOW, fault="disk"))[0][1]
    assert without_jobs(Local(NOW))[0][1] == "Status   No job is configured, and none was started on this host."


def test_a_comparison_is_shown_with_its_age() -> None:
    assert in_a_phrase(EQUAL, NOW) == "verified equal 2h05m ago"
    void = Verified.void("a", NOW - timedelta(minutes=3), "r1")
    assert in_a_phrase(void, NOW) == "not verified since the reset 3m00s ago"
    (row,) = job_rows([replace(JOB, verified=void)], NOW, True)
    assert (row.cells["verified"], row.order["verified"]) == ("-", None)
    assert trust([replace(JOB, verified=void)], NOW)[1] == "all targets current; no valid comparison"
    assert in_a_phrase(DIFFERENT, NOW) == "DIFFERENT: 3 keys, 12m00s ago"
    assert in_a_phrase(replace(EQUAL, verdict="unsettled", unsettled=4), NOW).startswith("not settled: 4 keys")


def test_targets_are_trusted_with_a_proof_doubted_without() -> None:
    assert trust([replace(JOB, verified=EQUAL)], NOW) == (
        Level.FINE, "all targets current; 1 of 1 verified equal, 2h05m ago",
    )  # fmt: skip
    behind = replace(JOB, name="b", state=JobState.CATCHING_UP)
    assert trust([JOB, behind], NOW) == (Level.WARNING, "not verified: b; no comparison yet")
    level, words = trust([replace(JOB, verified=DIFFERENT), behind], NOW)
    assert (level, words) == (Level.CRITICAL, "targets: a DIFFERENT: 3 keys, 12m00s ago")


CRASHED = Fault("crash_loop", Party.PROCESS, "the driver", Severity.WARNING, "2 crashes in 10 min", job="a")
VIEW = JobStatus("a", JobState.RUNNING, WantedState.RUN, driver_alive=True, report=REPORT, reported=True)


@pytest.mark.parametrize(
    ("fault", "alive", "trusted"),
    [
        (CRASHED, True, True),
        (CRASHED, False, False),
        (replace(CRASHED, rule="process_stopped", thing="supervisor"), True, True),
        (replace(CRASHED, rule="process_stopped", thing="driver"), True, False),
        (replace(CRASHED, rule="sink_fails"), True, False),
        (replace(CRASHED, rule="not_verified"), True, True),
    ],
)
def test_a_crash_that_is_over_makes_no_target_untrusted(fault: Fault, alive: bool, trusted: bool) -> None:
    job = facts(replace(VIEW, driver_alive=alive), [fault], NOW)
    assert job.level is Level.WARNING
    level, words = trust([job], NOW)
    assert words.partition(";")[0] == ("all targets current" if trusted else "not verified: a")
    assert level is (Level.FINE if trusted else Level.WARNING)


def test_a_job_that_this_host_knows_nothing_of_is_unknown_and_not_among_those_that_follow() -> None:
    (unseen,) = complete([], load_usable(Path("c.toml"), {}, text=VALID), {})
    found = verdict(Local(NOW, (JOB, unseen)), NOW, apart="; ")
    assert found.level is Level.UNKNOWN
    said = "No problems; 1 job streaming, 1 never started; not seen from this host: orders_rt; "
    assert found.words.startswith(said), found


def test_jobs_that_were_started_elsewhere_are_counted() -> None:
    away = Fault("job_elsewhere", Party.PROCESS, "job b", Severity.UNKNOWN, "started elsewhere", job="b")
    local = Local(NOW, (JOB, replace(JOB, name="b", elsewhere=True, level=Level.UNKNOWN)), faults=(away,))
    found = verdict(local, NOW)
    assert (found.level, found.words, found.job) == (Level.UNKNOWN, "job b: started elsewhere", "b")
    assert "2 jobs streaming; 1 started elsewhere" in verdict(replace(local, faults=()), NOW).words


def test_the_person_on_it_is_shown_for_ten_minutes() -> None:
    line = AuditLine(
        NOW - timedelta(minutes=3), Actor("li.wei", "h", 7, uid=1000), "slots reset", "a1", Phase.INTENT, "t", "r"
    )
    local = Local(NOW, (JOB,), audit=(line,), locked=("a",), open_resets=(OpenReset("r1", "a", "t", "s1"),))
    ((level, words),) = at_work(local, NOW)
    assert level is Level.WARNING
    assert (
        words == "a command is starting a now   unfinished reset r1 of slot s1   3m00s ago li.wei uid 1000: slots reset"
    )
    assert at_work(replace(local, locked=(), open_resets=()), NOW + timedelta(minutes=8)) == []


def test_the_bottleneck_is_named_with_its_jobs() -> None:
    slow = replace(JOB, busy=Busy(0.9, 0.05, 0.05), lag_seconds=99.0)
    assert at_work(Local(NOW, (slow, replace(slow, name="b"), JOB)), NOW)[0][1] == "bottleneck: source (a, b)"
    assert at_work(Local(NOW, (replace(slow, alive=False),)), NOW) == []


def test_what_is_in_sync_counts_dns_then_chunks_and_is_unknown_without_a_lag() -> None:
    assert in_sync(JOB) is None
    half = replace(JOB, throughput={"dn_1": LanePace(1.0), "dn_2": LanePace(60.0)})
    assert in_sync(half) == 0.5 and job_rows([half], NOW)[0].cells["sync"] == "1/2"
    copying = replace(REPORT, lanes=(), chunks_done=31, chunks_total=50)
    assert in_sync(replace(JOB, report=copying)) == 0.62
    assert in_sync(replace(JOB, current=False)) is None


def test_unknown_is_a_question_mark_and_a_stopped_job_has_no_zero() -> None:
    (row,) = job_rows([JOB], NOW)
    assert {row.cells[name] for name in ("its", "sync", "table")} == {"?"}
    assert {row.cells[name] for name in ("lag", "rate", "spark")} == {"\u2013"}, "a dim dash in a cell"
    (row,) = job_rows([JobFacts("b", Level.REST, None)], NOW)
    assert {row.cells[name] for name in ("behind", "its", "sync", "worst", "pid")} == {"-"}
    assert {row.cells[name] for name in ("lag", "rate", "spark", "dns", "verified")} == {"\u2013"}
    assert row.order["lag"] is None


def test_the_worst_lag_is_on_top_and_named() -> None:
    throughput = {"dn_1": LanePace(1.0), "dn_2": LanePace(60.0)}
    late = replace(JOB, name="z", lag_seconds=60.0, throughput=throughput, spark=(None, 0.0, 50.0))
    rows = job_rows([JOB, late], NOW, ascii_only=True)
    assert [row.key for row in rows] == ["z", "a"]
    assert (rows[0].cells["worst"], rows[0].cells["its"], rows[0].cells["spark"]) == ("dn_2", "1m00s", " _2")


def test_each_fault_of_a_job_has_its_own_act_with_its_own_code() -> None:
    locked = Fault("lock_waits", Party.LOCK, "a lock", Severity.WARNING, "held", do="end it", job="a", code="SK-2101")
    loop = replace(CRASHED, do="read the log", code="SK-2406")
    job = facts(VIEW, [locked, loop, replace(loop, cause="again")], NOW)
    assert acts(job) == ["end it (SK-2101)", "read the log (SK-2406)"]
    assert acts(facts(VIEW, [], NOW)) == ["nothing"]
