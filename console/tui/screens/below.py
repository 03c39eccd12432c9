"""What a tall terminal shows below a panel's own lines: graphs of the job under the cursor.

What draws graphs is loaded when there is room for them: a first frame is seen before.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from rich.text import Text
from textual.message import Message

from slotkeeper.console.tui.screens.base import Frame
from slotkeeper.console.tui.screens.table import BETWEEN, TableScreen
from slotkeeper.core.domain.text import safe

if TYPE_CHECKING:
    from slotkeeper.console.monitor.series import JobSeries
    from slotkeeper.console.views.graphs import Parts, Shape

MOST_ROWS = 14
"""A graph below a panel is never higher: what is wrong is the panel's matter."""
RESTED = 0.4
"""For so many seconds the cursor rests before graphs of another job are read."""
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
        from slotkeeper.console.monitor.series import Wanted
        from slotkeeper.console.views.graphs import AROUND, SAID, SPANS, Shape, even, first_span

        rows, console = even(min(MOST_ROWS, (room - BETWEEN - AROUND) // 2)), self.console
        span = first_span(console.shown.job(job), console.now)
        shape = Shape(self.app.size.width, rows, console.ascii_only)
        wanted = Wanted(job, console.now, timedelta(seconds=SPANS[span]), shape.points)
        feed = console.services.graphs
        if not feed.knows(wanted) and (left := RESTED - console.instant().since(console.touched)) > 0:
            self.set_timer(left + 0.01, self._read)
            return []
        series = feed.ask(wanted, lambda: self.post_message(GraphRead()))
        return [] if series is None else self._drawn(series, lane, shape, SAID[span], job)

    def _drawn(self, series: JobSeries, lane: str, shape: Shape, said: str, job: str) -> list[Text]:
        from slotkeeper.console.views.graphs import both
        from slotkeeper.console.views.jobs import part_in

        found = self.console.shown.job(job)
        name = f"of {safe(lane, 40)}" if lane else f"of all {part_in(found) if found else 'lane'}s"
        newest = "last" if found is not None and found.last_known else "now"
        title = self.rule(f"lag and rate {name}, last {said}", "h graphs")
        return [self.text(""), title, *parts_of(self, both(series, lane, shape, newest=newest))]

    def on_graph_read(self) -> None:
        self._read()

    def _read(self) -> None:
        if self.is_current and self.is_mounted:
            self.draw_panel()
