"""Determine the effect of a binlog statement on followed tables: usually none, or a change without row events. Pure.

Statements are not parsed as SQL, because two servers in many versions write them and a statement that cannot be parsed
must not be skipped. The first words of a statement show its kind, and the names in it show whether it may affect a
followed table; in doubt, the statement is treated as affecting one. A change written as a statement (DML as text) can
reach a table that it does not name, through a view, a trigger or a stored function: `side_effects` proves that it does
not.

Text is tokenized by the rules of the server that ran the statement. Rules: MySQL, "Comments", "String Literals",
"Schema Object Names", "Server SQL Modes"; MariaDB, "Comment Syntax", "Identifier Names". The server writes a version
comment that it did not execute to the binlog as an ordinary comment (with a space instead of the `!`), so each
remaining version comment was executed. sqlglot's tokenizer is not suitable: it does not support sql_mode, and reads
`/*!50000 t */` as a comment.

An ALTER TABLE is evaluated only by its words. The table's current columns prove nothing: several ALTERs in a row can
drop a column and add it again, or narrow a type and widen it. So each statement has to prove by its own text that it
keeps all columns and all values. Sources: MySQL, "ALTER TABLE Statement" and "ALTER TABLE Partition Operations" (a
statement with a partition operation has no other operation); MariaDB, "ALTER TABLE" and "Partitioning Overview".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import pairwise

from slotkeeper.core.sources.mysql.position import MysqlPosition

ANSI_QUOTES, NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20
"""Bits of an event's sql_mode that change how the statement's text is tokenized."""
LONGEST_STRING = 64
"""Maximum length, in characters, of a literal whose value is used, such as the name of an engine."""


class Unread(ValueError):
    """The text cannot be tokenized because a quote or a comment is not closed."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token: `kind` is "word" (unquoted keyword or name), "name" (quoted), "string", "long" or "sign".

    `text` has no quotes; escapes in it are not resolved. A string longer than `LONGEST_STRING` is "long", with text "".
    """

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """The tokens of a statement: `words` are the unquoted words in upper case, `names` are all possible names in lower
    case, and `tables` are the same names, each with the name before its dot ("" if none).
    """

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
    r"""Return the tokens of a statement that ran under `sql_mode` on MariaDB (`maria`) or MySQL.

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
    """Return (name before the dot or "", name) for each name.

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
            raise Unread(f"the string or comment at character {match.start() + 1} is not terminated")
        elif kind not in ("space", "comment"):
            yield _token(kind, piece)
    if executed:
        raise Unread("a version comment is not terminated")


def _token(kind: str, piece: str) -> Token:
    if kind == "name":
        return Token("name", piece[1:-1].replace("``", "`"))
    if kind == "ansi":
        return Token("name", piece[1:-1].replace('""', '"'))
    if kind in ("string", "text"):
        return Token("string", piece[1:-1]) if len(piece) <= LONGEST_STRING else Token("long", "")
    return Token(kind, piece)


_TAKEN_PARTITIONS = frozenset({"DROP", "TRUNCATE", "EXCHANGE", "DISCARD", "IMPORT", "CONVERT", "REPAIR"})
"""Words between ALTER TABLE t and PARTITION that add or remove rows; a repair can drop rows that fit no partition."""
_KEPT_PARTITIONS = frozenset({"ADD", "REBUILD", "COALESCE", "REORGANIZE", "ANALYZE", "CHECK", "OPTIMIZE"})
ENGINES = ("InnoDB", "MyISAM", "Aria", "MEMORY", "ROCKSDB", "TokuDB", "NDB", "ndbcluster", "ARCHIVE")
"""Engines that store all rows in the server and write all changes to its binlog: BLACKHOLE stores no rows."""
_ENGINES = frozenset(one.upper() for one in ENGINES)
_TO_INDEXES = frozenset({"INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "CHECK"})
"""Words after ADD or DROP that name no column. MariaDB, "ALTER TABLE": a column's clause can be `DROP IF EXISTS a`."""
_RISKY = frozenset(
    {
        *("ALTER", "CHANGE", "CHARACTER", "CHARSET", "COLLATE", "COLUMN", "COLUMNS", "CONVERT", "DEFAULT", "FIRST"),
        *("AFTER", "IGNORE", "MODIFY", "PARTITION", "PARTITIONING", "PARTITIONS", "PERIOD", "PRIMARY", "REMOVE"),
        *("RENAME", "REORGANIZE", "SET", "SYSTEM", "TABLESPACE", "VERSIONING"),
    }
)
"""Words of an ALTER TABLE that can change a row's columns."""


