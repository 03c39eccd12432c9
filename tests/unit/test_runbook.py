"""The runbook: each fault has a section of five parts; its commands exist and are the ones that tests execute."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from slotkeeper.console.commands.main import hoisted, main_command
from slotkeeper.core.errors import ConfigError
from slotkeeper.demo.incidents.record import STATUS, Incident, Manual
from slotkeeper.demo.incidents.registry import INCIDENTS, named
from slotkeeper.demo.sources import KINDS
from tests.architecture.checkout import ROOT

HEADINGS = ["Symptom", "Cause", "Impact", "Fix", "Verify"]
REJECTED = "**Rejected:**"
"""Starts the list, in the part Fix, of the commands that Slotkeeper rejects in this incident."""
TASKS = {
    *("I must reset a slot", "Slotkeeper was upgraded", "A new cluster, or a new kernel: how does it behave?"),
    *("I want a job on a Spark cluster", "I want a job on Kubernetes"),
}
"""Sections about a task, without a fault."""
PAGE = (ROOT / "docs" / "runbook.md").read_text("utf-8")
BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
MENTIONED = re.findall(r"`(slotkeeper [^\s`]+ [^`\n|.]+)`", BLOCK.sub("", PAGE))
"""A command in a sentence; a command that is only named, or several in one pair of backquotes, is not to be typed."""
COMMANDS = sorted({
    part.strip()
    for text in (*"\n".join(BLOCK.findall(PAGE)).splitlines(), *MENTIONED)
    for part in re.sub(r"^then |, and .*| N$", lambda found: " 1" if found[0] == " N" else "", text).split(" && ")
    if part.strip().startswith("slotkeeper ")
})  # fmt: skip


def sections(text: str) -> dict[str, str]:
    found = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def parts(section: str) -> dict[str, str]:
    """The parts of a section by their headings."""
    found = re.split(r"^### (.+)\n", section, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def typed_in(part: str) -> list[str]:
    """The commands in a part, line by line."""
    lines = "\n".join(BLOCK.findall(part)).splitlines()
    return [*lines, *re.findall(r"`([^`\n]+)`", BLOCK.sub("", part))]


def refused_by_parser(command: str) -> str:
    """The parser's error for a command; "" if it accepts the command. Nothing is executed."""
    group, words = main_command(), hoisted(shlex.split(command)[1:])
    try:
        context = group.make_context("slotkeeper", words)
        while hasattr(context.command, "resolve_command") and (*context._protected_args, *context.args):
            name, found, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
            context = found.make_context(name, rest, parent=context)
    except typer.TyperException as error:
        return str(error.format_message())
    return ""


def test_the_incidents_are_numbered_and_of_sources_that_a_demo_has() -> None:
    assert [one.number for one in INCIDENTS] == list(range(1, 23))
    assert len({one.name for one in INCIDENTS} | {one.page for one in INCIDENTS}) == 44
    assert {one.source for one in INCIDENTS} == {"dws", "mysql"} <= KINDS.keys()
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)+", one.name) for one in INCIDENTS)


def test_a_name_that_is_none_is_refused_with_where_to_look() -> None:
    with pytest.raises(ConfigError, match="unknown incident 'nope'") as refused:
        named("nope")
    assert "--incident list" in refused.value.hint


@pytest.mark.parametrize("title", sorted(sections(PAGE).keys() - TASKS))
def test_a_section_about_a_fault_has_the_five_parts_each_with_a_text(title: str) -> None:
    found = parts(sections(PAGE)[title])
    assert list(found) == HEADINGS
    assert all(part.strip() for part in found.values())


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda one: one.name)
def test_each_incident_has_its_section_with_the_commands_that_are_typed(incident: Incident) -> None:
    assert f"| {incident.number} | `{incident.name}` | [{incident.page}](" in PAGE
    found = parts(sections(PAGE)[incident.page])
    assert incident.signal.command.text in typed_in(found["Symptom"])
    assert all(f"`{rule}`" in found["Symptom"] for rule in incident.signal.rules)
    fix, _, rejected = found["Fix"].partition(REJECTED)
    assert incident.refusal.command.text in typed_in(rejected)
    fix += found["Verify"]
    typed, said = typed_in(fix), " ".join(fix.lower().split())
    for step in incident.cure:
        assert step.text.lower() in said if isinstance(step, Manual) else step.text in typed
    assert incident.cure[-1].text in typed_in(found["Verify"])


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda one: one.name)
def test_each_incident_shows_by_rules_and_parties_that_there_are_and_by_status_or_it_says_why_not(
    incident: Incident,
) -> None:
    signal, rules = incident.signal, rules_of_alerts()
    assert signal.rules and signal.parties
    for rule in signal.rules:
        assert {party.value for party in signal.parties} <= rules[rule]
    assert (signal.command.text == STATUS) == (not signal.why)


def rules_of_alerts() -> dict[str, set[str]]:
    part = (ROOT / "docs" / "alerts.md").read_text("utf-8").split("\n## Rules\n", 1)[1].split("\n## ", 1)[0]
    cells = [[one.strip() for one in line.strip("|").split("|")] for line in part.splitlines() if line[:3] == "| `"]
    return {row[0].strip("`"): set(row[1].split(", ")) for row in cells}


def test_every_rule_that_the_runbook_names_as_an_alert_is_one() -> None:
    said = re.findall(r"[Tt]he\s+alert\s+is\s+([^.;]*)", PAGE)
    named = {rule for part in said for rule in re.findall(r"`([a-z_]+)`", part)}
    assert len(named) > 10
    assert named <= rules_of_alerts().keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_runbook_is_one(command: str) -> None:
    assert not refused_by_parser(command)


@pytest.mark.parametrize(
    "command", ["slotkeeper jobs strat x", "slotkeeper slots drop a", "slotkeeper verify x --soon"]
)
def test_a_command_that_is_none_is_seen(command: str) -> None:
    assert refused_by_parser(command)
