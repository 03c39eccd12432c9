"""What a tall terminal shows below a panel's own lines: graphs of the job under the cursor.

What draws graphs is loaded when there is room for them: a first frame is seen before.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from rich.text import Text
from textual.message import Message

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.boxes import AROUND, Box
from slotkeeper.console.tui.screens.base import Frame
from slotkeeper.console.tui.screens.table import BETWEEN, TableScreen
from slotkeeper.core.domain.text import safe

if TYPE_CHECKING:
    from slotkeeper.console.monitor.series import JobSeries
    from slotkeeper.console.views.graphs import Shape
    from slotkeeper.console.views.signs import Parts

MOST_ROWS = 14
"""A graph below a panel is never higher: what is wrong is the panel's matter."""
RESTED = 0.4
"""Seconds for which the cursor rests before graphs of another job are read."""
LEAST_ROOM = 10
"""Two graphs of two rows, their titles, the time, what happened, and what stands between."""


class GraphRead(Message):
    """What a graph shows was read."""


def parts_of(screen: Frame, lines: list[Parts]) -> list[Text]:
    """Lines of parts in the colours of their roles."""
    found = []
    for parts in lines:
        text = Text(no_wrap=True, end="")
        for words, role in parts:
            text.append(words, style=screen.style(role) if role else "")
        found.append(text)
    return found


class GraphBelow(TableScreen):
    """A table of jobs or of DNs with the graphs of the one under the cursor, where the terminal is tall."""

    def graphed(self, key: str | None) -> tuple[str, str]:
        """Job and lane whose graphs are shown for a row; no lane for the whole job, no job where there are none."""
        raise NotImplementedError

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

    def graph_boxes(self, key: str | None, room: int) -> list[Box]:
        """The two graphs side by side in `room` rows; none before they are read."""
        job, lane = self.graphed(key)
        if room < LEAST_ROOM // 2 or not job:
            return []
        from slotkeeper.console.views.graphs import Shape, apart

        width = self.app.size.width // 2 - AROUND
        shape = Shape(width, room - 3, self.console.ascii_only)
        found = self._series(job, shape)
        if found is None:
            return []
        series, said, newest = found
        boxes = zip(("Lag", "Rows/s"), apart(series, lane, shape, newest=newest), strict=True)
        hint = f"{self._of(job, lane)}, last {said}, h graphs"
        return [Box(name, parts_of(self, lines), hint) for name, lines in boxes]

    def _series(self, job: str, shape: Shape) -> tuple[JobSeries, str, str] | None:
        """What was recorded of a job, of which time, and what its newest figure is called; None before it is read."""
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
        from slotkeeper.console.views.jobs import part_in

        found = self.console.shown.job(job)
        return f"of {safe(lane, 40)}" if lane else f"of all {part_in(found) if found else 'lane'}s"

    def on_graph_read(self) -> None:
        self._read()

    def _read(self) -> None:
        if self.is_current and self.is_mounted:
            self.draw_panel()
