"""Load the named statements of a dialect's queries.sql, and quote names for a server.

A file is a list of blocks: `-- name: status`, comment lines that describe the statement, then the statement. Each
statement exists once, with a name and a description.
"""

from __future__ import annotations

import pkgutil
import re
from functools import cache

from slotkeeper.core.errors import Defect

_HEAD = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")
RESERVED = frozenset(
    re.findall(
        r"\w+",
        """
        all analyse analyze and any array as asc asymmetric authid authorization between binary both case cast check
        collate collation column concurrently constraint create cross current_catalog current_date current_role
        current_schema current_time current_timestamp current_user default deferrable desc distinct do else end
        except false fetch for foreign freeze from full function grant group having ilike in initially inner
        intersect into is isnull join lateral leading left less like limit localtime localtimestamp maxvalue minus
        modify natural nlssort not notnull null number offset on only or order outer over overlaps performance
        placing primary procedure references reject returning right select session_user similar some split symmetric
        sysdate table tablesample then to trailing true union unique user using variadic verbose when where window
        with
        """,
    )
)
"""Reserved words, which cannot be column names without quotes (PostgreSQL, "SQL Key Words"; DWS, "Keyword")."""


@cache
def statements(package: str, name: str = "queries.sql") -> dict[str, str]:
    """Return the statements of `name` in `package` by their names; raises Defect for a duplicate name."""
    content = pkgutil.get_data(package, name)  # importlib.resources would import archive readers for every command
    if content is None:
        raise Defect(f"cannot read {name} of package {package}")
    text = content.decode("utf-8")
    parts = _HEAD.split(text)
    found: dict[str, str] = {}
    for head, body in zip(parts[1::2], parts[2::2], strict=True):
        if head in found:
            raise Defect(f"{package}/{name}: statement {head!r} is defined twice")
        lines = (line for line in body.strip().splitlines() if not line.startswith("--"))
        found[head] = "\n".join(lines).strip().rstrip(";")
    return found


def quoted(name: str) -> str:
    """Return an identifier quoted for a statement; a plain identifier is unchanged unless it is a reserved word.

    >>> quoted("orders"), quoted('Or"ders'), quoted("order")
    ('orders', '"Or""ders"', '"order"')
    """
    return _part(name) if name not in RESERVED else f'"{name}"'


def _part(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    r"""Return a string literal that has the same meaning for each value of `standard_conforming_strings`.

    >>> print(literal("o'clock"), literal("a\\b"))
    'o''clock' E'a\\b'
    """
    doubled = text.replace("'", "''")
    return f"'{doubled}'" if "\\" not in text else "E'" + doubled.replace("\\", "\\\\") + "'"


def dotted(name: str) -> str:
    """Return `schema.table` from the configuration, quoted so that a server reads exactly this name.

    A server folds unquoted names to lower case, so every part that is not a plain identifier is quoted. Reserved words
    are not quoted, because they are reserved only as unqualified names.

    >>> dotted("ods.orders"), dotted("Ods.Order Lines")
    ('ods.orders', '"Ods"."Order Lines"')
    """
    return ".".join(map(_part, name.split(".", 1)))
