"""Somebody who does what a remedy says: commands typed as they are printed, and a colleague for the rest.

How remedies are written is `slotkeeper.core.domain.remedy`'s; nothing is known here of any fault.
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
    """What was typed, where, and how it ended."""

    where: str
    text: str
    code: int
    said: str


@dataclass
class Walk:
    """What was read and what was done about it, and how many seconds that took."""

    read: list[str] = field(default_factory=list)
    typed: list[Typed] = field(default_factory=list)
    by_hand: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class Hands(ABC):
    """`colleague` is asked with the words of a remedy, and says whether that was done."""

    colleague: Callable[[str], bool]
    walk: Walk = field(default_factory=Walk, kw_only=True)

    @abstractmethod
    def run(self, text: str, where: str) -> Typed:
        """Run a command of ours in a shell, or a statement at the sink or the source as its administrator."""

    def do(self, remedy: str) -> None:
        """From its left to its right, until a command of ours is refused."""
        done: bool | None = False
        for part in parts(remedy):
            if part.instead and done:
                continue
            done = self._do_part(part)
            if done is None:
                return

    def _do_part(self, part: Part) -> bool | None:
        """Whether it was done; None where a command of ours was refused, so that faults are read again."""
        for command in part.commands:
            if not self._type(command, part.words):
                return None
        if part.by_hand:
            done = self.colleague(part.words)
            if done:
                self.walk.by_hand.append(part.words)
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
        return one.code in (0, 4)  # 4: it has found what it was asked to find

    def _noted(self, text: str, where: str) -> Typed:
        one = self.run(text, where)
        self.walk.typed.append(one)
        return one
