"""The audit of all changes (who, what, when and why), and the changes and reset backups of one slot on this host.

These screens query no server. `slotkeeper slots history` queries the sink, which records the resets from every host.
"""

from __future__ import annotations

from typing import ClassVar

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.monitor.store_reader import message_of
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.console.views import headlines, slot_history
from slotkeeper.console.views.jobs import AUDIT_COLUMNS, audit_lines, audit_rows
from slotkeeper.console.views.rows import Row, Verdict
from slotkeeper.console.views.slot_history import HISTORY_COLUMNS, history_rows
from slotkeeper.core.domain.reset import Backup, backup_of
from slotkeeper.core.domain.text import safe, typed

NO_LINE = "Each change is listed here: who made it, when, why, and how it ended."


class AuditScreen(TableScreen):
    """The newest audit lines."""

    its_place = "Audit"
    its_name = "Audit"
    number = "7"
    columns = AUDIT_COLUMNS
    tells_events = True
    panel_height = 7
    usual_order = "newest first"
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "open", "filter", "faults", "export", "copy", "freeze", "palette")

    def rows(self) -> list[Row]:
        return audit_rows(self.console.shown.local.audit)

    def verdict(self) -> Verdict:
        local = self.console.shown.local
        return headlines.of_audit(local.audit, local.damaged, self.console.now)

    def panel(self, key: str | None) -> tuple[str, Lines]:
        for line in self.console.shown.local.audit:
            if f"{line.action_id}/{line.phase.value}" == key:
                return f"{line.phase.value}", [(Level.FINE, text) for text in audit_lines(line)]
        return "Line", [(Level.REST, "no row is selected" if self.every_row else NO_LINE)]

    def opened(self, key: str) -> None:
        """Move the focus to the full text of the line, so that it can be scrolled."""
        self.action_pane(1)


class SlotHistoryScreen(TableScreen):
    """The changes made to one slot from this host, newest first."""

    its_name = "History"
    number = "3"
    columns = HISTORY_COLUMNS
    tells_events = True
    panel_height = 6
    usual_order = "newest first"
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "back", "filter", "faults", "copy", "export", "quit")

    def __init__(self, its_table: str, slot: str) -> None:
        super().__init__()
        self._table = its_table
        self._slot = slot
        self._backups: list[Backup] = []
        self._fault = ""

    def on_mount(self) -> None:
        try:
            self._backups = self._read()
        except Exception as error:  # a damaged file can cause any error; the audit is shown anyway
            self._fault = message_of(error)
        super().on_mount()

    def rows(self) -> list[Row]:
        return history_rows(self.console.shown.local.audit, self._backups, self._table, self._slot)

    def verdict(self) -> Verdict:
        local, now = self.console.shown.local, self.console.now
        last = slot_history.last_line(local.audit, self._table, self._slot, now)
        return Verdict(Level.REST, f"slot {safe(self._slot, 60)}{self.apart}{last}")

    def about(self) -> str:
        return f"{safe(self._table, 60)} {safe(self._slot, 60)}, from this host"

    def panel(self, key: str | None) -> tuple[str, Lines]:
        place = typed(self._table, self._slot)
        lines = [(Level.UNKNOWN, safe(self._fault, 300))] if self._fault else []
        row = next((one for one in self.rows() if one.key == key), None)
        if row is None:
            return "History", [*lines, (Level.REST, "no change to this slot from this host")]
        lines.append((Level.FINE, f"{row.cells['at']} UTC  {row.cells['who']}  {row.cells['action']}"))
        lines.append((Level.FINE, row.cells["said"]))
        if row.cells["action"] == "backup":
            lines.append(
                (Level.FINE, f"`slotkeeper slots undo {safe(row.key.removeprefix('backup '), 80)}` plans the undo")
            )
        return "History", [
            *lines,
            (Level.REST, f"`slotkeeper slots history {place}` queries the sink, which has the changes of all hosts"),
        ]

    def crumb(self) -> str:
        return f"Slots > {safe(self._slot, 60)} > history"

    def _read(self) -> list[Backup]:
        from slotkeeper.core.domain.reset_files import BACKUPS
        from slotkeeper.core.sources import registry
        from slotkeeper.core.state.files import ResetFiles
        from slotkeeper.core.state.folder import StateFolder

        files = ResetFiles(StateFolder.open(self.console.services.folder))
        texts = (files.load(BACKUPS, name) for name in files.names(BACKUPS))
        return [backup_of(text, registry.positions) for text in texts if text]
