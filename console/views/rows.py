"""Building blocks of all screens: rows, columns, filters, sort orders, bars, and the format of numbers and times. Pure.

Unknown values are shown as `?`, never as 0. Ages and durations carry units. Sorting is stable; unknown values come last
in both directions.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.ttl import in_words

if TYPE_CHECKING:
    from slotkeeper.core.domain.fault import Fault

TYPED = 4_000
"""The maximum length of a text that contains commands to type. It is high, because a truncated command is useless."""
UNKNOWN = "?"
NARROW, WIDE, WIDEST = 80, 100, 112
STALE_SECONDS = 6.0
T = TypeVar("T")
LEAST_ROOM = 10
"""The minimum width of a flexible column."""
WORST_FIRST = (Level.CRITICAL, Level.WARNING, Level.UNKNOWN, Level.BUSY, Level.FINE, Level.REST)
FAULTS = (Level.CRITICAL, Level.WARNING, Level.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict; `job` is the job with the fault, "" if the fault concerns no job or there is no fault.

    `rest` is the end of the fault's cause, for which the line has no room; the panel shows it.
    """

    level: Level
    words: str
    job: str = ""
    fault: Fault | None = None
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `width` 0 takes the remaining width, `least` is the minimum terminal width at which it is shown.

    `whole` is its full label, used if all columns have room. A column that `grows` is the first to be truncated. In a
    `name` column, long values are truncated in the middle, because related names often differ at their ends. `gap` is
    the number of blank cells after the column.
    """

    key: str
    label: str
    width: int
    right: bool = False
    least: int = 0
    whole: str = ""
    grows: bool = False
    name: bool = False
    gap: int = 1


def named_by(
    columns: Iterable[Column], units: Collection[str], places: Collection[str] = (), parts: Collection[str] = ()
) -> list[Column]:
    """Return the columns with the sources' terms for lag, position and lane; with neutral terms if they differ.

    >>> [one.label for one in named_by([Column("behind", "BEHIND", 7)], {"commits"})]
    ['COMMITS']
    >>> [one.label for one in named_by([Column("worst", "WORST DN", 7)], (), (), {"DN", "stream"})]
    ['WORST LANE']
    """
    unit = next(iter(units)).upper() if len(units) == 1 else ""
    place = next(iter(places)).upper() if len(places) == 1 else ""
    found = []
    for column in columns:
        if column.key == "behind" and unit:
            short = unit if len(unit) <= column.width else column.label
            found.append(replace(column, label=short, whole=f"{unit} BEHIND"))
        elif column.key == "position" and place:
            found.append(replace(column, label=place))
        elif column.key in _OF_PARTS and parts:
            found.append(replace(column, label=column.label.replace("DN", part_of(parts).upper())))
        else:
            found.append(column)
    return found


_OF_PARTS = ("dn", "dns", "worst")


def part_of(parts: Collection[str]) -> str:
    """Return the sources' term for the part that a lane reads; a neutral term if they differ or none was reported.

    >>> part_of({"stream"}), part_of({"DN", "stream"})
    ('stream', 'lane')
    """
    return next(iter(parts)) if len(parts) == 1 else "lane"


class Later(Mapping[str, T]):
    """A mapping that is built on first use, so that invisible rows cost almost nothing.

    >>> Later(lambda: {"a": 1})["a"]
    1
    """

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], dict[str, T]]) -> None:
        self._make = make
        self._made: dict[str, T] | None = None

    def __getitem__(self, key: str) -> T:
        return self._all()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, T]:
        if self._made is None:
            self._made = self._make()
        return self._made


@dataclass(frozen=True, slots=True)
class Row:
    """One row, with a text for each column key; `level` is its severity, also shown as a glyph in the column `mark`.

    `order` has the sort values of columns that are not sorted by their text; None means unknown. `tints` has the color
    roles of columns that do not use the severity's color.
    """

    key: str
    level: Level
    cells: Mapping[str, str]
    order: Mapping[str, float | None] = field(default_factory=dict)
    tints: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text that a filter searches."""
        return " ".join(self.cells.values())


