"""Each verb is declared once; the command line, the menu, `:` and the confirmation use this declaration."""

from __future__ import annotations

import pytest
from typer.main import get_command

from slotkeeper.console.actions.commands import Origin, job_words
from slotkeeper.console.actions.menu import job_entries
from slotkeeper.console.actions.verbs import NEVER_STARTED, JobVerb, SlotVerb, why_not
from slotkeeper.console.commands import jobs, slots
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.tui.commands import COMMANDS
from slotkeeper.console.tui.screens.actions.confirm import effect
from slotkeeper.core.domain.job import JobState

RUNNING = JobFacts("orders", Level.FINE, JobState.RUNNING, alive=True)


@pytest.mark.parametrize("verb", JobVerb)
def test_a_verb_of_a_job_is_a_command_of_the_shell_with_its_help(verb: JobVerb) -> None:
    words = job_words(Origin(), verb, "orders")
    assert words == (*verb.does.command, verb.value, "--json", "orders")
    if verb.does.command == ("jobs",):
        command = get_command(jobs.app).commands[verb.value]  # type: ignore[attr-defined]
        assert not verb.does.help or command.help == verb.does.help


@pytest.mark.parametrize("verb", JobVerb)
def test_what_is_typed_is_said_as_declared(verb: JobVerb) -> None:
    assert (verb.value in COMMANDS) is bool(verb.does.typed)
    assert not verb.does.typed or COMMANDS[verb.value].help == verb.does.typed


@pytest.mark.parametrize("verb", SlotVerb)
def test_a_verb_of_a_slot_is_a_command_of_the_shell(verb: SlotVerb) -> None:
    assert verb.value in get_command(slots.app).commands  # type: ignore[attr-defined]
    assert not verb.does.typed or COMMANDS[verb.value].help == verb.does.typed


def test_the_menu_has_each_verb_under_its_own_letter() -> None:
    found = job_entries([RUNNING], ["orders"])
    assert [(one.what, one.key, one.label) for one in found] == [
        (verb.value, verb.does.key, verb.does.label) for verb in JobVerb if verb is not JobVerb.RESUME
    ]
    assert len({one.key for one in found}) == len(found)


@pytest.mark.parametrize("verb", [verb for verb in JobVerb if verb not in (JobVerb.START, JobVerb.VERIFY)])
def test_a_job_that_was_never_started_can_only_be_started(verb: JobVerb) -> None:
    assert why_not(verb, JobFacts("orders", Level.REST, None), ["orders"]) == NEVER_STARTED


def test_a_start_before_a_replacing_copy_does_not_say_that_it_resumes() -> None:
    awaits = JobFacts("orders", Level.WARNING, JobState.AWAITS_COPY, alive=False)
    for verb in (JobVerb.START, JobVerb.RESTART):
        assert effect(verb, awaits).startswith("copies the whole table again")
        assert effect(verb, RUNNING) == verb.does.means
    assert effect(JobVerb.CANCEL, awaits) == JobVerb.CANCEL.does.means
