"""Files that the console leaves behind: only their owner can read them, and none is led elsewhere by a link.

The rows of a table as CSV and JSON: what a spreadsheet would calculate is defused, and every text is made visible once
more by `safe()`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from slotkeeper.console.cli import output
from slotkeeper.console.views.rows import Column, Row
from slotkeeper.core.domain.text import many, safe
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.state.folder import StateFolder

_RIGHTS = 0o600


@dataclass(frozen=True, slots=True)
class Result:
    """What was done, in one line, or why it was not."""

    ok: bool
    text: str


def put(folder: Path, name: str, content: str) -> Path:
    """Write a file of that name in the state folder, below it where the name says so; raises StateError."""
    checked = StateFolder.open(folder)
    place = checked.path / name
    checked.replace(place, content.encode("utf-8", "backslashreplace"), _RIGHTS)
    return place


FOLDER = "exports"
_LONGEST = 10_000
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?%?")


def exported(folder: Path, name: str, columns: Sequence[Column], rows: Sequence[Row], at: datetime) -> Result:
    """Write the rows; says where."""
    stem = f"{FOLDER}/{re.sub(r'[^a-z0-9]+', '-', name.casefold()).strip('-') or 'rows'}-{at:%Y%m%dT%H%M%S}"
    try:
        put(folder, f"{stem}.json", as_json(columns, rows, at))
        path = put(folder, f"{stem}.csv", as_csv(columns, rows))
    except (OSError, SlotkeeperError) as error:
        return Result(False, f"not exported: {safe(error, 200)}")
    return Result(True, f"exported {many(len(rows), 'row')}: {safe(path.with_suffix(''), 200)}.csv and .json")


def as_csv(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """A header and a line per row, the severity as a word in front."""
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_ALL)
    named = _named(columns)
    writer.writerow(["severity", "key", *(defused(one.label) for one in named)])
    for row in rows:
        cells = [row.cells.get(one.key, "") for one in named]
        writer.writerow([row.level.name.lower(), defused(row.key), *map(defused, cells)])
    return written.getvalue()


def as_json(columns: Sequence[Column], rows: Sequence[Row], at: datetime) -> str:
    """When, and an object per row."""
    made = [
        {
            "severity": row.level.name.lower(),
            "key": safe(row.key, _LONGEST),
            **{one.key: safe(row.cells.get(one.key, ""), _LONGEST) for one in _named(columns)},
        }
        for row in rows
    ]
    return output.json_text({"at": at, "rows": made}) + "\n"


def defused(value: str) -> str:
    r"""The text as a spreadsheet shows it and calculates nothing.

    >>> [defused(text) for text in ("=1+1", "-5", "-2.5%", "+x", " @a", "plain", "\t=1", "a\nb")]
    ["'=1+1", '-5', '-2.5%', "'+x", "' @a", 'plain', "'\\t=1", 'a\\nb']
    """
    shown = safe(value, _LONGEST)
    risky = value.lstrip(" ").startswith(_FORMULA) and not _NUMBER.fullmatch(value.strip())
    return f"'{shown}" if risky else shown


def _named(columns: Sequence[Column]) -> list[Column]:
    return [one for one in columns if one.label]
