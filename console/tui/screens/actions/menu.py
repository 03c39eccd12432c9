"""The menus of actions on jobs, a slot or quarantined rows, and the menu of reset destinations.

Each action has a letter, and a reason if it is currently not available. The letters act only in a menu.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from slotkeeper.console.actions.commands import Doing, Place, Target, job_words, slot_words
from slotkeeper.console.actions.menu import (
    Entry,
    entry_actions,
    job_entries,
    reset_targets,
    slot_entries,
)
from slotkeeper.console.actions.runner import Order
from slotkeeper.console.actions.verbs import EntryVerb, JobVerb, SlotVerb
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.tui.screens.actions.base import CANCELLED, READ_ONLY, ActScreen, Sheet
from slotkeeper.console.tui.screens.actions.confirm import EntryConfirm, JobConfirm, entries_named
from slotkeeper.console.tui.screens.actions.preview import SlotPlan
from slotkeeper.console.tui.screens.actions.progress import ActionsScreen, JobProgress, SlotProgress
from slotkeeper.console.tui.widgets.line import Line
from slotkeeper.console.views.quarantine import Choice
from slotkeeper.console.views.rows import both_ends
from slotkeeper.console.views.slot_history import is_lost, jobs_of
from slotkeeper.console.views.slots import SlotFacts
from slotkeeper.core.domain.consent import Consent
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.state.files import ResetFiles, StoredConsents
from slotkeeper.core.state.folder import StateFolder

_ASKS = {
    "point": "DN=POSITION for one DN (several: separated by spaces), or POSITION for all",
    "time": "a time with UTC offset, such as 2026-01-31T08:30:00+01:00 or with Z",
    "backup": "the backup ID",
}
_OTHERS = "Esc  back to the other targets: a position, a backup, a snapshot"


class Value(Input):
    """The value of a reset's destination. Keys typed after Enter are queued until the value has been processed."""

    KEYS_IN_TURN = ("enter", "escape")

    def __init__(self) -> None:
        super().__init__(id="act-value", select_on_focus=False, max_length=500)
        self.cursor_blink = False

    async def action_submit(self) -> None:
        form = self.screen
        assert isinstance(form, TargetForm)
        form.taking = True
        self.call_later(form.take)  # after the letters that have not yet reached this field


class TargetForm(ActScreen):
    """The destination of a reset."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(one.key, f"choose('{one.what}')", one.what, id=f"act-to-{one.what}")
          for one in reset_targets(False, None)),
        Binding("enter", "choose('')", "marked target", id="act-to-first", key_display="Enter"),
    ]  # fmt: skip
    its_place = "reset > target?   a plan follows; nothing has been done yet"
    keys_shown: ClassVar[tuple[str, ...]] = ("back", "act-to-first")

    def __init__(self, place: Place, wanted: str = "", lost: bool = False) -> None:
        super().__init__()
        self.place = place
        self.wanted = wanted
        self._lost = lost
        """Whether the job has ended with SLOT LOST. Then only a new copy or a backup can restore it."""
        self.taking = False

    @property
    def awaits(self) -> bool:
        return self.taking

    def body(self) -> Iterator[Widget]:
        yield Line("act-title")
        yield Sheet()
        yield Line("act-head")
        yield Value()

    def on_mount(self) -> None:
        super().on_mount()
        self._show(self.wanted)

    def first(self) -> Widget:
        return self.query_one(Value) if self.wanted else self.sheet

    def entries(self) -> Sequence[Entry]:
        """Return the destinations, the recommended one first."""
        return reset_targets(self._lost, self.console.shown.job(self.place.job) if self.place.job else None)

    def draw(self) -> None:
        self.say("act-title", self.paragraph([(Level.FINE, f"RESET SLOT {safe(self.place.text, 300)} to")], 4), True)
        lines: list[Text] = [self.text("")]
        for one in self.entries():
            if one.what == self.wanted:  # while a value is being typed, letters do not choose, so none is listed
                lines += self.wrapped([(Level.FINE, f"> {one.label}"), (Level.REST, f"  {_OTHERS}")])
            elif not self.wanted:
                mark = "-" if one.why_not else ">" if one.best else " "
                level = Level.REST if one.why_not else Level.WARNING if one.what == "latest" else Level.FINE
                lines += self.wrapped([(level, f"{mark} {one.key}  {one.label}")])
                lines += self.wrapped([(level, f"       not possible: {one.why_not}")] if one.why_not else [])
        self.sheet.fill("targets", lines)
        self.say("act-head", self.text(f" {_ASKS.get(self.wanted, '')}"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let letters choose only while no value is being typed."""
        if action == "choose":
            return not isinstance(self.focused, Input)
        return super().check_action(action, parameters)

    def action_choose(self, name: str) -> None:
        one = next(one for one in self.entries() if one.what == name or (one.best and not name))
        if one.why_not:
            self.console.say(f"{name}: not possible: {one.why_not}", Level.WARNING)
        elif one.what in _ASKS:
            self._show(one.what)
        else:
            self._plan(Target(one.what))

    def take(self) -> None:
        """Plan the reset to the typed value; if the value is empty, keep the field open."""
        self.taking = False
        value = self.query_one(Value).value.strip()
        if value and self.wanted and self.is_current:  # the user may have left the screen
            self._plan(Target(self.wanted, value))
        self.console.release_keys()

    def action_back(self) -> None:
        if isinstance(self.focused, Input):
            self._show("")
        else:
            super().action_back()
            self.console.say(CANCELLED)

    def _show(self, wanted: str) -> None:
        self.wanted = wanted
        field = self.query_one(Value)
        field.display = bool(wanted)
        self.set_focus(field if wanted else self.sheet)
        self.redraw()

    def _plan(self, target: Target) -> None:
        self.app.switch_screen(SlotPlan(Doing(SlotVerb.RESET, self.place, target)))


