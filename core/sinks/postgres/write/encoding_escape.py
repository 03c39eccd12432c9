"""Makes COPY text readable for a sink whose encoding cannot keep all of it: such bytes are spelled out, and marked.

Only isolating steps read through it, line by line.
"""

from __future__ import annotations

import io
from typing import BinaryIO


class Readable(io.RawIOBase):
    """A reader of whole lines; `codec` is the server's encoding, empty where it keeps any bytes.

    A line of a step has its kind in the third field; where lines have none (`kinds` False), an I goes before each.
    """

    def __init__(self, lines: BinaryIO, codec: str, kinds: bool = True) -> None:
        self._lines, self._codec, self._kinds = lines, codec, kinds
        self._rest = b""

    def readable(self) -> bool:
        """Yes."""
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, at least one where there is any."""
        parts, there = [self._rest], len(self._rest)
        while size < 0 or there < size:
            line = self._lines.readline()
            if not line:
                break
            parts.append(self._one(line))
            there += len(parts[-1])
        text = b"".join(parts)
        out, self._rest = (text, b"") if size < 0 else (text[:size], text[size:])
        return out

    def _one(self, line: bytes) -> bytes:
        kept = spelled(line, self._codec)
        mark = b"I\t" if kept is line else b"i\t"
        if not self._kinds:
            return mark + kept
        if kept is line:
            return line
        point, sequence, kind, rest = kept.split(b"\t", 3)
        return b"\t".join((point, sequence, kind.lower() if kind in (b"I", b"U") else kind, rest))


def spelled(line: bytes, codec: str) -> bytes:
    r"""The line itself where the encoding has all of it; else each byte or character that it has not as \xNN or \uNNNN.

    >>> spelled(b"caf\xe9\n", "utf-8"), spelled("5 €".encode(), "latin-1"), spelled("5 €".encode(), "utf-8")
    (b'caf\\\\xe9\n', b'5 \\\\u20ac', b'5 \xe2\x82\xac')
    """
    try:
        text = line.decode("utf-8")
        if codec and codec != "utf-8":
            text.encode(codec)
    except UnicodeError:
        text = line.decode("utf-8", "surrogateescape")
        return "".join(_shown(one, codec or "utf-8") for one in text).encode()
    return line


def _shown(one: str, codec: str) -> str:
    code = ord(one)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\\\x{code - 0xDC00:02x}"
    try:
        one.encode(codec)
    except UnicodeError:
        return f"\\\\u{code:04x}" if code < 0x10000 else f"\\\\U{code:08x}"
    return one