def rank(level: Level) -> int:
    """Return the sort rank of a severity, worst first."""
    return WORST_FIRST.index(level)


def columns_for(
    columns: Iterable[Column], width: int, wide: bool = False, in_full: bool = True, sides: int = 0
) -> tuple[Column, ...]:
    """Return the columns that a terminal of that width shows; the flexible one gets the remaining width.

    `sides` is the number of cells that a frame takes.

    `wide` includes columns hidden at this width. Columns that do not fit are dropped from the right, never the flexible
    one. With `in_full`, labels are complete if there is room.

    >>> [(c.key, c.width) for c in columns_for([Column("a", "", 4), Column("b", "", 0)], 20)]
    [('a', 4), ('b', 14)]
    >>> wider = [Column("a", "", 4), Column("b", "", 6, least=30), Column("c", "", 8)]
    >>> [[c.key for c in columns_for(wider, 20, wide)] for wide in (False, True)]
    [['a', 'c'], ['a', 'b']]
    """
    shown = [one for one in columns if wide or one.least <= width]
    width -= sides
    whole = [replace(one, label=one.whole, width=max(one.width, len(one.whole))) if one.whole else one for one in shown]
    shown = whole if in_full and _least(whole) <= width else shown
    while len(shown) > 1 and _least(shown) > width:
        fixed = [one for one in shown if one.width]
        shown.remove(fixed[-1])
    room = max(1, width - sum(one.width + 1 for one in shown))
    return tuple(replace(one, width=one.width or room) for one in shown)


def _least(columns: Iterable[Column]) -> int:
    return sum((one.width or LEAST_ROOM) + 1 for one in columns)


def kept(rows: Sequence[Row], wanted: str, faults_only: bool) -> list[Row]:
    """Return the rows that match a regular expression, or plain text if it is invalid; a leading `!` inverts the match.

    >>> rows = [Row("a", Level.FINE, {"job": "orders"}), Row("b", Level.CRITICAL, {"job": "stock"})]
    >>> [[row.key for row in kept(rows, *how)] for how in (("ord", False), ("!ord", False), ("", True), ("[", False))]
    [['a'], ['b'], ['b'], []]
    """
    left = [row for row in rows if row.level in FAULTS or not faults_only]
    if not wanted:
        return left
    asked = wanted.removeprefix("!")
    try:
        pattern = re.compile(asked, re.IGNORECASE)
    except re.error:
        pattern = re.compile(re.escape(asked), re.IGNORECASE)
    inverted = wanted.startswith("!") and len(wanted) > 1
    return [row for row in left if (pattern.search(row.text) is None) is inverted]


# -- texts ------------------------------------------------------------------------------------------------------------


def age(at: datetime | None, now: datetime) -> str:
    """Return the age with its unit; `?` if the time is unknown or in the future.

    >>> age(None, datetime(2026, 1, 1)), age(datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 4))
    ('?', '4s')
    """
    past = None if at is None else elapsed(at, now)
    return UNKNOWN if past is None else in_words(past)


def seconds(value: float | None) -> str:
    """Return a duration with its unit."""
    return UNKNOWN if value is None else in_words(max(0.0, value))


def count(value: int | None) -> str:
    """Return a number in at most six characters.

    >>> [count(n) for n in (None, 0, 999, 12_345, 121_100, 12_403_118, 7_000_000_000)]
    ['?', '0', '999', '12.3k', '121.1k', '12.4M', '7.0G']
    """
    if value is None:
        return UNKNOWN
    if value < 10_000:
        return str(value)
    number = float(value)
    for unit in ("k", "M", "G", "T"):
        number /= 1000
        if number < 1000:
            return f"{number:.1f}{unit}"
    return f"{number:.0f}P"


def clock(at: datetime | None) -> str:
    """Return a time as UTC date and time of day.

    >>> clock(datetime(2026, 11, 21, 3, 23, 15))
    '11-21 03:23:15'
    """
    return UNKNOWN if at is None else f"{at:%m-%d %H:%M:%S}"


def yes(value: bool | None) -> str:
    """Return yes, no or `?`."""
    return UNKNOWN if value is None else "yes" if value else "no"


