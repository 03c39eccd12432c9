"""What a statement in the binlog means for the followed tables: most mean nothing, some change rows without rows. Pure.

The text is not parsed as SQL: two servers in many versions write it, and a statement that cannot be parsed must not
pass. Its first words say what it is, the names in it whether it may be about a followed table; where in doubt it is.
A change written as a statement (DML as text) may reach a table that it does not name, through a view, a trigger or a
stored function: `bystanders.py` proves that it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from slotkeeper.core.sources.mysql import alters
from slotkeeper.core.sources.mysql.position import MysqlPosition
from slotkeeper.core.sources.mysql.tokens import NOTHING_SAID, Said, Token


class Effect(Enum):
    """What a statement may have done to a followed table."""

    NONE = "nothing"
    RESHAPES = "may have changed its columns"
    EMPTIES = "took its rows, or exchanged the table, without row events"
    CHANGES = "changed rows as a statement, without row events"
    INDIRECT = "is a change written as a statement, which may have changed its rows without row events"
    CASCADES = "added a foreign key to it whose cascades change its rows without row events"
    VERSIONS = "made it system-versioned: a DELETE there leaves the row, an UPDATE adds one"
    UNREAD = "cannot be read, so it may have changed its rows or columns"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that concerns a followed table. `position` is behind it where it `ends` its transaction, else the
    last transaction's end; `time` in seconds since 1970. `why` says what stands against passing over it."""

    schema: str
    text: str
    effect: Effect
    time: int
    position: MysqlPosition
    ends: bool
    said: Said = NOTHING_SAID
    why: str = ""


_CHANGES = frozenset(
    {"INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH", "CALL", "DO", "SELECT", "VALUES", "TABLE"}
)
_OTHERS = frozenset(
    {
        *("CREATE", "DROP", "ALTER", "RENAME", "TRUNCATE", "GRANT", "REVOKE", "FLUSH", "SET", "OPTIMIZE", "ANALYZE"),
        *("CHECK", "REPAIR", "INSTALL", "UNINSTALL", "IMPORT", "SAVEPOINT", "RELEASE"),
    }
)
"""First words of what else a binlog has; another one is a statement that is not known here."""
OBJECTS = frozenset(
    {
        *(
            "TABLE",
            "TABLES",
            "DATABASE",
            "SCHEMA",
            "VIEW",
            "TRIGGER",
            "PROCEDURE",
            "FUNCTION",
            "EVENT",
            "INDEX",
            "USER",
        ),
        *("ROLE", "SERVER", "SEQUENCE", "PACKAGE", "TABLESPACE", "LOGFILE", "LIBRARY"),
    }
)


def judge(
    said: Said,
    schema: str,
    wanted: Collection[tuple[str, str]],
    key_index: str = "PRIMARY",
    cascades_known: bool = False,
) -> Effect:
    """What a statement that was run in `schema` may have done to any of the wanted tables, whose key is `key_index`.

    `cascades_known`: a foreign key that changes rows without row events is allowed.

    >>> from slotkeeper.core.sources.mysql.tokens import read
    >>> judge(read("ALTER TABLE `t` ADD c INT"), "s", {("s", "t")}), judge(read("DROP TABLE s.o"), "x", {("s", "t")})
    (<Effect.RESHAPES: 'may have changed its columns'>, <Effect.NONE: 'nothing'>)
    """
    said = unwrapped(said)
    words, names = said.words, said.names
    kind, what = words[0] if words else "", kind_of_object(words)
    if what in ("DATABASE", "SCHEMA") and (kind == "DROP" or words[1:3] == ("OR", "REPLACE")):
        return Effect.EMPTIES if any(one.casefold() in names for one, _ in wanted) else Effect.NONE
    folded = [(one.casefold(), table.casefold()) for one, table in wanted]
    named = {table for one, table in folded if _names_it(one, table, schema.casefold(), said.tables)}
    if kind in _CHANGES or (kind == "CREATE" and what == "TABLE" and _selects(words)):
        replaces = words[1:3] == ("OR", "REPLACE") and named
        return Effect.EMPTIES if kind == "CREATE" and replaces else _changed(said, named)
    if kind and kind not in _OTHERS:
        return Effect.UNREAD
    if not named or is_temporary(words):
        return Effect.NONE
    if kind == "TRUNCATE" or (kind in ("RENAME", "DROP") and what in ("TABLE", "TABLES")):
        return Effect.EMPTIES
    if kind == "CREATE" and what == "TABLE":
        # without OR REPLACE there was no such table before, or this changed nothing (IF NOT EXISTS)
        return Effect.EMPTIES if words[1:3] == ("OR", "REPLACE") else Effect.NONE
    if key_index.casefold() in names and alters.drops_index(words):
        return Effect.RESHAPES
    if kind == "ALTER" and what == "TABLE":
        return _altered(said, named, cascades_known)
    return Effect.NONE


