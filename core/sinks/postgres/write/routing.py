"""Separates the inserts of a large step from its other events before staging; works on bytes, without a server.

The router also watches the keys. If a key has two events, the optimistic step would miss: the rest is staged.

`routing.c` does the same if a compiler built it (ADR 104); the Python code is the definition.

A line of a step is `point TAB sequence TAB kind TAB c1 TAB ... cn LF` (COPY text format, in which a line end inside a
value is escaped).
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, cast

from slotkeeper.core.drivers.pipe import kernels_are_off
from slotkeeper.core.errors import Unreachable

if TYPE_CHECKING:
    from slotkeeper.core.sinks.postgres.write._routing import Router

try:
    from slotkeeper.core.sinks.postgres.write import _routing
except ImportError:
    BUILT = False
else:
    BUILT = _routing.VERSION == 1
    """Whether there is a compiled router for this version of the Python code."""

LEAST = 2_000
"""Minimum number of events for an optimistic attempt: with fewer events, its statements cost more than they save."""
SHARE = 4
"""Maximum ratio of events to inserts for an optimistic attempt: only inserts save time."""
BLOCK = 262_144
"""Bytes per read; a step that fits in the first block and has fewer than `LEAST` lines is not routed."""
TOGETHER = 2_048
"""Number of rows sent at a time."""
SORTED = 4_194_304
"""Number of bytes of lines that are sorted by key at a time."""
SPOOL = 16_777_216
"""Maximum number of bytes of inserts in memory; the rest is written to a file."""
WATCHED = 25_000
"""Number of events whose keys the router watches (about 3 MiB): repeated keys usually occur early in a step, and the
target detects later repetitions. For a step of 112,500 events this saves a third of the routing time."""
Key = bytes | tuple[bytes, ...]
"""The key of a row as text; empty for a line without a key."""


def whole(begin: bytes, reader: BinaryIO) -> BinaryIO:
    """Return the unchanged bytes of a step, of which `begin` was already read."""
    return _Blocks(chain((begin,), iter(partial(reader.read, BLOCK), b"")))


class Routed:
    """A step that is read once; `begin` has already been read. `inserts` is the number of separated lines, `left_out`
    the number of old images that are not staged, because their new images have the same key (only the compiled router
    finds them: in Python, that costs more than it saves).

    `places` are the column numbers of the key, from 1. `first` and `second` are the highest point among the inserts and
    the highest sequence at that point, None without inserts. `repeated`: two events with the same key were found; B
    events do not count, nor does a second x of the same key.
    """

    def __init__(self, reader: BinaryIO, places: tuple[int, ...], begin: bytes = b"") -> None:
        self._reader, self._begin, self._places = reader, begin, places
        self._router: Router | None = None
        if BUILT and not kernels_are_off():
            self._router = _routing.Router(places, WATCHED)
        self._apart = Apart(places, 0 if self._router is not None else WATCHED)
        self.repeated = False
        self._lines = tempfile.SpooledTemporaryFile(max_size=SPOOL)  # noqa: SIM115 - closed by `close`
        self.inserts = self.left_out = 0
        self.first: int | None = None
        self.second: int | None = None

    def rest(self) -> BinaryIO:
        """Return the lines to stage: all lines except inserts, and every line after a repeated key.

        The compiled router leaves old images out, and sorts the other lines by key text, so that rows that are adjacent
        in the target's index are changed one after another: together, this saves a quarter of the server's CPU time per
        step. In Python, it costs more than it saves.
        """
        return _Blocks(self._staged())

    def _staged(self) -> Iterator[bytes]:
        waiting: list[bytes] = []
        size, blocks = 0, _whole_lines(self._reader, self._begin)
        for block in blocks:
            if size >= SORTED:
                yield from self._ordered(waiting)
                waiting, size = [], 0
            waiting.append(self._take(block))
            size += len(waiting[-1])
            if self._router is None:
                yield from waiting
                waiting, size = [], 0
            if self.repeated:
                break
        if self._router is not None:
            yield from self._ordered([self._router.left(), *waiting])
        yield from blocks

    def _ordered(self, lines: list[bytes], whole: bool = True) -> Iterator[bytes]:
        """Return lines, or only their rows, sorted by key text; a last line without an end stays the last."""
        assert self._router is not None
        text = self._router.ordered(b"".join(lines), whole)
        return (text[at : at + BLOCK] for at in range(0, len(text), BLOCK))

    def _take(self, block: bytes) -> bytes:
        """Separate the inserts from a block of lines; return the lines to stage."""
        router, apart, left_out = self._router, self._apart, 0
        if router is not None and (found := router.take(block)) is not None:
            rest, inserts, count, left_out = found
            self.first, self.second = apart.first, apart.second = router.reached()
            self.repeated = router.repeats()
        else:
            left = b"" if router is None else router.left()
            self._router = None  # from here on, Python routes the step, and watches no keys
            rest, inserts, count = apart.take(block)
            rest = left + rest
            self.first, self.second, self.repeated = apart.first, apart.second, apart.repeated
        self._lines.write(inserts)
        self.inserts += count
        self.left_out += left_out
        return rest

    def lines(self) -> BinaryIO:
        """Return the inserts as received."""
        self._lines.seek(0)
        return cast(BinaryIO, self._lines)

    def bodies(self) -> BinaryIO:
        """Return the inserts as rows of the target, c1..cn, sorted by key text.

        Rows that are adjacent in the index are then written one after another: this saves a fifth of the server's CPU
        time per step and costs a twentieth of that time here. The order does not affect the result: each key occurs
        once.
        """
        blocks = _whole_lines(self.lines(), b"", SORTED)
        if self._router is not None:
            return _Blocks(chain.from_iterable(self._ordered([block], whole=False) for block in blocks))
        return _Blocks(chain.from_iterable(_bodies(block, self._places) for block in blocks))

    def compare(self, rows: int) -> None:
        """Raise Unreachable unless the server received all inserts that were read: it accepts truncated input."""
        if rows != self.inserts:
            raise Unreachable(
                f"read {self.inserts} inserts, but the sink received {rows}: the connection was lost", where="sink"
            )

    def close(self) -> None:
        """Release the spooled inserts; safe to call twice."""
        self._lines.close()


class Apart:
    """The separation of a step's inserts, block by block, in Python; watches the first `watched` keys."""

    def __init__(self, places: tuple[int, ...], watched: int) -> None:
        self._keys_of = _keys(places).findall
        self._keys: set[Key] | None = set() if watched else None
        self._filtered: set[Key] = set()
        self._watched, self._most = 0, watched
        self.repeated = False
        self.first: int | None = None
        self.second: int | None = None

    def take(self, block: bytes) -> tuple[bytes, bytes, int]:
        """Separate the inserts from a block of lines; return the other lines, the inserts, and their number.

        A malformed line does not count as an insert; the server reports the error. One pass of `split` takes a third of
        the time that regular expressions need, because they search each line for its start and its end.
        """
        inserts, others, filtered, rest, known, at = [], [], [], [], b"", 0
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
                if kind == b"x":
                    filtered.append(line)
                elif kind != b"B":
                    others.append(line)
            except ValueError:
                known = b""
            rest.append(line)
        self.first, self.second = first, second
        apart = _joined(inserts)
        if self._keys is not None:
            self._watch(self._keys, self._keys_of(apart) + self._keys_of(_joined(others)), filtered)
        return b"\n".join((*rest, last)), apart, len(inserts)

    def _watch(self, keys: set[Key], more: list[Key], filtered: list[bytes]) -> None:
        keys.update(more)
        self._watched += len(more)
        if filtered:
            ended = set(self._keys_of(_joined(filtered))) - self._filtered
            self._filtered |= ended
            keys |= ended
            self._watched += len(ended)
        self.repeated = len(keys) < self._watched
        if self.repeated or self._watched >= self._most:
            self._keys = None
            self._filtered.clear()


