"""A statement's words, names and literals, as the server that ran the statement reads them. Pure.

The one tokenizer of statements in a binlog. Rules: MySQL, "Comments", "String Literals", "Schema Object Names",
"Server SQL Modes"; MariaDB, "Comment Syntax", "Identifier Names". A version comment that a server did not execute is
in the binlog as an ordinary comment (its `!` is a space there), so each that is left was executed. sqlglot's tokenizer
does not serve: it knows no sql_mode, and takes `/*!50000 t */` for a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

ANSI_QUOTES, NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20
"""Bits of an event's sql_mode that change how its text is read."""
LONGEST_STRING = 64
"""A longer literal names nothing of consequence, such as an engine."""


class Unread(ValueError):
    """A text that cannot be tokenized: a quote or a comment has no end."""


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is "word" (not quoted: a keyword or a name), "name" (quoted), "string" or "sign"; `text` has no quotes.

    A string longer than `LONGEST_STRING` has the text "".
    """

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """A statement's tokens; `words` are those that are not quoted, in upper case, `names` all that may be names,
    without regard to case, `tables` the same with the name before the dot, "" where none is."""

    tokens: tuple[Token, ...] = ()
    words: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    tables: frozenset[tuple[str, str]] = frozenset()


NOTHING_SAID = Said()
_WORD = "[0-9A-Za-z_$\\x80-\\U0010ffff]"
_QUOTED = r"{q}[^{q}]*(?:{q}{q}[^{q}]*)*{q}(?!{q})"
_ESCAPED = r"{q}[^{q}\\]*(?:(?:{q}{q}|\\.)[^{q}\\]*)*{q}(?!{q})"
_QUOTES = "'\"`"


@lru_cache(maxsize=8)
def _pattern(ansi: bool, escapes: bool, maria: bool) -> re.Pattern[str]:
    string = _ESCAPED if escapes else _QUOTED
    double = _QUOTED if ansi else string
    return re.compile(
        "|".join(
            (
                r"(?P<space>[\x00-\x20\x7f]+|\#[^\n]*|--(?=[\x00-\x20\x7f]|\Z)[^\n]*)",
                rf"(?P<executed>/\*{'M?' if maria else ''}!(?:\d{{6}}|\d{{5}})?)",
                r"(?P<comment>/\*.*?\*/)",
                r"(?P<closed>\*/)",
                rf"(?P<name>{_QUOTED.format(q='`')})",
                rf"(?P<{'ansi' if ansi else 'text'}>{double.format(q=chr(34))})",
                rf"(?P<string>{string.format(q=chr(39))})",
                rf"(?P<word>{_WORD}+)",
                r"(?P<sign>.)",
            )
        ),
        re.DOTALL,
    )


def read(text: str, sql_mode: int = 0, maria: bool = True) -> Said:
    r"""The tokens of a statement that was run under `sql_mode` at a MariaDB (`maria`) or a MySQL.

    Raises Unread.

    >>> found = read("DROP /* x */ TABLE IF EXISTS `A``b`, c -- d")
    >>> found.words[:2], sorted(found.names)
    (('DROP', 'TABLE'), ['a`b', 'c', 'drop', 'exists', 'if', 'table'])
    """
    found = tuple(_tokens(text, _pattern(bool(sql_mode & ANSI_QUOTES), not sql_mode & NO_BACKSLASH_ESCAPES, maria)))
    words = tuple(one.text.upper() for one in found if one.kind == "word")
    tables = frozenset(_qualified(found))
    return Said(found, words, frozenset(name for _, name in tables), tables)


def _qualified(tokens: tuple[Token, ...]) -> Iterator[tuple[str, str]]:
    """Each name with the one before its dot, "" where none is.

    >>> list(_qualified(read("DROP `A` . b, c").tokens))
    [('', 'drop'), ('', 'a'), ('a', 'b'), ('', 'c')]
    """
    before = after_dot = ""
    for one in tokens:
        if one.kind in ("word", "name"):
            name = one.text.casefold()
            yield after_dot, name
            before, after_dot = name, ""
        else:
            before, after_dot = "", before if one == Token("sign", ".") else ""


def _tokens(text: str, pattern: re.Pattern[str]) -> Iterator[Token]:
    executed, at = False, 0
    while at < len(text):
        match = pattern.match(text, at)
        assert match is not None, "a sign is any character"
        kind, piece, at = str(match.lastgroup), match[0], match.end()
        if kind == "executed":
            executed = True
        elif kind == "closed":
            if executed:
                executed = False
            else:  # `2*/*...*/3` has a sign before a comment
                yield Token("sign", "*")
                at -= 1
        elif kind == "sign" and (piece in _QUOTES or (piece == "/" and text.startswith("*", at))):
            raise Unread(f"what begins at character {match.start() + 1} has no end")
        elif kind not in ("space", "comment"):
            yield _token(kind, piece)
    if executed:
        raise Unread("a version comment has no end")


def _token(kind: str, piece: str) -> Token:
    if kind == "name":
        return Token("name", piece[1:-1].replace("``", "`"))
    if kind == "ansi":
        return Token("name", piece[1:-1].replace('""', '"'))
    if kind in ("string", "text"):
        return Token("string", piece[1:-1] if len(piece) <= LONGEST_STRING else "")
    return Token(kind, piece)
