"""Lag and rate of a job over time: the graphs of the selected row, one row for the job, and one row for each DN.

The values come only from recorded frames, so no server is queried. In history, the graphs end at the selected time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from slotkeeper.console.monitor.series import WHOLE, JobSeries, Line, Wanted
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.boxes import Box
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.tui.screens.below import GraphRead, parts_of
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.console.views import headlines
from slotkeeper.console.views.graphs import (
    AROUND,
    LEAST_ROWS,
    SAID,
    SPANS,
    Shape,
    both,
    even,
    first_span,
    mark_lines,
    strip,
)
from slotkeeper.console.views.jobs import part_in
from slotkeeper.console.views.lanes import lane_level, speed
from slotkeeper.console.views.rows import NARROW, WIDE, Column, Row, Verdict, named_by, seconds
from slotkeeper.console.views.signs import ASCII_HEAT, HEAT, LATE, MUCH, SIGNS, lag_role
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.ttl import in_words

ALL = "*"
"""The key of the row for the whole job; no lane has this name."""
LINE_COLUMNS = (
    Column("mark", "", 1),
    Column("dn", "DN", 12, name=True),
    Column("lag", "LAG", 6, right=True),
    Column("most", "MAX", 6, right=True),
    Column("rate", "RATE/S", 6, right=True),
    Column("fastest", "MAX/S", 6, right=True, least=NARROW),
    Column("strip", "LAG OVER THE SAME TIME", 0),
)
_MARKS = 4
"""The number of event lines shown before graphs become larger; further lines can be scrolled to."""


class GraphsScreen(TableScreen):
    """The graphs of one job."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "span", "time span", id="span", tooltip="10 minutes, 1 hour, 6 hours, 24 hours")
    ]
    its_name = "Lines"
    columns = LINE_COLUMNS
    panel_height = 13
    usual_order = "worst lag first"
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "back", "span", "sort", "filter", "history", "freeze", "pane")

    def __init__(self, job: str, number: str, lane: str = "") -> None:
        super().__init__()
        self.job = job
        self.number = number
        self._first = lane
        self._span = -1
        self._known: JobSeries | None = None

    # Contents

    @property
    def shape(self) -> Shape:
        """The size of the graphs: the available space except for a few lines of events below them."""
        series = self._known
        marks = min(_MARKS, len(mark_lines(series.happened))) if series is not None else 0
        rows = (self.panel_rows - AROUND - marks) // 2
        return Shape(self.inner, even(max(LEAST_ROWS, rows)), self.console.ascii_only)

    @property
    def series(self) -> JobSeries | None:
        """The series read so far; initially for one hour, or for the job's lifetime if that is shorter."""
        if self._span < 0:
            job, chosen = self.console.shown.job(self.job), self.console.services.settings.now.span
            self._span = first_span(job, self.console.now, chosen)
        points = Shape(self.inner, LEAST_ROWS, self.console.ascii_only).points
        wanted = Wanted(self.job, self.console.now, timedelta(seconds=SPANS[self._span]), points)
        self._known = self.console.services.graphs.ask(wanted, lambda: self.post_message(GraphRead()))
        return self._known

    def rows(self) -> list[Row]:
        series = self.series
        if series is None:
            return []
        room = next(one.width for one in self.columns_now() if one.key == "strip")
        ascii_only = self.console.ascii_only
        lanes = [name for name in series.lines if name != WHOLE]
        lanes.sort(key=lambda name: (-(_last(series.lines[name].lags) or 0.0), name))
        job = self.console.shown.job(self.job)
        levels = {lane.name: lane_level(lane) for lane in job.report.lanes} if job is not None and job.report else {}
        return [
            _row(ALL, f"all {self._part()}s", Level.FINE, series.lines[WHOLE], room, ascii_only),
            *(_row(one, one, levels.get(one, Level.FINE), series.lines[one], room, ascii_only) for one in lanes),
        ]

    def verdict(self) -> Verdict:
        lags = self._known.lines[WHOLE].lags if self._known is not None else ()
        return headlines.of_graphs(self.job, self.console.shown.local, lags, SAID[max(0, self._span)], self.apart)

    def _part(self) -> str:
        job = self.console.shown.job(self.job)
        return part_in(job) if job is not None else "lane"

    def every_column(self) -> Sequence[Column]:
        return named_by(self.columns, (), (), (self._part(),))

    def about(self) -> str:
        now = self.console.now
        point = "" if self._known is None else f", one point per {in_words(self._known.every)}"
        signs = ASCII_HEAT if self.console.ascii_only else HEAT
        legend = f"   {signs[0]} < {LATE:g} s {signs[1]} < {MUCH:g} s {signs[2]}" if self.app.size.width >= WIDE else ""
        return f"last {SAID[self._span]} to {now:%H:%M:%S} UTC{point}{legend}"

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """Return the panel's title; the graphs below it are not wrapped."""
        name = f"all {self._part()}s, maximum lag" if key in (ALL, None) else safe(key or "", 60)
        return f"Lag and rate of {name}", ()

    def neighbours(self) -> list[str]:
        """Return no neighbors, because the lanes are rows of this screen."""
        return []

    def draw(self) -> None:
        """Draw the rows and the graphs. The cursor starts on the DN for which the screen was opened."""
        super().draw()
        keys = self.table.keys()
        if self._first and self._first in keys:
            first, self._first = self._first, ""
            self.table.move_to(first)

    def draw_panel(self) -> None:
        key, series = self.table.cursor_key, self._known
        self.put_panel((key, self._span), [[Box(self.panel(key)[0], self._drawn(key, series))]])

    def _drawn(self, key: str | None, series: JobSeries | None) -> list[Text]:
        fault = self.console.services.graphs.fault
        if fault:
            return self.wrapped(
                [(Level.UNKNOWN, f"the recorded frames cannot be read: {safe(fault, 300)}")], boxed=True
            )
        if series is None:
            return self.wrapped([(Level.UNKNOWN, "reading the recorded frames ...")])
        job = self.console.shown.job(self.job)
        unit = "events/s" if job is None or job.report is None or job.report.lanes else "rows/s"
        newest = "last" if job is not None and job.last_known else "now"
        lane = WHOLE if key in (ALL, None) else str(key)
        marks = mark_lines(series.happened) or [(Level.REST, "no events of this job in this period")]
        return [*parts_of(self, both(series, lane, self.shape, unit, newest)), *self.wrapped(marks, boxed=True)]

    def crumb(self) -> str:
        return f"{self.console.SCREEN_KEYS[self.number][1]} > {safe(self.job, 60)} > graphs   from recorded frames"

    # Incoming data and keys

    def on_graph_read(self) -> None:
        self.redraw()

    def action_span(self) -> None:
        self._span = (self._span + 1) % len(SPANS)
        self.console.services.settings.change(SPANS[self._span], "span")
        self.redraw()


def _row(key: str, name: str, level: Level, line: Line, room: int, ascii_only: bool) -> Row:
    lag, rate = _last(line.lags), _last(line.rates)
    most, fastest = _most(line.lags), _most(line.rates)
    cells = {
        "mark": level.value,
        "dn": safe(name, 60),
        "lag": seconds(lag),
        "most": seconds(most),
        "rate": speed(rate),
        "fastest": speed(fastest),
        "strip": strip(line.lags, room, ascii_only),
    }
    return Row(
        key,
        level,
        cells,
        {"lag": lag, "most": most, "rate": rate, "fastest": fastest, "strip": most},
        {"strip": SIGNS, "lag": lag_role(lag), "most": lag_role(most)},
    )


def _last(values: tuple[float | None, ...]) -> float | None:
    return values[-1] if values else None


def _most(values: tuple[float | None, ...]) -> float | None:
    return max((one for one in values if one is not None), default=None)
