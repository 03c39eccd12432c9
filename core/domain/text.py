"""`safe()`: the one place that makes hostile bytes visible before a terminal, a log or a CSV sees them."""

from __future__ import annotations

import unicodedata

_VISIBLE = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_REFUSED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
"""Unicode categories that never reach a terminal raw: controls, format marks (bidi, zero width), odd spaces."""


def safe(value: object, limit: int = 500) -> str:
    """Text with every control, bidi and zero-width character as a visible escape, at most `limit` characters long.

    >>> safe("a\\x1b]52;c;x\\x07")
    'a\\\\x1b]52;c;x\\\\x07'
    """
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    if len(text) <= limit and text.isprintable():  # the same categories, asked all at once
        return text
    shown = "".join(map(_one, text[: limit + 1]))
    return shown if len(shown) <= limit else shown[: max(0, limit - 3)] + "..."


def _one(character: str) -> str:
    if character == " " or unicodedata.category(character) not in _REFUSED:
        return character
    if character in _VISIBLE:
        return _VISIBLE[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
