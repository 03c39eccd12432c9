"""What an ALTER TABLE does to a table that is followed, by its words alone. Pure.

The columns as they are now prove nothing: several ALTERs in a row can drop a column and add it again, or narrow a type
and widen it. So each statement has to prove by its own text that it keeps all columns and all values.

Sources: MySQL, "ALTER TABLE Statement" and "ALTER TABLE Partition Operations" (a partition operation is the only one
of its statement); MariaDB, "ALTER TABLE" and "Partitioning Overview".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from slotkeeper.core.sources.mysql.tokens import Said, Token

_TAKEN_PARTITIONS = frozenset({"DROP", "TRUNCATE", "EXCHANGE", "DISCARD", "IMPORT", "CONVERT", "REPAIR"})
"""Behind ALTER TABLE t, before PARTITION: rows come or go. A repair may drop rows that it cannot place."""
_KEPT_PARTITIONS = frozenset({"ADD", "REBUILD", "COALESCE", "REORGANIZE", "ANALYZE", "CHECK", "OPTIMIZE"})
ENGINES = ("InnoDB", "MyISAM", "Aria", "MEMORY", "ROCKSDB", "TokuDB", "NDB", "ndbcluster", "ARCHIVE")
"""Engines whose rows are all in the server and whose changes are all in its binlog: BLACKHOLE holds none."""
_ENGINES = frozenset(one.upper() for one in ENGINES)
_TO_INDEXES = frozenset({"INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "CHECK", "IF"})
_RISKY = frozenset(
    {
        *("ALTER", "CHANGE", "CHARACTER", "CHARSET", "COLLATE", "COLUMN", "COLUMNS", "CONVERT", "DEFAULT", "FIRST"),
        *("AFTER", "IGNORE", "MODIFY", "PARTITION", "PARTITIONING", "PARTITIONS", "PERIOD", "PRIMARY", "REMOVE"),
        *("RENAME", "REORGANIZE", "SET", "SYSTEM", "TABLESPACE", "VERSIONING"),
    }
)
"""Words behind which an ALTER TABLE may have changed what a row is."""


def empties(said: Said) -> bool:
    """Whether it takes, brings or exchanges rows without row events.

    REORGANIZE PARTITION of a LIST drops the rows whose values no new partition has, without an error (observed with
    MariaDB 10.11). Of a RANGE it cannot: the total range must not shrink (error 1520).

    >>> from slotkeeper.core.sources.mysql.tokens import read
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
    """Whether it names an engine that does not hold the rows; the engine's name may be quoted."""
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
    """Whether it certainly keeps all columns and values: it is about partitions, indexes, keys, defaults or storage.

    >>> keeps_columns("ALTER TABLE T ADD INDEX I C".split()), keeps_columns("ALTER TABLE T ADD C INT".split())
    (True, False)
    >>> keeps_columns("ALTER TABLE T ALTER C SET DEFAULT 5".split()), keeps_columns("ALTER TABLE T DROP C".split())
    (True, False)
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
    """Whether it drops or renames an index by its name.

    >>> drops_index("ALTER TABLE T DROP KEY U".split()), drops_index("DROP INDEX U ON T".split())
    (True, True)
    """
    dropped = [(verb, kind) for verb in ("DROP", "RENAME") for kind in ("INDEX", "KEY", "CONSTRAINT")]
    replaced = list(words[:3]) == ["CREATE", "OR", "REPLACE"]
    return replaced or any(pair in dropped for pair in _pairs(words))


def _without_harmless(rest: list[str]) -> list[str]:
    """The words without changed defaults, and without indexes that are renamed or hidden."""
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
    """How many words ALTER [COLUMN] [IF EXISTS] [name] SET|DROP DEFAULT has; 0 where they are something else."""
    if words[:1] != ["ALTER"]:
        return 0
    at = 1
    at += words[at : at + 1] == ["COLUMN"]
    at += 2 * (words[at : at + 2] == ["IF", "EXISTS"])
    for place in (at, at + 1):  # a quoted name is no word
        if words[place : place + 2] in (["SET", "DEFAULT"], ["DROP", "DEFAULT"]):
            return place + 2
    return 0


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(words, [*words[1:], ""], strict=True))
