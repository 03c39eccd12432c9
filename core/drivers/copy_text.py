r"""COPY text read as rows: for a sink that takes rows, from a source that gives COPY text.

PostgreSQL, "COPY, Text Format": a line is a row, a tab parts columns, `\N` is NULL, and a backslash spells what would
part them. Next door: `copy_pipe.py` moves COPY text that nobody reads, `session.copy_line` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from core.errors import RowRefused

_UNESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def rows_of(lines: Iterable[bytes]) -> Iterator[tuple[str | None, ...]]:
    r"""The rows of COPY text in UTF-8, line by line; RowRefused for bytes that are none.

    >>> list(rows_of([b"7\t\\N\ta\\tb\\\\\n"]))
    [('7', None, 'a\tb\\')]
    """
    for line in lines:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            raise RowRefused("a row holds bytes that are no UTF-8, which rows cannot carry", where="source") from None
        yield tuple(map(value_of, text.removesuffix("\n").split("\t")))


def value_of(text: str) -> str | None:
    r"""A field of COPY text as text.

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
