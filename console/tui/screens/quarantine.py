"""The rows of one job that its target refused, and what may become of them. The sink is asked when a person asks.

Nothing is polled: opening, `r`, and coming back from something that was done ask once, in a thread of its own; an
answer to an earlier question is dropped. Next door: `console.views.quarantine_entries` has rows and words,
`console.monitor.quarantine_poller` reads, `console.tui.screens.quarantine_entry` shows one entry whole.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from console.monitor.snapshot import Level
from console.monitor.store_reader import told
from console.tui.screens.base import Lines
from console.tui.screens.table import TableScreen
from console.views import quarantine as models
from console.views import quarantine_entries
from console.views.quarantine import HeldOf
from console.views.rows import Column, Row, age
from core.domain.quarantine import Held, Wanted
from core.domain.text import safe

PAGE = 500


class HeldRead(Message):
    """Entries were read; or a sentence on why they could not be."""

    def __init__(self, number: int, entries: Sequence[Held] | None, wanted: Wanted, fault: str) -> None:
        super().__init__()
        self.number = number
        self.entries = entries
        self.wanted = wanted
        self.fault = fault


class QuarantineScreen(TableScreen):
    """The entries of one job: those that are held, or all."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("A", "every", "all", id="held-every", tooltip="also what is over: superseded, replayed, discarded"),
        Binding("f", "further", "further", id="held-further", tooltip="the entries before these"),
    ]
    number = "4"
    has_strip = True
    has_actions = True
    panel_height = 8
    usual_order = "newest first"
    keys_shown: ClassVar[tuple[str, ...]] = (
        "help", "back", "open", "act", "held-every", "mark", "filter", "refresh", "copy",
    )  # fmt: skip

    def __init__(self, job: str, key: str = "") -> None:
        super().__init__()
        self.job = job
        self.every = False
        self.entries: list[Held] = []
        self._key = key
        self._rows: list[Row] = []
        self._number = 0
        self._asking = False
        self._before: int | None = None
        self._fault = ""
        self._of: HeldOf | None = None

    # Reading

    def on_screen_resume(self) -> None:
        """Opened, or come back to: something may have been done to the rows meanwhile."""
        super().on_screen_resume()
        self.renewed()

    def renewed(self) -> None:
        """As many entries as there are, anew."""
        self._read(max(PAGE, len(self.entries)))

    def held(self) -> HeldOf:
        """What is known of this job's quarantine; what was known last where it holds nothing any more."""
        loaded = self.console.services.loaded
        jobs = loaded.jobs if loaded else {}
        found = [one for one in models.held_of(self.console.shown, jobs) if one.job == self.job]
        exact = next((one for one in found if one.key == self._key), None)
        one = exact or next((one for one in found if one.spec), None)
        if one is None:
            one = models.nothing_held(self.job, jobs.get(self.job), self._of)
        self._of = one
        return one

    def _read(self, limit: int, before: int | None = None) -> None:
        """Ask the sink, in a thread that the console does not wait for."""
        of = self.held()
        spec = models.asked_by(of, self.console.services.loaded)
        if self.console.replaying or spec is None:
            self._fault = models.NOT_RECORDED if self.console.replaying else models.NO_SINK
            self.redraw()
            return
        self._number += 1
        self._asking = True
        number, wanted = self._number, models.wanted_of(of, self.every, limit, before)
        holdings = self.console.services.holdings

        def work() -> None:
            entries, fault = None, ""
            try:
                entries = holdings.page(spec, wanted)
            except Exception as error:  # the top of a thread: whatever it is must be told
                fault = told(error)
            self.post_message(HeldRead(number, entries, wanted, fault))

        threading.Thread(target=work, name=f"slotkeeper-held-{number}", daemon=True).start()
        self.redraw()

    def on_held_read(self, message: HeldRead) -> None:
        """Show what was read; where nothing could be, the last entries stay and the sentence says why."""
        if message.number != self._number:
            return
        self._asking, self._fault = False, message.fault
        if message.entries is not None:
            kept = [one for one in self.entries if message.wanted.before is not None]
            self.entries = [*kept, *models.only_of(self.held(), message.entries)]
            full = len(message.entries) == message.wanted.limit
            self._before = message.entries[-1].id if full else None
            self._rows = quarantine_entries.entry_rows(self.entries)
        self.rearranged()

    # What it says

    def rows(self) -> list[Row]:
        """The entries; none of them in a replay."""
        return self._rows if not self.console.replaying else []

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        """What became of an entry is a column where not only held ones are listed."""
        return quarantine_entries.entry_columns(self.every)

    def heading(self) -> str:
        """The table's name."""
        return f"Quarantine {safe(self.job, 40)}"

    def about(self) -> str:
        """Which entries, whether there are more, and what failed."""
        said = ["all states" if self.every else "held"]
        said += ["asking the sink"] if self._asking else []
        said += ["f: there are more"] if self._before is not None else []
        return "   ".join([*said, "not as it is now" if self._fault else ""]).rstrip()

    def strip(self) -> Lines:
        """How many, since when, what the limit is; and what could not be asked."""
        of = self.held()
        lines = [(of.level if of.number else Level.FINE, of.text)]
        if self._fault:
            lines.append((Level.UNKNOWN, safe(self._fault, 300)))
        elif of.asked_at is not None:
            lines.append((Level.REST, f"counted at the sink {age(of.asked_at, self.console.now)} ago"))
        return lines

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """What is wrong with the row under the cursor and what a replay would do."""
        one = self._entry(key)
        if one is None:
            empty = "asking" if self._asking else self._fault or "nothing is held"
            return "Entry", [(Level.REST, "no row is chosen" if self.rows() else safe(empty, 300))]
        return f"Entry {one.id}  {one.state.value}", quarantine_entries.entry_lines(
            one, quarantine_entries.other_half(one, self.entries), self.console.now
        )

    def crumb(self) -> str:
        """Where one is."""
        return f"Errors > {safe(self.job, 60)} > quarantine"

    def opened(self, key: str) -> None:
        """One entry whole."""
        from console.tui.screens.quarantine_entry import HeldRowScreen

        one, spec = self._entry(key), models.asked_by(self.held(), self.console.services.loaded)
        if one is not None and spec is not None:
            choice = quarantine_entries.choice_of(self.held(), self.entries, [one.id])
            self.app.push_screen(HeldRowScreen(spec, one, quarantine_entries.other_half(one, self.entries), choice))

    def act(self, keys: list[str]) -> None:
        """What can be done to these entries, or to all that the job holds."""
        choice = quarantine_entries.choice_of(self.held(), self.entries, [int(key) for key in keys])
        self.console.open_held_menu(choice)

    # Keys

    def action_every(self) -> None:
        """Also what is over, or only what is held."""
        self.every = not self.every
        self.entries, self._rows = [], []
        self._read(PAGE)

    def action_further(self) -> None:
        """The entries before the oldest that is listed."""
        if self._before is not None:
            self._read(PAGE, self._before)
        else:
            self.console.say("there are no more entries", Level.REST)

    def _entry(self, key: str | None) -> Held | None:
        return next((one for one in self.entries if str(one.id) == key), None)
