"""A job's rows that were rejected by its target, and the actions on them. The user requests each query.

Nothing is polled; opening the screen, pressing `r`, and returning from an action send one query each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, cast

from textual.binding import Binding, BindingType

from slotkeeper.console.monitor.sink_pollers import ACTION, Whole
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.asking import AskingScreen
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.views import quarantine as models
from slotkeeper.console.views.jobs import parts
from slotkeeper.console.views.quarantine import Choice, JobQuarantine
from slotkeeper.console.views.rows import Column, Row, Verdict, age, named_by
from slotkeeper.core.domain.access import Right
from slotkeeper.core.domain.quarantine import QuarantineEntry, Wanted
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused

PAGE = 500


class QuarantineScreen(AskingScreen):
    """The entries of one job: only quarantined entries, or all entries."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "A", "every", "all", id="quarantine-every", tooltip="include ended entries: superseded, replayed, discarded"
        ),
        Binding("f", "further", "further", id="quarantine-further", tooltip="show older entries"),
    ]
    number = "4"
    has_actions = True
    panel_height = 8
    usual_order = "newest first"
    keys_shown: ClassVar[tuple[str, ...]] = (
        "help", "back", "open", "act", "quarantine-every", "mark", "filter", "refresh", "copy",
    )  # fmt: skip

    def __init__(self, job: str, key: str = "") -> None:
        super().__init__()
        self.job = job
        self.every = False
        self.entries: list[QuarantineEntry] = []
        self._key = key
        self._rows: list[Row] = []
        self._before: int | None = None
        self._of: JobQuarantine | None = None

    # Reading

    def on_screen_resume(self) -> None:
        """Read the entries when the screen is opened, and after an action, which may have changed them."""
        super().on_screen_resume()
        self.renewed()

    def renewed(self) -> None:
        self._read(max(PAGE, len(self.entries)))

    def quarantined(self) -> JobQuarantine:
        """Return the known facts about this job's quarantine; once it is empty, the last known facts."""
        loaded = self.console.services.loaded
        jobs = loaded.jobs if loaded else {}
        found = [one for one in models.quarantine_of(self.console.shown, jobs) if one.job == self.job]
        exact = next((one for one in found if one.key == self._key), None)
        one = exact or next((one for one in found if one.spec), None)
        if one is None:
            one = models.nothing_quarantined(self.job, jobs.get(self.job), self._of)
        self._of = one
        return one

    def _read(self, limit: int, before: int | None = None) -> None:
        of = self.quarantined()
        spec = models.asked_by(of, self.console.services.loaded)
        if self.console.in_history or spec is None:
            self.fault = models.NOT_RECORDED if self.console.in_history else models.NO_SINK
            self.redraw()
            return
        wanted, quarantines = models.wanted_of(of, self.every, limit, before), self.console.services.quarantines
        self.begin(lambda: (wanted, quarantines.page(spec, wanted)))

    def taken(self, found: object) -> None:
        """Append older entries to those shown, or replace all."""
        wanted, entries = cast("tuple[Wanted, Sequence[QuarantineEntry]]", found)
        kept = [one for one in self.entries if wanted.before is not None]
        self.entries = [*kept, *models.only_of(self.quarantined(), entries)]
        self._before = entries[-1].id if len(entries) == wanted.limit else None
        self._rows = models.entry_rows(self.entries)

    # Contents

    def rows(self) -> list[Row]:
        return self._rows if not self.console.in_history else []

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        """The columns, including the entry state if entries in every state are listed."""
        return models.entry_columns(self.every)

    def every_column(self) -> Sequence[Column]:
        return named_by(self.columns, (), (), parts(self.console.shown.local.jobs) or ("lane",))

    def heading(self) -> str:
        return f"Quarantine {safe(self.job, 40)}"

    def about(self) -> str:
        said = ["all states" if self.every else "quarantined"]
        said += ["querying the sink"] if self.asked_at is not None else []
        said += ["f shows more"] if self._before is not None else []
        return "   ".join([*said, "outdated" if self.fault else ""]).rstrip()

    def verdict(self) -> Verdict:
        of = self.quarantined()
        return Verdict(of.level if of.number else Level.FINE, f"{safe(self.job, 40)}: {of.text}", self.job)

    def strip(self) -> Lines:
        if self.fault:
            return [(Level.UNKNOWN, safe(self.fault, 300))]
        at = self.quarantined().asked_at
        return [] if at is None else [(Level.REST, f"counted in the sink {age(at, self.console.now)} ago")]

    def panel(self, key: str | None) -> tuple[str, Lines]:
        one = self._entry(key)
        if one is None:
            of_none = models.HAS_NONE if self.quarantined().has_none else "no rows are quarantined"
            empty = "querying the sink" if self.asked_at is not None else self.fault or of_none
            return "Entry", [(Level.REST, "no row is selected" if self.rows() else safe(empty, 300))]
        return f"Entry {one.id}  {one.state.value}", models.entry_lines(
            one, models.other_half(one, self.entries), self.console.now
        )

    def crumb(self) -> str:
        return f"Errors > {safe(self.job, 60)} > quarantine"

    def opened(self, key: str) -> None:
        one, spec = self._entry(key), models.asked_by(self.quarantined(), self.console.services.loaded)
        if one is not None and spec is not None:
            choice = models.choice_of(self.quarantined(), self.entries, [one.id])
            self.app.push_screen(QuarantineEntryScreen(spec, one, models.other_half(one, self.entries), choice))

    def act(self, keys: list[str]) -> None:
        choice = models.choice_of(self.quarantined(), self.entries, [int(key) for key in keys])
        self.console.open("quarantine-menu", choice)

    # Keys

    def action_every(self) -> None:
        self.every = not self.every
        self.entries, self._rows = [], []
        self._read(PAGE)

    def action_further(self) -> None:
        if self._before is not None:
            self._read(PAGE, self._before)
        else:
            self.console.say("no more entries", Level.REST)

    def _entry(self, key: str | None) -> QuarantineEntry | None:
        return next((one for one in self.entries if str(one.id) == key), None)


