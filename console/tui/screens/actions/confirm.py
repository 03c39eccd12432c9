"""The confirmation of an action: one key, or text to type.

`y` is not a key of any menu, and Enter cancels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from slotkeeper.console.actions.commands import (
    Part,
    Want,
    consent_wants,
    entry_wants,
    entry_words,
    job_wants,
    job_words,
    missing,
    with_placeholders,
    wrong,
)
from slotkeeper.console.actions.menu import entries_in_words
from slotkeeper.console.actions.runner import Order
from slotkeeper.console.actions.verbs import EntryVerb, JobVerb
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.tui.screens.actions.base import Fields, FieldsScreen, Sheet
from slotkeeper.console.tui.screens.actions.progress import EntryProgress, JobProgress
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.tui.widgets.line import Line
from slotkeeper.console.views.jobs import what_is_safe, what_is_wrong
from slotkeeper.core.domain.consent import Consent
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.text import few, safe

FREEZES = "keys    p pauses or resumes a job; f freezes the screen (formerly p)"
"""A hint that is shown until the next release."""


class Confirm(FieldsScreen):
    """The effect of an action and its confirmations. Its objects are those selected when the key was pressed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "do", "do it", id="act-do"),
        Binding("c", "copy", "copy command", id="act-copy"),
    ]
    keys_shown: ClassVar[tuple[str, ...]] = ("act-do", "back", "act-copy")
    APART = "the action continues if you leave this console or lose the connection"

    def __init__(self, wants: Sequence[Want], verb: str, what: str, does: str) -> None:
        """`verb` is the command, `what` follows it in the title, and `does` is the label of the button."""
        super().__init__()
        self.wants = tuple(wants)
        self.verb = verb
        self._what = what
        self._does = does

    # Overridden by each confirmation

    def lines(self) -> Lines:
        """Return lines that explain the action."""
        raise NotImplementedError

    def begin(self, typed: dict[Part, str]) -> None:
        """Start the action."""
        raise NotImplementedError

    def command(self, typed: dict[Part, str]) -> tuple[str, ...]:
        """Return the command to copy."""
        raise NotImplementedError

    # Drawing

    def body(self) -> Iterator[Widget]:
        yield Line("act-title")
        yield Sheet()
        yield Fields(self.wants, self._does if self.wants else f"{self._does}  y", {})

    def first(self) -> Widget:
        return self.to_type() or self.query_one("#act-cancel")

    def draw(self) -> None:
        where = "+".join(self.console.environments) or "no environment"
        self.headline(f"{self.verb.upper()} {self._what}   {safe(where, 30)}")
        self.draw_fields(self.wants)
        self.sheet.fill("confirm", self.wrapped([*self.lines(), (Level.REST, self.APART)]))
        self.enable()

    def crumb(self) -> str:
        if self.wants:
            return f"{self.verb} > nothing has been done yet; fill in the fields"
        return f"{self.verb} > nothing has been done yet; y confirms, Enter and Esc do not"

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Activate `y` only if nothing must be typed; letters never act while a field has the focus."""
        if action == "do":
            return not self.wants
        if action == "copy":
            return not isinstance(self.focused, Input)
        return super().check_action(action, parameters)

    def action_do(self) -> None:
        if not self.may_change():
            return
        typed = self.query_one(Fields).typed
        left = missing(self.wants, typed)
        if left:
            known = "; ".join(filter(None, ["nothing was done", wrong(self.wants, typed)]))
            names = ", ".join(want.part.value.lower() for want in left)
            self.console.say(f"{known}; still required: {names}", Level.WARNING)
        else:
            self.begin(self.why() | self.query_one(Fields).typed)

    def action_copy(self) -> None:
        self.copied(self.command(self.why() | with_placeholders(self.wants, self.query_one(Fields).typed)))

    def why(self) -> dict[Part, str]:
        """The default reason for the action: the reason for which this console was armed."""
        armed = self.console.armed
        return {Part.REASON: armed.reason} if armed is not None else {}

    def enable(self) -> None:
        fields = self.query_one(Fields)
        fields.enable(not missing(self.wants, fields.typed) and self.console.armed is not None)

    def apply(self) -> None:
        if self.wants:
            self.action_do()
        else:
            self.console.say("press y to confirm; Enter has no effect", Level.WARNING)


COPIES_AGAIN = "copies the whole table again, then applies the changes committed since the copy started"


def effect(verb: JobVerb, job: JobFacts | None) -> str:
    """Return what a verb does to a job in its current state: a start of a job that awaits its copy resumes nothing."""
    awaits = job is not None and job.state is JobState.AWAITS_COPY
    return COPIES_AGAIN if verb.does.copies and awaits else verb.does.means


class JobConfirm(Confirm):
    """The confirmation of an action on the jobs that were selected when the key was pressed.

    One job requires one key; several jobs require their number. The final action requires the job's name, as does a job
    whose copy would replace rows (`unconsented`).
    """

    def __init__(
        self,
        verb: JobVerb,
        names: Sequence[str],
        unconsented: Sequence[Consent] = (),
        consented: Sequence[Consent] = (),
    ) -> None:
        what = f"JOB {safe(names[0], 60)}" if len(names) == 1 else f"{len(names)} JOBS"
        does = f"{verb.does.name.capitalize()} {len(names)} job{'s' if len(names) > 1 else ''}"
        asked = [one for one in unconsented if verb.does.copies and len(names) == 1]
        wants = consent_wants(names[0]) if asked else job_wants(names, final=verb.does.final)
        super().__init__(wants, verb.does.name, what, does)
        self._verb = verb
        self.names = tuple(names)
        self._copies = (*asked, *consented)
        """The copies that replace rows."""

    def lines(self) -> Lines:
        for name in self.names:
            job = self.console.shown.job(name)
            state = job.state.value if job and job.state else "never started"
            yield (job.level if job else Level.UNKNOWN), f"{safe(name, 60)}   {state}"
            if job is not None and len(self.names) == 1:
                yield Level.FINE, f"problem {what_is_wrong(job)}"
                yield Level.FINE, f"action  {what_is_safe(job)}"
        for one in self._copies:
            yield Level.WARNING, f"copies  {safe(one.table, 80)}: replaces {safe(one.replaces, 120)}"
            see = "miss these rows" if one.replaces.endswith("]") else "see the old rows"  # a part is deleted first
            yield Level.FINE, f"readers {see} until the copy is complete"
        jobs = [self.console.shown.job(name) for name in self.names]
        for words in dict.fromkeys(effect(self._verb, job) for job in jobs):
            yield Level.FINE, f"effect  {words}"
        if self._verb in (JobVerb.PAUSE, JobVerb.RESUME):
            yield Level.REST, FREEZES
        if self._verb is JobVerb.RESTART and self.console.services.loaded:
            yield Level.FINE, f"config  {safe(self.console.services.loaded.path, 200)}"

    def begin(self, typed: dict[Part, str]) -> None:
        fields: dict[Part, str] = {part: text for part, text in typed.items() if part is not Part.NUMBER}
        ids = []
        for name in self.names:
            words = job_words(self.origin, self._verb, name, fields)
            id = self.set_going(Order(words, f"{self.verb} job {name}", name))
            ids += [id] if id is not None else []
        if ids:
            self.app.switch_screen(JobProgress(self._verb, ids))

    def command(self, typed: dict[Part, str]) -> tuple[str, ...]:
        return job_words(self.origin, self._verb, self.names[0], typed)


class EntryConfirm(Confirm):
    """The confirmation of an action on the quarantined rows that were selected when the key was pressed."""

    def __init__(self, verb: EntryVerb, job: str, ids: Sequence[int], number: int | None) -> None:
        entries = entries_in_words(number)
        what = f"{entries.upper()} of job {safe(job, 60)}"
        wants, name = entry_wants(job, number or 0, final=verb.does.final), verb.does.name
        super().__init__(wants, name, what, f"{name.capitalize()} {entries}")
        self._verb = verb
        self._job = job
        self._ids = tuple(ids)

    def lines(self) -> Lines:
        which = (
            f"entries {entries_named(self._ids)}"
            if self._ids
            else "all entries that are quarantined when the action runs"
        )
        yield Level.FINE, f"{which}; both halves of a key change are handled together"
        for number, means in enumerate(self._verb.does.means):
            final = self._verb.does.final and not number
            yield Level.WARNING if final else Level.FINE, f"{'effect' if not number else '':<7} {means}"

    def begin(self, typed: dict[Part, str]) -> None:
        id = self.set_going(Order(self.command(typed), f"{self.verb} rows of job {self._job}", self._job))
        if id is not None:
            self.app.switch_screen(EntryProgress([id]))

    def command(self, typed: dict[Part, str]) -> tuple[str, ...]:
        return entry_words(self.origin, self._verb, self._job, self._ids, typed)


def entries_named(ids: Sequence[int]) -> str:
    """Return the numbers of the first entries as text."""
    return few([f"#{id}" for id in ids], 5)
