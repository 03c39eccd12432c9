"""The only writer of stdout: lines, tables that fit the terminal, times, JSON and JSON lines.

Every cell is passed through `safe()`. JSON is ASCII without control bytes. Known secrets are masked in both. None means
unknown and is written as "-" in a table and null in JSON. Times for users are in UTC followed by the local time; times
for programs are in UTC.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from enum import Enum
from pathlib import PurePath

from slotkeeper import __version__
from slotkeeper.console.cli import context
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.text import safe
from slotkeeper.core.redaction import masked

WIDTH = 80
_NARROWEST = 6
_GAP = "  "
_COMMAND = re.compile(r"`[^`]+`")
_GLUE = "\ue000"
"""Placeholder for a non-breaking space."""


class Unwritten(OSError):
    """Stdout cannot be written, for example on a full disk. A closed pipe is a BrokenPipeError instead."""


def line(text: object = "", ascii_only: bool = False) -> None:
    """Write one line of text; control characters are escaped."""
    _write(shown(text, ascii_only) + "\n")


def shown(text: object = "", ascii_only: bool = False, limit: int = 10_000) -> str:
    """Return one line of text as `line` writes it."""
    return context.pasteable(_cell(text, ascii_only, limit))


def lines(texts: Sequence[str]) -> None:
    """Write lines that `shown` returned."""
    _write("".join(f"{one}\n" for one in texts))


def version() -> None:
    """Write the name and the version of Slotkeeper."""
    line(f"slotkeeper {__version__}")


def raw(text: str) -> None:
    """Write one line for a program; control characters except tabs are escaped."""
    _write("\t".join(safe(each, 10_000) for each in text.split("\t")) + "\n")


def stored(text: bytes) -> None:
    """Write one stored line unchanged, except that other bytes are escaped."""
    _write(safe(text, 4 * len(text) + 4) + "\n")


def paragraph(label: str, text: str, ascii_only: bool = False) -> None:
    """Write a label and its wrapped text. A command in backticks stays on one line, so that it can be pasted."""
    import textwrap

    indent = " " * (len(label) + 2)
    first = f"{label}  " if label else ""
    lines = textwrap.wrap(
        _COMMAND.sub(lambda found: found[0].replace(" ", _GLUE), context.pasteable(text).replace(_GLUE, "\\ue000")),
        WIDTH,
        initial_indent=first,
        subsequent_indent=indent if label else "",
        break_long_words=False,  # a broken name or option cannot be pasted
        break_on_hyphens=False,
    )
    for each in lines:
        line(each.replace(_GLUE, " "), ascii_only)


def block(text: str) -> None:
    """Write several lines of Slotkeeper's own text (help). Control characters are escaped, line ends are preserved."""
    _write("".join(safe(each, 10_000) + "\n" for each in text.splitlines()))


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    ascii_only: bool = False,
    width: int | None = None,
    spare: Sequence[str] = (),
) -> None:
    """Write rows under headers, fitted to `width` columns (default: the terminal's; unlimited without a terminal).

    The columns in `spare` are omitted first, in that order, as long as other cells would be truncated.
    """
    terminal = max(40, shutil.get_terminal_size((WIDTH, 24)).columns) if sys.stdout.isatty() else sys.maxsize
    for each in table_lines(headers, rows, ascii_only, width or terminal, spare):
        _write(each + "\n")


def second(moment: datetime | None) -> str | None:
    """Return a time to the second for users: UTC, followed by the local time."""
    return None if moment is None else both(moment)


def as_json(value: object) -> None:
    """Write one JSON value on one line."""
    _write(json_text(value) + "\n")


def as_jsonl(values: Iterable[object]) -> None:
    """Write one JSON value per line, and flush each."""
    for value in values:
        as_json(value)
        sys.stdout.flush()


def json_text(value: object) -> str:
    """Return JSON in ASCII without control bytes; times are in RFC 3339 format in UTC; NaN and infinities are null."""
    text = json.dumps(_plain(value), ensure_ascii=True, allow_nan=False)
    return text.replace("\x7f", "\\u007f")  # the only control character that json does not escape


