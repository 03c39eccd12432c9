"""What an SQLSTATE says, whichever server says it: the codes of the SQL standard with those that PostgreSQL adds."""

from __future__ import annotations

from enum import Enum


class Meaning(Enum):
    """What went wrong, for a person."""

    DOWN = "down"
    LOGIN = "login"
    LIMIT = "limit"
    BUSY = "busy"
    FULL = "full"
    ROW = "row"
    OBJECT = "object"


NO_RIGHT = "42501"
"""insufficient_privilege: about one object, where the codes of a login that is refused are about all."""
_BY_PREFIX = {
    "08": Meaning.DOWN,
    "57P": Meaning.DOWN,
    "25006": Meaning.DOWN,
    "28": Meaning.LOGIN,
    NO_RIGHT: Meaning.LOGIN,
    "57014": Meaning.LIMIT,
    "53300": Meaning.BUSY,
    "53": Meaning.FULL,
    "40": Meaning.BUSY,
    "55P": Meaning.BUSY,
    "25P03": Meaning.BUSY,
    "22": Meaning.ROW,
    "23": Meaning.ROW,
    "42": Meaning.OBJECT,
    "3D": Meaning.OBJECT,
}


def meaning_of(code: str) -> Meaning | None:
    """What a code says, by its longest known beginning; None for one that is not known.

    >>> meaning_of("57P01"), meaning_of("42501"), meaning_of("42P01"), meaning_of("SIGKILL")
    (<Meaning.DOWN: 'down'>, <Meaning.LOGIN: 'login'>, <Meaning.OBJECT: 'object'>, None)
    """
    return next((_BY_PREFIX[code[:length]] for length in (5, 3, 2) if code[:length] in _BY_PREFIX), None)