def empties(said: Said) -> bool:
    """Whether the statement removes, adds or exchanges rows without row events.

    REORGANIZE PARTITION on a LIST drops rows whose values are in no new partition, without an error (observed with
    MariaDB 10.11). On RANGE partitions this cannot happen, because the total range must not shrink (error 1520).

    >>> empties(read("ALTER TABLE t REORGANIZE PARTITION p INTO (PARTITION p VALUES IN (1))"))
    True
    >>> empties(read("ALTER TABLE t REORGANIZE PARTITION p INTO (PARTITION q VALUES LESS THAN (9))"))
    False
    """
    words = said.words
    if _brings_engine(said.tokens):
        return True
    for word, after in _pairs(words):
        if word == "RENAME" and after not in ("COLUMN", "INDEX", "KEY"):
            return True
        if word in _TAKEN_PARTITIONS and after == "PARTITION":
            return True
        if (word, after) in (("CONVERT", "TABLE"), ("DISCARD", "TABLESPACE"), ("IMPORT", "TABLESPACE")):
            return True
        if (word, after) == ("REORGANIZE", "PARTITION") and "INTO" in words and not _is_range(words):
            return True
    return False


def _brings_engine(tokens: Sequence[Token]) -> bool:
    """Whether the statement names an engine that does not store the rows; the engine's name may be quoted."""
    given = [one for one in tokens if one.text != "="]
    return any(
        one.kind == "word"
        and one.text.upper() == "ENGINE"
        and after.kind != "sign"
        and after.text.upper() not in _ENGINES
        for one, after in pairwise(given)
    )


def _is_range(words: Sequence[str]) -> bool:
    return "LESS" in words and not {"IN", "DEFAULT", "HISTORY", "CURRENT"}.intersection(words)


def keeps_columns(words: Sequence[str]) -> bool:
    """Whether the statement certainly preserves all columns and values, because it changes only partitions, indexes,
    keys, defaults or storage.

    >>> keeps_columns("ALTER TABLE T ADD INDEX I C".split()), keeps_columns("ALTER TABLE T ADD C INT".split())
    (True, False)
    >>> keeps_columns("ALTER TABLE T ALTER C SET DEFAULT 5".split()), keeps_columns("ALTER TABLE T DROP C".split())
    (True, False)
    >>> keeps_columns("ALTER TABLE T DROP KEY IF EXISTS I".split())
    True
    >>> keeps_columns("ALTER TABLE T DROP IF EXISTS C".split())
    False
    """
    if "IGNORE" in words:  # rows that do not fit are dropped
        return False
    rest = list(words[words.index("TABLE") + 1 :])
    if any(word in _KEPT_PARTITIONS and after == "PARTITION" for word, after in _pairs(rest)) and "BY" not in rest:
        return True
    rest = _without_harmless(rest)
    if _RISKY.intersection(rest):
        return False
    return all(after in _TO_INDEXES for word, after in _pairs(rest) if word in ("ADD", "DROP"))


def drops_index(words: Sequence[str]) -> bool:
    """Whether the statement drops or renames an index by name.

    >>> drops_index("ALTER TABLE T DROP KEY U".split()), drops_index("DROP INDEX U ON T".split())
    (True, True)
    """
    dropped = [(verb, kind) for verb in ("DROP", "RENAME") for kind in ("INDEX", "KEY", "CONSTRAINT")]
    replaced = list(words[:3]) == ["CREATE", "OR", "REPLACE"]
    return replaced or any(pair in dropped for pair in _pairs(words))


def _without_harmless(rest: list[str]) -> list[str]:
    """Return the words without the clauses that change defaults, or that rename or hide indexes."""
    kept: list[str] = []
    at = 0
    while at < len(rest):
        if rest[at] in ("ALTER", "RENAME") and rest[at + 1 : at + 2] in (["INDEX"], ["KEY"]):
            at += 2
            continue
        length = _length_of_default(rest[at : at + 7])
        if not length:
            kept.append(rest[at])
        at += length or 1
    return kept


