"""Recorded files: how they are written, how intended renames apply to them, and how a difference is shown."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "SLOTKEEPER_NET"
"""If it is `write`, the tests of the net record the current output instead of comparing it."""
HERE = Path(__file__).parent
FOLDER = HERE / "recorded"
RENAMES = HERE / "renames.txt"
ARROW = "=>"
SHOWN = 400
"""The number of lines of a difference to show."""


@dataclass(frozen=True)
class Rename:
    """One line of `renames.txt`; an empty `old` adds the line `new`, an empty `new` removes one line `old`."""

    file: str
    old: str
    new: str

    def applied(self, lines: Sequence[str]) -> list[str]:
        """Return the recorded lines after this rename; the same lines if it matches none.

        >>> rename = Rename("texts.txt", "is gone", "has exited")
        >>> rename.applied(["it is gone", "is gone"]), rename.applied(["it is gone"])
        (['it is gone', 'has exited'], ['it has exited'])
        """
        if not self.old:
            return [*lines, self.new]
        if not self.new:
            at = list(lines).index(self.old) if self.old in lines else len(lines)
            return [*lines[:at], *lines[at + 1 :]]
        if self.old in lines:
            return [self.new if line == self.old else line for line in lines]
        return [line.replace(self.old, self.new) for line in lines]


def renames(text: str) -> list[Rename]:
    """Return the renames that a text lists; raises ValueError for a line that is not a rename.

    >>> renames("# a comment\\n\\ntexts.txt: a => b\\ntexts.txt: => c")
    [Rename(file='texts.txt', old='a', new='b'), Rename(file='texts.txt', old='', new='c')]
    """
    found = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        file, colon, change = line.partition(":")
        old, arrow, new = change.partition(ARROW)
        if not colon or not arrow or not (old.strip() or new.strip()):
            raise ValueError(f"{RENAMES.name}: not `FILE: OLD {ARROW} NEW`: {line}")
        found.append(Rename(file.strip(), old.strip(), new.strip()))
    return found


def expected(name: str, change: Iterable[Rename], in_order: bool) -> list[str]:
    """Return a recorded file's lines after the renames of this file; raises ValueError for a rename without effect."""
    lines = (FOLDER / name).read_text("utf-8").splitlines()
    for rename in change:
        if rename.file == name:
            before, lines = lines, rename.applied(lines)
            if lines == before:
                raise ValueError(f"{RENAMES.name}: no recorded line of {name} holds {rename.old!r}")
    return lines if in_order else sorted(lines)


def compare(name: str, lines: Sequence[str], in_order: bool = True) -> None:
    """Compare with the recorded file `name`, or record the lines; raises AssertionError with a unified diff."""
    assert not any("\n" in line for line in lines), "a recorded line is one line"
    if os.environ.get(VARIABLE) == "write":
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    wanted = expected(name, renames(RENAMES.read_text("utf-8")), in_order)
    assert not (found := difference(name, wanted, list(lines))), found


def difference(name: str, wanted: list[str], seen: list[str]) -> str:
    """Return a unified diff of the recorded and the current output; "" if they are equal.

    JSON lines are spread out and compared one by one, each under its name, where there are equally many.
    """
    if wanted == seen:
        return ""
    diff = [f"{len(wanted)} lines are recorded, {len(seen)} are seen"] if len(wanted) != len(seen) else []
    if name.endswith(".jsonl") and not diff:
        for before, after in zip(wanted, seen, strict=True):
            if before != after:
                first = json.loads(before)
                diff += [f"== {first.get('name') or [first.get('at'), *first.get('words', ())]}"]
                diff += _unified(name, _spread(before), _spread(after))
    else:
        diff += _unified(name, wanted, seen)
    more = [f"... and {len(diff) - SHOWN} lines more"] if len(diff) > SHOWN else []
    hint = f"Hint: list an intended change in tests/net/{RENAMES.name}, or record again with {VARIABLE}=write"
    return "\n".join([*diff[:SHOWN], *more, hint])


def _unified(name: str, wanted: list[str], seen: list[str]) -> list[str]:
    return list(difflib.unified_diff(wanted, seen, f"recorded/{name}", "now", lineterm=""))


def _spread(line: str) -> list[str]:
    return json.dumps(json.loads(line), indent=1).splitlines()


def json_line(value: object) -> str:
    """Return a value as one line of JSON; keys stay in their order."""
    return json.dumps(value, ensure_ascii=False)
