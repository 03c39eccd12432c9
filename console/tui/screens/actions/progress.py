"""The progress of an action: requested and observed state, while it runs and after it has ended; never just "success".

Leaving the screen does not end the action, which runs separately from the console. The module also lists the recent
actions of this state folder, including those from other consoles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.timer import Timer

from slotkeeper.console.actions import outcome
from slotkeeper.console.actions.commands import Doing, Part, job_words
from slotkeeper.console.actions.outcome import (
    how_far,
    job_lines,
    outcome_lines,
    reset_steps,
    slot_lines,
    took,
    verdict,
    verified_lines,
)
from slotkeeper.console.actions.preview import Preview
from slotkeeper.console.actions.record import Action, Said
from slotkeeper.console.actions.runner import KIND, Order
from slotkeeper.console.actions.verbs import JobVerb, SlotVerb
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.actions.base import ActScreen
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.console.views.detail import labelled
from slotkeeper.console.views.rows import NARROW, Column, Row, clock
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.ttl import in_words

POLL_SECONDS = 0.1
MOST_LINES = 2_000
"""The maximum number of lines shown for each output stream of an action."""
UNREAD = "the record of this action cannot be read"
CONTINUES = "the action continues; `:actions` shows it"


class Progress(ActScreen):
    """Running actions, polled every 0.1 s until all of them have ended."""

    keys_shown: ClassVar[tuple[str, ...]] = ("back",)

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__()
        self.ids = tuple(ids)
        self.actions: list[Action] = []
        self._timer: Timer | None = None

    def lines(self) -> outcome.Lines:
        """Return the lines to show."""
        raise NotImplementedError

    def gathered(self, of: Callable[[Action, Said, datetime], outcome.Lines]) -> outcome.Lines:
        """Return the lines of all actions, one action after the other."""
        now = self.console.now_real()
        lines = [line for one in self.actions for line in of(one, self.runs.said(one.record.id), now)]
        return lines or [(Level.UNKNOWN, UNREAD)]

    def on_mount(self) -> None:
        self._refresh()
        super().on_mount()
        self._timer = self.set_interval(POLL_SECONDS, self._poll)

    @property
    def over(self) -> bool:
        """Whether all actions have ended."""
        return len(self.actions) == len(self.ids) and all(one.over for one in self.actions)

    def draw(self) -> None:
        names = ", ".join(dict.fromkeys(safe(one.record.what, 60) for one in self.actions))
        self.headline(f"{names or 'action'}   {'ended' if self.over else 'running'}")
        self.sheet.fill("progress", self.wrapped(self.lines()))

    def crumb(self) -> str:
        return "ended" if self.over else "running; it continues if you leave this screen"

    def _refresh(self) -> None:
        self.actions = [one for id in self.ids if (one := self.runs.find(id)) is not None]

    def _poll(self) -> None:
        if not self.is_current:
            return
        self._refresh()
        if self.over and self._timer is not None:
            self._timer.stop()
            self.console.action_renew()  # jobs and slots have changed
        self.redraw()

    def action_back(self) -> None:
        over = self.over
        super().action_back()
        if not over:
            self.console.say(CONTINUES)


class Cancelled(Progress):
    """Actions that can be cancelled at any time if they change nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "cancel", "cancel", id="act-cancel-this", tooltip="stop this action, which changes nothing")
    ]
    keys_shown: ClassVar[tuple[str, ...]] = ("back", "act-cancel-this")

    def changes_nothing(self) -> bool:
        """Return whether this action can be cancelled."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow cancelling only while an action that changes nothing is running."""
        if action == "cancel":
            return self.changes_nothing() and not self.over
        return super().check_action(action, parameters)

    def action_cancel(self) -> None:
        asked = [self.runs.cancel(one.record.id) for one in self.actions if not one.over]
        self.console.say(
            "cancelling" if any(asked) else "cannot cancel the action from here: its process was not found"
        )


class JobProgress(Cancelled):
    """The progress of an action on jobs."""

    def __init__(self, verb: JobVerb, ids: Sequence[str]) -> None:
        super().__init__(ids)
        self.verb = verb

    def changes_nothing(self) -> bool:
        return not self.verb.does.means

    def lines(self) -> outcome.Lines:
        """Return the requested and observed state of each job, with a progress bar for a long action."""
        now, lines = self.console.now_real(), []
        for one in self.actions:
            said, job = self.runs.said(one.record.id), self.console.shown.job(one.record.key)
            if self.verb is JobVerb.VERIFY:
                lines += verified_lines(one, said, now)
            else:
                lines += job_lines(self.verb, one, said, job, now, self.console.shown.local.at)
            copies = job if self.verb.does.copies else None
            lines += how_far(one.record.key, said, copies, self.console.ascii_only) if not one.over or copies else []
        return lines or [(Level.UNKNOWN, UNREAD)]


