"""The defaults of the bundled libpq for absent parameters, read from the library itself.

libpq, "Database Connection Control Functions", PQconndefaults.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import psycopg2

NOT_PARAMETERS = ("PGSERVICEFILE", "PGSYSCONFDIR", "PGREQUIRESSL", "PGDATESTYLE", "PGTZ", "PGGEQO")
"""Further variables of libpq, "Environment Variables"."""


class _Option(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_char_p) for name in ("keyword", "variable", "compiled", "value", "label", "shown")),
        ("size", ctypes.c_int),
    ]


def library() -> Path | None:
    """The libpq of psycopg2-binary; None where psycopg2 was built with the system's."""
    beside = Path(psycopg2.__file__).parents[1]
    found = [*beside.glob("psycopg2_binary.libs/libpq*"), *beside.glob("psycopg2/.dylibs/libpq*")]
    return found[0] if found else None


def defaults(path: Path) -> Iterator[tuple[str, str]]:
    """(parameter, variable that gives its default) of every parameter that has one."""
    asked = ctypes.CDLL(str(path)).PQconndefaults
    asked.restype = ctypes.POINTER(_Option)
    options = asked()
    place = 0
    while options[place].keyword:
        if options[place].variable:
            yield options[place].keyword.decode(), options[place].variable.decode()
        place += 1
