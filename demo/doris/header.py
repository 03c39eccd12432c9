"""Parses the header `columns` of a load as the FE does: a list of SQL expressions, of which only names are accepted.

Sources: apache/doris, `NereidsStreamLoadTask.setColumnToColumnExpr` and `NereidsLoadUtils.parseExpressionSeq` (the FE
parses `SELECT <columns>`), `StreamLoadTask.setColumnToColumnExpr` of older versions (`COLUMNS (<columns>)`), and the
rules `identifier`, `quotedIdentifier` and `nonReserved` of `DorisParser.g4` and `DorisLexer.g4`. Where the versions
differ, the stricter rule applies here.
"""

from __future__ import annotations

import re

_KEYWORDS = """
account_lock account_unlock add admin all alter analyze and anti append as asc auto backend between bigint binary
binlog by cancel case cast clean collate column constraint create cross cube current database databases days
decommission default delete desc describe disk distinct distributed distribution div double drop dropp dump
duplicate else enter except execute exists explain export extended extract false float follower following for
force foreign from frontend full functions grant grants group having hll hours if in index infile inner insert
install int integer intermediate intersect interval into is join key keys kill largeint lateral layout left like
limit list load low_priority match maxvalue minus minutes natural no_use_mv not null observer on or order outer
outfile over overwrite partition play preceding prepare primary procedure range read real rebalance references
regexp release rename repair replica revoke right role roles row rows schemas select semi set sets show signed
smallint sql_block_rule superuser switch sync system table tablesample tablet tablets terminated then tinyint to
trash trim true type_cast unbounded uninstall union unique unsigned update use use_mv using values when where
whitelist with workload write xor
"""
RESERVED = frozenset(_KEYWORDS.split())
"""Keywords between DORIS-KEYWORD-LIST-START and -END of `DorisLexer.g4` that `nonReserved` does not list."""
_FUNCTIONS = frozenset(
    {"current_date", "current_time", "current_timestamp", "current_user", "localtime", "localtimestamp", "session_user"}
)
"""Names that `primaryExpression` parses as a function instead of a column: the FE rejects them as unsupported."""
_TOKEN = re.compile(
    r"(?P<blank>[ \t\r\n]+)|(?P<comma>,)|`(?P<quoted>(?:[^`]|``)*)`|(?P<word>[A-Za-z0-9_$\u0080-\U0010ffff]+)"
)
_NUMBER = re.compile(r"\d+(?:E\d+)?(?:L|S|Y|BD)?$", re.I)
"""INTEGER_VALUE, EXPONENT_VALUE and the literals with a suffix: the lexer matches them before IDENTIFIER."""


class NotParsed(Exception):
    """Raised if the FE rejects the header; the message is the FE's."""


def columns_of(header: str) -> list[str]:
    """Return the names in a header.

    >>> columns_of("id, `order`,`a``b`")
    ['id', 'order', 'a`b']
    """
    names: list[str] = []
    at, due = 0, True
    while at < len(header):
        found = _TOKEN.match(header, at)
        if found is None or (found.lastgroup != "blank" and due == (found.lastgroup == "comma")):
            raise NotParsed(f"mismatched input '{header[at : at + 10]}' expecting {'an identifier' if due else ','}")
        if found.lastgroup != "blank":
            due = found.lastgroup == "comma"
            if not due:
                names.append(_name(found))
        at = found.end()
    if due and names:
        raise NotParsed("mismatched input '<EOF>' expecting an identifier")
    return names


def _name(found: re.Match[str]) -> str:
    if found["quoted"] is not None:
        return found["quoted"].replace("``", "`")
    word = found["word"]
    if word.lower() in RESERVED:
        raise NotParsed(f"mismatched input '{word}' expecting an identifier: {word} is a keyword, maybe `{word}`")
    if word.lower() in _FUNCTIONS or _NUMBER.match(word):
        raise NotParsed(f"{word} is unsupported")
    return word
