"""The three screens of a slot command: its plan with letters for actions, its confirmations, and its result.

The plan is a dry run of the command, and exactly that plan is executed, identified by its id. Keys typed before the
plan is shown are queued, but none of them executes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widget import Widget

from slotkeeper.console.actions import preview
from slotkeeper.console.actions.commands import (
    Doing,
    Part,
    Target,
    Typed,
    missing,
    slot_words,
    with_placeholders,
    wrong,
)
from slotkeeper.console.actions.outcome import complaint, took
from slotkeeper.console.actions.preview import HEADS, Preview, Section, parsed, preview_from
from slotkeeper.console.actions.record import Action, Said
from slotkeeper.console.actions.runner import Order
from slotkeeper.console.actions.verbs import JobVerb, SlotVerb, why_not
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.tui.boxes import Box, between, lower, upper
from slotkeeper.console.tui.screens.actions.base import LETTERS, ActScreen, Fields, FieldsScreen, Press, Sheet
from slotkeeper.console.tui.screens.actions.confirm import JobConfirm
from slotkeeper.console.tui.screens.actions.progress import POLL_SECONDS, SlotProgress
from slotkeeper.console.tui.widgets.line import Line
from slotkeeper.console.views.detail import labelled
from slotkeeper.console.views.rows import short
from slotkeeper.console.views.signs import OK, mark, sign
from slotkeeper.core.domain.text import many, safe
from slotkeeper.core.domain.ttl import in_words

NOTHING_TO_UNDO = "this slot has no finished reset to undo"
_AROUND = 3
"""The number of rows for the identity, the crumb and the keys."""
_LEAST_LANES, _MOST_CHECKS = 2, 3
"""The minimum number of lanes, doubled if there is room for frames."""


class OfSlot(ActScreen):
    """One of the screens of a slot command. Boxes are drawn as text; a key shows the lines that do not fit."""

    doing: Doing
    titled = 1
    """The number of rows of its title."""

    @property
    def room(self) -> int:
        """The number of rows below the title."""
        return self.app.size.height - _AROUND - self.titled

    @property
    def key(self) -> str:
        """The key under which its actions are recorded."""
        place = self.doing.place
        return f"{place.source} {place.table} slot {place.slot}"

    def edge(self, box: Box, above: bool) -> list[Text]:
        """Return the upper or lower edge of a box as wide as the screen; empty if frames do not fit."""
        drawn = upper if above else lower
        return [drawn([box], [self.app.size.width], self.style, self.console.ascii_only)] if self.framed else []

    def inside(self, box: Box) -> list[Text]:
        """Return the lines of a box, with its sides."""
        if not self.framed:
            return list(box.lines)
        return between([box], [self.app.size.width], self.style, self.console.ascii_only)

    def boxed(self, box: Box) -> list[Text]:
        """Return a whole box, or its lines under a rule if frames do not fit."""
        if not self.framed:
            return [self.rule(box.title, box.hint), *box.lines]
        return [*self.edge(box, True), *self.inside(box), *self.edge(box, False)]

    def said_in(self, section: Section, most: int) -> list[Text]:
        """Return the wrapped lines of a section; if they do not fit, the last line gives the number that `v` shows."""
        rows = self.wrapped([(level, labelled(label, text)) for level, label, text in section.lines], boxed=True)
        if len(rows) <= most:
            return rows
        more = labelled("", f"v shows {len(rows) - most + 1} more lines")
        return [*rows[: most - 1], *self.wrapped([(Level.REST, more)], boxed=True)]


class SlotPlan(OfSlot):
    """A plan for the slot that was selected when the key was pressed."""

    DEFAULT_CSS = "SlotPlan #act-tail { height: 1fr; }"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "continue", "continue", id="act-continue", key_display="Enter"),
        Binding("v", "words", "details", id="act-words", tooltip="findings of the checks, and SQL"),
        Binding("n", "again", "plan again", id="act-again"),
        Binding("s", "stop", "stop its job", id="act-stop-first"),
        Binding(
            "o", "existing", "old rows", id="act-existing", tooltip="for a snapshot: replace them, or merge into them"
        ),
        Binding("y", "copy", "copy command", id="act-copy"),
    ]
    keys_shown: ClassVar[tuple[str, ...]] = (
        "act-continue", "act-words", "act-copy", "act-again", "act-existing", "back",
    )  # fmt: skip

    def __init__(self, doing: Doing, typed: Mapping[Part, str] | None = None, plan: Preview | None = None) -> None:
        super().__init__()
        self.doing = doing
        self._typed = dict(typed or {})
        self._replans = False
        self.plan = plan
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
        elif self.plan is None:
            self._ask()

    @property
    def awaits(self) -> bool:
        return self.plan is None and not self.fault

    def _ask(self) -> None:
        history = self.doing.verb is SlotVerb.UNDO and not self.doing.backup
        asked = replace(self.doing, verb=SlotVerb.HISTORY) if history else self.doing
        what = f"plan {self.doing.verb.value} of {self.doing.place.text}"
        self.plan, self.fault, self._seconds = None, "", "0s"
        id = self.set_going(Order(slot_words(self.origin, asked), what, self.key, listed=False))
        if id is None:
            self._failed("no plan could be requested")
        else:
            self._asked = id
            self._timer = self.set_interval(POLL_SECONDS, self._poll)
            self.redraw()

    def _poll(self) -> None:
        if not self._asked:
            return  # already answered; this tick was pending
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
            self._failed(
                "; ".join(part for part in (why, hint) if part) or f"the command returned no plan (exit {code})"
            )
        else:
            self._show(plan)

    def _choose_backup(self, action: Action, said: Said) -> None:
        found = (parsed(said.out) or {}).get("resets", [])
        backup = next((str(one["backup"]) for one in found if one.get("step") == "done"), "")
        if backup:
            self.doing = replace(self.doing, backup=backup)
            self._ask()
        else:
            self._failed((complaint(said.err)[0] if action.record.code else "") or NOTHING_TO_UNDO)

    def _failed(self, why: str) -> None:
        self.fault = why
        self._refuse_keys()
        self.redraw()

    def _show(self, plan: Preview) -> None:
        if plan.takes_no_copy and self.doing.target is not None:
            self._treat_rows(self.doing.target)
            self._replans = True
            self._ask()
            return
        if self._replans:
            self.console.skip_key("o")  # the key was typed ahead for the mode that is already planned
        self.plan = plan
        if plan.failed:
            self._refuse_keys()
        self.redraw()
        self.console.release_keys()

    def _treat_rows(self, target: Target) -> None:
        """Plan to replace the target's rows, or to merge into them if they are planned to be replaced or cannot be."""
        loaded = self.console.services.loaded
        job = loaded.jobs.get(self.doing.place.job) if loaded is not None else None
        merges = target.value == "replace" or (job is not None and job.sink_options.updates_only)
        self.doing = replace(self.doing, target=replace(target, value="merge" if merges else "replace"))

    def _refuse_keys(self) -> None:
        """Discard keys typed ahead for an executable plan."""
        number = self.console.drop_keys()
        if number:
            self.console.say(f"{many(number, 'key')} typed ahead discarded: there is nothing to confirm", Level.WARNING)

    # Drawing

    def draw(self) -> None:
        plan = self.plan
        verb = f"{self.doing.verb.value.upper()} SLOT {safe(self.doing.place.slot, 120)}"
        self.titled = self.headline(plan.title if plan else verb, 1)
        if plan is None:
            level = Level.CRITICAL if self.fault else Level.BUSY
            text = (
                f"no plan: {self.fault}" if self.fault else f"planning, {self._seconds}; dry run, no position is moved"
            )
            self.say("act-head", self.paragraph([(level, text)], 6), layout=True)
            self.say("act-tail", self.text(" n plans again" if self.fault else ""), layout=True)
            self.sheet.fill("none", [])
            return
        above, below = self._above(plan), self._below(plan)
        lanes = self._all(plan) if self._full else self._lanes(plan)
        room = self.room - len(above) - len(below)
        self.sheet.styles.height = min(len(lanes), max(1, room))
        self.sheet.room = min(len(lanes), max(1, room))
        self.sheet.fill(self._full, lanes)
        self.say_lines("act-tail", below)
        self._draw_head()

    def _draw_head(self) -> None:
        if self.plan is not None:
            self.say_lines("act-head", self._above(self.plan))

    def _all(self, plan: Preview) -> list[Text]:
        """Return all sections in full, each under its heading."""
        found: list[Text] = []
        for section in plan.sections(full=True):
            found += [self.text(f" {section.name}   {section.hint}".rstrip(), Level.REST)]
            found += self.wrapped([(level, labelled(label, text)) for level, label, text in section.lines])
        return found

    def _lanes(self, plan: Preview) -> list[Text]:
        """Return one row per lane; lanes that lose changes come first."""
        rows = []
        for one in plan.lanes:
            level = Level.WARNING if one.lost else Level.FINE
            flag = mark(level, self.console.ascii_only)
            rows.append(self.text(f"{'' if self.framed else ' '}{flag} {self._row(one.cells)}", level))
        if not plan.lanes:
            rows = [self.text("  the slot has no point", Level.REST)]
        return self.inside(Box("", rows))

    def _row(self, cells: Sequence[str]) -> str:
        """Return a lane's cells, or the headers, in columns; at 80 columns or more, they include the oldest change."""
        width = self.app.size.width
        wide = 4 if width >= 100 else 0
        rooms = (10 + wide, 17 + wide, 13 + wide, 18 + wide, 12) if width >= 80 else (9, 13, 13, 15)
        dn, *others = (short(cell, room) for cell, room in zip(cells, rooms, strict=False))
        return " ".join([f"{dn:<{rooms[0]}}", *(f"{one:>{room}}" for one, room in zip(others, rooms[1:], strict=True))])

    def _above(self, plan: Preview) -> list[Text]:
        """Return the lines above the lanes, or above the full text."""
        seen = f"lines {self.sheet.where.removesuffix(' Tab')}, j k" if self.sheet.too_long else ""
        if self._full:
            return [self.text(f" {self._owner(plan)}   {seen}".rstrip())]
        heads = self.text(f"{'' if self.framed else ' '}  {self._row(HEADS)}", Level.REST)
        return [*self.edge(Box(f"Positions   {seen}".rstrip()), True), *self.inside(Box("", [heads]))]

    def _below(self, plan: Preview) -> list[Text]:
        """Return the lines below the lanes: effects and checks, in boxes that leave room for the lanes."""
        if self._full:
            return []
        number = many(len(plan.lanes), "lane") if plan.lanes else "no lanes"
        found = self.edge(Box("", hint=f"{number}, {self._owner(plan)}"), False)
        first, *others = plan.sections(full=False)
        checks = [line for one in others for line in self.boxed(Box(one.name, self._checked(plan), one.hint))]
        least = min(len(plan.lanes), _LEAST_LANES * (1 + (self.framed and not plan.copies))) or 1
        room = self.room - 1 - least - len(checks) - (4 if self.framed else 1)
        role = "crit" if plan.failed else "warn" if plan.loses else "frame"
        left = first.hint or preview.valid(plan, self.console.now_real())
        return [*found, *self.boxed(Box(first.name, self.said_in(first, max(1, room)), left, role)), *checks]

    def _checked(self, plan: Preview) -> list[Text]:
        """Return the names of the checks side by side, unknown results first; `v` shows their findings."""
        rows, row, room = list[Text](), "", self.inner
        for one in sorted(plan.checks, key=lambda one: one.ok is not None):
            said = f"{sign(OK, self.console.ascii_only) if one.ok else '?'} {one.name}"
            if row and cell_len(row) + 3 + cell_len(said) > room - 1:
                rows.append(self.text(row))
                row = ""
            row = f"{row}   {said}" if row else f" {said}"
        return [*rows, self.text(row)][:_MOST_CHECKS]

    def _owner(self, plan: Preview) -> str:
        job = self._holder()
        state = job.state.value if job and job.state else ""
        return plan.owner if state in plan.owner.split() else f"{plan.owner} {state}".rstrip()

    def tick(self) -> None:
        super().tick()
        if self.plan is not None and self.plan.expires is not None and not self._full and self.is_current:
            self.draw()

    def on_sheet_scrolled(self) -> None:
        self._draw_head()

    def panel_moved(self) -> None:
        """Update the scroll position after a key."""
        self._draw_head()

    def crumb(self) -> str:
        if self.plan is None:
            return f"{self.doing.verb.value} > nothing has changed yet"
        other = {"replace": "o: merge instead; ", "merge": "o: replace instead; "}
        way = other.get(self.doing.target.value, "") if self.doing.target is not None else ""
        return self._why_not() or f"nothing has changed yet; {way}Enter continues to the confirmation"

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "continue":
            return not self._why_not()
        if action == "existing":
            return self.doing.target is not None and self.doing.target.to == "snapshot"
        return super().check_action(action, parameters)

    def on_key(self, event: events.Key) -> None:
        """Report a letter that has no effect here, because the user may be typing a name."""
        if event.key == "enter":
            self.console.say(self._why_not(), Level.WARNING)
        elif event.is_printable:
            self.console.say(LETTERS, Level.WARNING)

    def action_continue(self) -> None:
        if self.plan is not None:
            self.app.switch_screen(SlotConfirm(self.doing, self.plan, self._typed))

    def action_words(self) -> None:
        self._full = not self._full
        self.redraw()

    def action_again(self) -> None:
        if self._timer is None or self.plan is not None or self.fault:
            self.app.switch_screen(SlotPlan(self.doing, self._typed))

    def action_existing(self) -> None:
        if self.doing.target is not None and not self.awaits:
            self._treat_rows(self.doing.target)
            self.app.switch_screen(SlotPlan(self.doing, self._typed))

    def action_stop(self) -> None:
        """Stop the job that uses the slot; then plan again."""
        job, loaded = self._holder(), self.console.services.loaded
        configured, barred = loaded.jobs if loaded else (), self.console.services.barred
        none = "no job on this host uses this slot"
        why = why_not(JobVerb.STOP, job, configured, barred) if job else none
        if job is None or why:
            self.console.say(why, Level.WARNING)
            return
        self._stopping = True
        self.app.push_screen(JobConfirm(JobVerb.STOP, [job.name]))

    def on_screen_resume(self) -> None:
        """Replace the outdated plan after the job was stopped."""
        super().on_screen_resume()
        if self._stopping:
            self.action_again()

    def _holder(self) -> JobFacts | None:
        return self.console.shown.job(self.doing.place.job)

    def action_copy(self) -> None:
        plan = self.plan
        if plan is None or plan.failed or self.doing.ending:
            self.copied(slot_words(self.origin, self.doing))
        else:
            self.copied(slot_words(self.origin, self.doing, Typed(plan.plan, with_placeholders(plan.wants, {}))))

    def _why_not(self) -> str:
        plan = self.plan
        if plan is None:
            return "no plan: n plans again" if self.fault else "planning"
        if plan.failed:
            return f"not possible now: {', '.join(one.name for one in plan.failed)}"
        return "the plan has expired: n plans again" if plan.expired(self.console.now_real()) else ""

    def action_back(self) -> None:
        super().action_back()
        self.console.say(f"{self.doing.verb.value} not executed: its plan was closed")


