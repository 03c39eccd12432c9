r"""Moves a batch from a source to a sink; memory use does not grow with the number of rows.

COPY text passes unparsed through an operating-system pipe; rows pass through a bounded queue. A text stream that is cut
off at a line end looks complete, so the reader's error is raised and the counts of both sides are compared before
anything is committed.

Only this module converts between encodings: it parses a source's COPY text into rows, and writes rows as COPY text
(`put`). PostgreSQL, "COPY, Text Format": a line is a row, tabs separate columns, `\N` is NULL, and a backslash escapes
separators.
"""

from __future__ import annotations

import fcntl
import io
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.errors import RowRefused, Unreachable

SWITCH = "SLOTKEEPER_KERNEL"
"""Environment variable that switches off the compiled kernels, which read or write COPY text (ADR 90, ADR 104)."""


def kernels_are_off() -> bool:
    """Whether the user has switched the compiled kernels off; Python then does their work."""
    return os.environ.get(SWITCH, "").strip().lower() in ("off", "0", "no", "false")


_UNESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def rows_of(lines: Iterable[bytes]) -> Iterator[tuple[str | None, ...]]:
    r"""Yield the rows of COPY text in UTF-8, line by line; raises RowRefused for bytes that are not UTF-8.

    >>> list(rows_of([b"7\t\\N\ta\\tb\\\\\n"]))
    [('7', None, 'a\tb\\')]
    """
    for line in lines:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            raise RowRefused("a row contains bytes that are not UTF-8", where="source") from None
        yield tuple(map(value_of, text.removesuffix("\n").split("\t")))


def value_of(text: str) -> str | None:
    r"""Return the value of a COPY text field; None for NULL.

    >>> value_of(r"\N"), value_of(r"a\tb\\c")
    (None, 'a\tb\\c')
    """
    if text == "\\N":
        return None
    if "\\" not in text:
        return text
    first, *rest = text.split("\\\\")
    parts = [_unescaped(first), *map(_unescaped, rest)]
    return "\\".join(parts)


def _unescaped(text: str) -> str:
    head, *rest = text.split("\\")
    return head + "".join(_UNESCAPED.get(part[:1], part[:1]) + part[1:] for part in rest)


def copy_line(row: tuple[object, ...]) -> bytes:
    r"""Return one line of COPY text from values that the server already formatted as text.

    >>> copy_line((10516, None, "a\tb"))
    b'10516\t\\N\ta\\tb\n'
    """
    nulls = row.count(None)
    texts: Sequence[Any] = ["\\N" if v is None else v for v in row] if nulls else row
    try:
        line = "\t".join(texts)
    except TypeError:  # nearly all values are already strings
        line = "\t".join(map(str, texts))
    # few rows need escapes: searching the line costs less than translating each value
    if "\n" in line or "\r" in line or line.count("\\") > nulls or line.count("\t") >= len(texts):
        line = "\t".join("\\N" if v is None else _escaped(str(v)) for v in row)
    return (line + "\n").encode()


def _escaped(text: str) -> str:
    """Escape a field's text. The four searches take a thousandth of the time of str.translate."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


BLOCK, CHARACTERS = 256, 1 << 18
"""Maximum number of rows per block, and the number of characters at which a block ends even if it has fewer rows."""
BLOCKS = 8
"""Maximum number of blocks in the queue."""

Fields = tuple[str | None, ...]


def put(out: BinaryIO, row: tuple[str | None, ...]) -> None:
    """Write one row into a batch: as a row if the batch holds rows, otherwise as a line of COPY text."""
    if isinstance(out, RowOut):
        out.put(row)
    else:
        out.write(copy_line(row))


def put_all(out: BinaryIO, rows: Iterable[tuple[str | None, ...]]) -> int:
    """Write the rows of one event into a batch, as `put` does; return their number."""
    count = 0
    if isinstance(out, RowOut):
        for count, row in enumerate(rows, 1):  # noqa: B007 - the last count is the number of rows
            out.put(row)
        return count
    lines = [copy_line(row) for row in rows]
    out.write(b"".join(lines))
    return len(lines)


def takes_rows(out: BinaryIO) -> bool:
    """Whether a batch holds rows; otherwise it holds COPY text."""
    return isinstance(out, RowOut)


def put_made(out: BinaryIO, made: list[Fields] | tuple[bytes, int]) -> int:
    """Write the rows of one event as rows, or as lines with their number; return the number."""
    if isinstance(made, tuple):
        out.write(made[0])
        return made[1]
    return put_all(out, made)


def rows_in(reader: BinaryIO) -> Iterator[Fields]:
    """Return an iterator, usable once, over the rows of a batch; parses COPY text if the batch holds text."""
    return iter(reader) if isinstance(reader, RowIn) else rows_of(reader)


def size_of(row: Fields) -> int:
    return sum(len(value) for value in row if value)


class _Queue:
    """A bounded queue of row blocks; a writer waits while it is full."""

    def __init__(self) -> None:
        self._blocks: deque[list[Fields]] = deque()
        self._changed = threading.Condition()
        self._ended = self._left = False

    def put(self, block: list[Fields]) -> None:
        """Add a block; raises BrokenPipeError if the reader has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._left or len(self._blocks) < BLOCKS)
            if self._left:
                raise BrokenPipeError("the reader of these rows has ended")
            self._blocks.append(block)
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Wait before the next block, at most until the reader has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._left, timeout=seconds)

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def leave(self) -> None:
        with self._changed:
            self._left = True
            self._blocks.clear()
            self._changed.notify_all()

    def blocks(self) -> Iterator[list[Fields]]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._blocks or self._ended)
                if not self._blocks:
                    return
                block = self._blocks.popleft()
                self._changed.notify_all()
            yield block


