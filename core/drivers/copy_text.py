r"""COPY text read as rows, and rows spelled as COPY text.

PostgreSQL, "COPY, Text Format": a line is a row, a tab parts columns, `\N` is NULL, and a backslash spells what would
part them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from slotkeeper.core.errors import RowRefused

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


def copy_line(row: tuple[object, ...]) -> bytes:
    r"""One line of COPY text from values that the server already spelled as text.

    >>> copy_line((10516, None, "a\tb"))
    b'10516\t\\N\ta\\tb\n'
    """
    nulls = row.count(None)
    texts: Sequence[Any] = ["\\N" if v is None else v for v in row] if nulls else row
    try:
        line = "\t".join(texts)
    except TypeError:  # nearly all are texts already
        line = "\t".join(map(str, texts))
    # few rows have any: to search a line costs less than a translation per value
    if "\n" in line or "\r" in line or line.count("\\") > nulls or line.count("\t") >= len(texts):
        line = "\t".join("\\N" if v is None else _escaped(str(v)) for v in row)
    return (line + "\n").encode()


def _escaped(text: str) -> str:
    """A field's text. Four searches cost a thousandth of str.translate, which looks at each character of a bytea."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
