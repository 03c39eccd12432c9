"""Graphs as text: blocks or an ASCII form with three heights per row, and letters for events on the time axis. Pure.

Times without a record are drawn as a dim dotted baseline, labeled "no record" if there is room, never as a continued
line. The value zero is drawn as the lowest block, or `_`. Every scale starts at 0 and ends at a labeled round number,
so that it can be read without color and without guessing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import groupby

from slotkeeper.console.monitor.series import BEGAN, ENDED, WHOLE, Happened, JobSeries
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.views.lanes import speed
from slotkeeper.console.views.rows import UNKNOWN, fit, width_of
from slotkeeper.console.views.signs import LATE, MANY, Parts, coloured, heat, joined, lag_role, signed, span
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.job import JobEvent, event_text
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.ttl import in_words

GUTTER = 7
"""The number of cells in front of a graph, for the figures of its scale and the axis."""
LEAST_ROWS = 2
"""The minimum number of rows of a graph."""
AROUND = 4
"""The number of lines that two graphs need in addition to their rows: two titles, the time, and the events."""
_BELOW = 2
"""The number of lines below a graph: the time, and the events."""
SPANS = (600, 3_600, 21_600, 86_400)
"""The time spans of graphs in seconds; the longest is a day, because frames are retained for a day."""
SAID = ("10 min", "1 h", "6 h", "24 h")
_LAGS = (10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)
_TICKS = (60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600)
_BLOCKS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_HEIGHTS = " .:#"
_NO_RECORD = " no record "
_GAPS = ("\u00b7", "-")
"""The baseline character for times without a record, and its ASCII form."""
_LIMITS = ("\u254c", "-")


@dataclass(frozen=True, slots=True)
class Shape:
    """Size and characters of the graphs; `rows` is the height of one graph."""

    width: int
    rows: int
    ascii_only: bool

    @property
    def columns(self) -> int:
        """The number of cells for values."""
        return max(10, self.width - GUTTER - 1)

    @property
    def points(self) -> int:
        """The number of values that fit."""
        return self.columns


def even(rows: int) -> int:
    """Return an even number of rows if there are many, so that the middle of the scale falls on a row boundary.

    >>> [even(rows) for rows in (2, 3, 4, 9)]
    [2, 3, 4, 8]
    """
    return rows - rows % 2 if rows > 3 else rows


def first_span(job: JobFacts | None, now: datetime, chosen: int = 0) -> int:
    """Return the index of the initial span: the chosen one (in seconds), an hour, or the shortest for a new job.

    A job is new for half an hour, so that most of its graph is recorded time.
    """
    if chosen in SPANS:
        return SPANS.index(chosen)
    began = job.started_at if job is not None and job.alive else None
    past = None if began is None else elapsed(began, now)
    return 0 if past is not None and past < SPANS[1] / 2 else 1


def both(series: JobSeries, lane: str, shape: Shape, unit: str = "events/s", newest: str = "now") -> list[Parts]:
    """Return the lag graph above the rate graph of a lane or the whole job, with a shared time axis and events.

    `newest` is the label of the last value: "last" if the job has no process.
    """
    lag, rate = apart(series, lane, shape, unit, newest)
    return [*lag[:-_BELOW], *rate]


def apart(
    series: JobSeries, lane: str, shape: Shape, unit: str = "events/s", newest: str = "now"
) -> tuple[list[Parts], list[Parts]]:
    """Return lag and rate as two separate graphs, each with its own time axis."""
    line = series.lines.get(lane) or series.lines[WHOLE]
    lags, rates = spread(line.lags, shape.points), spread(line.rates, shape.points)
    most = max((one for one in lags if one is not None), default=0.0)
    top = next((float(one) for one in _LAGS if one >= most), math.ceil(most / 86_400) * 86_400.0)
    lag = [_head("lag ", line.lags, series, in_words, "", newest), *_graph(lags, top, shape, _scale, lag_role, LATE)]
    most = max((one for one in rates if one is not None), default=0.0)
    rate = [
        _head("rate", line.rates, series, speed, f" {unit}", newest),
        *_graph(rates, _round(most), shape, speed, lambda value: ""),
    ]
    below = [_time_axis(series, shape), [(" " * GUTTER, ""), *marks_row(series, shape.columns)]]
    return [*lag, *below], [*rate, *below]


def spread(values: Sequence[float | None], points: int) -> list[float | None]:
    """Return the values spread over `points` points; if there are fewer values, each fills several points.

    >>> spread([1.0, None], 4)
    [1.0, 1.0, None, None]
    """
    return [values[place * len(values) // points] for place in range(points)] if values else [None] * points


def strip(lags: Sequence[float | None], columns: int, ascii_only: bool) -> str:
    """Return a heat strip: one symbol per cell for its lag, or for the worst lag if several values share the cell.

    >>> strip([0.1, 12.0, None, 90.0], 4, True), strip([0.1, 90.0], 4, True)
    ('.o-#', '..##')
    """
    every = lags if len(lags) > columns else spread(lags, columns)
    return heat(every, columns, ascii_only).replace("?", _GAPS[ascii_only])


def strips(series: JobSeries, width: int, ascii_only: bool) -> list[Parts]:
    """Return a heat strip for each lane in `width` cells, with its last lag: the latest lanes first, then by name."""
    lanes = {name: line.lags for name, line in series.lines.items() if name != WHOLE and line.lags}
    shown = sorted(lanes, key=lambda name: (-(lanes[name][-1] or 0.0) // LATE, name))[:MANY]
    name = min(16, max((width_of(safe(one)) for one in shown), default=0))
    last = {one: signed(span(lanes[one][-1], ascii_only), lag_role(lanes[one][-1]), ascii_only) for one in shown}
    lag = max((width_of(text) for text in last.values()), default=0)
    return [
        [
            (f"{fit(safe(one), name, ascii_only=ascii_only)}  ", "dim"),
            *coloured(strip(lanes[one], width - name - lag - 4, ascii_only)),
            (f"  {last[one]:>{lag}}", lag_role(lanes[one][-1])),
        ]
        for one in shown
    ]


def _head(
    name: str, values: Sequence[float | None], series: JobSeries, words: Callable[[float], str], unit: str, newest: str
) -> Parts:
    known = [(value, place) for place, value in enumerate(values) if value is not None]
    now = words(values[-1]) if values and values[-1] is not None else "unknown"
    if not known:
        return [(f" {name}  {newest} {UNKNOWN}   no recorded values", "dim")]
    most, place = max(known, key=lambda one: one[0])
    at = datetime.fromtimestamp(series.begins + place * series.every, timezone.utc)
    mean = sum(value for value, _ in known) / len(known)
    return [(f" {name}  {newest} {now}   max {words(most)} at {at:%H:%M:%S}   mean {words(mean)}{unit}", "")]


def _scale(seconds: float) -> str:
    """Format a duration for a scale.

    >>> [_scale(one) for one in (5.0, 60.0, 600.0, 5_400.0, 43_200.0)]
    ['5s', '1m', '10m', '1h30m', '12h']
    """
    return in_words(seconds).removesuffix("00s").removesuffix("00m") or "0"


def _round(most: float) -> float:
    """Round up to the next of 1, 2, 2.5, 5, 10, 20 and so on.

    >>> [_round(most) for most in (0.0, 0.3, 1.0, 3.0, 47.0, 612.0, 2_108.0)]
    [1.0, 1.0, 1.0, 5.0, 50.0, 1000.0, 2500.0]
    """
    if most <= 1.0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0) if step * power >= most)


def _graph(
    values: Sequence[float | None],
    top: float,
    shape: Shape,
    words: Callable[[float], str],
    role: Callable[[float | None], str],
    limit: float = 0.0,
) -> list[Parts]:
    """Return the rows of a graph, with figures at the top, the middle and the zero line of its scale.

    Each value has the color of its `role`. A line at the height of `limit` is drawn behind the values.
    """
    axis = "|" if shape.ascii_only else "\u2502"
    drawn = _rows(values, top, shape.rows, shape.ascii_only)
    roles = [role(value) or "busy" for value in values]
    middle = shape.rows // 2 if shape.rows >= 4 and shape.rows % 2 == 0 else -1  # otherwise not a round figure
    limited = shape.rows - 1 - int(limit / top * shape.rows) if 0 < limit < top else -1
    found: list[Parts] = []
    for row, text in enumerate(drawn):
        scale = ""
        if row == 0:
            scale = words(top)
        elif row == shape.rows - 1:
            scale = "0"
        elif row == middle:
            scale = words(top * (shape.rows - row) / shape.rows)
        line = _LIMITS[shape.ascii_only] if row == limited else " "
        cells = [
            (line, "frame") if one == " " and value is not None else (one, "dim" if value is None else its)
            for one, value, its in zip(text, values, roles, strict=True)
        ]
        found.append(joined([(f"{scale[: GUTTER - 1]:>{GUTTER - 1}}{axis}", "dim"), *cells]))
    return found


def _rows(values: Sequence[float | None], top: float, rows: int, ascii_only: bool) -> list[str]:
    """Draw the area under the values and return its rows, the top row first.

    >>> _rows([None, 0, 1, 4, 8], 8.0, 2, True)
    ['   .#', '-_:##']
    >>> _rows([None] * 13, 1.0, 1, True), _rows([0, 8], 8.0, 1, False) == ["\u2581\u2588"]
    (['- no record -'], True)
    """
    each = len(_HEIGHTS if ascii_only else _BLOCKS) - 1
    heights = [_height(value, top, each * rows) for value in values]
    lines = ["".join(_sign(height, row, ascii_only) for height in heights) for row in range(rows - 1, 0, -1)]
    ground = "".join(_GAPS[ascii_only] if one is None else _sign(one, 0, ascii_only) for one in heights)
    return [*lines, _said(ground, heights)]


def _said(ground: str, heights: Sequence[int | None]) -> str:
    """Return the baseline, with "no record" in each gap that has room for it."""
    for unknown, stretch in groupby(range(len(heights)), key=lambda place: heights[place] is None):
        places = list(stretch)
        if unknown and len(places) >= len(_NO_RECORD):
            start = places[0] + (len(places) - len(_NO_RECORD)) // 2
            ground = ground[:start] + _NO_RECORD + ground[start + len(_NO_RECORD) :]
    return ground


def _height(value: float | None, top: float, most: int) -> int | None:
    """Return the height of a value: 1, the lowest block, for zero; 2 or more for anything else."""
    if value is None:
        return None
    return 1 if value <= 0 else min(most, 1 + max(1, math.ceil(value / top * (most - 1))))


def _sign(height: int | None, row: int, ascii_only: bool) -> str:
    if height is None:
        return " "
    if ascii_only and height == 1:
        return " " if row else "_"
    signs = _HEIGHTS if ascii_only else _BLOCKS
    each = len(signs) - 1
    return signs[max(0, min(each, height - row * each))]


def _time_axis(series: JobSeries, shape: Shape) -> Parts:
    """Return the time axis, labeled with times of day (UTC) at round intervals."""
    fill, tick = ("-", "+") if shape.ascii_only else ("\u2500", "\u2534")
    cell = series.every * series.points / shape.columns
    step = next((one for one in _TICKS if one / cell >= 12), _TICKS[-1])
    line = [fill] * shape.columns
    at = math.ceil(series.begins / step) * step
    while (place := int((at - series.begins) // cell)) < shape.columns:
        words = f"{tick}{datetime.fromtimestamp(at, timezone.utc):%H:%M}"
        if place + len(words) <= shape.columns:
            line[place : place + len(words)] = words
        at += step
    return [("  UTC ", "dim"), (tick if shape.ascii_only else "\u2514", "dim"), ("".join(line), "dim")]


_E = JobEvent
LETTERS: dict[str, tuple[str, Level]] = {
    _E.FAILED.value: ("X", Level.CRITICAL),
    _E.CRASHED.value: ("x", Level.CRITICAL),
    _E.GONE.value: ("x", Level.CRITICAL),
    _E.SUPERSEDED.value: ("x", Level.CRITICAL),
    "table FAILED": ("X", Level.CRITICAL),
    _E.RESET.value: ("R", Level.WARNING),
    BEGAN: ("!", Level.WARNING),
    ENDED: ("=", Level.FINE),
    _E.PAUSED.value: ("p", Level.BUSY),
    _E.RESUMED.value: ("r", Level.BUSY),
    _E.STOPPED.value: ("o", Level.REST),
    _E.CANCELLED.value: ("o", Level.REST),
    _E.FINISHED.value: ("e", Level.REST),
    _E.START.value: ("s", Level.BUSY),
    _E.BEGAN.value: ("s", Level.BUSY),
    _E.COPY_BEGAN.value: ("c", Level.BUSY),
    _E.COPY_DONE.value: ("c", Level.BUSY),
    _E.CAUGHT_UP.value: ("u", Level.FINE),
}
"""Letter and severity by event, most severe first. If several events share a cell, the most severe is shown."""
_ORDER = list(LETTERS)
_ROLES = {Level.CRITICAL: "crit", Level.WARNING: "warn", Level.BUSY: "busy", Level.REST: "rest", Level.FINE: ""}


def marks_row(series: JobSeries, columns: int) -> list[tuple[str, str]]:
    """Return a letter for each event, as (text, role) parts; cells without an event are blank."""
    cells: list[str] = [""] * columns
    length = series.points * series.every
    for one in _known(series.happened):
        place = int((one.at - series.begins) / length * columns) if length else columns
        if 0 <= place < columns and (not cells[place] or _grave(one.event) < _grave(cells[place])):
            cells[place] = one.event
    parts: list[tuple[str, str]] = []
    for event in cells:
        letter, role = (LETTERS[event][0], _ROLES[LETTERS[event][1]]) if event else (" ", "")
        if parts and parts[-1][1] == role:
            parts[-1] = parts[-1][0] + letter, role
        else:
            parts.append((letter, role))
    return parts


def mark_lines(happened: Iterable[Happened]) -> list[tuple[Level, str]]:
    """Return the events, newest first: time (UTC), letter, and text."""
    return [
        (
            LETTERS[one.event][1],
            f"{datetime.fromtimestamp(one.at, timezone.utc):%H:%M:%S}  {LETTERS[one.event][0]}  "
            + safe(event_text(one.event, one.text), 260),
        )
        for one in reversed(list(_known(happened)))
    ]


def _grave(event: str) -> int:
    return _ORDER.index(event)


def _known(happened: Iterable[Happened]) -> list[Happened]:
    return [one for one in happened if one.event in LETTERS]