def _joined(lines: list[bytes]) -> bytes:
    return b"\n".join((*lines, b"")) if lines else b""


def _keys(places: tuple[int, ...]) -> re.Pattern[bytes]:
    """Return a pattern that finds the key in each line: one string for a key in the first columns, else by column."""
    value, leads = rb"[^\t\n]*+", set(places) == set(range(1, len(places) + 1))
    columns = [b"(%b)" % value if n in places and not leads else value for n in range(1, max(places) + 1)]
    key, head = rb"\t".join(columns), (value + rb"\t") * 3
    return re.compile(rb"(?:%b%b)?+.*+\n" % (head, b"(%b)" % key if leads else key))


def _bodies(block: bytes, places: tuple[int, ...]) -> Iterator[bytes]:
    def key(row: bytes) -> list[list[bytes]]:
        """Return a row's key, or the part that exists if the row has too few columns; the server reports such a row."""
        values = row.split(b"\t", max(places))
        return [values[n - 1 : n] for n in places]

    rows = [line.split(b"\t", 3)[3] for line in block.split(b"\n")[:-1]]
    if places == tuple(range(1, len(places) + 1)):
        rows.sort()  # the key's columns nearly always come first
    else:
        rows.sort(key=key)
    for first in range(0, len(rows), TOGETHER):
        yield b"\n".join((*rows[first : first + TOGETHER], b""))


def _whole_lines(reader: BinaryIO, begin: bytes = b"", size: int = 0) -> Iterator[bytes]:
    """Yield blocks that end at a line end; an incomplete last line is passed to the server, which rejects it."""
    left = [begin]  # a row can span many blocks, which are joined only once
    while block := reader.read(size or BLOCK):
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join((*left, block[:end]))
            left = []
        left.append(block[end:])
    if last := b"".join(left):
        yield last


class _Blocks(io.RawIOBase, BinaryIO):
    """A file-like object for psycopg2 over blocks of any size: a read can return more than the requested size."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        super().__init__()
        self._blocks, self._at = filter(None, blocks), 0  # an empty block would end the reading

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block = next(self._blocks, b"")
        self._at += len(block)
        return block

    def tell(self) -> int:
        return self._at