def _length_of_default(words: list[str]) -> int:
    """Return the number of words in ALTER [COLUMN] [IF EXISTS] [name] SET|DROP DEFAULT; 0 for other words."""
    if words[:1] != ["ALTER"]:
        return 0
    at = 1
    at += words[at : at + 1] == ["COLUMN"]
    at += 2 * (words[at : at + 2] == ["IF", "EXISTS"])
    for place in (at, at + 1):  # a quoted name is not a word
        if words[place : place + 2] in (["SET", "DEFAULT"], ["DROP", "DEFAULT"]):
            return place + 2
    return 0


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(words, [*words[1:], ""], strict=True))


class Effect(Enum):
    """The possible effect of a statement on a followed table."""

    NONE = "nothing"
    RESHAPES = "may have changed the table's columns"
    EMPTIES = "removed the table's rows, or exchanged the table, without row events"
    CHANGES = "changed rows as a statement, without row events"
    INDIRECT = "is logged as a statement, which may have changed the table's rows without row events"
    CASCADES = "added a foreign key with cascades, which change the table's rows without row events"
    VERSIONS = "made the table system-versioned: a DELETE retains the row, an UPDATE adds a row"
    UNREAD = "cannot be parsed, so it may have changed the table's rows or columns"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that affects, or may affect, a followed table. `position` is after the statement if it `ends` its
    transaction, else at the end of the previous transaction; `time` is in seconds since 1970. `why` is the reason why
    the statement must not be skipped.
    """

    schema: str
    text: str
    effect: Effect
    time: int
    position: MysqlPosition
    ends: bool
    said: Said = NOTHING_SAID
    why: str = ""

    @property
    def reshapes(self) -> bool:
        """Whether the table can have other columns after the statement."""
        verb = "".join(unwrapped(self.said).words[:1])
        return self.effect is not Effect.INDIRECT and verb != "TRUNCATE" and verb not in _CHANGES


_CHANGES = frozenset(
    {"INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH", "CALL", "DO", "SELECT", "VALUES", "TABLE"}
)
_OTHERS = frozenset(
    {
        *("CREATE", "DROP", "ALTER", "RENAME", "TRUNCATE", "GRANT", "REVOKE", "FLUSH", "SET", "OPTIMIZE", "ANALYZE"),
        *("CHECK", "REPAIR", "INSTALL", "UNINSTALL", "IMPORT", "SAVEPOINT", "RELEASE"),
    }
)
"""First words of the other statements that can occur in a binlog; a statement with another first word is unknown."""
OBJECTS = frozenset(
    {
        *("TABLE", "TABLES", "DATABASE", "SCHEMA", "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "INDEX"),
        *("USER", "ROLE", "SERVER", "SEQUENCE", "PACKAGE", "TABLESPACE", "LOGFILE", "LIBRARY"),
    }
)


def judge(
    said: Said,
    schema: str,
    wanted: Collection[tuple[str, str]],
    key_index: str = "PRIMARY",
    cascades_known: bool = False,
) -> Effect:
    """Return the possible effect of a statement run in `schema` on the wanted tables, whose key index is `key_index`.

    `cascades_known` means that a foreign key that changes rows without row events is allowed.

    >>> judge(read("ALTER TABLE `t` ADD c INT"), "s", {("s", "t")}), judge(read("DROP TABLE s.o"), "x", {("s", "t")})
    (<Effect.RESHAPES: "may have changed the table's columns">, <Effect.NONE: 'nothing'>)
    """
    said = unwrapped(said)
    words, names = said.words, said.names
    kind, what = words[0] if words else "", kind_of_object(words)
    if what in ("DATABASE", "SCHEMA") and (kind == "DROP" or words[1:3] == ("OR", "REPLACE")):
        return Effect.EMPTIES if any(one.casefold() in names for one, _ in wanted) else Effect.NONE
    folded = [(one.casefold(), table.casefold()) for one, table in wanted]
    here = schema.casefold()  # an unqualified name belongs to the session's schema
    named = {
        table for one, table in folded if (one, table) in said.tables or (one == here and ("", table) in said.tables)
    }
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
        # without OR REPLACE, either the table did not exist before, or nothing changed (IF NOT EXISTS)
        return Effect.EMPTIES if words[1:3] == ("OR", "REPLACE") else Effect.NONE
    if key_index.casefold() in names and drops_index(words):
        return Effect.RESHAPES
    if kind == "ALTER" and what == "TABLE":
        return _altered(said, named, cascades_known)
    return Effect.NONE


def _altered(said: Said, named: Collection[str], cascades_known: bool) -> Effect:
    words = said.words
    if empties(said):
        return Effect.EMPTIES
    if target_after(said.tokens, "TABLE") in named:
        if ("SYSTEM", "VERSIONING") in pairwise(words):
            return Effect.VERSIONS
        if not cascades_known and cascades(words):
            return Effect.CASCADES
    # MySQL, "ALTER TABLE Statement": ADD (...) can list columns after an index
    opens = Token("sign", "(")
    lists = any(
        after == opens and one.kind == "word" and one.text.upper() == "ADD" for one, after in pairwise(said.tokens)
    )
    return Effect.NONE if keeps_columns(words) and not lists else Effect.RESHAPES


def cascades(words: Sequence[str]) -> bool:
    """Whether these words define a foreign key that changes rows of the table itself when rows of its parent change.

    Source: MySQL, "FOREIGN KEY Constraints" (CASCADE, SET NULL and SET DEFAULT change rows).

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
    """Return the possible effect of DML as text on tables that it names, except tables that an INSERT only reads."""
    kind = said.words[0]
    target = target_after(said.tokens, kind) if kind in ("INSERT", "REPLACE") else ""
    if kind == "CREATE":
        target = target_after(said.tokens, "TABLE")
    if named and (not target or target in named):
        return Effect.CHANGES
    return Effect.NONE if _only_system(said.tokens) else Effect.INDIRECT


