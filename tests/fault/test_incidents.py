"""The incidents: each is shown, a hasty command is rejected, and the documented fix ends in equal tables.

The job is a supervised one without Spark, the commands are those of the runbook, word for word.
"""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.job import JobEvent, JobState
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.incident_command import Rehearsal
from slotkeeper.demo.incidents.record import Incident
from slotkeeper.demo.incidents.registry import INCIDENTS
from slotkeeper.demo.incidents.rows import QUARANTINE_FULL
from slotkeeper.demo.run import JOB
from tests.support.scenes import SECONDS, MakeWorld
from tests.support.waiting import until

OFTEN = ("dead-slot", "clock-skew", "disk-full")
"""The quicker incidents, at least one of each group; the chaos run plays the others."""
CASES = [pytest.param(one, id=one.name, marks=() if one.name in OFTEN else (pytest.mark.chaos,)) for one in INCIDENTS]


@pytest.mark.parametrize("incident", CASES)
def test_an_incident_shows_is_refused_and_is_cured(incident: Incident, make_world: MakeWorld) -> None:
    with make_world(incident) as made:
        rehearsal = Rehearsal(incident, made)
        rehearsal.play(lambda: None)
    print(rehearsal.values())
    assert rehearsal.fine, rehearsal.why


def test_a_start_that_ends_as_the_run_before_it_is_never_told_to_be_running(make_world: MakeWorld) -> None:
    with make_world(QUARANTINE_FULL) as made, Store.open(made.state) as store:
        QUARANTINE_FULL.make(made)
        until(lambda: store.state(JOB) is JobState.FAILED, SECONDS, "more bad rows than the limit end the job")
        before = len(store.events(JOB, 1_000))
        answer = made.run(["jobs", "start", JOB])
        told = [one.event for one in store.events(JOB, 1_000)][: -before or None]
        assert (answer.code, JobEvent.CAUGHT_UP.value in told) == (1, False), answer.text
        assert "will fail again unless you do this" in answer.text and "QUARANTINE FULL" in answer.text
        assert f"{JOB}: RUNNING" not in answer.text
        made.at_sink("ALTER TABLE mart.orders DROP CONSTRAINT not_late")
        answer = made.run(["jobs", "start", JOB])
        assert answer.code == 0 and answer.text.startswith(f"{JOB}: RUNNING\n"), answer.text