UNDO_KEEPS = tuple(part for part in Part if part is not Part.ROWS)
"""The values that an undo from the result screen reuses: the slot is the same, the number of rows is not."""


class SlotConfirm(OfSlot, FieldsScreen):
    """The confirmations for executing a plan; Esc returns to the plan."""

    DEFAULT_CSS = "SlotConfirm Fields { height: 1fr; }"
    keys_shown: ClassVar[tuple[str, ...]] = ("pane", "back", "palette")
    TYPING: ClassVar[dict[str, str]] = {
        "pane": "next field",
        "pane-before": "previous field",
        "act-lines-down": "",
        "back": "to the plan",
    }

    def __init__(self, doing: Doing, plan: Preview, typed: Mapping[Part, str]) -> None:
        super().__init__()
        self.doing = doing
        self.plan = plan
        self._typed = dict(typed)

    def body(self) -> Iterator[Widget]:
        plan = self.plan
        does = f"{self.doing.verb.value.capitalize()} on {many(len(plan.lanes), 'lane') if plan.lanes else 'all lanes'}"
        yield Line("act-title")
        yield Line("act-head")
        yield Sheet()
        yield Line("act-tail")
        yield Fields(plan.wants, does, self._typed, "Back to the plan")

    def on_mount(self) -> None:
        super().on_mount()
        self.enable()

    def first(self) -> Widget:
        """Return the first empty field, or the button if all fields are correct."""
        field = self.to_type()
        if self.plan.wants and not missing(self.plan.wants, self._in_fields()):
            return self.query_one("#act-apply", Press)
        return field or self.query_one("#act-cancel")

    def draw(self) -> None:
        plan, where = self.plan, "+".join(self.console.environments)
        self.titled = self.headline(plan.title, 2)
        about = [(Level.FINE, "Slot", f"{plan.what}{f' ({where})' if where else ''}, {plan.owner}")]
        about += plan.sections(full=False)[0].lines
        if not self.doing.ending and self.doing.verb in (SlotVerb.RESET, SlotVerb.UNDO):
            about.append((Level.FINE, "Backup", "is written before anything changes"))
        role = "warn" if plan.loses else "frame"
        lines = self.inside(Box("", self.said_in(Section("", tuple(about)), 99), role=role))
        asked = self.draw_fields(plan.wants, f"audited as {safe(self.console.services.who, 40)}")
        room = max(_LEAST_LANES, self.room - 2 * self.framed - asked)
        self.sheet.styles.height = min(len(lines), room)
        self.sheet.room = min(len(lines), room)
        self.sheet.fill("confirm", lines)
        seen = f"lines {self.sheet.where.removesuffix(' Tab')}, PgDn" if self.sheet.too_long else ""
        self.say_lines("act-head", self.edge(Box("You are about to", role=role), True))
        hint = seen or preview.valid(plan, self.console.now_real())
        self.say_lines("act-tail", self.edge(Box("", hint=hint, role=role), False))
        self.enable()

    def crumb(self) -> str:
        if self.console.armed is None:
            return self.read_only
        return self._why_not() or "all fields are complete: press Enter on the button"

    def action_back(self) -> None:
        """Return to the plan as it was displayed."""
        if self.is_current:
            self.app.switch_screen(SlotPlan(self.doing, self._entered(Part.REASON), self.plan))

    def _in_fields(self) -> dict[Part, str]:
        return self.query_one(Fields).typed

    def _entered(self, *parts: Part) -> dict[Part, str]:
        """Return what was typed for these parts: going back keeps the reason, and each confirmation is typed again."""
        return {part: text for part, text in self._in_fields().items() if part in parts and text}

    def _why_not(self) -> str:
        wants, typed = self.plan.wants, self._in_fields()
        if self.plan.expired(self.console.now_real()):
            return "the plan has expired: Esc, then n plans again"
        left = [want.part.value.lower() for want in missing(wants, typed)]
        known = wrong(wants, typed) or "nothing has changed yet"
        return f"{known}; still required: {', '.join(left)}" if left else ""

    def enable(self) -> None:
        self.query_one(Fields).enable(not self._why_not() and self.console.armed is not None)
        self.draw_crumb()

    def apply(self) -> None:
        why = self._why_not()
        if why:
            self.console.say(why, Level.WARNING)
        elif self.may_change():
            typed = Typed(self.plan.plan, self._in_fields())
            words = slot_words(self.origin, self.doing, None if self.doing.ending else typed)
            verb = "end reset of" if self.doing.ending else self.doing.verb.value
            id = self.set_going(Order(words, f"{verb} slot {self.doing.place.text}", self.key))
            if id is not None:
                self.app.switch_screen(SlotProgress(self.doing, id, self._entered(*UNDO_KEEPS), self.plan))
