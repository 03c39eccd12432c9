"""The result of an action agrees with the state of the job at that time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slotkeeper.console.actions.outcome import job_lines, verdict
from slotkeeper.console.actions.record import Action, Record, Said, Stage
from slotkeeper.console.actions.verbs import JobVerb
from slotkeeper.console.commands.job_verbs import noted
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.launch.view import Starting, observe
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.sqlite import Store

NOW = datetime(2026, 11, 21, 2, 31, 7, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("verb", "state", "said"),
    [
        (JobVerb.STOP, JobState.STOPPED, "not applied in time"),
        (JobVerb.STOP, JobState.RUNNING, "not applied yet"),
    ],
)
def test_a_result_never_says_not_applied_yet_above_what_was_asked_for(
    verb: JobVerb, state: JobState, said: str
) -> None:
    record = Record("id", ("jobs",), "start job a", "a", "me", True, NOW, ended_at=NOW, code=1)
    words = Said('{"job": "a", "state": "PENDING"}', "slotkeeper: it took too long\n")
    lines = job_lines(verb, Action(record, Stage.ENDED), words, JobFacts("a", Level.FINE, state, alive=True), NOW)
    first, last = lines[0][1], lines[-1][1]
    assert first.endswith(said) and last == f"a is now {state.value}"


@pytest.mark.parametrize("verb", [JobVerb.START, JobVerb.RESTART])
@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.PENDING, JobState.FAILED])
def test_a_start_that_is_still_pending_was_accepted_and_has_not_failed(verb: JobVerb, state: JobState) -> None:
    record = Record(
        "id", ("jobs",), "start job a", "a", "me", True, NOW - timedelta(seconds=38.5), ended_at=NOW, code=1
    )
    words = Said('{"job": "a", "state": "PENDING"}', "slotkeeper: job a is still starting: after 30 s it is PENDING\n")
    action = Action(record, Stage.ENDED)
    lines = job_lines(verb, action, words, JobFacts("a", Level.FINE, state, alive=True), NOW)
    assert lines[0] == (
        Level.BUSY,
        "a: the start was accepted and continues; PENDING when the command ended at 02:31:07Z, 38.5 s",
    )
    last = (
        "job a is still starting: after 30 s it is PENDING" if state is JobState.PENDING else f"a is now {state.value}"
    )
    assert [text for _, text in lines[1:]] == [last]
    assert verdict(action, words, NOW) == (Level.BUSY, "job a is still starting: after 30 s it is PENDING")


def test_the_audit_records_a_start_that_continues_by_the_state_that_was_seen(tmp_path: Path) -> None:
    with Store.open(tmp_path / "state", migrates=True) as store:
        store.register_job("a", "")
        view = observe(store, "a")

        def act() -> JobStatus:
            raise Starting(replace(view, state=JobState.PENDING, reason="dn_1 is asked"), "after 30 s")

        with pytest.raises(Starting, match="job a is still starting: after 30 s it is PENDING: dn_1 is asked"):
            noted(store, "jobs start", "a", "", act)
        last = Audit(store.folder).read().lines[0]
    assert (last.outcome, last.failed) == ("PENDING: the start continues", False)


def test_a_state_read_before_the_command_ended_is_not_shown_as_the_current_one() -> None:
    record = Record("id", ("jobs",), "pause job a", "a", "me", True, NOW, ended_at=NOW, code=0)
    words, job = Said('{"job": "a", "state": "PAUSED"}', ""), JobFacts("a", Level.FINE, JobState.RUNNING, alive=True)
    asked = JobVerb.PAUSE, Action(record, Stage.ENDED), words, job, NOW
    assert "a is now RUNNING" not in [text for _, text in job_lines(*asked, NOW - timedelta(seconds=1))]
    assert job_lines(*asked, NOW + timedelta(seconds=1))[-1][1] == "a is now RUNNING"
