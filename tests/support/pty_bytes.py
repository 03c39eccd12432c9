"""What a program wrote to a terminal, taken apart: characters, controls and sequences, the screen that they make, and
what among them a console of ours never sends.

Strict where a real emulator is lenient: every sequence that is not on the short list of what Textual sends is kept as
foreign. That is why there is no emulator library here (pyte, the usual one, skips what it does not know, and that is
what these tests look for); tmux draws the pictures of `bench.snapshots`, and is the second opinion.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.cells import get_character_cell_size

_TOKEN = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC with their end
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # two or three characters
    r"|[^\x00-\x1f\x7f-\x9f]+"  # text
    r"|[\x00-\x1a\x1c-\x1f\x7f-\x9f]",  # a control alone
)
_PARTIAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\x9c]{0,200000}\x1b?|[ -/]*)?\Z")
_MODES = "1000|1002|1003|1004|1006|1015|1016|1049|2004|2026|2048|25|7"
_ALLOWED = re.compile(
    rf"\x1b\[\?(?:{_MODES})[hl]|\x1b\[\?(?:2026|2048)\$p|\x1b\[>\d+u|\x1b\[<u|\x1b\]22;[a-z-]*\x07"
    r"|\x1b\[\d+;\d+H|\x1b\[H|\x1b\[[\d;]*m|[\r\n]"
)
"""What Textual sends: modes, its questions, the pointer's shape, places and colours."""
_PROBE = ("\x1b[6n", "\x1b[K")
"""How the console asks, before it begins, whether the terminal draws a line in one column."""
_STYLES = frozenset(("0", "1", "2", "3", "4", "7", "9"))
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_WRAP = "7"
_UP, _ERASE_LINE = "\x1b[1A", "\x1b[2K"
_PLACE = re.compile(r"\x1b\[(\d*);?(\d*)H")


@dataclass
class Screen:
    """The characters of a screen, fed with bytes; `foreign` is what nobody of ours sent."""

    width: int
    height: int
    foreign: list[str] = field(default_factory=list)
    modes: dict[str, bool] = field(default_factory=dict)
    coloured: int = 0
    """How many sequences set a colour."""
    inline: bool = False
    """Whether the program draws over its own last lines, as `watch` does; a full screen never does."""

    def __post_init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._rest = ""
        self.resize(self.width, self.height)

    def resize(self, width: int, height: int) -> None:
        """Another size, and nothing on it."""
        self.width, self.height = width, height
        self._row = self._column = 0
        self._cells = [[" "] * width for _ in range(height)]

    def feed(self, content: bytes) -> None:
        """Take what came; an unfinished sequence waits for its end."""
        text = self._rest + self._decoder.decode(content)
        self._rest = ""
        place = 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                if _PARTIAL.match(text, place):
                    self._rest = text[place:]
                    return
                self.foreign.append(text[place : place + 20])
                place += 1
                continue
            self._take(found[0])
            place = found.end()

    def lines(self) -> list[str]:
        """What stands there, without spaces at the ends."""
        return ["".join(row).rstrip() for row in self._cells]

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines())

    def _take(self, token: str) -> None:
        if token[0] >= " " and token[0] != "\x7f" and not "\x80" <= token[0] <= "\x9f":
            self._write(token)
        elif token in _PROBE and "1049" not in self.modes:
            return
        elif self.inline and token == _UP:
            self._row = max(0, self._row - 1)
        elif self.inline and token == _ERASE_LINE:
            self._cells[self._row] = [" "] * self.width
        elif not _ALLOWED.fullmatch(token):
            self.foreign.append(token[:80])
        elif token == "\r":
            self._column = 0
        elif token == "\n":
            self._row = min(self._row + 1, self.height - 1)
        elif found := _PLACE.fullmatch(token):
            self._move(int(found[1] or 1) - 1, int(found[2] or 1) - 1, token)
        elif token[-1] in "hl" and token.startswith("\x1b[?"):
            self._mode(token[3:-1], token[-1] == "h")
        elif token[-1] == "m":
            self._style(token)

    def _move(self, row: int, column: int, token: str) -> None:
        if row >= self.height or column >= self.width:
            self.foreign.append(token)
        self._row, self._column = min(row, self.height - 1), min(column, self.width - 1)

    def _mode(self, name: str, on: bool) -> None:
        self.modes[name] = on
        if name == "1049":
            self.resize(self.width, self.height)

    def _style(self, token: str) -> None:
        words = iter(token[2:-1].split(";"))
        for word in words:
            if word in ("38", "48"):
                self.coloured += 1
                for _ in range({"5": 1, "2": 3}.get(next(words, ""), 0)):
                    next(words, "")
            elif re.fullmatch(r"(?:[349]|10)[0-79]", word):
                self.coloured += 1
            elif word and word not in _STYLES:
                self.foreign.append(token)

    def _write(self, text: str) -> None:
        for character in text:
            if unicodedata.category(character) in _HIDDEN:
                self.foreign.append(f"{character!a} in {text[:40]!a}")
                continue
            wide = get_character_cell_size(character)
            if not wide:
                self._cells[self._row][max(0, self._column - 1)] += character
                continue
            if self._column + wide > self.width:
                if self.modes.get(_WRAP) is False:
                    self.foreign.append(f"beyond the last column: {text[:40]!a}")
                    return
                self._row, self._column = min(self._row + 1, self.height - 1), 0
            self._cells[self._row][self._column : self._column + wide] = [character, *[""] * (wide - 1)]
            self._column += wide


def plain(content: bytes) -> str:
    """The text among the bytes, for programs whose screens we need not know."""
    return "".join(_texts(content.decode("utf-8", "replace")))


def _texts(text: str) -> Iterator[str]:
    for found in _TOKEN.finditer(text):
        if found[0][0] >= " " and found[0][0] != "\x7f":
            yield found[0]
