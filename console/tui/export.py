"""What leaves the console: files that only their owner can read, and what is copied to where it can be pasted from.

The rows of a table as CSV and JSON: what a spreadsheet would calculate is defused, and every text is made visible once
more by `safe()`. No file is led elsewhere by a link.

Copying works behind SSH and tmux: into the buffer of tmux, or by OSC 52, and always into a file. Inside tmux plain OSC
52 reaches no clipboard by default, and `tmux load-buffer -w` does with every setting that was tried. Terminals cut long
OSC 52 off, so more than they take is refused and stays in the file.
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


FILE = "clip.txt"
MOST = 74_994
"""Bytes of base64 that terminals take at least."""
_TMUX_SECONDS = 2.0


def copied(text: str, folder: Path, env: Mapping[str, str], to_terminal: Callable[[], object]) -> Result:
    """Copy the text to wherever it can be pasted from; `to_terminal` writes OSC 52."""
    where, refused = _pasteable(text, env, to_terminal)
    try:
        put(folder, FILE, text)
    except (OSError, SlotkeeperError) as error:
        refused.append(f"{FILE} was not written: {safe(error, 100)}")
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
        refused.append("tmux did not take it")
    encoded = (len(text.encode("utf-8", "backslashreplace")) + 2) // 3 * 4
    if encoded > MOST:
        return [], [*refused, f"too long for the terminal ({encoded} bytes of at most {MOST})"]
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