_MODIFIERS = frozenset(
    {
        *("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE", "INTO", "FROM", "IF", "NOT", "EXISTS"),
        *("ONLINE", "OFFLINE"),
    }
)


def target_after(tokens: Sequence[Token], word: str) -> str:
    """Return the table name after a word and its modifiers, in lower case and without its schema; "" if there is none.

    >>> target_after(read("INSERT IGNORE INTO `s` . `T` (a) VALUES (1)").tokens, "INSERT")
    't'
    """
    rest = _behind(tokens, word)
    while len(rest) > 2 and rest[1] == Token("sign", "."):
        rest = rest[2:]
    return rest[0].text.casefold() if rest and rest[0].kind in ("word", "name") else ""


def _behind(tokens: Sequence[Token], word: str) -> Sequence[Token]:
    at = next((n for n, one in enumerate(tokens) if one.kind == "word" and one.text.upper() == word), len(tokens)) + 1
    while at < len(tokens) and tokens[at].kind == "word" and tokens[at].text.upper() in _MODIFIERS:
        at += 1
    return tokens[at:]


_CALLED = frozenset({"VALUES", "VALUE", "IN", "AND", "OR", "NOT", "ON", "SET", "WHERE"})


def _only_system(tokens: Sequence[Token]) -> bool:
    """Whether DML changes only a table of the schema `mysql`, reads no table, and calls no function.

    Such a table has no trigger (MySQL, "Restrictions on Stored Programs"). Servers of cloud providers write such
    statements as text every few minutes.

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
    rest = rest[3:]  # a list of columns can follow the table's name
    bare = [one.text.upper() if one.kind == "word" else one.text for one in rest]
    if "SELECT" in bare or "TABLE" in bare or "." in bare:
        return False
    calls = zip(rest, bare, bare[1:], strict=False)
    return not any(after == "(" and one.kind in ("word", "name") and word not in _CALLED for one, word, after in calls)


def _selects(words: Sequence[str]) -> bool:
    """Whether a CREATE TABLE inserts the rows of a query, which can call a function."""
    values = any(word == "VALUES" and after not in ("IN", "LESS") for word, after in _pairs(words))
    return "SELECT" in words or values or words.count("TABLE") > 1


def is_temporary(words: Sequence[str]) -> bool:
    return words[1:2] == ("TEMPORARY",) or words[1:4] == ("OR", "REPLACE", "TEMPORARY")


def kind_of_object(words: Sequence[str]) -> str:
    """Return the kind of object that a DDL statement names: the first word after the verb that is a kind of object."""
    return next((word for word in words[1:] if word in OBJECTS), "")


def unwrapped(said: Said) -> Said:
    """Return a statement without its prefix: MariaDB's SET STATEMENT ... FOR, or an ANALYZE that runs the statement.

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
    """Return the tokens from `beyond` tokens after the first matching word outside parentheses; all if none matches."""
    depth = 0
    for place, one in enumerate(said.tokens):
        if one.kind == "sign":
            depth += (one.text == "(") - (one.text == ")")
        elif not depth and one.kind == "word" and begins(one.text.upper()):
            rest = said.tokens[place + beyond :]
            words = tuple(token.text.upper() for token in rest if token.kind == "word")
            return Said(rest, words, said.names, said.tables)
    return said