class RowOut(io.RawIOBase, BinaryIO):
    """The source's end of the queue: accepts rows through `put`, or COPY text of any length through `write`."""

    def __init__(self, queue: _Queue) -> None:
        super().__init__()
        self._queue = queue
        self.paced: Wait | None = None
        self.tail: Fields = ()
        """Values that are added to each row."""
        self._block: list[Fields] = []
        self._size = 0
        self._text = b""

    def put(self, row: Fields) -> None:
        self._block.append(row + self.tail if self.tail else row)
        self._size += size_of(row)
        if len(self._block) >= BLOCK or self._size >= CHARACTERS:
            self._hand_over()

    def write(self, text: Any) -> int:
        """Add COPY text; only this method parses it into rows."""
        *lines, self._text = (self._text + bytes(text)).split(b"\n")
        for row in rows_of(lines):
            self.put(row)
        return len(text)

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        if self.closed:
            return
        try:
            for row in rows_of([self._text] if self._text else []):
                self.put(row)
            self._hand_over()
        finally:
            self._queue.end()
            super().close()

    def _hand_over(self) -> None:
        block, size = self._block, self._size
        self._block, self._size = [], 0
        if block:
            if self.paced is not None:
                self._queue.pause(self.paced(len(block), size))
            self._queue.put(block)


class RowIn(io.RawIOBase, BinaryIO):
    """The sink's end of the queue: an iterator over rows, usable once."""

    def __init__(self, queue: _Queue) -> None:
        super().__init__()
        self._queue = queue

    def __iter__(self) -> Any:
        for block in self._queue.blocks():
            yield from block

    def close(self) -> None:
        self._queue.leave()
        super().close()


def row_ends() -> tuple[RowIn, RowOut]:
    """Return the sink's end and the source's end of a queue of rows."""
    queue = _Queue()
    return RowIn(queue), RowOut(queue)


def texts(row: Iterable[object]) -> Fields:
    """Return a row of values as text fields; the server has already formatted all values except whole numbers."""
    return tuple(None if value is None else str(value) for value in row)


def with_tail(out: BinaryIO, tail: bytes) -> BinaryIO:
    """Return the source's end of a batch that appends columns with these values to each row; b"" appends none.

    `tail` is COPY text without escapes, with a tab before each value.
    """
    if not tail:
        return out
    if isinstance(out, RowOut):
        out.tail = tuple(tail[1:].decode().split("\t"))
        return out
    return _TailText(out, tail + b"\n")


class _TailText(io.RawIOBase, BinaryIO):
    """COPY text whose lines get other columns; a newline in a value is escaped, so each newline ends a row."""

    def __init__(self, out: BinaryIO, end: bytes) -> None:
        super().__init__()
        self._out, self._end = out, end

    def write(self, text: Any) -> int:
        whole = bytes(text)
        self._out.write(whole.replace(b"\n", self._end))
        return len(whole)

    def writable(self) -> bool:
        return True


