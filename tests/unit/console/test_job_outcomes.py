"""What a result says of a job agrees with what the job is by then."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from slotkeeper.console.actions.outcome import job_lines
from slotkeeper.console.actions.record import Action, Record, Said, Stage
from slotkeeper.console.actions.verbs import JobVerb
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.core.domain.job import JobState

NOW = datetime(2026, 11, 21, 2, 31, 7, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("verb", "state", "said"),
    [
        (JobVerb.START, JobState.RUNNING, "not applied in time"),
        (JobVerb.START, JobState.FAILED, "not applied yet"),
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


def test_a_state_read_before_the_command_ended_is_not_shown_as_the_current_one() -> None:
    record = Record("id", ("jobs",), "pause job a", "a", "me", True, NOW, ended_at=NOW, code=0)
    words, job = Said('{"job": "a", "state": "PAUSED"}', ""), JobFacts("a", Level.FINE, JobState.RUNNING, alive=True)
    asked = JobVerb.PAUSE, Action(record, Stage.ENDED), words, job, NOW
    assert "a is now RUNNING" not in [text for _, text in job_lines(*asked, NOW - timedelta(seconds=1))]
    assert job_lines(*asked, NOW + timedelta(seconds=1))[-1][1] == "a is now RUNNING"