class Menu(ActScreen):
    """A list of actions with their letters."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "recent", "recent actions", id="act-recent", tooltip="running and recently ended")
    ]
    its_place = "Actions   press a letter; nothing has been done yet"
    keys_shown: ClassVar[tuple[str, ...]] = ("back", "act-recent")

    def entries(self) -> Sequence[Entry]:
        """Return the actions."""
        raise NotImplementedError

    def named(self) -> str:
        """Return the name of the object that the actions apply to."""
        raise NotImplementedError

    def taken(self, entry: Entry) -> None:
        """Handle the choice of an available entry."""
        raise NotImplementedError

    def draw(self) -> None:
        self.headline(f"ACTIONS   {self.named()}")
        lines: list[Text] = [self.text("")]
        for entry in self.entries():
            off, why = bool(entry.why_not), entry.why_not or entry.warns
            words = f"{'-' if off else ' '} {entry.key}  {entry.label}"
            lines += self.wrapped([(Level.REST if off else Level.FINE, words)])
            lines += self.wrapped([(Level.REST if off else Level.WARNING, f"       {why}")] if why else [])
        lines += [self.text(""), self.text("  o  running and recently ended actions", Level.REST)]
        if self.console.armed is None:
            lines += [self.text(""), self.text(f"  {READ_ONLY}", Level.WARNING)]
            lines.append(self.text("  the keys still work, but stop before any change: a rehearsal"))
        self.sheet.fill("menu", lines)

    def action_choose(self, key: str) -> None:
        entry = next((one for one in self.entries() if one.key == key), None)
        if entry is None:
            self.console.say(f"{key} is not available here", Level.WARNING)
        elif entry.why_not:
            self.console.say(f"{key}: {entry.why_not}", Level.WARNING)
        else:
            self.taken(entry)

    def action_recent(self) -> None:
        self.app.switch_screen(ActionsScreen())


def letters(*given: tuple[str, str]) -> list[BindingType]:
    return [Binding(key, f"choose('{key}')", label, id=f"act-{label.replace(' ', '-')}") for key, label in given]


class JobMenu(Menu):
    """The actions on a job or on several marked jobs, as selected when the key was pressed."""

    BINDINGS: ClassVar[list[BindingType]] = letters(
        *((verb.does.key, verb.does.bound or verb.value) for verb in JobVerb if verb is not JobVerb.RESUME)
    )

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = tuple(names)

    def jobs(self) -> list[JobFacts]:
        """Return the jobs in their current state."""
        return [job for name in self.names if (job := self.console.shown.job(name)) is not None]

    def entries(self) -> Sequence[Entry]:
        loaded = self.console.services.loaded
        return job_entries(self.jobs(), loaded.jobs if loaded else (), self.console.services.barred)

    def named(self) -> str:
        if len(self.names) > 1:
            return f"{len(self.names)} jobs: {', '.join(both_ends(safe(name), 24) for name in self.names)}"
        job = next(iter(self.jobs()), None)
        state = job.state.value if job and job.state else "never started"
        return f"job {safe(self.names[0], 60)}   {state}" if self.names else "no job"

    def taken(self, entry: Entry) -> None:
        """Open the confirmation. Draining and comparing change nothing and start immediately."""
        verb = JobVerb(entry.what)
        if verb.does.means:
            known: list[Consent] = []
            now = self.console.now_real().timestamp()
            if verb.does.copies and any(job.state is JobState.AWAITS_COPY for job in self.jobs()):
                folder = StateFolder.looked_at(self.console.services.folder)
                known = [one for name in self.names for one in StoredConsents(folder, name).known()]
                known = [one for one in known if one.rows is None]
            asked = [one for one in known if not one.valid(now)]
            given = [one for one in known if one.valid(now)]
            self.app.switch_screen(JobConfirm(verb, self.names, asked, given))
            return
        words = job_words(self.origin, verb, self.names[0])
        id = self.set_going(Order(words, f"{verb.value} job {self.names[0]}", self.names[0]))
        if id is not None:
            self.app.switch_screen(JobProgress(verb, [id]))


class SlotMenu(Menu):
    """The actions on the slot that was selected when the key was pressed."""

    BINDINGS: ClassVar[list[BindingType]] = letters(
        ("s", "stop its job"),
        ("r", "reset"),
        ("t", "reset to time or point"),
        ("u", "undo"),
        ("f", "register full-sync point"),
        ("d", "drop"),
        ("c", "create"),
        ("p", "preflight"),
        ("e", "end unfinished reset"),
    )

    def __init__(self, facts: SlotFacts) -> None:
        super().__init__()
        self.facts = facts
        self.place = Place(facts.seen.source, facts.seen.table, facts.slot.name, facts.slot.job or "")

    def entries(self) -> Sequence[Entry]:
        holder = self.console.shown.job(self.facts.slot.job) if self.facts.slot.job else None
        resets, barred = self.console.shown.local.open_resets, self.console.services.barred
        return slot_entries(self.facts, holder, resets, self._no_undo, barred)

    @cached_property
    def _no_undo(self) -> str:
        """Why the last reset from this host cannot be undone; "" if nothing known prevents it."""
        from slotkeeper.core.services.reset import no_undo_of  # not needed for the first frame

        files = ResetFiles(StateFolder.looked_at(self.console.services.folder))
        try:
            return no_undo_of(files, self.place.table, self.place.slot)
        except SlotkeeperError:  # a damaged file: the plan of the undo reports it
            return ""

    def named(self) -> str:
        holder = f"job {safe(self.facts.slot.job, 40)}" if self.facts.slot.job else "external"
        return f"slot {safe(self.place.text, 120)}   {holder}"

    def taken(self, entry: Entry) -> None:
        if entry.key == "s":
            self.app.switch_screen(JobConfirm(JobVerb.STOP, [self.facts.slot.job or ""]))
        elif entry.what in (SlotVerb.RESET.value, "time"):
            jobs = jobs_of(self.console.shown.local)
            lost = is_lost(self.facts.seen.table, self.facts.slot, jobs)
            self.app.switch_screen(TargetForm(self.place, "time" if entry.what == "time" else "", lost))
        elif entry.what == "end":
            self.app.switch_screen(SlotPlan(Doing(SlotVerb.RESET, self.place, ending=True)))
        elif entry.what == SlotVerb.PREFLIGHT.value:
            doing, table = Doing(SlotVerb.PREFLIGHT, self.place), self.place.table
            id = self.set_going(Order(slot_words(self.origin, doing), f"preflight {table}", table, listed=False))
            if id is not None:
                self.app.switch_screen(SlotProgress(doing, id))
        else:
            self.app.switch_screen(SlotPlan(Doing(SlotVerb(entry.what), self.place)))


class EntryMenu(Menu):
    """The actions on the quarantined rows that were selected when the key was pressed."""

    BINDINGS: ClassVar[list[BindingType]] = letters(
        ("r", "replay"), ("d", "discard"), ("R", "replay all"), ("D", "discard all")
    )

    def __init__(self, choice: Choice) -> None:
        super().__init__()
        self.choice = choice

    def entries(self) -> Sequence[Entry]:
        loaded = self.console.services.loaded
        return entry_actions(self.choice, loaded.jobs if loaded else (), self.console.services.barred)

    def named(self) -> str:
        which = "all quarantined entries" if self.choice.every else f"entries {entries_named(self.choice.ids) or '-'}"
        return f"quarantine of job {safe(self.choice.job, 60)}   {which}"

    def taken(self, entry: Entry) -> None:
        verb, _, every = entry.what.partition(" ")
        ids = () if every else self.choice.ids
        number = self.choice.total if every else self.choice.number
        self.app.switch_screen(EntryConfirm(EntryVerb(verb), self.choice.job, ids, number))
