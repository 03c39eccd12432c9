"""Decode the text of a statement in a binlog as the server does, by the client's sql_mode and character set. Pure.

Source: MySQL, Query_event, its table of status variables in the server's Doxygen pages; MariaDB writes the same.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from slotkeeper.core.sources.mysql.values import UTF8, text_reader

_FIXED = {0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8}
"""Size in bytes of each status variable that can precede the character set, by code; 2, 5 and 6 start with a length."""
_SQL_MODE, _CHARSET = 1, 4
_CLIENT_SETS: Mapping[str, tuple[int, ...]] = {
    "armscii8": (32, 64),
    "ascii": (11, 65),
    "big5": (1, 84),
    "cp1250": (26, 34, 44, 66, 99),
    "cp1251": (14, 23, 50, 51, 52),
    "cp1256": (57, 67),
    "cp1257": (29, 58, 59),
    "cp850": (4, 80),
    "cp852": (40, 81),
    "cp866": (36, 68),
    "cp932": (95, 96),
    "dec8": (3, 69),
    "eucjpms": (97, 98),
    "euckr": (19, 85),
    "gb18030": (248, 249, 250),
    "gb2312": (24, 86),
    "gbk": (28, 87),
    "geostd8": (92, 93),
    "greek": (25, 70),
    "hebrew": (16, 71),
    "hp8": (6, 72),
    "keybcs2": (37, 73),
    "koi8r": (7, 74),
    "koi8u": (22, 75),
    "latin1": (5, 8, 15, 31, 47, 48, 49, 94),
    "latin2": (2, 9, 21, 27, 77),
    "latin5": (30, 78),
    "latin7": (20, 41, 42, 79),
    "macce": (38, 43),
    "macroman": (39, 53),
    "sjis": (13, 88),
    "swe7": (10, 82),
    "tis620": (18, 89),
    "ujis": (12, 91),
}
"""Collation numbers of the character sets, other than UTF-8, that a client can use (information_schema.COLLATIONS)."""
_SETS = {number: name for name, numbers in _CLIENT_SETS.items() for number in numbers}
_NOPAD = 1024
"""Offset that MariaDB adds to the number of a collation for its NOPAD variant."""
_OTHER_SIGNS = frozenset({"swe7"})
"""Character sets in which a byte below 128 can differ from ASCII, so that a quote byte is not always a quote."""
_BACKSLASHES = frozenset({"sjis", "ujis"})
"""Character sets with a two-byte character that looks like a backslash but is not an escape character."""


def query_text(status: bytes, raw: bytes) -> tuple[str, int, bool]:
    """Return (text, sql_mode, whether the text is decoded in the same way as by the server)."""
    sql_mode, collation = _status(status)
    charset = _SETS.get(collation - _NOPAD if collation in range(_NOPAD, _NOPAD + 256) else collation, "utf8")
    if raw.isascii() and charset not in _OTHER_SIGNS:
        return raw.decode("ascii"), sql_mode, True
    if charset in UTF8:  # invalid bytes occur only in literals: names are valid, and quotes are never part of them
        return raw.decode("utf-8", "replace"), sql_mode, True
    reader = text_reader(charset)
    try:
        if reader is not None and charset not in _OTHER_SIGNS:
            text = reader(raw)
            return text, sql_mode, charset not in _BACKSLASHES or "\\" not in text
    except UnicodeDecodeError:
        pass
    return raw.decode("utf-8", "replace"), sql_mode, False


def _status(status: bytes) -> tuple[int, int]:
    """Return sql_mode and the client's collation; each is 0 if missing."""
    sql_mode = collation = at = 0
    while at < len(status):
        code, at = status[at], at + 1
        if code == _SQL_MODE:
            sql_mode = struct.unpack_from("<Q", status, at)[0]
        elif code == _CHARSET:
            collation = struct.unpack_from("<H", status, at)[0]
        if code in _FIXED:
            at += _FIXED[code]
        elif code in (2, 5, 6):
            at += status[at] + (2 if code == 2 else 1)
        else:
            break
    return sql_mode, collation