class LineText(io.RawIOBase, BinaryIO):
    """COPY text whose lines are each replaced by `rewrite`, which receives and returns a line without its newline."""

    def __init__(self, out: BinaryIO, rewrite: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._out, self._rewrite, self._rest = out, rewrite, b""

    def write(self, text: Any) -> int:
        *lines, self._rest = (self._rest + bytes(text)).split(b"\n")
        if lines:
            self._out.write(b"\n".join((*map(self._rewrite, lines), b"")))
        return len(text)

    def writable(self) -> bool:
        return True


class Headed(io.RawIOBase, BinaryIO):
    """The source's end of a batch that puts the same values before each row; closing it leaves `out` open."""

    def __init__(self, out: BinaryIO, head: Sequence[str]) -> None:
        super().__init__()
        self._out, self._head = out, ("\t".join(head) + "\t").encode()
        self._begins = True

    def write(self, text: Any) -> int:
        whole = bytes(text)
        if whole:
            lines = whole[:-1].replace(b"\n", b"\n" + self._head) + whole[-1:]
            self._out.write(self._head + lines if self._begins else lines)
            self._begins = whole.endswith(b"\n")
        return len(whole)

    def writable(self) -> bool:
        return True


Wait = Callable[[int, int], float]
"""Returns the seconds to wait before this number of rows, with this number of bytes, is passed on."""
PIECE = 16_384
"""Bytes of COPY text that a paced batch passes on at once."""


def paced(out: BinaryIO, wait: Wait) -> BinaryIO:
    """Return the source's end of a batch that passes rows on at the pace of `wait`."""
    if isinstance(out, RowOut):
        out.paced = wait
        return out
    return _PacedText(out, wait)


class _PacedText(io.RawIOBase, BinaryIO):
    """COPY text that is passed on piece by piece; the next piece fails if the reader has ended."""

    def __init__(self, out: BinaryIO, wait: Wait) -> None:
        super().__init__()
        self._out, self._wait = out, wait
        self._never = threading.Event()

    def write(self, text: Any) -> int:
        whole = memoryview(bytes(text))
        for at in range(0, len(whole), PIECE):
            piece = bytes(whole[at : at + PIECE])
            self._never.wait(self._wait(piece.count(b"\n"), len(piece)))
            self._out.write(piece)
        return len(whole)

    def writable(self) -> bool:
        return True


BUFFER = 262_144


def copy_through(
    read: Callable[[BinaryIO], int], write: Callable[[BinaryIO], int | None], encoding: Encoding = Encoding.COPY_TEXT
) -> int | None:
    """Run `read` (source to pipe) in a thread in parallel with `write` (pipe to sink); return the result of `write`.

    `encoding` is the batch's encoding in the sink; for ROWS the two sides use `put` and `rows_in`. Raises the first
    error of either side, and Unreachable if both succeeded with different row counts.
    """
    stream, out = _text_ends() if encoding is Encoding.COPY_TEXT else row_ends()
    reading = _Reading(read, out)
    reading.start()
    try:
        with stream:
            written = write(stream)
    except BaseException:
        reading.join()
        reading.raise_first()
        raise
    reading.join()
    reading.raise_first()
    if reading.error is not None:
        if written is None:  # the sink did not need the rows, and closed the reader's pipe
            return None
        raise reading.error
    if written is not None and written != reading.rows:
        raise Unreachable(
            f"the source sent {reading.rows} rows, but the sink received {written}: the connection was lost"
        )
    return written


def pieces(read: Callable[[BinaryIO], int], size: int) -> Iterator[bytes]:
    """Yield the COPY text that `read` writes, as it arrives, in pieces of whole lines of about `size` bytes.

    Raises the error of `read`, and Unreachable if `read` returns a different number of rows than arrived. A caller that
    stops early ends `read`.
    """
    stream, out = _text_ends()
    with suppress(OSError, AttributeError):  # not Linux, or the user's limit of pipe pages is reached
        fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, size)  # the source continues while the caller uses a piece
    reading, rows, rest = _Reading(read, out), 0, b""
    reading.start()
    try:
        with stream:
            while block := stream.read(size):
                whole, newline, rest_of_it = block.rpartition(b"\n")
                if not newline:
                    rest += block
                    continue
                piece, rest = rest + whole + newline, rest_of_it
                rows += piece.count(b"\n")
                yield piece
    finally:
        reading.join()
    if reading.error is not None:
        raise reading.error
    if rest or rows != reading.rows:
        raise Unreachable(f"the source sent {reading.rows} rows, but {rows} arrived: the connection was lost")


def _text_ends() -> tuple[BinaryIO, BinaryIO]:
    read_end, write_end = os.pipe()
    return os.fdopen(read_end, "rb", BUFFER), os.fdopen(write_end, "wb", BUFFER)


class _Reading(threading.Thread):
    """The thread that reads the source; always closes its end of the pipe."""

    def __init__(self, read: Callable[[BinaryIO], int], out: BinaryIO) -> None:
        super().__init__(name="slotkeeper-copy", daemon=True)
        self._read = read
        self._out = out
        self.rows = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self._out:
                self.rows = self._read(self._out)
        except BaseException as error:
            self.error = error

    def raise_first(self) -> None:
        """Raise the source's own error; a pipe closed by the sink is not a source error."""
        if self.error is not None and not isinstance(self.error, BrokenPipeError):
            raise self.error
