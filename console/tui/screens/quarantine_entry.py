"""One entry of the quarantine whole: the row by column as the source's text, why it was refused, what may be done.

Values of a PROD source are masked until a person asks, which is audited, as in the binlog. Next door:
`console.tui.screens.quarantine` opens it, `console.views.quarantine_entries` has the words,
`console.monitor.quarantine_poller` reads.
"""

from __future__ import annotations

import threading
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from console.monitor.quarantine_poller import Whole
from console.monitor.snapshot import Level
from console.monitor.store_reader import told
from console.tui.screens.base import Lines
from console.tui.screens.table import TableScreen
from console.views import quarantine_entries
from console.views.quarantine import NOT_RECORDED, Choice
from console.views.rows import Row
from core.domain.quarantine import Held
from core.domain.spec import JobSpec
from core.domain.text import safe


class WholeRead(Message):
    """The entry was read; or a sentence on why it could not be."""

    def __init__(self, number: int, whole: Whole | None, unmask: bool, fault: str) -> None:
        super().__init__()
        self.number = number
        self.unmask = unmask
        self.whole = whole
        self.fault = fault


class HeldRowScreen(TableScreen):
    """The columns of one entry."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "mask", "mask", id="held-mask", tooltip="unmasking a PROD source is audited"),
    ]
    number = "4"
    columns = quarantine_entries.VALUE_COLUMNS
    has_actions = True
    panel_height = 9
    usual_order = "as in the table"
    keys_shown: ClassVar[tuple[str, ...]] = (
        "help", "back", "act", "held-mask", "filter", "previous", "next", "pane", "copy",
    )  # fmt: skip

    def __init__(self, spec: JobSpec, entry: Held, other: Held | None, choice: Choice) -> None:
        super().__init__()
        self.entry = entry
        self.hidden = True
        self._spec = spec
        self._other = other
        self._choice = choice
        self._masked = False
        self._number = 0
        self._asking = False
        self._fault = ""

    # Reading

    def on_screen_resume(self) -> None:
        """Opened, or come back to."""
        super().on_screen_resume()
        self.renewed()

    def renewed(self) -> None:
        """Read it; what was shown unmasked stays so until this is left."""
        self._read(not self.hidden and self._masked)

    def _read(self, unmask: bool) -> None:
        loaded, holdings, spec = self.console.services.loaded, self.console.services.holdings, self._spec
        if self.console.replaying or loaded is None:
            self._fault = NOT_RECORDED
            self.redraw()
            return
        self._number += 1
        self._asking = True
        number, id = self._number, self.entry.id

        def work() -> None:
            whole, fault = None, ""
            try:
                whole = holdings.entry(loaded, spec, id, unmask)
                fault = "" if whole else "the sink has no such entry any more"
            except Exception as error:  # the top of a thread: whatever it is must be told
                fault = told(error)
            self.post_message(WholeRead(number, whole, unmask, fault))

        threading.Thread(target=work, name=f"slotkeeper-held-{number}", daemon=True).start()
        self.redraw()

    def on_whole_read(self, message: WholeRead) -> None:
        """Show it; where it could not be read, what was shown stays and the sentence says why."""
        if message.number != self._number:
            return
        self._asking, self._fault = False, message.fault
        if message.whole is not None:
            shown = message.unmask or not self.entry.values
            self.entry = message.whole.entry
            self._masked = self._masked or message.whole.masked
            self.hidden = message.whole.masked or (self.hidden and not shown)
        self.rearranged()

    # What it says

    def rows(self) -> list[Row]:
        """The columns."""
        return quarantine_entries.value_rows(self.entry, self.hidden) if not self.console.replaying else []

    def heading(self) -> str:
        """The table's name."""
        return "Columns"

    def about(self) -> str:
        """Its state, and whether it can be seen."""
        said = [f"entry {self.entry.id} {self.entry.state.value}"]
        said += ["asking the sink"] if self._asking else ["masked"] if self.hidden and self.entry.values else []
        return "   ".join([*said, *([safe(self._fault, 120)] if self._fault else [])])

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """Why it was refused and what a replay would do, then the column's value in full."""
        row = next((one for one in self.rows() if one.key == key), None)
        lines = quarantine_entries.entry_lines(self.entry, self._other, self.console.now)
        if row is not None:
            lines.insert(1, (Level.FINE, f"{row.cells['column']} = {row.cells['value']}"))
        return "Why and what next", lines

    def crumb(self) -> str:
        """Where one is."""
        return f"Errors > {safe(self._choice.job, 60)} > quarantine > {self.entry.id}"

    def act(self, keys: list[str]) -> None:
        """What can be done to this entry, whatever column the cursor is on."""
        self.console.open_held_menu(quarantine_entries.as_it_is(self._choice, self.entry))

    # Keys

    def action_mask(self) -> None:
        """Hide values, or show them: where they are masked by default that is read anew, and audited."""
        if self.hidden and self._masked:
            self._read(unmask=True)
            return
        self.hidden = not self.hidden
        self.redraw()
