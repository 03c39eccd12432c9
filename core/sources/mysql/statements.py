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
_TOKEN = re.compile(r"`((?:[^`]|``)*)`|\"((?:[^\"\\]|\"\"|\\.)*)\"|'(?:[^'\\]|''|\\.)*'|([\w$]+)", re.DOTALL)
_CHANGES = frozenset({"INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH", "CALL", "DO", "SELECT"})
_PARTITIONS = frozenset({"DROP", "TRUNCATE", "EXCHANGE", "DISCARD", "IMPORT", "CONVERT"})


def judge(text: str, schema: str, wanted: Collection[tuple[str, str]]) -> Effect:
    """What a statement that was run in `schema` may have done to any of the wanted tables.

    >>> judge("ALTER TABLE `t` ADD c INT", "s", {("s", "t")}), judge("DROP TABLE s.other", "x", {("s", "t")})
    (<Effect.RESHAPES: 'may have changed its columns'>, <Effect.NONE: 'nothing'>)
    """
    words, names = _split(text)
    kind = words[0] if words else ""
    if words[:2] in (["DROP", "DATABASE"], ["DROP", "SCHEMA"]):
        return Effect.EMPTIES if any(one.casefold() in names for one, _ in wanted) else Effect.NONE
    if not any(table.casefold() in names and _is_schema(one, schema, names) for one, table in wanted):
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
    if kind == "ALTER" and "TABLE" in words[1:4]:
        if _exchanges(words):
            return Effect.EMPTIES
        return Effect.NONE if _only_indexes(words) else Effect.RESHAPES
    return Effect.NONE


def _is_schema(one: str, schema: str, names: Collection[str]) -> bool:
    return one.casefold() == schema.casefold() or one.casefold() in names


_TO_INDEXES = frozenset({"INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "CHECK", "IF"})
_RISKY = frozenset(
    {
        *("ALTER", "CHANGE", "CHARACTER", "CHARSET", "COLLATE", "COLUMN", "COLUMNS", "CONVERT", "DEFAULT", "FIRST"),
        *("AFTER", "IGNORE", "MODIFY", "ORDER", "PARTITION", "PARTITIONING", "PARTITIONS", "PERIOD", "PRIMARY"),
        *("REMOVE", "RENAME", "REORGANIZE", "SET", "SYSTEM", "TABLESPACE", "VERSIONING"),
    }
)
"""Words behind which an ALTER TABLE may have changed what a row is."""


def _only_indexes(words: list[str]) -> bool:
    """Whether an ALTER TABLE is about indexes, foreign keys or storage alone: it has no word that may mean a column.

    >>> _only_indexes("ALTER TABLE T ADD INDEX I C".split()), _only_indexes("ALTER TABLE T ADD C INT".split())
    (True, False)
    """
    rest = words[words.index("TABLE") + 1 :]
    if "IGNORE" in words or _RISKY.intersection(rest):
        return False
    follows = zip(rest, [*rest[1:], ""], strict=True)
    return all(after in _TO_INDEXES for word, after in follows if word in ("ADD", "DROP"))


def _exchanges(words: list[str]) -> bool:
    """Whether an ALTER TABLE renames the table or takes away partitions with their rows."""
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else ""
        if word == "RENAME" and following not in ("COLUMN", "INDEX", "KEY"):
            return True
        if word in _PARTITIONS and following == "PARTITION":
            return True
    return False


def _split(text: str) -> tuple[list[str], set[str]]:
    """A statement's bare words in upper case, and all its names, quoted or not, without regard to case.

    >>> _split("DROP /* x */ TABLE IF EXISTS `A``b`, c -- d")[0][:2], sorted(_split("DROP TABLE `A``b`, c")[1])
    (['DROP', 'TABLE'], ['a`b', 'c', 'drop', 'table'])
    """
    words, names = [], set()
    for found in _TOKEN.finditer(_COMMENT.sub(" ", _EXECUTED.sub(r" \1 ", text))):
        quoted, in_ansi, bare = found.groups()
        if bare is not None:
            words.append(bare.upper())
            names.add(bare.casefold())
        elif quoted is not None:
            names.add(quoted.replace("``", "`").casefold())
        elif in_ansi is not None:
            names.add(in_ansi.replace('""', '"').casefold())
    return words, names
