"""Runs an incident from its definition: causes it, waits for its symptom, tries the rejected command, and fixes it."""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import dataclass
from datetime import datetime, timezone

from slotkeeper.core.errors import Refused, Unreachable
from slotkeeper.demo.incidents import maria
from slotkeeper.demo.incidents.record import JOB, START, VERIFY, Answer, AtSink, Command, Incident, Step, World
from slotkeeper.demo.mariadb import MariaServer

SHOWN_WITHIN = 60.0
"""Seconds within which an incident must be reported; most need a few seconds; a lag needs its limit of 30 s."""
READ_WITHIN = 240.0
"""Seconds allowed for a start with its copy and later changes, including Spark's start on a busy host."""
DRAIN = ("jobs", "drain", JOB, "--wait", "10s")
POLL = 0.2
_PLAN = re.compile(r"--plan (\S+)")
_ROWS = re.compile(r"--rows (\d+)")
_STILL_WANTED = "the request remains"


@dataclass(frozen=True, slots=True)
class Made:
    """When the incident started, and how it was caused."""

    since: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Shown:
    """When the incident was reported, how many seconds after its start, and with which text."""

    at: datetime
    after_s: float
    said: str


def run(world: World, command: Command) -> Answer:
    """Run one command exactly as written."""
    return world.run(shlex.split(command.text)[1:])


def make(world: World, incident: Incident) -> Made:
    """Cause the incident."""
    text = incident.make(world)
    return Made(world.began, text)


def shown(world: World, incident: Incident, made: Made, within: float = SHOWN_WITHIN) -> Shown:
    """Wait until the incident is reported. Raises Unreachable if it is not reported within the given seconds."""
    signal, began = incident.signal, time.monotonic()
    while True:
        answer = run(world, signal.command)
        if answer.code in signal.command.ends and (words := _first(signal.says, answer.text)):
            at = datetime.now(timezone.utc)
            return Shown(at, round((at - made.since).total_seconds(), 1), words)
        if time.monotonic() - began > within:
            raise Unreachable(
                f"{incident.name}: the symptom did not appear within {within:g} s in `{signal.command.text}`: {answer}"
            )
        time.sleep(POLL)


def refused(world: World, incident: Incident) -> Answer:
    """Try the command that Slotkeeper rejects. Raises Refused if it is accepted or fails with another message."""
    answer = run(world, incident.refusal.command)
    if _STILL_WANTED in answer.text:
        answer = _ended(world, answer)
    if answer.code not in incident.refusal.command.ends or not _first(incident.refusal.says, answer.text):
        raise Refused(f"{incident.name}: {incident.refusal.command.text} exited with code {answer.code}: {answer.text}")
    return answer


def _ended(world: World, before: Answer) -> Answer:
    """Return the result of a start that took longer than the command waits, as on a busy host."""
    end = time.monotonic() + READ_WITHIN
    while '"FAILED"' not in (text := world.run(("status", "--json")).text):
        if time.monotonic() > end:
            return before
        time.sleep(POLL)
    return Answer(before.code, text)


def cure(world: World, incident: Incident) -> None:
    """Fix the incident, step by step. Raises Refused if a step does not end as expected."""
    before = Answer(0, "")
    for step in incident.cure:
        before = _step(world, step, before) or before


def _step(world: World, step: Step, before: Answer) -> Answer | None:
    if isinstance(step, AtSink):
        world.at_sink(step.text)
        return None
    if not isinstance(step, Command):
        step.act(world)
        return None
    if step is VERIFY:
        _wait_read(world)
    answer = run(world, filled(step, before.text))
    if answer.code not in step.ends and not (step is START and _STILL_WANTED in answer.text):
        raise Refused(f"{step.text} exited with code {answer.code}: {answer.text}")
    return answer


def filled(command: Command, printed: str) -> Command:
    """Return the command with the plan's id and the number of rows from the output of the preceding dry run.

    >>> filled(Command("do --plan ID --rows N"), "... --plan p1 --confirm s ...").text
    'do --plan p1'
    """
    text = command.text
    for pattern, option, name in ((_PLAN, " --plan ", "ID"), (_ROWS, " --rows ", "N")):
        if text.endswith(f"{option}{name}") or f"{option}{name} " in text:
            found = pattern.search(printed)
            text = text.replace(f"{option}{name}", f"{option}{found[1]}" if found else "")
    return Command(text, command.ends)


def _wait_read(world: World) -> None:
    """Wait until the job has read everything: a copy may still be running, or a driver may be starting."""
    end = time.monotonic() + READ_WITHIN
    while said := _left(world):
        if '"FAILED"' in world.run(("status", "--json")).text or time.monotonic() > end:
            raise Refused(f"the job did not read all changes: {said}")
        time.sleep(POLL)


def _left(world: World) -> str:
    """Return what the job reports as not yet read; "" once it has read everything."""
    if isinstance(world.source, MariaServer):
        return "" if maria.is_caught_up(world) else "its position is before the end of the binlog"
    answer = world.run(DRAIN)
    return answer.text if answer.code else ""


def _first(words: tuple[str, ...], text: str) -> str:
    said = " ".join(text.split()).lower()
    return next((each for each in words if each.lower() in said), "")
