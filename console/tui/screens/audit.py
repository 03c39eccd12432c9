"""Audit: who changed what, when and why.

Next door: `core.state.audit` keeps the lines; `console.tui.screens.table` draws.
"""

from __future__ import annotations

from typing import ClassVar

from console.monitor.snapshot import Level
from console.tui.screens.base import Lines
from console.tui.screens.table import TableScreen
from console.views.jobs import AUDIT_COLUMNS, audit_lines, audit_rows
from console.views.rows import Row


class AuditScreen(TableScreen):
    """The newest lines of the audit."""

    its_place = "Audit"
    its_name = "Audit"
    number = "7"
    columns = AUDIT_COLUMNS
    panel_height = 7
    usual_order = "newest first"
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "open", "filter", "faults", "export", "copy", "pause", "palette")

    def rows(self) -> list[Row]:
        """The lines, the newest first."""
        local = self.console.shown.local
        return audit_rows(local.audit) if local else []

    def about(self) -> str:
        """What could not be read."""
        local = self.console.shown.local
        return f"{local.damaged} lines cannot be read" if local and local.damaged else ""

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """The line in full."""
        local = self.console.shown.local
        for line in local.audit if local else ():
            if f"{line.action_id}/{line.phase.value}" == key:
                return f"{line.phase.value}", [(Level.FINE, text) for text in audit_lines(line)]
        return "Line", [(Level.REST, "no line yet" if not self.rows() else "no row is chosen")]

    def opened(self, key: str) -> None:
        """The line in full has the keys: it can be scrolled."""
        self.action_pane(1)
