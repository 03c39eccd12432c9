"""One row of a binlog, column by column, before and after; the values of the column under the cursor in full.

Next door: `console.tui.screens.binlog` opens it, `console.views.binlog` has the words.
"""

from __future__ import annotations

from typing import ClassVar

from console.monitor.snapshot import Level
from console.tui.screens.base import Lines
from console.tui.screens.table import TableScreen
from console.views import binlog as models
from console.views.rows import Row
from core.domain.peek import Page
from core.domain.text import safe


class BinlogRowScreen(TableScreen):
    """The columns of one row; it does not change while it is looked at."""

    number = "5"
    columns = models.IMAGE_COLUMNS
    panel_height = 8
    usual_order = "as in the table"
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "back", "filter", "previous", "next", "copy", "quit")

    def __init__(self, page: Page, key: str, hidden: bool) -> None:
        super().__init__()
        self._page = page
        self._key = key
        self._hidden = hidden

    def rows(self) -> list[Row]:
        """The columns."""
        return models.images(self._page, self._key, self._hidden)

    def heading(self) -> str:
        """The table's name."""
        return "Columns"

    def about(self) -> str:
        """Which row it is."""
        return models.image_title(self._page, self._key)

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """The column's values in full."""
        row = next((one for one in self.rows() if one.key == key), None)
        if row is None:
            return "Column", [(Level.REST, "no column is chosen")]
        column = next(one for one in self._page.identity.columns if one.name == key)
        lines = [(Level.FINE, f"before  {row.cells['before']}"), (Level.FINE, f"after   {row.cells['after']}")]
        return f"{safe(column.name, 60)}  {safe(column.type, 60)}", lines

    def crumb(self) -> str:
        """Where one is."""
        return f"Binlog > {safe(self._page.table, 60)} > {self._key}"
