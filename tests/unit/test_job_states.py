"""The state function covers every case, and the diagram of the page agrees with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotkeeper.core.domain.job import WITH_PROCESS, JobEvent, JobState, transition
from slotkeeper.core.errors import Refused

PAGE = Path(__file__).parents[2] / "docs" / "states.md"


def answer(state: JobState, event: JobEvent) -> str:
    try:
        return transition(state, event).value
    except Refused as refused:
        assert state.value in refused.message
        assert event.value in refused.message
        return "-"


def test_the_page_says_what_the_function_says() -> None:
    lines = PAGE.read_text(encoding="utf-8").split("<!-- transitions:")[1].splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    states = [JobState(name) for name in table[0][1:]]
    assert set(states) == set(JobState)
    drawn = {(state, JobEvent(row[0])): cell for row in table[2:] for state, cell in zip(states, row[1:], strict=True)}
    assert drawn == {(state, event): answer(state, event) for state in JobState for event in JobEvent}


@given(st.sampled_from(JobState), st.sampled_from(JobEvent))
def test_every_pair_has_an_answer(state: JobState, event: JobEvent) -> None:
    assert answer(state, event) in {"-", *(known.value for known in JobState)}


@given(st.lists(st.sampled_from(JobEvent), max_size=30))
def test_cancelled_is_final_and_running_only_follows_a_done_copy(events: list[JobEvent]) -> None:
    state, copying = JobState.STOPPED, False
    for event in events:
        try:
            after = transition(state, event)
        except Refused:
            continue
        assert state is not JobState.CANCELLED
        # a new run, or a resumed one, reports by itself whether it copies
        if event in (JobEvent.COPY_BEGAN, JobEvent.COPY_DONE, JobEvent.START, JobEvent.BEGAN, JobEvent.RESUMED):
            copying = after is JobState.SNAPSHOT
        if after is JobState.RUNNING:
            assert not copying
        state = after


@given(st.sampled_from(JobState), st.sampled_from(JobEvent))
def test_only_a_start_gives_a_process_to_a_job_that_has_none(state: JobState, event: JobEvent) -> None:
    try:
        after = transition(state, event)
    except Refused:
        return
    if state not in WITH_PROCESS and after in WITH_PROCESS:
        assert event is JobEvent.START


@pytest.mark.parametrize("state", sorted(WITH_PROCESS, key=str))
def test_whatever_has_a_process_can_be_paused_stopped_failed_and_found_gone(state: JobState) -> None:
    assert transition(state, JobEvent.PAUSED) is JobState.PAUSED
    assert transition(state, JobEvent.STOPPED) is JobState.STOPPED
    assert transition(state, JobEvent.FAILED) is JobState.FAILED
    assert transition(state, JobEvent.GONE) is JobState.STOPPED


def test_resume_goes_through_pending() -> None:
    assert transition(JobState.PAUSED, JobEvent.RESUMED) is JobState.PENDING
