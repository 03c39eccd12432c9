"""The output of screens and commands as a user reads it: joined rows, a remedy's parts, typed commands. It knows only
the form of remedies (docs/console.md), and no particular fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from slotkeeper.console.__main__ import main

_GIVEN = re.compile(r" --config (?:'[^']*'|[^\s`]+)")


def bare(text: str) -> str:
    """Return the text with its commands as they are printed with the default configuration.

    >>> bare("do `slotkeeper --config /tmp/a/c.toml jobs start a`; see slotkeeper --config '/tmp/my a' doctor")
    'do `slotkeeper jobs start a`; see slotkeeper doctor'
    """
    return _GIVEN.sub("", text)


_GOES_ON = re.compile(r"^(?: {3}| {10}(?!\d+  ))\S")
"""Matches a line that continues the sentence above, or that is beside a label and is not the next entry of its list."""
_TYPED = re.compile(r"`([^`]+)`")
_DIVIDED = re.compile(r"; (then|or) ")
_REASON = re.compile(r"--reason (?:TEXT|'\.\.\.')")
WHY = "read on the screen"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a remedy: its words, and what is typed in its order.

    `instead`: only if the previous part could not be executed. `manual`: an action of a person, without a command.
    """

    words: str
    commands: tuple[str, ...]
    instead: bool
    manual: bool


def paragraphs(rows: Sequence[str]) -> list[str]:
    """Return the sentences from which the rows of a panel were wrapped.

    >>> paragraphs([" do `jobs start a", "   --take-over`", " next /a/lon\\\\", "   g/path"])
    ['do `jobs start a --take-over`', 'next /a/long/path']
    >>> paragraphs([" Action   1  wait for", "          eve", "          2  do `x`"])
    ['Action   1  wait for eve', '         2  do `x`']
    """
    found: list[str] = []
    for row in rows:
        if _GOES_ON.match(row) and found:
            before = found[-1]
            found[-1] = before[:-1] + row.strip() if before.endswith("\\") else f"{before} {row.strip()}"
        elif row.strip():
            found.append(row[1:] if row.startswith(" ") else row)
    return found


def parts(remedy: str) -> list[Part]:
    """Return a remedy's parts, in order.

    >>> [(one.commands, one.instead, one.manual) for one in parts("Ask eve; or run `SELECT 1`; then `x y`")]
    [((), False, True), (('SELECT 1',), True, False), (('x y',), False, False)]
    """
    words = _DIVIDED.split(remedy)
    found = []
    for place in range(0, len(words), 2):
        text = words[place].strip()
        instead = place > 0 and words[place - 1] == "or"
        typed = tuple(_TYPED.findall(text))
        found.append(Part(text, typed, instead, not typed))
    return found


def with_reason(command: str) -> str:
    """A command with a reason in place of the placeholder."""
    return _REASON.sub(f"--reason '{WHY}'", command)


def printed_to_repeat(said: str) -> Iterator[str]:
    """The commands with --execute that a dry run has printed on separate rows.

    >>> list(printed_to_repeat("plan\\nslotkeeper slots undo b \\\\\\n  --execute --plan p\\nthe way back: x"))
    ['slotkeeper slots undo b --execute --plan p']
    """
    for line in re.sub(r" *\\\n *", " ", said).splitlines():
        if line.strip().startswith("slotkeeper ") and " --execute" in line:
            yield line.strip()


def typed(capture: Any, *words: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a command in this process; `capture` is pytest's."""
    capture.readouterr()
    code = main([*words])
    said = capture.readouterr()
    return code, said.out, said.err


def typed_bare(capture: Any, *words: str) -> tuple[int, str, str]:
    """Return the same, printed as with the default configuration."""
    code, out, err = typed(capture, *words)
    return code, bare(out), bare(err)
