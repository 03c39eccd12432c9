"""What was set going from this state folder: on its way, and ended lately, by whichever console; Enter: what it said.

Next door: `console.actions.store` keeps it, `console.actions.outcome` has the words.
"""

from __future__ import annotations

from console.actions.commands import shell_text
from console.actions.outcome import took, verdict
from console.actions.record import Action
from console.monitor.snapshot import Level
from console.tui.screens.actions.base import ActScreen
from console.tui.screens.base import Lines
from console.tui.screens.table import TableScreen
from console.views.rows import NARROW, Column, Row, clock
from core.domain.text import safe
from core.domain.ttl import in_words

COLUMNS = (
    Column("mark", "", 1),
    Column("at", "AT (UTC)", 14),
    Column("what", "WHAT", 28),
    Column("state", "STATE", 10),
    Column("took", "TOOK", 6, right=True, least=NARROW),
    Column("outcome", "OUTCOME", 0),
)


class ActionsScreen(TableScreen):
    """The actions, the newest first."""

    its_place = "Actions   they run apart from this console"
    its_name = "Actions"
    columns = COLUMNS
    panel_height = 5

    def rows(self) -> list[Row]:
        """One per action."""
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
        """The order, and how long they are kept."""
        return "newest first, a week at most"

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """Who asked for it, and how it stands."""
        one = self.console.services.runs.find(key) if key else None
        if one is None:
            return "Action", [(Level.REST, "nothing was asked for from a console yet" if not self.rows() else "no row")]
        level, text = verdict(one, self.console.services.runs.said(one.record.id), self.console.now_real())
        lines = [
            (level, text),
            (Level.FINE, f"by       {safe(one.record.by, 120)}"),
            (Level.FINE, f"command  {safe(shell_text(one.record.argv), 300)}"),
        ]
        return safe(one.record.what, 60), lines

    def opened(self, key: str) -> None:
        """All that it said."""
        self.app.push_screen(OutputScreen(key))


class OutputScreen(ActScreen):
    """What an action wrote, in full."""

    its_place = "Actions > output"

    def __init__(self, id: str) -> None:
        super().__init__()
        self.key = id

    def draw(self) -> None:
        """Command, processes, what it wrote."""
        one, said = self.runs.find(self.key), self.runs.said(self.key)
        if one is None:
            self.headline("Action")
            self.sheet.fill("gone", [self.text(" it is not kept any more", Level.UNKNOWN)])
            return
        record = one.record
        level, text = verdict(one, said, self.console.now_real())
        code = "?" if record.code is None else str(record.code)
        pid = f"pid {record.command.pid} on {safe(record.command.host, 40)}" if record.command else "pid ?"
        lines = [
            (level, text),
            (Level.FINE, f"command  {safe(shell_text(record.argv), 1_000)}"),
            (Level.FINE, f"by {safe(record.by, 120)}, {pid}, asked for {clock(record.started_at)} UTC, exit {code}"),
            *((Level.FINE, f"stderr   {safe(each, 2_000)}") for each in said.err.splitlines()),
            *((Level.FINE, f"stdout   {safe(each, 20_000)}") for each in said.out.splitlines()),
        ]
        self.headline(f"{safe(record.what, 80)}   {one.stage.value}")
        self.sheet.fill(self.key, self.wrapped(lines))
