"""Errors by kind, whether they are open, and their known causes."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import timedelta

import pytest

from slotkeeper.console.monitor.snapshot import JobFacts, Level, Local
from slotkeeper.console.views.errors import (
    Standing,
    ack_key,
    error_key,
    error_lines,
    error_rows,
    open_count,
    standings,
    summary,
    within,
)
from slotkeeper.console.views.remedies import UNKNOWN_KIND, Loss, named, ranked, remedy_for
from slotkeeper.core.domain.fault import Ack, Fault, Party, Severity
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.errors import TroubleName
from slotkeeper.core.judgement.servers import CAUSES, Message
from slotkeeper.core.state.rows import ErrorRow
from tests.tui.filled import NOW

OPEN = "a start waits for open transactions"
OLD = NOW - timedelta(minutes=20)


def error(job: str, signature: str, last: object = NOW, message: str = "source dws1: refused") -> ErrorRow:
    return ErrorRow(job, signature, 3, OLD, last, "source", "08001", message)  # type: ignore[arg-type]


def local(state: JobState, level: Level, *errors: ErrorRow) -> Local:
    return Local(NOW, (JobFacts("a", level, state, "why", alive=True),), errors=errors)


def test_the_last_error_of_a_failed_job_is_fatal_and_earlier_ones_are_past() -> None:
    found = standings(local(JobState.FAILED, Level.CRITICAL, error("a", "1", OLD), error("a", "2")), {}, NOW)
    assert [state for _, state in found] == [Standing.PAST, Standing.FATAL]


def test_an_error_is_healed_once_its_job_runs_well_again() -> None:
    assert standings(local(JobState.RUNNING, Level.FINE, error("a", "1")), {}, NOW)[0][1] is Standing.RECOVERED


def test_the_error_of_a_job_that_retries_is_open() -> None:
    made = local(JobState.RUNNING, Level.WARNING, error("a", "1", OLD), error("a", "2", OLD + timedelta(minutes=9)))
    assert [state for _, state in standings(made, {}, NOW)] == [Standing.RECOVERED, Standing.OPEN]
    assert open_count(made, {}, NOW) == 1
    assert open_count(Local(), {}, NOW) == 0


def test_a_window_hides_what_is_over_and_older_and_never_what_still_matters() -> None:
    made = local(JobState.FAILED, Level.CRITICAL, error("a", "1", OLD), error("a", "2", OLD + timedelta(seconds=1)))
    rows = error_rows(made, {}, NOW)
    assert within(rows, 0, NOW) == rows == within(rows, 3_600, NOW)
    assert [row.key for row in within(rows, 600, NOW)] == ["a\x1f2"]


@pytest.mark.parametrize("state", [JobState.PAUSED, JobState.RUNNING])
def test_an_error_from_before_a_pause_or_before_the_job_was_level_is_none_of_now(state: JobState) -> None:
    made = local(state, Level.WARNING, error("a", "1", NOW - timedelta(seconds=9)))
    paused = replace(made, jobs=(replace(made.jobs[0], changed_at=NOW),))
    assert [standings(one, {}, NOW)[0][1] for one in (made, paused)] == [Standing.OPEN, Standing.RECOVERED]


def test_what_still_matters_stands_above_what_is_newer() -> None:
    first = error("a", "1", OLD)
    made = Local(NOW, (JobFacts("a", Level.CRITICAL, JobState.FAILED),), errors=(first, error("gone", "2")))
    assert [row.key for row in error_rows(made, {}, NOW)] == [error_key(first), "gone\x1f2"]
    assert [row.key for row in error_rows(made, {}, NOW, "gone")] == ["gone\x1f2"]


def test_an_acknowledged_error_is_quiet_until_it_happens_again() -> None:
    one = error("a", "1", OLD)
    made = local(JobState.RUNNING, Level.WARNING, one)
    acks = {ack_key(one): Ack("li.wei", NOW)}
    assert standings(made, acks, NOW)[0][1] is Standing.ACKED
    again = replace(made, errors=(replace(one, last_at=NOW),))
    assert standings(again, acks, NOW)[0][1] is Standing.OPEN


def test_the_title_counts_kinds_and_times() -> None:
    made = local(JobState.RUNNING, Level.WARNING, error("a", "1"), error("a", "2"))
    assert summary(error_rows(made, {}, NOW)) == "2 kinds, 6 occurrences"


def test_the_panel_has_the_whole_message_and_the_ways_out_with_names_put_in() -> None:
    one = error("a", "1", message="SLOT LOST: dn_1: gone \x1b[31m")
    lines = [text for _, text in error_lines(one, JobFacts("a", Level.CRITICAL, JobState.FAILED), NOW)]
    assert lines[0].startswith("Problem  SLOT LOST: dn_1: gone ") and "\x1b" not in lines[0]
    assert any("slotkeeper verify a" in text for text in lines)
    assert not any(" JOB" in text for text in lines)


@pytest.mark.parametrize("name", list(TroubleName))
def test_every_command_beside_a_named_trouble_has_the_jobs_name_in_it(name: TroubleName) -> None:
    one = error("a", "1", message=f"{name.value}: x")
    lines = [text for _, text in error_lines(one, JobFacts("a", Level.CRITICAL, JobState.FAILED), NOW)]
    assert not any(" JOB" in text for text in lines)


@pytest.mark.parametrize("name", list(TroubleName))
def test_every_name_of_trouble_has_a_remedy_that_keeps_its_safe_sentence(name: TroubleName) -> None:
    remedy = remedy_for(name.value, "")
    assert remedy is remedy_for("", f"{name.value}: x") and remedy is not UNKNOWN_KIND
    assert remedy.title.startswith(f"{name.value}: ")


@pytest.mark.parametrize(
    ("code", "message", "title"),
    [
        ("08006", "", "connection lost"),
        ("", "dn_3: connection refused", "connection refused"),
        ("28P01", "", "password rejected"),
        ("42501", "", "missing privilege"),
        ("57014", "", "statement cancelled"),
        ("53300", "", "too many connections"),
        ("53100", "", "disk full"),
        ("22003", "", "value does not fit the column"),
        ("42883", "", "function does not exist"),
        ("SIGKILL", "driver ended: killed by SIGKILL", "the driver crashed"),
        ("", "driver ended: exit code 1", "the driver crashed"),
        ("", "its driver ended with an error that requires an action", "unknown kind of error"),
        ("", "dn_1 does not answer: the DN set may have changed", "server does not answer"),
        ("", "reset r1 of slot s is unfinished", "a reset is unfinished"),
        ("08006", "source dws1: FATAL: Invalid username/password,login denied", "password rejected"),
        ("08006", "source dws1: FATAL: The account has been locked.", "account locked"),
        ("08006", "sink m: SSL error: certificate verify failed", "TLS rejected"),
        ("08006", "sink m: server does not support SSL, but SSL was required", "TLS rejected"),
        ("", "the session that holds the lease does not answer", "server does not answer"),
        (
            "",
            "ods.t has row-level security, which can hide rows from this login",
            "rows or values may be hidden from this login",
        ),
        (
            "",
            "ods.t has a redaction policy: the job would copy masked values",
            "rows or values may be hidden from this login",
        ),
        ("", "target mart.t does not exist: take a new snapshot", "a copy cannot continue"),
        ("", "unknown mode of the unfinished copy into mart.t", "a copy cannot continue"),
        ("", "the shadow table of the unfinished copy into mart.t does not exist", "a copy cannot continue"),
        ("", "target mart.t belongs to job x (dws1 ods.t slot x)", "the target belongs to another job"),
        ("", "target mart.t belongs to no job: its lock is held by x", "another session has the target's lock"),
        (
            "",
            "the lease of ods.t slot s is held by a session that belongs to no job: x",
            "another session has the lease's lock",
        ),
        ("", "the lease of ods.t slot s is held by a session that is not", "another session has the lease's lock"),
        ("", "the lease of ods.t slot s is held by job x run y by z", "another run has the lease"),
        ("", "target mart.t is not empty", "the target is not empty"),
        ("", "gtm_option is gtm-lite: not documented", "the cluster's order of transactions is not certain"),
        ("", "waiting for transactions that were open when recording started: etl pid 7", OPEN),
        ("", "waiting for an unlisted transaction that was open when recording started (of another database)", OPEN),
        ("", "cannot see all sessions of other logins; xmin does not advance: an open transaction may exist", OPEN),
        ("", "never seen", UNKNOWN_KIND.title),
    ],
)
def test_a_known_kind_is_recognized_by_its_code_or_else_by_its_text(code: str, message: str, title: str) -> None:
    assert remedy_for(code, message).title == title


@pytest.mark.parametrize("cause", CAUSES, ids=[cause.code for cause in CAUSES])
def test_what_a_server_refuses_has_the_act_of_its_own_code_and_no_other(cause: Message) -> None:
    for code in cause.codes:
        known = remedy_for(code, f"sink mart: {code}")
        assert (known.code, known.title) == (cause.code, cause.problem) and known.means and len(known.options) == 2
        assert "{" not in known.options[0].do


def test_ways_out_are_ranked_by_what_they_lose() -> None:
    for name in TroubleName:
        losses = [one.loses for one in ranked(remedy_for(name.value, "").options)]
        assert losses == sorted(losses) and losses[0] is Loss.NOTHING


def test_names_are_put_in_as_a_shell_takes_them_and_never_into_each_other() -> None:
    assert named("start JOB now", r"a\1b") == r"start 'a\1b' now"
    assert shlex.split(named("reset TABLE SLOT", "SLOT", "ods.MY SLOT '; $(x)", "TABLE")) == [
        "reset",
        "ods.MY SLOT '; $(x)",
        "TABLE",
    ]


def test_progress_lost_leads_to_no_refused_reset() -> None:
    remedy = remedy_for(TroubleName.PROGRESS_LOST.value, "")
    assert not any("slots reset" in one.do for one in remedy.options)
    assert "Restore" in remedy.title and "slots drop" in remedy.title and "on_existing" in remedy.title


@pytest.mark.parametrize(
    ("code", "message", "says"),
    [
        ("", "FATAL:  The account has been locked.", "ALTER USER ... ACCOUNT UNLOCK for the account of the user"),
        ("53300", 'too many connections for role "Etl"', '`ALTER ROLE "Etl" CONNECTION LIMIT -1;`'),
    ],
)
def test_a_printed_statement_names_its_account_also_where_only_the_error_is_known(
    code: str, message: str, says: str
) -> None:
    (act, *_) = remedy_for(code, message).options
    assert says in act.do and '""' not in act.do


def test_an_error_from_which_the_job_has_recovered_orders_no_snapshot() -> None:
    job = JobFacts("a", Level.FINE, JobState.RUNNING, changed_at=NOW + timedelta(minutes=1))
    lines = [text for _, text in error_lines(error("a", "1", message="SLOT LOST: dn_1: gone"), job, NOW)]
    assert lines[-1] == "Means    SLOT LOST: no action needed: the job has recovered"
    assert not any("Do not resume" in text or "slots reset" in text for text in lines)


def test_a_printed_snapshot_says_what_a_target_with_rows_requires() -> None:
    job = JobFacts("a", Level.CRITICAL, JobState.FAILED)
    lines = [text for _, text in error_lines(error("a", "1", message="SLOT LOST: dn_1: gone"), job, NOW)]
    (reset,) = [text for text in lines if "--to snapshot" in text]
    assert "--on-existing replace or merge if the target has rows" in reset


def test_what_ended_a_job_has_the_judgements_act_also_among_the_errors() -> None:
    act = "`slotkeeper slots reset ods.t s --to snapshot --on-existing replace` plans a new copy"
    fault = Fault("job_failed", Party.SLOT, "SLOT LOST", Severity.CRITICAL, "dn_1: gone", "", act, job="a")
    job = JobFacts("a", Level.CRITICAL, JobState.FAILED, trouble="SLOT LOST", faults=(fault,))
    lines = [text for _, text in error_lines(error("a", "1", message="SLOT LOST: dn_1: gone"), job, NOW)]
    assert [text for text in lines if "--to snapshot" in text] == [f"         2  {act} (copies everything again)"]
