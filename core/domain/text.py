"""Functions that format strings for terminals, logs and CSV files. Only `safe()` escapes hostile bytes; it masks known
secrets before it truncates.

`typed()` quotes a name for a printed command; `see` and `install` return commands that open a page or install an extra.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterator, Sequence

from slotkeeper.core.redaction import masked, masked_piece

_VISIBLE = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_MOST_DIGITS = 18
_MARKS = 3
"""Maximum number of combining marks per character; more would overlap other lines of a terminal."""
_REFUSED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
"""Unicode categories that are always escaped: controls, format characters (bidi, zero width), unusual spaces."""


def safe(value: object, limit: int = 500) -> str:
    """Return text with each control, bidi and zero-width character as a visible escape, at most `limit` characters.

    >>> safe("a\\x1b]52;c;x\\x07")
    'a\\\\x1b]52;c;x\\\\x07'
    """
    text = masked(value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value))
    # isprintable() checks the same categories in one call
    if (
        len(text) <= limit
        and text.isprintable()
        and (text.isascii() or all(mark <= _MARKS for _, mark in _counted(text)))
    ):
        return text
    shown = "".join(_escaped(one) if mark > _MARKS else _one(one) for one, mark in _counted(text[: limit + 1]))
    return shown if len(shown) <= limit else shown[: max(0, limit - 3)] + "..."


def piece(part: bytes, limit: int = 500) -> str:
    """Return an excerpt of external text as `safe` does; also mask a secret that was cut off at either end."""
    return safe(masked_piece(part.decode("utf-8", "backslashreplace")), limit)


def many(number: int, one: str, several: str = "") -> str:
    """Format a number with its noun.

    >>> many(1, "kind"), many(1200, "kind"), many(2, "entry", "entries")
    ('1 kind', '1,200 kinds', '2 entries')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def few(names: Sequence[str], most: int = 3) -> str:
    """Return the first `most` names and the number of remaining names.

    >>> few(["a", "b"]), few(["a", "b", "c", "d"])
    ('a, b', 'a, b, c and 1 more')
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def whole(text: object) -> int | None:
    """Parse a whole number of at most 18 ASCII digits; None for any other string.

    `str.isdigit` is not enough: `int` raises for a superscript two, and for more than 4,300 digits.

    >>> whole("86400"), whole("²"), whole("9" * 5000), whole("")
    (86400, None, None, None)
    """
    said = str(text)
    return int(said) if said.isascii() and said.isdigit() and len(said) <= _MOST_DIGITS else None


def typed(*names: str) -> str:
    """Quote names for a shell, each as one word, so that a printed command can be pasted with any name in it.

    >>> print(typed("ods.orders", "s"), typed("ods.Order Lines"), typed("o';$(x)"))
    ods.orders s 'ods.Order Lines' 'o'"'"';$(x)'
    """
    return " ".join(shlex.quote(safe(name)) for name in names)


def _counted(text: str) -> Iterator[tuple[str, int]]:
    """Yield each character with its index in a run of combining marks; 0 for other characters."""
    row = 0
    for character in text:
        row = row + 1 if character > "\u02ff" and unicodedata.category(character) in ("Mn", "Me") else 0
        yield character, row


def _one(character: str) -> str:
    if character == " " or unicodedata.category(character) not in _REFUSED:
        return character
    if character in _VISIBLE:
        return _VISIBLE[character]
    return _escaped(character)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def see(page: str, title: str = "") -> str:
    """Return the command that opens a page, in backquotes; with `title`, at that section.

    >>> see("mysql"), see("runbook", "Slot lost: the slot expired")
    ('`slotkeeper docs mysql`', '`slotkeeper docs runbook#slot-lost-the-slot-expired`')
    """
    return f"`slotkeeper docs {page}{f'#{anchor(title)}' if title else ''}`"


def anchor(title: str) -> str:
    """Return the anchor of a heading, as GitHub generates it.

    >>> anchor("`status` says: a job's driver")
    'status-says-a-jobs-driver'
    """
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def install(extra: str) -> str:
    """Return the command that installs an extra of the distribution, in backquotes.

    >>> install("demo")
    '`pip install "slotkeeper[demo]"`'
    """
    return f'`pip install "slotkeeper[{extra}]"`'
