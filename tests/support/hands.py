"""Carries out remedies: types commands as printed, and lets a colleague do the manual parts.

`slotkeeper.core.domain.remedy` defines the form of remedies; this module knows no fault.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.printed import Part, parts, printed_to_repeat, with_reason

SHELL = "shell"
_SQL = re.compile(r"\b(sink|source)\b")


@dataclass(frozen=True, slots=True)
class Typed:
    """The typed text, the place, and the result."""

    where: str
    text: str
    code: int
    said: str


@dataclass
class Walk:
    """The remedy that was read, the actions taken, and their duration in seconds."""

    read: list[str] = field(default_factory=list)
    typed: list[Typed] = field(default_factory=list)
    manual_acts: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class Hands(ABC):
    """`colleague` is called with the text of a remedy, and returns whether it was carried out."""

    colleague: Callable[[str], bool]
    walk: Walk = field(default_factory=Walk, kw_only=True)

    @abstractmethod
    def run(self, text: str, where: str) -> Typed:
        """Run a Slotkeeper command in a shell, or a statement at the sink or the source as its administrator."""

    def do(self, remedy: str) -> None:
        """Carry out the parts from left to right, until a Slotkeeper command is rejected."""
        done: bool | None = False
        for part in parts(remedy):
            if part.instead and done:
                continue
            done = self._do_part(part)
            if done is None:
                return

    def _do_part(self, part: Part) -> bool | None:
        """Carry out a part; return whether it succeeded, None if a command was rejected, so faults are read again."""
        for command in part.commands:
            if not self._type(command, part.words):
                return None
        if part.manual:
            done = self.colleague(part.words)
            if done:
                self.walk.manual_acts.append(part.words)
            return done
        return bool(part.commands)

    def _type(self, command: str, words: str) -> bool:
        if not command.startswith("slotkeeper "):
            server = _SQL.search(words)
            assert server, f"which server {command!r} is for is not said: {words}"
            return self._noted(command, server[1]).code == 0
        one = self._noted(with_reason(command), SHELL)
        for again in printed_to_repeat(one.said) if one.code == 0 and " --execute" not in command else ():
            one = self._noted(with_reason(again), SHELL)
        return one.code in (0, 4)  # 4: it has found its target

    def _noted(self, text: str, where: str) -> Typed:
        one = self.run(text, where)
        self.walk.typed.append(one)
        return one
