"""Export from the console: files that only their owner can read, and text copied to the clipboard.

The rows of a table are exported as CSV and JSON. Text that a spreadsheet would evaluate as a formula is escaped, and
all text is passed through `safe()` again. A symbolic link cannot redirect a file.

Copying works over SSH and in tmux: to the tmux buffer or with OSC 52, and always to a file. Inside tmux, plain OSC 52
does not reach the clipboard by default, but `tmux load-buffer -w` does with every setting that was tried. Because
terminals truncate long OSC 52 sequences, text that is too long is written only to the file.
"""

from __future__ import annotations

import csv
import io
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from slotkeeper.console.cli import output
from slotkeeper.console.views.rows import Column, Row
from slotkeeper.core.config import handover
from slotkeeper.core.domain.text import many, safe
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.state.folder import StateFolder

_RIGHTS = 0o600


@dataclass(frozen=True, slots=True)
class Result:
    """The result in one line, or the reason why nothing was done."""

    ok: bool
    text: str


def put(folder: Path, name: str, content: str) -> Path:
    """Write a file to the state folder; its name can include a subfolder. Raises StateError."""
    checked = StateFolder.open(folder)
    place = checked.path / name
    checked.replace(place, content.encode("utf-8", "backslashreplace"), _RIGHTS)
    return place


FOLDER = "exports"
_LONGEST = 10_000
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?%?")


def exported(folder: Path, name: str, columns: Sequence[Column], rows: Sequence[Row], at: datetime) -> Result:
    """Write the rows to files, and return the files' path as the result."""
    stem = f"{FOLDER}/{re.sub(r'[^a-z0-9]+', '-', name.casefold()).strip('-') or 'rows'}-{at:%Y%m%dT%H%M%S}"
    try:
        put(folder, f"{stem}.json", as_json(columns, rows, at))
        path = put(folder, f"{stem}.csv", as_csv(columns, rows))
    except (OSError, SlotkeeperError) as error:
        return Result(False, f"not exported: {safe(error, 200)}")
    return Result(True, f"exported {many(len(rows), 'row')}: {safe(path.with_suffix(''), 200)}.csv and .json")


def as_csv(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Return a header line and one line per row, with the severity as text in the first column."""
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_ALL)
    named = _named(columns)
    writer.writerow(["severity", "key", *(defused(one.label) for one in named)])
    for row in rows:
        cells = [row.cells.get(one.key, "") for one in named]
        writer.writerow([row.level.name.lower(), defused(row.key), *map(defused, cells)])
    return written.getvalue()


def as_json(columns: Sequence[Column], rows: Sequence[Row], at: datetime) -> str:
    """Return the time and one object per row."""
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
    r"""Escape the text so that a spreadsheet does not evaluate it as a formula.

    >>> [defused(text) for text in ("=1+1", "-5", "-2.5%", "+x", " @a", "plain", "\t=1", "a\nb")]
    ["'=1+1", '-5', '-2.5%', "'+x", "' @a", 'plain', "'\\t=1", 'a\\nb']
    """
    shown = safe(value, _LONGEST)
    risky = value.lstrip(" ").startswith(_FORMULA) and not _NUMBER.fullmatch(value.strip())
    return f"'{shown}" if risky else shown


def _named(columns: Sequence[Column]) -> list[Column]:
    return [one for one in columns if one.label]


FILE = "clip.txt"
MOST = 74_994
"""The number of base64 bytes that all terminals accept."""
_TMUX_SECONDS = 2.0


def copied(text: str, folder: Path, env: Mapping[str, str], to_terminal: Callable[[], object]) -> Result:
    """Copy the text to every place from which it can be pasted. `to_terminal` writes OSC 52."""
    where, refused = _pasteable(text, env, to_terminal)
    try:
        put(folder, FILE, text)
    except (OSError, SlotkeeperError) as error:
        refused.append(f"could not write {FILE}: {safe(error, 100)}")
    else:
        where.append(FILE)
    number = f"{len(text)} character" + ("s" if len(text) != 1 else "")
    said = f"copied {number}: {', '.join(where)}" if where else "not copied"
    return Result(not refused, "; ".join([said, *refused]))


def _pasteable(text: str, env: Mapping[str, str], to_terminal: Callable[[], object]) -> tuple[list[str], list[str]]:
    refused = []
    if env.get("TMUX"):
        if _to_tmux(text, env):
            return ["tmux buffer"], []
        refused.append("tmux rejected the text")
    encoded = (len(text.encode("utf-8", "backslashreplace")) + 2) // 3 * 4
    if encoded > MOST:
        return [], [*refused, f"too long for the terminal ({encoded} bytes, at most {MOST})"]
    to_terminal()
    return ["OSC 52"], refused


def _to_tmux(text: str, env: Mapping[str, str]) -> bool:
    try:
        ran = subprocess.run(
            ["tmux", "load-buffer", "-w", "-"],
            input=text.encode("utf-8", "backslashreplace"),
            env=handover.environment(env),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TMUX_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0
