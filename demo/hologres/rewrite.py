"""Determines the table of a query that names hidden columns of Hologres: the binlog, or the rows with their shard.

Hologres, "Technical Principle of Hologres Binlog": a query that names one of three fields "is automatically routed to
the Binlog table". sqlglot only splits a statement into tokens; the statement is not parsed.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sqlglot import tokenize
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

BINLOG = frozenset({"hg_binlog_lsn", "hg_binlog_event_type", "hg_binlog_timestamp_us"})
HIDDEN = frozenset({"hg_shard_id"})
_OWN = frozenset({"hologres", "pg_catalog", "information_schema", "hg_standin", "hg_log", "hg_base"})
_CURSOR = re.compile(r"^\s*DECLARE\s+\w+\s+[\w\s]*?CURSOR\s+FOR\s+", re.IGNORECASE)
_DROP = re.compile(r"^\s*DROP TABLE IF EXISTS ([^\s;]+)$", re.IGNORECASE)
_GUC = re.compile(r"^\s*SET\s+(?:SESSION\s+)?hg_experimental_generate_binlog\b", re.IGNORECASE)


@lru_cache(4_096)
def routed(statement: str) -> str:
    """Return the statement as it is sent to PostgreSQL.

    >>> routed('SELECT hg_binlog_lsn, v FROM "ods"."t" WHERE hg_shard_id = 0')
    'SELECT hg_binlog_lsn, v FROM hg_log."ods.t" WHERE hg_shard_id = 0'
    >>> routed("SELECT v FROM ods.t WHERE hg_shard_id = 0"), routed("SELECT v FROM ods.t")
    ('SELECT v FROM hg_base."ods.t" WHERE hg_shard_id = 0', 'SELECT v FROM ods.t')
    >>> routed("SELECT hg_binlog_lsn FROM hg_get_binlog_cursor('ods.t', 'OLDEST', 0)")
    "SELECT hg_binlog_lsn FROM hg_get_binlog_cursor('ods.t', 'OLDEST', 0)"
    >>> routed("SET hg_experimental_generate_binlog = off")
    'SET hg_standin.generate_binlog = off'
    >>> routed("DROP TABLE IF EXISTS ods.t")
    "CALL hg_standin.dropped('ods.t')"
    """
    dropped = _DROP.match(statement)
    if dropped:
        name = dropped[1].replace("'", "''")
        return f"CALL hg_standin.dropped('{name}')"
    if "hg_" not in statement:
        return statement
    cursor = _CURSOR.match(statement)  # sqlglot tokenizes such a statement as a single token
    if cursor:
        return cursor[0] + routed(statement[cursor.end() :])
    if _GUC.match(statement):
        return _GUC.sub("SET hg_standin.generate_binlog", statement)
    try:
        words = list(tokenize(statement, read="postgres"))
    except SqlglotError:
        return statement
    names = {word.text for word in words if word.token_type in (TokenType.VAR, TokenType.IDENTIFIER)}
    schema = "hg_log" if names & BINLOG else "hg_base" if names & HIDDEN else ""
    return _replaced(statement, words, schema) if schema else statement


def _replaced(statement: str, words: list[Token], schema: str) -> str:
    for number in reversed([n for n, word in enumerate(words) if word.token_type is TokenType.FROM]):
        last = _name_end(words, number + 1)
        if last is None:
            continue
        parts = [word.text for word in words[number + 1 : last + 1 : 2]]
        if parts[0] in _OWN and len(parts) > 1:
            continue
        named = ".".join(parts if len(parts) > 1 else ("public", *parts)).replace('"', '""')
        begin, end = words[number + 1].start, words[last].end + 1
        statement = f'{statement[:begin]}{schema}."{named}"{statement[end:]}'
    return statement


def _name_end(words: list[Token], first: int) -> int | None:
    """Return the index of a table name's last token; None if the tokens are a function call or a subquery."""
    last = first
    if last >= len(words) or words[last].token_type is TokenType.L_PAREN:
        return None
    if last + 2 < len(words) and words[last + 1].token_type is TokenType.DOT:
        last += 2
    called = last + 1 < len(words) and words[last + 1].token_type is TokenType.L_PAREN
    return None if called else last