class QuarantineEntryScreen(AskingScreen):
    """One complete entry: the row's columns as text from the source, the reason for its rejection, and the actions.

    Values of a PROD source are masked until the user unmasks them, which is audited, as in the binlog.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "mask", "mask", id="quarantine-mask", tooltip="unmasking a PROD source is audited")
    ]
    its_name = "Columns"
    number = "4"
    columns = models.VALUE_COLUMNS
    has_actions = True
    panel_height = 9
    usual_order = "table order"
    keys_shown: ClassVar[tuple[str, ...]] = (
        "help", "back", "act", "quarantine-mask", "filter", "previous", "next", "pane", "copy",
    )  # fmt: skip

    def __init__(self, spec: JobSpec, entry: QuarantineEntry, other: QuarantineEntry | None, choice: Choice) -> None:
        super().__init__()
        self.entry = entry
        self.hidden = True
        self._spec = spec
        self._other = other
        self._choice = choice
        self._masked = False

    # Reading

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self.renewed()

    def renewed(self) -> None:
        """Read the entry again; unmasked values stay unmasked until the user leaves the screen."""
        self._read(not self.hidden and self._masked)

    def _read(self, unmask: bool) -> None:
        loaded, quarantines, spec = self.console.services.loaded, self.console.services.quarantines, self._spec
        if self.console.in_history or loaded is None:
            self.fault = models.NOT_RECORDED
            self.redraw()
            return
        id, services = self.entry.id, self.console.services

        def question() -> tuple[Whole, bool]:
            if unmask:
                services.require(ACTION, Right.REVEAL, spec.name)
            whole = quarantines.entry(loaded, spec, id, unmask)
            if whole is None:
                raise Refused("this entry no longer exists in the sink")
            return replace(whole, masked=whole.masked or bool(services.barred(Right.REVEAL, spec.name))), unmask

        self.begin(question)

    def taken(self, found: object) -> None:
        whole, unmask = cast("tuple[Whole, bool]", found)
        shown = unmask or not self.entry.values
        self.entry = whole.entry
        self._masked = self._masked or whole.masked
        self.hidden = whole.masked or (self.hidden and not shown)

    # Contents

    def rows(self) -> list[Row]:
        return models.value_rows(self.entry, self.hidden) if not self.console.in_history else []

    def verdict(self) -> Verdict:
        one = self.entry
        why = f"{one.sqlstate} {one.message}" if one.sqlstate else one.message
        return Verdict(
            Level.WARNING, safe(f"{self._choice.job}: row {models.key_words(one)} {one.state.value}: {why}", 300)
        )

    def about(self) -> str:
        said = [f"entry {self.entry.id} {self.entry.state.value}"]
        said += (
            ["querying the sink"]
            if self.asked_at is not None
            else ["masked"]
            if self.hidden and self.entry.values
            else []
        )
        return "   ".join([*said, *([safe(self.fault, 120)] if self.fault else [])])

    def panel(self, key: str | None) -> tuple[str, Lines]:
        row = next((one for one in self.rows() if one.key == key), None)
        lines = models.entry_lines(self.entry, self._other, self.console.now)
        if row is not None:
            lines.insert(1, (Level.FINE, f"{row.cells['column']} = {row.cells['value']}"))
        return "Cause and actions", lines

    def crumb(self) -> str:
        return f"Errors > {safe(self._choice.job, 60)} > quarantine > {self.entry.id}"

    def act(self, keys: list[str]) -> None:
        self.console.open("quarantine-menu", models.as_it_is(self._choice, self.entry))

    # Keys

    def action_mask(self) -> None:
        """Hide or show values. Values that are masked by default are read again, which is audited."""
        if self.hidden and self._masked:
            self._read(unmask=True)
            return
        self.hidden = not self.hidden
        self.redraw()
