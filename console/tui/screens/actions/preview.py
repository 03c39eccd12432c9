"""What a slot command would do, before it is done: the plan DN by DN, what it means, and what must be typed for it.

The plan is a dry run of the command line, and what is carried out is that plan by its id. Letters act while the plan
has the focus, which it has first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widget import Widget

from slotkeeper.console.actions import preview
from slotkeeper.console.actions.commands import (
    ON_EXISTING,
    Doing,
    Part,
    Typed,
    missing,
    slot_words,
    with_placeholders,
    wrong,
)
from slotkeeper.console.actions.outcome import complaint, took
from slotkeeper.console.actions.preview import Preview, parsed, preview_from
from slotkeeper.console.actions.record import Action, Said
from slotkeeper.console.actions.runner import Order
from slotkeeper.console.actions.verbs import JobVerb, SlotVerb, why_not
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.tui.screens.actions.base import READ_ONLY, Fields, FieldsScreen, Sheet
from slotkeeper.console.tui.screens.actions.confirm import JobConfirm
from slotkeeper.console.tui.screens.actions.progress import POLL_SECONDS, SlotProgress
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.tui.widgets.line import Line
from slotkeeper.core.domain.text import many, safe
from slotkeeper.core.domain.ttl import in_words

_AROUND = 8
"""The rows of identity, title, three of the head, buttons, place and keys."""
NOTHING_TO_UNDO = "this slot has no finished reset that could be undone"


class SlotPreview(FieldsScreen):
    """A plan and its fields; the slot is that of the key press."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "words", "all words and SQL", id="act-words"),
        Binding("n", "again", "plan again", id="act-again"),
        Binding("s", "stop", "stop its job", id="act-stop-first"),
        Binding(
            "o", "existing", "its rows", id="act-existing", tooltip="of a snapshot: replace, merge, or as configured"
        ),
        Binding("y", "copy", "copy CLI", id="act-copy"),
    ]
    keys_shown: ClassVar[tuple[str, ...]] = ("back", "pane", "act-words", "act-again", "act-existing", "act-copy")

    def __init__(self, doing: Doing, typed: Mapping[Part, str] | None = None) -> None:
        super().__init__()
        self.doing = doing
        self._key = f"{doing.place.source} {doing.place.table} slot {doing.place.slot}"
        self._typed = dict(typed or {})
        self.plan: Preview | None = None
        self._coming: Preview | None = None
        self.fault = ""
        self._asked = ""
        self._timer: Timer | None = None
        self._seconds = ""
        self._full = False
        self._stopping = False

    # Planning

    def body(self) -> Iterator[Widget]:
        yield Line("act-title")
        yield Line("act-head")
        yield Sheet()
        yield Line("act-tail")

    def on_mount(self) -> None:
        super().on_mount()
        if self.doing.ending:
            self._show(preview.ending(self.doing.place))
        else:
            self._ask()

    def _ask(self) -> None:
        history = self.doing.verb is SlotVerb.UNDO and not self.doing.backup
        asked = replace(self.doing, verb=SlotVerb.HISTORY) if history else self.doing
        what = f"plan {self.doing.verb.value} of {self.doing.place.text}"
        self.plan, self.fault, self._seconds = None, "", "0s"
        id = self.set_going(Order(slot_words(self.origin, asked), what, self._key, listed=False))
        if id is None:
            self.fault = "no plan could be asked for"
        else:
            self._asked = id
            self._timer = self.set_interval(POLL_SECONDS, self._poll)
        self.redraw()

    def _poll(self) -> None:
        if not self._asked:
            return  # answered: a tick that was on its way
        found, said = self.runs.find(self._asked), self.runs.said(self._asked)
        if found is None or not (found.over or preview_from(said.out) is not None):
            words = in_words(took(found, self.console.now_real())) if found else "?"
            if self.is_current and words != self._seconds:
                self._seconds = words
                self.redraw()
            return
        if self._timer is not None:
            self._timer.stop()
        said = self.runs.said(self._asked) if found.over else said
        self._asked = ""
        self._answered(found, said)

    def _answered(self, action: Action, said: Said) -> None:
        if self.doing.verb is SlotVerb.UNDO and not self.doing.backup:
            self._choose_backup(action, said)
            return
        plan = preview_from(said.out)
        if plan is None:
            why, hint = complaint(said.err)
            code = action.record.code
            self.fault = "; ".join(part for part in (why, hint) if part) or f"no plan was answered (exit {code})"
            self.redraw()
        else:
            self._show(plan)

    def _choose_backup(self, action: Action, said: Said) -> None:
        found = (parsed(said.out) or {}).get("resets", [])
        backup = next((str(one["backup"]) for one in found if one.get("step") == "done"), "")
        if backup:
            self.doing = replace(self.doing, backup=backup)
            self._ask()
        else:
            why = complaint(said.err)[0] if action.record.code else ""
            self.fault = why or NOTHING_TO_UNDO
            self.redraw()

    def _show(self, plan: Preview) -> None:
        """The plan with its fields, at once: nothing that is typed lands between the two."""
        armed = self.console.armed
        for old in self.query(Fields):
            old.remove()
        does = f"{self.doing.verb.value.capitalize()} on {many(len(plan.lanes), 'lane') if plan.lanes else 'all lanes'}"
        given = ({Part.REASON: armed.reason} if armed else {}) | self._typed
        fields = Fields(plan.wants, does, self.console.ascii_only, given)
        self._coming = plan
        self.mount(fields, after="#act-tail")

    def on_fields_ready(self) -> None:
        """What is to be typed has the keys, unless the plan cannot be carried out yet."""
        self.plan, field = self._coming, self.to_type()
        if field is not None and self.plan is not None and not self.plan.failed and self.focused in (None, self.sheet):
            self.set_focus(field)
        self.redraw()

    # Drawing

    def draw(self) -> None:
        plan, width = self.plan, self.app.size.width
        self._headline()
        if plan is None:
            level = Level.CRITICAL if self.fault else Level.BUSY
            text = f"no plan: {self.fault}" if self.fault else f"planning, {self._seconds}; a dry run, nothing is moved"
            self.say("act-head", self.paragraph([(level, text)], 6), layout=True)
            self.say("act-tail", self.text(" n plans again" if self.fault else ""), layout=True)
            self.sheet.fill("none", [])
            return
        lines = preview.words(plan) if self._full else preview.lanes(plan, width)
        self.sheet.fill(self._full, self.wrapped(lines) if self._full else [self.text(t, lv) for lv, t in lines])
        self._draw_head()
        # what lanes, fields and what is around them leave to what the plan means
        rows = self.app.size.height - _AROUND - len(plan.wants) - max(2, len(plan.lanes))
        below: Lines = []
        if not self._full:
            below = preview.tail(
                plan, width, self.app.size.height, rows, lambda text: len(self.wrapped([(Level.FINE, text)]))
            )
        self.say("act-tail", self.paragraph(below, max(9, rows)), layout=True)
        self.enable()

    def _draw_head(self) -> None:
        if self.plan is None:
            return
        seen = f"lines {self.sheet.where.removesuffix(' Tab')}, j k" if self.sheet.too_long else ""
        job = self._holder()
        lines = preview.head(self.plan, job.state.value if job and job.state else "", seen)
        if not self._full:
            lines += preview.header(self.app.size.width)
        self.say("act-head", self.paragraph(lines, 3), layout=True)

    def tick(self) -> None:
        super().tick()
        if self.plan is not None and self.plan.expires is not None:
            self._headline()

    def _headline(self) -> None:
        plan = self.plan
        if plan is None:
            self.headline(f"{self.doing.verb.value.upper()} SLOT   {safe(self.doing.place.text, 120)}")
            return
        left = preview.valid(plan, self.console.now_real())
        where = "+".join(self.console.environments) or "no environment"
        self.headline(f"{plan.title}   {safe(where, 20)}   {left}")

    def on_sheet_scrolled(self) -> None:
        self._draw_head()

    def panel_moved(self) -> None:
        """The same, after a key."""
        self._draw_head()

    def crumb(self) -> str:
        if self.plan is None:
            return f"{self.doing.verb.value} > nothing is changed yet"
        if self.console.armed is None:
            return READ_ONLY
        return self._why_not() or "all is typed: Enter on the button does it"

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Letters act while the plan has the focus."""
        if action == "existing" and not self._snapshot:
            return False
        if action in ("words", "again", "stop", "copy", "existing"):
            return self.focused is self.sheet
        return super().check_action(action, parameters)

    def action_words(self) -> None:
        self._full = not self._full
        self.redraw()

    def action_again(self) -> None:
        if self._timer is None or self.plan is not None or self.fault:
            self.app.switch_screen(SlotPreview(self.doing, self._kept()))

    def _in_fields(self) -> dict[Part, str]:
        return {part: text for fields in self.query(Fields) for part, text in fields.typed.items()}

    def _kept(self) -> dict[Part, str]:
        """What was typed and stays true of another plan: the numbers are to be read again."""
        return {part: text for part, text in (self._in_fields() or self._typed).items() if part is not Part.ROWS}

    @property
    def _snapshot(self) -> bool:
        return self.doing.target is not None and self.doing.target.to == "snapshot"

    def action_existing(self) -> None:
        if self.doing.target is None or (self.plan is None and not self.fault):
            return
        place = ON_EXISTING.index(self.doing.target.value) + 1
        target = replace(self.doing.target, value=ON_EXISTING[place % len(ON_EXISTING)])
        self.app.switch_screen(SlotPreview(replace(self.doing, target=target), self._kept()))

    def action_stop(self) -> None:
        """The step before: the job that has the slot is stopped; then it is planned again."""
        job, loaded = self._holder(), self.console.services.loaded
        why = why_not(JobVerb.STOP, job, loaded.jobs if loaded else ()) if job else "no job here has this slot"
        if job is None or why:
            self.console.say(why, Level.WARNING)
            return
        self._stopping = True
        self.app.push_screen(JobConfirm(JobVerb.STOP, [job.name]))

    def on_screen_resume(self) -> None:
        """Back from stopping the job: what was planned before is not what there is now."""
        super().on_screen_resume()
        if self._stopping:
            self.action_again()

    def _holder(self) -> JobFacts | None:
        return self.console.shown.job(self.doing.place.job)

    def action_copy(self) -> None:
        plan = self.plan
        if plan is None or self.doing.ending:
            self.copied(slot_words(self.origin, self.doing))
            return
        parts = with_placeholders(plan.wants, self.query_one(Fields).typed)
        self.copied(slot_words(self.origin, self.doing, Typed(plan.plan, parts)))

    # Carrying it out

    def _why_not(self) -> str:
        plan = self.plan
        if plan is None:
            return "there is no plan yet"
        if plan.failed:
            how = "; o: replace or merge its rows" if self._snapshot and plan.takes_no_copy else ""
            return f"not possible now: {', '.join(one.name for one in plan.failed)}{how}"
        if plan.expired(self.console.now_real()):
            return "the plan has expired: Tab to it, n plans again"
        left = [want.part.value.lower() for want in missing(plan.wants, self._in_fields())]
        known = wrong(plan.wants, self._in_fields()) or "nothing is changed yet"
        return f"{known}; to be typed as asked: {', '.join(left)}" if left else ""

    def enable(self) -> None:
        for fields in self.query(Fields):
            if fields.is_mounted:
                fields.enable(not self._why_not() and self.console.armed is not None)
        self.draw_crumb()

    def apply(self) -> None:
        why, plan = self._why_not(), self.plan
        if why or plan is None:
            self.console.say(why, Level.WARNING)
        elif self.may_change():
            typed = Typed(plan.plan, self.query_one(Fields).typed)
            words = slot_words(self.origin, self.doing, None if self.doing.ending else typed)
            verb = "end reset of" if self.doing.ending else self.doing.verb.value
            id = self.set_going(Order(words, f"{verb} slot {self.doing.place.text}", self._key))
            if id is not None:
                self.app.switch_screen(SlotProgress(self.doing, id, self._kept(), plan.copies))