def short(text: str, most: int) -> str:
    """Return the text, or its beginning followed by two dots.

    >>> short("orders", 6), short("orders", 5)
    ('orders', 'ord..')
    """
    return text if len(text) <= most else text[: most - 2] + ".."


def both_ends(name: str, most: int) -> str:
    """Return a name in at most `most` cells; a truncated one keeps its beginning and its end, with two dots in between.

    >>> both_ends("orders", 6), both_ends("warehouse_orders_eu_rt_17", 16), both_ends("ab\u4e2d\u6587\u4e2d\u6587cd", 8)
    ('orders', 'warehou..u_rt_17', 'ab..cd')
    """
    if width_of(name) <= most:
        return name
    end = max(0, (most - 2) // 2)
    first = _at_most(name, most - 2 - end)
    last = _at_most(name[::-1], end)[::-1]
    return (first + ".." + last)[: max(0, most)]


def _at_most(text: str, room: int) -> str:
    """Return the beginning of a text, truncated to `room` cells; "" if there is no room."""
    while width_of(text) > max(0, room):
        text = text[: max(0, min(len(text) - 1, room))]
    return text


def width_of(text: str) -> int:
    """Return the width of a text in cells: two for a wide character, none for a combining mark (UAX 11)."""
    if text.isascii():
        return len(text)
    return sum(1 + (unicodedata.east_asian_width(one) in "WF") for one in text if not unicodedata.combining(one))


def clause(text: str, cells: int) -> str:
    """Return a text truncated to `cells`; two dots replace its last clauses or words.

    "" if that would leave less than two thirds of the cells.

    >>> clause("orders_rt: mart.orders is locked by pid 7, user postgres, nightly_report", 66)
    'orders_rt: mart.orders is locked by pid 7, user postgres ..'
    >>> clause("SLOT LOST: the point of dn_1 is gone", 30), clause("short", 9), clause("onewordthatistoolong", 10)
    ('SLOT LOST: the point of ..', 'short', '')
    >>> clause("SLOT LOST", -5)
    ''
    """
    if width_of(text) <= cells:
        return text
    kept = _at_most(text, cells - 3)
    for mark in (", ", "; ", " "):
        place = kept.rfind(mark)
        if place >= max(1, cells * 2 // 3):
            return f"{kept[:place]} .."
    return ""


def fit(text: str, cells: int, right: bool = False, ascii_only: bool = False) -> str:
    """Return the text in exactly `cells` terminal cells. A long text is truncated and ends with two dots.

    >>> fit("dn", 4), fit("dn", 4, right=True), fit("orders", 5), fit("\u4e2d\u6587", 5)
    ('dn  ', '  dn', 'ord..', '\u4e2d\u6587 ')
    """
    shown = plain(text, ascii_only)
    shown = shown if width_of(shown) <= cells else _at_most(shown, max(0, cells - 2)) + ".."[:cells]
    blank = " " * (cells - width_of(shown))
    return blank + shown if right else shown + blank


def plain(text: str, ascii_only: bool) -> str:
    """Return the text in characters that the terminal can show.

    >>> plain("a\u2500b", True)
    'a\\\\u2500b'
    """
    return text.encode("ascii", "backslashreplace").decode() if ascii_only else text


_UNTOLD = ("", "-", UNKNOWN)
CALM_SECONDS = 3.0
"""The time in seconds after a key press during which rows do not move, so that the next key does not hit another
row."""


@dataclass(frozen=True, slots=True)
class Order:
    """A sort order by a column's key; "" is the default order, worst first."""

    column: str = ""
    reverse: bool = False

    def title(self, columns: Sequence[Column], usual: str) -> str:
        """Return the order as displayed in a table's title.

        >>> Order("lag", True).title([Column("lag", "LAG", 4)], "worst first"), Order().title([], "worst first")
        ('sort LAG v', 'worst first')
        """
        label = next((one.label for one in columns if one.key == self.column), self.column)
        if not self.column:
            return usual + (", reversed" if self.reverse else "")
        return f"sort {label} {'v' if self.reverse else '^'}"


def following(order: Order, columns: Sequence[Column]) -> Order:
    """Return the order by the next column to the right, numbers descending; after the last, the default order.

    >>> columns = [Column("mark", "", 1), Column("job", "JOB", 8), Column("lag", "LAG", 4, right=True)]
    >>> one = following(Order(), columns)
    >>> one, following(one, columns), following(following(one, columns), columns)
    (Order(column='job', reverse=False), Order(column='lag', reverse=True), Order(column='', reverse=False))
    """
    named = [one for one in columns if one.label]
    keys = [one.key for one in named]
    place = keys.index(order.column) + 1 if order.column in keys else 0
    return Order(named[place].key, named[place].right) if place < len(named) else Order()


def turned(order: Order) -> Order:
    """Return the reversed order."""
    return replace(order, reverse=not order.reverse)


def ordered(rows: Sequence[Row], order: Order) -> list[Row]:
    """Return the rows in the given order.

    >>> rows = [Row(name, "", {"n": shown}) for name, shown in (("a", "?"), ("b", "9"), ("c", "10"), ("d", "9"))]
    >>> [[row.key for row in ordered(rows, Order("n", way))] for way in (False, True)]
    [['b', 'd', 'c', 'a'], ['c', 'b', 'd', 'a']]
    """
    if not order.column:
        return list(reversed(rows)) if order.reverse else list(rows)
    known, unknown = [], []
    for row in rows:
        value = _value(row, order.column)
        if value is None:
            unknown.append(row)
        else:
            known.append((value, row))
    known.sort(key=lambda each: each[0], reverse=order.reverse)
    return [row for _, row in known] + unknown


def calmly(rows: Sequence[Row], shown: Sequence[str]) -> list[Row]:
    """Return the rows in the order in which they are already shown; new rows come last.

    >>> rows = [Row(name, "", {}) for name in "dcba"]
    >>> [row.key for row in calmly(rows, ["a", "x", "b"])]
    ['a', 'b', 'd', 'c']
    """
    places = {key: place for place, key in enumerate(shown)}
    return sorted(rows, key=lambda row: places.get(row.key, len(places)))


def _value(row: Row, column: str) -> tuple[int, float, str] | None:
    if column in row.order:
        number = row.order[column]
        return None if number is None else (0, number, "")
    text = row.cells.get(column, "").strip()
    if text in _UNTOLD:
        return None
    try:
        return 0, float(text), ""
    except ValueError:
        return 1, 0.0, text.casefold()


BARS, ASCII_BARS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588", "_.123456"
"""In ASCII, a digit is the number of digits in the rate, so no legend is needed; a dot is less than one per second."""
_FULL, _EMPTY = "\u2588", "\u2591"


def bar(share: float | None, cells: int = 8, ascii_only: bool = True, up: bool = True) -> str:
    """Return a share from 0 to 1 as full cells followed by empty cells; "" if it is unknown.

    `up` rounds up, so that a small share is visible; otherwise only a share of 1 fills the last cell.

    >>> [bar(share) for share in (1.0, 0.425, 0.001, 0.0, None)]
    ['########', '####....', '#.......', '........', '']
    >>> bar(0.74, 4, up=False), bar(0.5, 2, ascii_only=False)
    ('##..', '\u2588\u2591')
    """
    if share is None:
        return ""
    exact = max(0.0, min(1.0, share)) * cells
    full = math.ceil(exact) if up else math.floor(exact + 1e-9)
    done, rest = ("#", ".") if ascii_only else (_FULL, _EMPTY)
    return done * full + rest * (cells - full)


def bars(values: Iterable[float | None], ascii_only: bool = False) -> str:
    """Return a sparkline of events per second on a fixed scale, with a glyph for zero and one for each power of ten.

    >>> bars([None, 0, 0.4, 5, 50, 500, 5_000, 50_000, 500_000])
    '?\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588'
    >>> bars([None, 0, 5, 500_000], ascii_only=True)
    '?_16'
    """
    signs = ASCII_BARS if ascii_only else BARS
    bounds = (1, 10, 100, 1_000, 10_000, 100_000)
    return "".join(
        "?" if value is None else signs[(value > 0) + sum(value >= bound for bound in bounds)] for value in values
    )