class EntryProgress(Progress):
    """The progress of replaying or discarding quarantined rows."""

    def lines(self) -> outcome.Lines:

        def of(one: Action, said: Said, now: datetime) -> outcome.Lines:
            bar = how_far(one.record.key, said, None, self.console.ascii_only) if not one.over else []
            return [*outcome_lines(one, said, now), *bar]

        return self.gathered(of)


class SlotProgress(Cancelled):
    """The progress of a slot command."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "again", "plan again", id="act-again"),
        Binding("u", "undo", "undo", id="act-undo-this", tooltip="undo this reset; a plan is shown first"),
        Binding("g", "start", "start", id="act-start-next", tooltip="start the job whose slot was reset"),
        Binding("y", "copy", "copy command", id="act-copy-start", tooltip="copy the command that starts the job"),
    ]
    keys_shown: ClassVar[tuple[str, ...]] = (
        "act-start-next", "act-undo-this", "act-cancel-this", "act-again", "act-copy-start", "back",
    )  # fmt: skip

    def __init__(
        self, doing: Doing, id: str, typed: Mapping[Part, str] | None = None, plan: Preview | None = None
    ) -> None:
        super().__init__([id])
        self.doing = doing
        self._plan = plan
        self._typed = dict(typed or {})
        """The typed text that is also valid for the undo and for another plan for this slot."""

    def changes_nothing(self) -> bool:
        return self.doing.verb is SlotVerb.PREFLIGHT

    def draw(self) -> None:
        super().draw()
        if not self.changes_nothing():
            verb, slot = self.doing.verb.value.upper(), safe(self.doing.place.slot, 120)
            self.headline(self._plan.title if self._plan else f"{verb} SLOT {slot}", 3)

    def lines(self) -> outcome.Lines:
        """Return the result, then the next step if it is still pending, then the lanes."""
        ended, *lanes = self.gathered(slot_lines)
        if not self.over:
            return [ended, *reset_steps(self.runs.said(self.ids[0]), self.console.ascii_only), *lanes]
        if not self._reset:
            return [ended, *lanes]
        if not self._rests:
            return [ended, (Level.FINE, labelled("Next", "no action needed: the job has been started")), *lanes]
        copies = self._plan.copies if self._plan else ""
        start = f"g  start the copy now: {copies}" if copies else "g  start the job now"
        undo = f"u  {self._plan.undo}" if self._plan else "u"
        undo = f"not possible: {why}" if (why := self._no_undo) else undo
        following = [(Level.FINE, labelled("Next", start))] if self.doing.place.job else []
        return [ended, *following, (Level.FINE, labelled("Undo", undo)), *lanes]

    def on_screen_resume(self) -> None:
        """Close an outdated result: a later action on this slot, such as the undo, has its own."""
        super().on_screen_resume()
        key = next((one.record.key for one in self.actions), "")
        latest = next((one.record.id for one in self.runs.recent() if one.record.key == key), "")
        if latest and latest not in self.ids:
            self.close_screen()

    def _start(self) -> tuple[str, ...]:
        """Return the command that starts the job, or only its table if the job is running."""
        job, table = self.doing.place.job, self.doing.place.table
        alone = {Part.ONE_TABLE: table} if outcome.starts_alone(self.runs.said(self.ids[0])) else {}
        return job_words(self.origin, JobVerb.START, job, alone)

    def action_start(self) -> None:
        """Start the job without another confirmation, because its name was just typed next to the plan of this copy."""
        job = self.doing.place.job
        if self.may_change():
            id = self.set_going(Order(self._start(), f"start job {job}", job))
            if id is not None:
                self.app.switch_screen(JobProgress(JobVerb.START, [id]))

    def action_copy(self) -> None:
        self.copied(self._start())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "again":
            return self.over and self.doing.verb is not SlotVerb.PREFLIGHT
        if action == "undo" and self._no_undo:
            return False
        if action in ("undo", "start", "copy"):
            return bool(self._reset) and self._rests and (action == "undo" or bool(self.doing.place.job))
        return super().check_action(action, parameters)

    @property
    def _reset(self) -> str:
        """The backup of the completed reset; "" if there is none to undo."""
        return outcome.way_back(self.runs.said(self.ids[0])) if self.over else ""

    @property
    def _no_undo(self) -> str:
        return outcome.no_undo(self.runs.said(self.ids[0]))

    @property
    def _rests(self) -> bool:
        """Whether the reset job or table has stayed stopped since the reset, as far as this host knows."""
        job = self.console.shown.job(self.doing.place.job)
        alone = outcome.starts_alone(self.runs.said(self.ids[0]))
        return alone or job is None or job.state is None or not (job.state.is_open or job.alive)

    def action_undo(self) -> None:
        undo = replace(self.doing, verb=SlotVerb.UNDO, backup=self._reset, target=None, ending=False)
        self.console.plan_again(undo, self._typed, over=True)

    def action_again(self) -> None:
        self.console.plan_again(self.doing, self._typed)


COLUMNS = (
    Column("mark", "", 1),
    Column("at", "AT (UTC)", 14),
    Column("what", "WHAT", 28, name=True),
    Column("state", "STATE", 10),
    Column("took", "TOOK", 6, right=True, least=NARROW),
    Column("outcome", "OUTCOME", 0),
)


class ActionsScreen(TableScreen):
    """The recent actions, newest first."""

    its_place = "Actions   they run outside this console"
    its_name = "Actions"
    columns = COLUMNS
    panel_height = 5

    def rows(self) -> list[Row]:
        return [self._row(one) for one in self.console.services.runs.recent()]

    def _row(self, one: Action) -> Row:
        now = self.console.now_real()
        level, text = verdict(one, self.console.services.runs.said(one.record.id), now)
        cells = {
            "mark": level.value,
            "at": clock(one.record.started_at),
            "what": safe(one.record.what, 80),
            "state": one.stage.value,
            "took": in_words(took(one, now)),
            "outcome": safe(text, 200),
        }
        return Row(one.record.id, level, cells)

    def about(self) -> str:
        return "newest first, at most one week"

    def panel(self, key: str | None) -> tuple[str, Lines]:
        one = self.console.services.runs.find(key) if key else None
        if one is None:
            return "Action", [
                (Level.REST, "no action was started from a console yet" if not self.rows() else "no row is selected")
            ]
        level, text = verdict(one, self.console.services.runs.said(one.record.id), self.console.now_real())
        lines = [
            (level, text),
            (Level.FINE, f"by       {safe(one.record.by, 120)}"),
            (Level.FINE, f"command  {safe(one.record.text, 300)}"),
        ]
        return safe(one.record.what, 60), lines

    def opened(self, key: str) -> None:
        self.app.push_screen(OutputScreen(key))


class OutputScreen(ActScreen):
    """The output of an action, or its last lines if it is long."""

    its_place = "Actions > output"

    def __init__(self, id: str) -> None:
        super().__init__()
        self.key = id

    def draw(self) -> None:
        one, said = self.runs.find(self.key), self.runs.said(self.key)
        if one is None:
            self.headline("Action")
            self.sheet.fill("gone", [self.text(" the record of this action no longer exists", Level.UNKNOWN)])
            return
        record = one.record
        level, text = verdict(one, said, self.console.now_real())
        code = "?" if record.code is None else str(record.code)
        pid = f"pid {record.command.pid} on {safe(record.command.host, 40)}" if record.command else "pid ?"
        lines = [
            (level, text),
            (Level.FINE, f"command  {safe(record.text, 1_000)}"),
            (Level.FINE, f"by {safe(record.by, 120)}, {pid}, requested {clock(record.started_at)} UTC, exit {code}"),
            *self._written("err", said.err, 2_000),
            *self._written("out", said.out, 20_000),
        ]
        self.headline(f"{safe(record.what, 80)}   {one.stage.value}")
        self.sheet.fill(self.key, self.wrapped(lines))

    def _written(self, name: str, text: str, limit: int) -> Lines:
        """Return only the last lines of a stream, because drawing hundreds of thousands of lines takes seconds."""
        lines = text.splitlines()
        if len(lines) > MOST_LINES:
            kept = self.console.services.folder / KIND / f"{self.key}.{name}"
            yield Level.REST, f"std{name}   {len(lines) - MOST_LINES:,} earlier lines: {safe(kept, 200)}"
        for each in lines[-MOST_LINES:]:
            yield Level.FINE, f"std{name}   {safe(each, limit)}"
