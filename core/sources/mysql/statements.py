"""What a statement in the binlog means for the followed tables: most mean nothing, some change rows without rows. Pure.

The text is not parsed as SQL: two servers in many versions write it, and a statement that cannot be parsed must not
pass. Its first words say what it is, the names in it whether it may be about a followed table; where in doubt it is.
What a trigger did for a change written as a statement is not seen. Next door: `transactions.py` asks.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from core.sources.mysql import alters
from core.sources.mysql.position import MysqlPosition


class Effect(Enum):
    """What a statement may have done to a followed table."""

    NONE = "nothing"
    RESHAPES = "may have changed its columns"
    EMPTIES = "took its rows, or exchanged the table, without row events"
    CHANGES = "changed rows as a statement, without row events"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that concerns a followed table. `position` is behind it where it `ends` its transaction, else the
    last transaction's end; `time` in seconds since 1970."""

    schema: str
    text: str
    effect: Effect
    time: int
    position: MysqlPosition
    ends: bool


_EXECUTED = re.compile(r"/\*M?!\d*(.*?)\*/", re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/|--[ \t][^\n]*|#[^\n]*", re.DOTALL)
_TOKEN = re.compile(r"`((?:[^`]|``)*)`|\"((?:[^\"\\]|\"\"|\\.)*)\"|'(?:[^'\\]|''|\\.)*'|([\w$]+)|(\.)", re.DOTALL)
_CHANGES = frozenset({"INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH", "CALL", "DO", "SELECT"})


def judge(text: str, schema: str, wanted: Collection[tuple[str, str]], key_index: str = "PRIMARY") -> Effect:
    """What a statement that was run in `schema` may have done to any of the wanted tables, whose key is `key_index`.

    A name without a schema before it is one of the session's own schema.

    >>> judge("ALTER TABLE `t` ADD c INT", "s", {("s", "t")}), judge("DROP TABLE s.other", "x", {("s", "t")})
    (<Effect.RESHAPES: 'may have changed its columns'>, <Effect.NONE: 'nothing'>)
    """
    words, names, tables = _split(text)
    kind = words[0] if words else ""
    if words[:2] in (["DROP", "DATABASE"], ["DROP", "SCHEMA"]):
        return Effect.EMPTIES if any(one.casefold() in names for one, _ in wanted) else Effect.NONE
    if not any(_names_it(one.casefold(), table.casefold(), schema.casefold(), tables) for one, table in wanted):
        return Effect.NONE
    if kind in _CHANGES:
        return Effect.CHANGES
    if "TEMPORARY" in words[1:4]:
        return Effect.NONE
    if kind in ("TRUNCATE", "RENAME") or words[:2] == ["DROP", "TABLE"]:
        return Effect.EMPTIES
    if kind == "CREATE" and "TABLE" in words[1:5]:
        # without OR REPLACE there was no such table before, or this changed nothing (IF NOT EXISTS)
        return Effect.EMPTIES if words[1:3] == ["OR", "REPLACE"] else Effect.NONE
    if key_index.casefold() in names and alters.drops_index(words):
        return Effect.RESHAPES
    if kind == "ALTER" and "TABLE" in words[1:4]:
        if alters.empties(words):
            return Effect.EMPTIES
        return Effect.NONE if alters.keeps_columns(words) else Effect.RESHAPES
    return Effect.NONE


def _names_it(one: str, table: str, schema: str, tables: Collection[tuple[str, str]]) -> bool:
    return (one, table) in tables or (one == schema and ("", table) in tables)


def _split(text: str) -> tuple[list[str], set[str], set[tuple[str, str]]]:
    """A statement's bare words in upper case, all its names, quoted or not, and each with the name before its dot.

    Names are without regard to case; "" stands for no name before it.

    >>> words, names, tables = _split("DROP /* x */ TABLE IF EXISTS `A``b`, x.c -- d")
    >>> words[:2], sorted(names)[:3], ("x", "c") in tables, ("", "c") in tables
    (['DROP', 'TABLE'], ['a`b', 'c', 'drop'], True, False)
    """
    words, names, tables = [], set(), set()
    before = after_dot = ""
    for found in _TOKEN.finditer(_COMMENT.sub(" ", _EXECUTED.sub(r" \1 ", text))):
        quoted, in_ansi, bare, dot = found.groups()
        if dot is not None:
            before, after_dot = "", before
            continue
        name = ""
        if bare is not None:
            words.append(bare.upper())
            name = bare.casefold()
        elif quoted is not None:
            name = quoted.replace("``", "`").casefold()
        elif in_ansi is not None:
            name = in_ansi.replace('""', '"').casefold()
        if name:
            names.add(name)
            tables.add((after_dot, name))
        before, after_dot = name, ""
    return words, names, tables
