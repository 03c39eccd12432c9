"""The SQL views of all jobs, as their drivers report them; `b` opens the confirmation for building one again."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.tui.screens.table import DOT, TableScreen
from slotkeeper.console.views import sql_views as models
from slotkeeper.console.views.detail import command_in
from slotkeeper.console.views.rows import Row, Verdict
from slotkeeper.console.views.sql_views import VIEW_COLUMNS, SeenView
from slotkeeper.core.domain.text import safe


class ViewsScreen(TableScreen):
    """One row per view, the worst first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "rebuild", "rebuild", id="rebuild-view", tooltip="build the view again; asks first")
    ]
    its_name = "Views"
    its_place = "Jobs > SQL views"
    number = "2"
    columns = VIEW_COLUMNS
    tells_events = True
    panel_height = 7
    keys_shown: ClassVar[tuple[str, ...]] = (
        "help", "back", "open", "rebuild-view", "fault", "filter", "sort", "copy", "freeze",
    )  # fmt: skip

    def seen(self) -> list[SeenView]:
        """Return all views, the worst first."""
        return models.views_of(self.console.shown.local.jobs)

    def rows(self) -> list[Row]:
        return models.view_rows(self.seen(), self.console.now)

    def verdict(self) -> Verdict:
        loaded = self.console.services.loaded
        configured = loaded is not None and any(job.views for job in loaded.jobs.values())
        return models.verdict(self.seen(), configured, self.console.now, DOT[self.console.ascii_only])

    def panel(self, key: str | None) -> tuple[str, Lines]:
        one = self.view(key)
        if one is None:
            return "View", [(Level.REST, "no row is selected" if self.every_row else models.NONE)]
        return f"{safe(one.job.name, 40)}  {safe(one.view.target, 60)}", models.view_lines(
            one, self.console.now, not self.framed
        )

    def view(self, key: str | None) -> SeenView | None:
        """Return the view of a row."""
        return next((one for one in self.seen() if one.key == key), None)

    def jobs_meant(self) -> list[str]:
        one = self.view(self.table.cursor_key)
        return [one.job.name] if one is not None else []

    def opened(self, key: str) -> None:
        one = self.view(key)
        if one is not None:
            self.console.open("job", one.job.name, self.number)

    def copied(self, row: Row) -> str:
        """Return the command of the panel's action, or the text of the row."""
        one = self.view(row.key)
        return (command_in([one.fault.do]) if one is not None and one.fault else "") or super().copied(row)

    def action_rebuild(self) -> None:
        one = self.view(self.table.cursor_key)
        if self.console.in_history:
            self.console.say("actions are not available in history; press R to leave it", Level.WARNING)
        elif one is None:
            self.console.say("no row is selected", Level.WARNING)
        else:
            self.console.open("rebuild-view", one.job.name, one.view.target)
