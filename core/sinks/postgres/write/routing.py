"""Keeps the inserts of a large step apart on their way to the staging table: bytes in, bytes out, no server.

A line of a step is `point TAB sequence TAB kind TAB c1 TAB ... cn LF` (COPY text, in which a line end inside a value is
written as an escape). Next door: `optimistic.py` applies what was kept apart, `sink.py` stages the rest.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import BinaryIO, cast

LEAST = 2_000
"""Events from which on a step is tried: below, its statements cost more than they save."""
SHARE = 4
"""Of so many events one is an insert at least where a step is tried: what is saved is saved on the inserts."""
BLOCK = 262_144
"""Bytes read at a time; a step that ends within the first, and has fewer than `LEAST` lines, is not routed at all."""
TOGETHER = 2_048
"""Rows that are sent at a time."""
SORTED = 4_194_304
"""Bytes of the inserts that are put into the order of their keys at a time."""
SPOOL = 16_777_216
"""Bytes of the inserts that stay in memory; more go to a file."""


def whole(begin: bytes, reader: BinaryIO) -> BinaryIO:
    """A step's text of which `begin` was read already, as it came."""
    return _Blocks(chain((begin,), iter(partial(reader.read, BLOCK), b"")))


class Routed:
    """One step's text, read once, of which `begin` was read already; `inserts` is the number of lines kept apart.

    `first` and `second` are the highest point among them and the highest sequence at that point, None where there are
    none.
    """

    def __init__(self, reader: BinaryIO, begin: bytes = b"") -> None:
        self._reader, self._begin = reader, begin
        self._lines = tempfile.SpooledTemporaryFile(max_size=SPOOL)  # noqa: SIM115 - closed by `close`
        self.inserts = 0
        self.first: int | None = None
        self.second: int | None = None

    def rest(self) -> BinaryIO:
        """What is staged while it is read: every line that is not an insert."""
        return _Blocks(self._route())

    def lines(self) -> BinaryIO:
        """The inserts as they came."""
        self._lines.seek(0)
        return cast(BinaryIO, self._lines)

    def bodies(self, places: tuple[int, ...]) -> BinaryIO:
        """The inserts as rows of the target, c1..cn, by their keys' texts; `places` are the key's, from 1.

        Neighbours in the index are then written one after another: a fifth of the server's CPU of a step, for a
        twentieth of it here. The order says nothing: each key is there once.
        """
        return _Blocks(chain.from_iterable(_bodies(block, places) for block in _whole_lines(self.lines(), b"", SORTED)))

    def close(self) -> None:
        """Give up what is spooled; safe to call twice."""
        self._lines.close()

    def _route(self) -> Iterator[bytes]:
        for block in _whole_lines(self._reader, self._begin):
            rest = self._apart(block)
            if rest:
                yield rest

    def _apart(self, block: bytes) -> bytes:
        """Keep the inserts of some lines; the other lines.

        A line that is not as it should be is no insert: the server says what is wrong with it. One pass of `split`
        takes a third of the time of regular expressions, which search each line for its head and its end.
        """
        inserts, rest, known, at = [], [], b"", 0
        first, second = self.first, self.second
        *lines, last = block.split(b"\n")
        for line in lines:
            try:
                point, sequence, kind, _ = line.split(b"\t", 3)
                if kind == b"I":
                    if point != known:
                        known, at = point, int(point)
                    number = int(sequence)
                    if first is None or second is None or at > first:
                        first, second = at, number
                    elif at == first and number > second:
                        second = number
                    inserts.append(line)
                    continue
            except ValueError:
                known = b""
            rest.append(line)
        self.first, self.second = first, second
        if inserts:
            self.inserts += len(inserts)
            self._lines.write(b"\n".join((*inserts, b"")))
        return b"\n".join((*rest, last))


def _bodies(block: bytes, places: tuple[int, ...]) -> Iterator[bytes]:
    rows = [line.split(b"\t", 3)[3] for line in block.split(b"\n")[:-1]]
    if places == tuple(range(1, len(places) + 1)):
        rows.sort()  # the key comes first, as nearly always
    else:
        rows.sort(key=partial(_key_of, places))
    for first in range(0, len(rows), TOGETHER):
        yield b"\n".join((*rows[first : first + TOGETHER], b""))


def _key_of(places: tuple[int, ...], row: bytes) -> list[list[bytes]]:
    """A row's key; of one that has too few columns what is there: the server says what is wrong with it."""
    values = row.split(b"\t", max(places))
    return [values[n - 1 : n] for n in places]


def _whole_lines(reader: BinaryIO, begin: bytes = b"", size: int = 0) -> Iterator[bytes]:
    """Blocks that end with a line; a last line without its end comes as it is, for the server to refuse."""
    left = [begin]  # a row may be longer than many blocks: they are joined once
    while block := reader.read(size or BLOCK):
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join((*left, block[:end]))
            left = []
        left.append(block[end:])
    if last := b"".join(left):
        yield last


class _Blocks(io.RawIOBase, BinaryIO):
    """Blocks of any size as a file that psycopg2 reads: what it gets may be longer than what it asks for."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        super().__init__()
        self._blocks = blocks

    def readable(self) -> bool:
        """As a file that is read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next block; empty at the end."""
        return next(self._blocks, b"")