def table_lines(
    headers: Sequence[str], rows: Iterable[Sequence[object]], ascii_only: bool, width: int, spare: Sequence[str] = ()
) -> list[str]:
    """Return the lines of a table. If it exceeds `width`, omit the `spare` columns, then truncate the widest columns.

    >>> table_lines(["job", "lag"], [["orders", 12], ["x", None]], True, 80)
    ['job     lag', '------  ---', 'orders   12', 'x         -']
    >>> table_lines(["job", "dn", "lag"], [["orders", "dn_1", 12]], True, 12, ["dn"])
    ['job     lag', '------  ---', 'orders   12']
    """
    given = [list(row) for row in rows]
    for name in spare:
        natural = [max(_columns(_cell(row[i], ascii_only)) for row in (headers, *given)) for i in range(len(headers))]
        if sum(natural) + len(_GAP) * (len(natural) - 1) <= width:
            break
        place = list(headers).index(name)
        headers, given = [h for h in headers if h != name], [row[:place] + row[place + 1 :] for row in given]
    cells = [[_cell(value, ascii_only) for value in row] for row in given]
    numeric = [_numeric([row[i] for row in given]) for i in range(len(headers))]
    widths = _fit([[_cell(h, ascii_only) for h in headers], *cells], width)
    shown = [list(headers), ["-" * each for each in widths], *cells]
    return [_GAP.join(_pad(cell, widths[i], numeric[i]) for i, cell in enumerate(row)).rstrip() for row in shown]


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritten(error.errno, error.strerror) from error


def _cell(value: object, ascii_only: bool, limit: int = 500) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return both(value)
    text = safe(_plain(value) if isinstance(value, date | Enum | Position) else value, limit)
    return text.encode("ascii", "backslashreplace").decode() if ascii_only else text


def _numeric(values: list[object]) -> bool:
    numbers = [value for value in values if value is not None]
    return bool(numbers) and all(isinstance(n, int | float | Position) and not isinstance(n, bool) for n in numbers)


def _fit(rows: list[list[str]], width: int) -> list[int]:
    """Return column widths that fit in total. No column becomes narrower than `_NARROWEST`."""
    widths = [max(_columns(row[i]) for row in rows) for i in range(len(rows[0]))]
    room = width - len(_GAP) * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _NARROWEST:
        widest = widths.index(max(widths))
        widths[widest] -= 1
    return widths


def _columns(text: str) -> int:
    """Return the width of a text in terminal columns: two for a wide character, none for a combining character."""
    return sum(map(_advance, text))


def _advance(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _pad(text: str, width: int, right: bool) -> str:
    if _columns(text) > width:
        text = _cut(text, width)
    fill = " " * (width - _columns(text))
    return fill + text if right else text + fill


def _cut(text: str, width: int) -> str:
    """Truncate a text to `width` columns, ending with two dots."""
    kept, taken = "", 0
    for character in text:
        taken += _advance(character)
        if taken > width - 2:
            break
        kept += character
    return kept + ".."


def _plain(value: object) -> object:
    """Convert a value to types that JSON supports."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, str):
        return masked(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        utc = value.astimezone(timezone.utc) if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return utc.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | PurePath):
        return masked(str(value))
    if isinstance(value, Position):
        return value.shown
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return safe(value, len(value) * 4 + 4)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        from slotkeeper.core import codec

        return {name: _plain(each) for name, each in codec.shown(value).items()}
    if isinstance(value, Mapping):
        return {masked(str(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, Iterable):
        return [_plain(each) for each in value]
    return masked(str(value))


FULL = "%Y-%m-%dT%H:%M:%S"
SHORT = "%m-%d %H:%M:%S"
CLOCK = "%H:%M:%S"


def both(moment: datetime, form: str = FULL) -> str:
    """Return the time in UTC, followed by the local time with its offset if the host (TZ, /etc/localtime) differs.

    The local date is included if it differs from the UTC date.

    >>> both(datetime(2026, 1, 31, 23, 30, tzinfo=timezone.utc)).partition(" ")[0]
    '2026-01-31T23:30:00Z'
    """
    utc = moment.astimezone(timezone.utc)
    return f"{utc:{form}}Z{_beside(utc, utc.astimezone())}"


def _beside(utc: datetime, here: datetime) -> str:
    """Return the local time in parentheses; "" if it equals UTC.

    >>> there = timezone(timedelta(hours=1))
    >>> late = datetime(2026, 1, 31, 23, 30, tzinfo=timezone.utc)
    >>> _beside(late, late.astimezone(there)), _beside(late, late)
    (' (02-01 00:30:00+01:00)', '')
    """
    offset = here.utcoffset() or timedelta(0)
    if not offset:
        return ""
    sign, minutes = ("-", -offset) if offset < timedelta(0) else ("+", offset)
    hours, rest = divmod(int(minutes.total_seconds()) // 60, 60)
    day = "" if here.date() == utc.date() else f"{here:%m-%d} "
    return f" ({day}{here:%H:%M:%S}{sign}{hours:02d}:{rest:02d})"
