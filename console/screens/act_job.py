"""Shall this be done to the job? One key for one job; for several their number is typed, for the final one its name.

`y` is no letter of the menu, and Enter cancels. Next door: `act_progress` shows what was observed afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from console.actions.commands import JobVerb, job_words, with_placeholders
from console.actions.rules import Part, job_wants, missing
from console.actions.runner import Order
from console.picture import Level
from console.screens.act_fields import NO_PASTE, Fields, Press
from console.screens.act_frame import ActScreen, Sheet
from console.screens.act_progress import JobProgress
from console.screens.frame import Lines
from console.view_models import what_is_safe, what_is_wrong
from console.widgets.line import Line
from core.domain.text import safe

_MEANS = {
    JobVerb.START: "goes on where the sink's progress rows stand; a job that never ran begins with its copy",
    JobVerb.STOP: "its processes end; started again it goes on where it was, while the slot's TTL lasts",
    JobVerb.RESTART: "its processes end, then it starts with the configuration as it is now",
    JobVerb.PAUSE: "its process lives and applies nothing; the slot's TTL may run on",
    JobVerb.RESUME: "it applies again from where it is",
    JobVerb.CANCEL: "FINAL: it can never be started again under this name; slot and rows stay as they are",
}


class JobConfirm(ActScreen):
    """The last question before jobs are acted upon; the names are those of the key press."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "do", "do it", id="act-do"),
        Binding("c", "copy", "copy command", id="act-copy"),
    ]
    keys_shown: ClassVar[tuple[str, ...]] = ("act-do", "back", "act-copy")

    def __init__(self, verb: JobVerb, names: Sequence[str]) -> None:
        super().__init__()
        self.verb = verb
        self.names = tuple(names)
        self.wants = job_wants(self.names, final=verb is JobVerb.CANCEL)

    def body(self) -> Iterator[Widget]:
        """What it means, and what is asked for."""
        armed = self.console.armed
        yield Line("act-title")
        yield Sheet()
        does = f"{self.verb.value.capitalize()} {len(self.names)} job{'s' if len(self.names) > 1 else ''}"
        given = {Part.REASON: armed.reason} if armed else {}
        yield Fields(self.wants, does if self.wants else f"{does}  y", self.console.ascii_only, given)

    def on_mount(self) -> None:
        """Where there is nothing to type, Cancel has the focus; else what is to be read."""
        super().on_mount()
        (self.sheet if self.wants else self.query_one("#act-cancel")).focus()
        self._enable()

    def draw(self) -> None:
        """What would be done to what."""
        where = "+".join(self.console.environments) or "no environment"
        what = f"JOB {safe(self.names[0], 60)}" if len(self.names) == 1 else f"{len(self.names)} JOBS"
        self.headline(f"{self.verb.value.upper()} {what}   {safe(where, 30)}")
        self.sheet.fill("job", self.wrapped(self._told()))

    def _told(self) -> Lines:
        for name in self.names:
            job = self.console.shown.job(name)
            state = job.state.value if job and job.state else "never started"
            yield (job.level if job else Level.UNKNOWN), f"{safe(name, 60)}   {state}"
            if job is not None and len(self.names) == 1:
                yield Level.FINE, f"wrong   {what_is_wrong(job)}"
                yield Level.FINE, f"safe    {what_is_safe(job)}"
        yield Level.FINE, f"means   {_MEANS[self.verb]}"
        if self.verb is JobVerb.RESTART and self.console.services.loaded:
            yield Level.FINE, f"config  {safe(self.console.services.loaded.path, 200)}"
        yield Level.REST, "it runs apart from this console: leaving or losing the line changes nothing"

    def crumb(self) -> str:
        """Where one is."""
        if self.wants:
            return f"{self.verb.value} > nothing is done yet; type what is asked for"
        return f"{self.verb.value} > nothing is done yet; y does it, Enter and Esc do not"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """`y` does it only where nothing is to be typed; letters never act from a field."""
        if action == "do":
            return not self.wants
        if action == "copy":
            return not isinstance(self.focused, Input)
        return super().check_action(action, parameters)

    def action_do(self) -> None:
        """Do it to each of the jobs, each in a command of its own."""
        if not self.may_change() or self._missing():
            return
        ids = [id for name in self.names if (id := self._begin(name)) is not None]
        if ids:
            self.app.switch_screen(JobProgress(self.verb, ids))

    def action_copy(self) -> None:
        """The command of the first job, as typed."""
        typed = with_placeholders(self.wants, self.query_one(Fields).typed)
        self.copied(self._words(self.names[0], self._why() | typed))

    def _begin(self, name: str) -> str | None:
        parts = self._why() | self.query_one(Fields).typed
        parts.pop(Part.NUMBER, None)
        return self.set_going(Order(self._words(name, parts), f"{self.verb.value} job {name}", name))

    def _why(self) -> dict[Part, str]:
        """Why this console is armed is why it is done, unless something else is typed."""
        armed = self.console.armed
        return {Part.REASON: armed.reason} if armed is not None and self.verb is not JobVerb.DRAIN else {}

    def _words(self, name: str, parts: Mapping[Part, str]) -> tuple[str, ...]:
        return job_words(self.origin, self.verb, name, parts)

    def _missing(self) -> bool:
        left = missing(self.wants, self.query_one(Fields).typed)
        if left:
            names = ", ".join(want.part.value.lower() for want in left)
            self.console.say(f"nothing was done; not typed as asked: {names}", Level.WARNING)
        return bool(left)

    def _enable(self) -> None:
        fields = self.query_one(Fields)
        fields.enable(not missing(self.wants, fields.typed) and self.console.armed is not None)

    def on_input_changed(self) -> None:
        """Perhaps all is typed now."""
        self._enable()

    def on_typing_refused(self) -> None:
        """It was pasted."""
        self.console.say(NO_PASTE, Level.WARNING)

    def on_press_pressed(self, event: Press.Pressed) -> None:
        """Cancel, or Apply where something was typed: where not, `y` is the key."""
        if event.id == "act-cancel":
            self.action_back()
        elif self.wants:
            self.action_do()
        else:
            self.console.say("y does it; Enter never does", Level.WARNING)
