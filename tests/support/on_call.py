"""Somebody on call who knows nothing but the screen: reads the worst fault's remedy, and does it word for word.

He has a terminal of 80x24 with the console, a shell where `slotkeeper` is on the path, an administrator's session at
each server, and a colleague for what is to be done by hand. No rule, no name of a trouble and no cure is known here.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.remedy_text import Part, paragraphs, parts, printed_to_repeat, with_reason
from tests.support.terminal import Terminal

CALM = "no faults"
_TAB = re.compile(r"[ \[](\d) Alerts")
_RULE = re.compile(r"^[-\u2500] .* [-\u2500]+$")
_SCROLL = re.compile(r" (\d+)-(\d+) of (\d+) Tab ")
_FIRST = re.compile(r"^Options +1 +(.*) \((?:loses|copies)[^()]*\)$")
_OVERVIEW = "1"
_LASTS = re.compile(r", \d+ (?:s|min|h)\b")
_SQL = re.compile(r"\b(sink|source)\b")
ROUNDS = 8
STILL = 90.0
"""Seconds after which a fault that stands as before was not cured by what was done."""
COMMAND = 300.0


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
class OnCall:
    """`shell` is the environment of commands; `desks` are commands of the shell that take SQL on stdin, by server.

    `colleague` is asked with the words of the screen, and says whether that was done.
    """

    terminal: Terminal
    shell: Mapping[str, str]
    desks: Mapping[str, str]
    colleague: Callable[[str], bool]
    home: Path
    walk: Walk = field(default_factory=Walk)

    def until_calm(self) -> Walk:
        """Read, do, and look again, until the Overview counts no fault; AssertionError where that does not come."""
        began = time.monotonic()
        for _ in range(ROUNDS):
            if self._calm():
                self.walk.seconds = time.monotonic() - began
                return self.walk
            remedy = self.read()
            if remedy:
                self.walk.read.append(remedy)
                self._do(remedy)
                self._until_another(remedy)
        raise AssertionError(f"not cured by {self.walk}; the screen:\n{self.terminal.screen.text}")

    # Reading

    def read(self) -> str:
        """The first remedy of the worst fault on the Alerts screen; "" where none fires any more."""
        self._press(self._alerts_key())
        self.terminal.until(lambda: "FOR" in self.terminal.screen.text, "the table of alerts", 30)
        self._press("g")
        said, again = self._said(), self._said()
        while said != again:  # a busy machine draws a row and its title at two moments
            said, again = again, self._said()
        found = next((match[1] for one in said if (match := _FIRST.match(one))), "")
        assert found or any("nothing fires" in one or "has ended" in one for one in said), said
        return found

    def _said(self) -> list[str]:
        """The panel's sentences but for how long something lasts."""
        return [_LASTS.sub("", one) for one in paragraphs(self.panel())]

    def panel(self) -> list[str]:
        """All rows of the panel below the table, scrolled through by the keys that its title names."""
        for _ in range(5):
            rows, whole = self._scrolled()
            if whole:
                return rows
        raise AssertionError(f"the panel never stood still:\n{self.terminal.screen.text}")

    def _scrolled(self) -> tuple[list[str], bool]:
        title, shown = self._panel_now()
        found = _SCROLL.search(title)
        if not found:
            return shown, True
        self._into_panel(found[0])
        lines: dict[int, str] = {}
        number = int(found[3])
        for _ in range(number):
            title, shown = self._panel_now()
            now = _SCROLL.search(title)
            if not now or int(now[3]) != number:
                break
            lines |= {int(now[1]) + place: row for place, row in enumerate(shown)}
            if int(now[2]) >= number:
                break
            self.terminal.send("j")
            self._until_title(f" {int(now[1]) + 1}-{int(now[2]) + 1} of ")
        self._press("g")
        self._press("\t")
        return [lines[place] for place in sorted(lines)], sorted(lines) == list(range(1, number + 1))

    def _into_panel(self, where: str) -> None:
        """`Tab`, which leaves it where it had the keys already: then once more."""
        for _ in range(2):
            self._press("\t")
            self.terminal.send("g")
            self.terminal.send("j")
            self._until_title(" 2-")
            if where not in self._panel_now()[0]:
                break
        self._press("g")

    def _until_title(self, words: str) -> None:
        """Until the panel's title says so, and nothing more is drawn."""
        end = time.monotonic() + 5.0
        while words not in self._panel_now()[0] and time.monotonic() < end:
            self.terminal.read(0.2)
        self.terminal.quiet()

    def _panel_now(self) -> tuple[str, list[str]]:
        rows = self.terminal.screen.lines()
        last = max(place for place, row in enumerate(rows) if _RULE.match(row))
        return rows[last], [row for row in rows[last + 1 : -2] if row.strip()]

    def _calm(self) -> bool:
        self._press(_OVERVIEW)
        self.terminal.until(lambda: "jobs " in self.terminal.screen.text, "the overview", 30)
        return CALM in self.terminal.screen.text

    def _alerts_key(self) -> str:
        found = _TAB.search(self.terminal.screen.text)
        assert found, self.terminal.screen.text
        return found[1]

    def _press(self, key: str) -> None:
        self.terminal.send(key)
        self.terminal.quiet()

    def _until_another(self, remedy: str) -> None:
        """Until the worst fault is another one, or none is left."""
        end = time.monotonic() + STILL
        while time.monotonic() < end:
            if self._calm() or self.read() != remedy:
                return

    # Doing

    def _do(self, remedy: str) -> None:
        done: bool | None = False
        for part in parts(remedy):
            if part.instead and done:
                continue
            done = self._do_part(part)
            if done is None:
                return

    def _do_part(self, part: Part) -> bool | None:
        """Whether it was done; None where a command of ours was refused, so that the screen is read anew."""
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
            return self._run(self.desks[server[1]], server[1], f"{command};\n").code == 0
        one = self._run(with_reason(command), "shell")
        for again in printed_to_repeat(one.said) if one.code == 0 and " --execute" not in command else ():
            one = self._run(with_reason(again), "shell")
        return one.code in (0, 4)  # 4: it has found what it was asked to find

    def _run(self, line: str, where: str, given: str = "") -> Typed:
        ended = subprocess.run(
            ["/bin/bash", "-c", line],
            env=dict(self.shell),
            cwd=self.home,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND,
        )
        self.walk.typed.append(Typed(where, given.strip() or line, ended.returncode, ended.stdout + ended.stderr))
        self.terminal.read(0)
        return self.walk.typed[-1]