def _altered(said: Said, named: Collection[str], cascades_known: bool) -> Effect:
    words = said.words
    if alters.empties(said):
        return Effect.EMPTIES
    if target_after(said.tokens, "TABLE") in named:
        if ("SYSTEM", "VERSIONING") in pairwise(words):
            return Effect.VERSIONS
        if not cascades_known and cascades(words):
            return Effect.CASCADES
    return Effect.NONE if alters.keeps_columns(words) else Effect.RESHAPES


def cascades(words: Sequence[str]) -> bool:
    """Whether a foreign key in these words changes the table's own rows when its parent's change.

    MySQL, "FOREIGN KEY Constraints": rows changed by CASCADE, SET NULL and SET DEFAULT.

    >>> cascades("ADD FOREIGN KEY A REFERENCES B ID ON DELETE SET NULL".split())
    True
    >>> cascades("ADD FOREIGN KEY A REFERENCES B ID ON DELETE RESTRICT".split())
    False
    """
    return "REFERENCES" in words and any(
        on == "ON" and event in ("DELETE", "UPDATE") and does in ("CASCADE", "SET")
        for on, event, does in zip(words, words[1:], words[2:], strict=False)
    )


def _changed(said: Said, named: Collection[str]) -> Effect:
    """What DML as text may have done: it changes what it names, but for what an INSERT only reads."""
    kind = said.words[0]
    target = target_after(said.tokens, kind) if kind in ("INSERT", "REPLACE") else ""
    if kind == "CREATE":
        target = target_after(said.tokens, "TABLE")
    if named and (not target or target in named):
        return Effect.CHANGES
    return Effect.NONE if _only_system(said.tokens) else Effect.INDIRECT


_MODIFIERS = frozenset(
    {
        "LOW_PRIORITY",
        "HIGH_PRIORITY",
        "DELAYED",
        "QUICK",
        "IGNORE",
        "INTO",
        "FROM",
        "IF",
        "NOT",
        "EXISTS",
        "ONLINE",
        "OFFLINE",
    }
)


def target_after(tokens: Sequence[Token], word: str) -> str:
    """The table behind a word and its modifiers, without its schema and without regard to case; "" where none is.

    >>> from slotkeeper.core.sources.mysql.tokens import read
    >>> target_after(read("INSERT IGNORE INTO `s` . `T` (a) VALUES (1)").tokens, "INSERT")
    't'
    """
    rest = _behind(tokens, word)
    while len(rest) > 2 and rest[1] == Token("sign", "."):
        rest = rest[2:]
    return rest[0].text.casefold() if rest and rest[0].kind in ("word", "name") else ""


def _behind(tokens: Sequence[Token], word: str) -> Sequence[Token]:
    """What follows a word and its modifiers."""
    at = next((n for n, one in enumerate(tokens) if one.kind == "word" and one.text.upper() == word), len(tokens)) + 1
    while at < len(tokens) and tokens[at].kind == "word" and tokens[at].text.upper() in _MODIFIERS:
        at += 1
    return tokens[at:]


