"""`slotkeeper demo --incident NAME`: runs the demo with an incident; with --headless, also detects and fixes it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from slotkeeper.console.cli import diagnostics, output
from slotkeeper.console.cli.output import CLOCK, both
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.text import see
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.demo.incidents import play
from slotkeeper.demo.incidents.play import Made, Shown
from slotkeeper.demo.incidents.record import AtSink, Incident, Manual, World
from slotkeeper.demo.incidents.registry import INCIDENTS
from slotkeeper.demo.run import Demo

LIST = "list"
ROWS = 20_000
"""Default rows of the table with an incident."""
CALM_SECONDS = 5.0
"""Seconds between the console's start and the incident."""
_EVERY = 2.0
Watch = Callable[[Callable[[], None], Sequence[str]], None]


def list_all(as_json: bool, ascii_only: bool) -> None:
    """Print all incidents."""
    if as_json:
        output.as_json([{"incident": one.name, **_about(one)} for one in INCIDENTS])
        return
    rows: list[list[object]] = [[one.number, one.name, one.brief, one.page] for one in INCIDENTS]
    output.table(["", "incident", "what happens", f"runbook section ({see('runbook')})"], rows, ascii_only)


def _about(one: Incident) -> dict[str, object]:
    return {
        "number": one.number,
        "brief": one.brief,
        "runbook": page_of(one),
        "signal": one.signal.command.text,
        "rules": one.signal.rules,
        "refused": one.refusal.command.text,
        "cure": [step.text for step in one.cure],
        "stand_in": one.stand_in or None,
    }


def page_of(one: Incident) -> str:
    """Return the command that opens the incident's section of the runbook."""
    return see("runbook", one.page)


def wait_running(run: Demo) -> None:
    """Wait until the copy is done and the job has caught up once."""
    run.wait_for(lambda: run.view().state is JobState.RUNNING)


def say_what_to_try(incident: Incident, run: Demo, world: World) -> None:
    """Print the incident, its symptom, and the commands to type."""
    diagnostics.note(f"{incident.name}: {incident.brief}")
    if incident.stand_in:
        diagnostics.note(f"simulation: {incident.stand_in}")
    diagnostics.note(f"runbook: {page_of(incident)}")
    diagnostics.note(f"run each command with --config {run.config}")
    diagnostics.note(f"symptom: {incident.signal.command.text}")
    diagnostics.note(f"this command is rejected: {incident.refusal.command.text}")
    for step in way_out(incident, world):
        diagnostics.note(f"fix, step {step}")
    for line in run.sessions():
        diagnostics.note(line)


def way_out(incident: Incident, world: World) -> list[str]:
    """Return the steps that fix the incident."""
    found = []
    for number, step in enumerate(incident.cure, 1):
        here = f" (here: {step.here(world)})" if isinstance(step, Manual) else ""
        where = "in the sink: " if isinstance(step, AtSink) else ""
        found.append(f"{number}: {where}{step.text}{here}")
    return found


def say_made(made: Made) -> None:
    """Print when the incident started, and how it was caused."""
    diagnostics.note(f"incident started at {both(made.since, CLOCK)}: {made.text}")


# -- headless ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Rehearsal:
    """One incident, run from start to end; `why` contains the errors of failed parts, and earlier results remain."""

    incident: Incident
    world: World
    made: Made | None = None
    shown: Shown | None = None
    refused: bool = False
    cured: bool = False
    why: list[str] = field(default_factory=list)

    def play(self, quiet: Callable[[], None]) -> None:
        """Cause the incident, wait until it is reported, try the command that is rejected, and fix the incident;
        `quiet` stops the writers before the fix.
        """
        self.made = play.make(self.world, self.incident)
        say_made(self.made)
        self._try(self._show)
        self._try(self._refuse)
        quiet()
        self._try(self._cure)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except SlotkeeperError as error:
            self.why.append(error.message)
            diagnostics.warn(error.message)

    def _show(self) -> None:
        assert self.made is not None
        self.shown = play.shown(self.world, self.incident, self.made)
        diagnostics.note(f"detected after {self.shown.after_s:.1f} s: {self.shown.said}")

    def _refuse(self) -> None:
        play.refused(self.world, self.incident)
        self.refused = True
        diagnostics.note(f"command rejected, as expected: {self.incident.refusal.command.text}")

    def _cure(self) -> None:
        play.cure(self.world, self.incident)
        self.cured = True
        diagnostics.note("fixed: source and target are equal")

    @property
    def fine(self) -> bool:
        """Whether the whole incident went as described in the runbook."""
        return self.shown is not None and self.refused and self.cured

    def values(self) -> dict[str, object]:
        """Return the result."""
        return {
            "incident": self.incident.name,
            "t0": self.made.since if self.made else None,
            "shown_at": self.shown.at if self.shown else None,
            "shown_after_s": self.shown.after_s if self.shown else None,
            "signal": self.shown.said if self.shown else None,
            "refused": self.refused,
            "cured": self.cured,
            "why": self.why,
        }


def play_headless(run: Demo, incident: Incident) -> Rehearsal:
    """Run the whole incident without a console."""
    wait_running(run)
    world = run.world()
    rehearsal = Rehearsal(incident, world)
    try:
        rehearsal.play(run.quiet_writers)
    finally:
        world.opened.close()
    return rehearsal


# -- with a console ---------------------------------------------------------------------------------------------------


def play_watched(run: Demo, incident: Incident, watch: Watch) -> dict[str, object]:
    """Cause the incident a few seconds after `watch` has started to show the job.

    `watch` gets a function that it must call regularly, and the text about the incident for the console.

    On a terminal, the message about the incident's start is held back until the console is closed.
    """
    wait_running(run)
    world, made, kept = run.world(), list[Made](), sys.stderr.isatty()
    say_what_to_try(incident, run, world)
    diagnostics.note(f"the incident starts {CALM_SECONDS:g} s after the console opens")
    began = threading.Event()
    timer = threading.Timer(CALM_SECONDS, began.set)
    timer.start()

    def turn() -> None:
        if began.is_set() and not made:
            made.append(play.make(world, incident))
            if not kept:
                say_made(made[0])

    try:
        watch(turn, [f"incident {incident.name}, see `slotkeeper docs runbook`", *way_out(incident, world)])
    finally:
        timer.cancel()
        if made and kept:
            say_made(made[0])
        view = run.view()
        world.opened.close()
        run.quiet_writers()
    return {
        "incident": incident.name,
        "t0": made[0].since if made else None,
        "state": view.state,
        "why": view.reason or None,
    }


def follow_in_lines(run: Demo, turn: Callable[[], None]) -> None:
    """Print a line at each change of the job's state, until Ctrl-C."""
    pause, said = threading.Event(), ""
    try:
        while True:
            turn()
            view = run.view()
            line = f"{view.state.value}{f': {view.reason}' if view.reason else ''}"
            if line != said:
                diagnostics.note(line)
                said = line
            pause.wait(_EVERY / 10)
    except KeyboardInterrupt:
        diagnostics.note("stopping")
