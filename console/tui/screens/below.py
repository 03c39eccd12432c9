"""Graphs of the selected job, shown below the panel's own lines on a tall terminal.

The modules that draw graphs are loaded when there is room for graphs, after the first frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.text import Text
from textual.message import Message

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.boxes import AROUND, Box
from slotkeeper.console.tui.screens.base import Frame
from slotkeeper.console.tui.screens.table import BETWEEN, TableScreen
from slotkeeper.console.views.fitting import fitted, needs
from slotkeeper.console.views.jobs import part_in
from slotkeeper.console.views.rows import Column, Row, fit
from slotkeeper.console.views.signs import LEGEND, cell
from slotkeeper.core.domain.text import safe

if TYPE_CHECKING:
    from slotkeeper.console.monitor.series import JobSeries
    from slotkeeper.console.views.graphs import Shape
    from slotkeeper.console.views.signs import Parts

MOST_ROWS = 14
"""The maximum height of a graph below a panel, because problems are more important."""
RESTED = 0.4
"""The time in seconds for which the cursor must rest before another job's graphs are read."""
MOST_GRAPH = 32
"""The maximum height of a graph next to another one, with its title and its axis."""
EDGES = 2
"""The number of rows between two boxes, one below the other."""
LEAST_ROOM = 10
"""The number of rows for two graphs of two rows each, their titles, the time axis, the events, and the gap."""


class GraphRead(Message):
    """The data of a graph was read."""


def parts_of(screen: Frame, lines: list[Parts]) -> list[Text]:
    """Return the lines, with each part in the color of its role."""
    found = []
    for parts in lines:
        text = Text(no_wrap=True, end="")
        for words, role in parts:
            text.append(words, style=screen.style(role) if role else "")
        found.append(text)
    return found


class GraphBelow(TableScreen):
    """A table of jobs or DNs that shows the graphs of the selected row on a tall terminal."""

    def graphed(self, key: str | None) -> tuple[str, str]:
        """Return the job and lane of a row's graphs; an empty lane means the whole job, an empty job no graphs."""
        raise NotImplementedError

    def inset(self, columns: Iterable[Column], rows: Sequence[Row], width: int) -> list[Text]:
        """Return rows, below their headings, as lines of at most `width` cells, without empty columns."""
        ascii_only = self.console.ascii_only
        every = [one for one in columns if any(row.cells.get(one.key, "") not in ("", "-") for row in rows)]
        shown = fitted(every, needs(rows, every, {}, ascii_only), width + 1)
        lines = [[(fit(one.label, one.width, one.right) + " " * one.gap, "dim") for one in shown]]
        for row in rows:
            texts = [cell(row.cells.get(one.key, ""), row.tints.get(one.key, ""), ascii_only) for one in shown]
            lines.append(
                [
                    (fit(text, one.width, one.right, ascii_only) + " " * one.gap, role)
                    for one, (text, role) in zip(shown, texts, strict=True)
                ]
            )
        return parts_of(self, lines)

    def more(self, key: str | None, room: int) -> list[Text]:
        job, lane = self.graphed(key)
        if room < LEAST_ROOM or not job:
            return []
        from slotkeeper.console.views.graphs import AROUND, Shape, both, even

        rows = even(min(MOST_ROWS, (room - BETWEEN - AROUND) // 2))
        shape = Shape(self.inner, rows, self.console.ascii_only)
        found = self._series(job, shape)
        if found is None:
            return []
        series, said, newest = found
        title = self.text(f"lag and rate {self._of(job, lane)}, last {said}   h graphs", Level.REST)
        return [self.text(""), title, *parts_of(self, both(series, lane, shape, newest=newest))]

    def lower(self, key: str | None, room: int) -> list[list[Box]]:
        """Return the two graphs side by side, and below them the lag of each lane over time, if there is room.

        Empty until they are read.
        """
        job, lane = self.graphed(key)
        if room < LEAST_ROOM // 2 + EDGES or not job:
            return []
        from slotkeeper.console.views.graphs import Shape, apart, strips

        ascii_only = self.console.ascii_only
        shape = Shape(self.app.size.width // 2 - AROUND, 0, ascii_only)
        found = self._series(job, shape)
        if found is None:
            return []
        series, said, newest = found
        each = strips(series, self.inner, ascii_only)
        free = room - EDGES - len(each) - EDGES
        if len(each) < 2 or free < LEAST_ROOM:
            each, free = [], room - EDGES
        shape = replace(shape, rows=min(free, MOST_GRAPH) - 3)
        boxes = zip(("Lag", "Rows/s"), apart(series, lane, shape, newest=newest), strict=True)
        hint = f"{self._of(job, lane)}, last {said}, h graphs"
        rows = [[Box(name, parts_of(self, lines), hint) for name, lines in boxes]]
        if each:
            found_job = self.console.shown.job(job)
            name = f"Lag of each {part_in(found_job) if found_job is not None else 'lane'}"
            rows.append([Box(name, parts_of(self, each), f"last {said}, {LEGEND[ascii_only]}")])
        return rows

    def _series(self, job: str, shape: Shape) -> tuple[JobSeries, str, str] | None:
        """Return a job's recorded series, its time span, and the label of its newest value; None until it is read."""
        from slotkeeper.console.monitor.series import Wanted
        from slotkeeper.console.views.graphs import SAID, SPANS, first_span

        console = self.console
        found = console.shown.job(job)
        span = first_span(found, console.now, console.services.settings.now.span)
        wanted = Wanted(job, console.now, timedelta(seconds=SPANS[span]), shape.points)
        feed = console.services.graphs
        if not feed.knows(wanted) and (left := RESTED - console.instant().since(console.touched)) > 0:
            self.set_timer(left + 0.01, self._read)
            return None
        series = feed.ask(wanted, lambda: self.post_message(GraphRead()))
        newest = "last" if found is not None and found.last_known else "now"
        return None if series is None else (series, SAID[span], newest)

    def _of(self, job: str, lane: str) -> str:
        found = self.console.shown.job(job)
        return f"of {safe(lane, 40)}" if lane else f"of all {part_in(found) if found else 'lane'}s"

    def on_graph_read(self) -> None:
        self._read()

    def _read(self) -> None:
        if self.is_current and self.is_mounted:
            self.draw_panel()