_CALLED = frozenset({"VALUES", "VALUE", "IN", "AND", "OR", "NOT", "ON", "SET", "WHERE"})


def _only_system(tokens: Sequence[Token]) -> bool:
    """Whether DML changes a table of the schema `mysql` alone, reads none, and calls no function.

    Such a table has no trigger (MySQL, "Restrictions on Stored Programs"). A cloud's server writes these as text in
    every few minutes.

    >>> from slotkeeper.core.sources.mysql.tokens import read
    >>> _only_system(read("INSERT INTO mysql.beat (id, at) VALUES (1, 2) ON DUPLICATE KEY UPDATE at = 2").tokens)
    True
    >>> _only_system(read("INSERT INTO mysql.beat VALUES (f(1))").tokens)
    False
    """
    kind = tokens[0].text.upper() if tokens else ""
    rest = _behind(tokens, kind)
    if kind not in ("INSERT", "REPLACE", "DELETE", "UPDATE") or len(rest) < 3:
        return False
    if rest[0].text.casefold() != "mysql" or rest[1] != Token("sign", "."):
        return False
    rest = rest[3:]  # behind the table's name a list of columns may follow
    bare = [one.text.upper() if one.kind == "word" else one.text for one in rest]
    if "SELECT" in bare or "TABLE" in bare or "." in bare:
        return False
    calls = zip(rest, bare, bare[1:], strict=False)
    return not any(after == "(" and one.kind in ("word", "name") and word not in _CALLED for one, word, after in calls)


def _selects(words: Sequence[str]) -> bool:
    """Whether a CREATE TABLE takes rows of a query, in which a function may be called."""
    values = any(
        word == "VALUES" and after not in ("IN", "LESS") for word, after in zip(words, [*words[1:], ""], strict=True)
    )
    return "SELECT" in words or values or words.count("TABLE") > 1


def is_temporary(words: Sequence[str]) -> bool:
    return words[1:2] == ("TEMPORARY",) or words[1:4] == ("OR", "REPLACE", "TEMPORARY")


def kind_of_object(words: Sequence[str]) -> str:
    """What a DDL statement is about: the first word behind its verb that is a kind of object."""
    return next((word for word in words[1:] if word in OBJECTS), "")


def unwrapped(said: Said) -> Said:
    """A statement without what stands before its verb: MariaDB's SET STATEMENT ... FOR, and ANALYZE of one it runs.

    >>> from slotkeeper.core.sources.mysql.tokens import read
    >>> unwrapped(read("SET STATEMENT max_statement_time = (1) FOR DROP TABLE t")).words
    ('DROP', 'TABLE', 'T')
    >>> unwrapped(read("ANALYZE FORMAT=JSON DELETE FROM t")).words[0], unwrapped(read("ANALYZE TABLE t")).words[0]
    ('DELETE', 'ANALYZE')
    """
    words = said.words
    if words[:2] == ("SET", "STATEMENT"):
        return unwrapped(_cut(said, lambda word: word == "FOR", 1))
    if words[:1] == ("ANALYZE",) and not {"TABLE", "TABLES"}.intersection(words[1:3]):
        return _cut(said, lambda word: word in _CHANGES, 0)
    return said


def _cut(said: Said, begins: Callable[[str], bool], beyond: int) -> Said:
    """What follows the first such word outside of brackets; all where none is."""
    depth = 0
    for place, one in enumerate(said.tokens):
        if one.kind == "sign":
            depth += (one.text == "(") - (one.text == ")")
        elif not depth and one.kind == "word" and begins(one.text.upper()):
            rest = said.tokens[place + beyond :]
            words = tuple(token.text.upper() for token in rest if token.kind == "word")
            return Said(rest, words, said.names, said.tables)
    return said


def _names_it(one: str, table: str, schema: str, tables: Collection[tuple[str, str]]) -> bool:
    """Whether a table of schema `one` is named: a name without a schema is one of the session's own `schema`."""
    return (one, table) in tables or (one == schema and ("", table) in tables)
