"""What became of an action: requested and observed, until it has ended and after; never just "success".

Leaving does not end it: it runs apart from the console. Next door: `console.actions.outcome` has the words,
`history` beside this lists what was done lately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.timer import Timer

from console.actions import outcome
from console.actions.commands import Doing, JobVerb, SlotVerb
from console.actions.outcome import job_lines, outcome_lines, slot_lines
from console.actions.record import Action, Said
from console.monitor.snapshot import Level
from console.tui.screens.actions.base import ActScreen
from core.domain.text import safe

POLL_SECONDS = 0.25
GOES_ON = "it goes on without this screen; `:actions` shows it"


class Progress(ActScreen):
    """Actions on their way; looked at a few times a second until all are over."""

    keys_shown: ClassVar[tuple[str, ...]] = ("back",)

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__()
        self.ids = tuple(ids)
        self.actions: list[Action] = []
        self._timer: Timer | None = None

    def lines(self) -> outcome.Lines:
        """The lines."""
        raise NotImplementedError

    def gathered(self, of: Callable[[Action, Said, datetime], outcome.Lines]) -> outcome.Lines:
        """The lines of all actions, one after the other."""
        now = self.console.now_real()
        lines = [line for one in self.actions for line in of(one, self.runs.said(one.record.id), now)]
        return lines or [(Level.UNKNOWN, "no record of it can be read")]

    def on_mount(self) -> None:
        """Look until it is over."""
        self._refresh()
        super().on_mount()
        self._timer = self.set_interval(POLL_SECONDS, self._poll)

    @property
    def over(self) -> bool:
        """Whether nothing more will come of any of them."""
        return len(self.actions) == len(self.ids) and all(one.over for one in self.actions)

    def draw(self) -> None:
        """How far they are."""
        names = ", ".join(dict.fromkeys(safe(one.record.what, 60) for one in self.actions))
        self.headline(f"{names or 'action'}   {'over' if self.over else 'on its way'}")
        self.sheet.fill("progress", self.wrapped(self.lines()))

    def crumb(self) -> str:
        """Where one is."""
        return "ended" if self.over else "on its way; leaving this screen ends nothing"

    def _refresh(self) -> None:
        self.actions = [one for id in self.ids if (one := self.runs.find(id)) is not None]

    def _poll(self) -> None:
        if not self.is_current:
            return
        self._refresh()
        if self.over and self._timer is not None:
            self._timer.stop()
            self.console.action_renew()  # the jobs and slots are others now
        self.redraw()

    def action_back(self) -> None:
        """Leave; it goes on."""
        over = self.over
        super().action_back()
        if not over:
            self.console.say(GOES_ON)


class JobProgress(Progress):
    """Jobs that were asked to do something."""

    def __init__(self, verb: JobVerb, ids: Sequence[str]) -> None:
        super().__init__(ids)
        self.verb = verb

    def lines(self) -> outcome.Lines:
        """Requested and observed, job by job."""
        now, lines = self.console.now_real(), []
        for one in self.actions:
            job = self.console.shown.job(one.record.key)
            lines += job_lines(self.verb, one, self.runs.said(one.record.id), job, now)
        return lines


class EntryProgress(Progress):
    """Rows in quarantine that were to be replayed or discarded."""

    def lines(self) -> outcome.Lines:
        """Row by row."""
        return self.gathered(outcome_lines)


class SlotProgress(Progress):
    """A slot command."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("n", "again", "plan again", id="act-again")]
    keys_shown: ClassVar[tuple[str, ...]] = ("back", "act-again")

    def __init__(self, doing: Doing, id: str) -> None:
        super().__init__([id])
        self.doing = doing

    def lines(self) -> outcome.Lines:
        """Requested and observed, DN by DN."""
        return self.gathered(slot_lines)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Planning again is for what was planned and has ended."""
        if action == "again":
            return self.over and self.doing.verb is not SlotVerb.PREFLIGHT
        return super().check_action(action, parameters)

    def action_again(self) -> None:
        """Another plan, of what is there now."""
        self.console.plan_again(self.doing)
