"""Statements that create a source's user-defined types in the sink; pasting them creates the same types.

Pure: `eligibility.py` queries the sink for missing types, `slotkeeper.core.sources.dws.viewer` reads the types.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from slotkeeper.core.domain import type_name
from slotkeeper.core.domain.slot import TableIdentity, UserType, without_domains
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import pg_types
from slotkeeper.core.sqltext import quoted

MANUAL = "create it there (CREATE TYPE or CREATE EXTENSION), or create the target yourself, with a text column"
"""The hint for base types, for which no statement is known because they have their own functions."""

_TOKEN = re.compile(r"'(?:[^']|'')*'" + r'|"(?:[^"]|"")*"')


def cure(one: UserType, identity: TableIdentity, lacks: Callable[[str], bool]) -> str:
    """Return the statements that create a type and the types it needs, innermost first; `lacks` queries the sink."""
    needed = list(dict.fromkeys(_needed(one, identity, lacks)))
    made = [_statement(each, identity) for each in needed if each.kind != "m"]
    return pasteable("; ".join(made)) if all(made) else MANUAL


def same(source: UserType, known: UserType, identity: TableIdentity, there: Iterable[UserType]) -> bool:
    """Whether the sink's type can store every value of the source's type; enum labels are checked separately."""
    if source.kind != known.kind:
        return False
    if source.kind == "m":  # the range determines the values
        return True

    def plain(spelled: str) -> str:
        return without_domains(spelled, there)

    if source.kind == "c":
        ours = [_attribute(one, identity.plain) for one in source.parts]
        return ours == [_attribute(one, plain) for one in known.parts]
    # a base type has an empty base, and strings that are only compared need not be valid SQL
    return pg_types.at_postgres(identity.plain(source.base)) == pg_types.at_postgres(plain(known.base))


def literal(text: str) -> str:
    """Quote a string as SQL, for `pasteable`."""
    return "'" + text.replace("'", "''") + "'"


def pasteable(statement: str) -> str:
    r"""Return the statement with Unicode escapes for characters that no terminal shows; its meaning is unchanged.

    A string with a backslash is escaped, too. A session in which a backslash is an escape character rejects U&
    (PostgreSQL, "String Constants with Unicode Escapes"), so no string ends too early there.

    >>> pasteable("SELECT 'a\x1b', 'o''k'"), pasteable("SELECT 'plain'")
    ("SELECT U&'a\\001b', 'o''k'", "SELECT 'plain'")
    """
    return _TOKEN.sub(_escaped, statement)


def _escaped(token: re.Match[str]) -> str:
    text = token[0]
    if all(_shown(one) for one in text) and (text[0] != "'" or "\\" not in text):
        return text
    spelled = "".join(one if _shown(one) and one != "\\" else _escape(one) for one in text)
    return f"U&{spelled}"


def _shown(one: str) -> bool:
    return safe(one) == one and unicodedata.category(one) not in ("Mn", "Me")


def _escape(one: str) -> str:
    code = ord(one)
    if one == "\\":
        return "\\\\"
    return f"\\{code:04x}" if code < 65536 else f"\\+{code:06x}"


def _needed(one: UserType, identity: TableIdentity, lacks: Callable[[str], bool]) -> Iterator[UserType]:
    """Yield the type and the types within it that the sink lacks, innermost first."""
    if not lacks(one.name):
        return
    within = [type_name.attribute(part)[1].text for part in one.parts] if one.kind == "c" else [one.base]
    for spelled in within:
        other = identity.user_type(identity.plain(spelled))
        if other is not None and other != one:
            yield from _needed(other, identity, lacks)
    yield one


def _statement(one: UserType, identity: TableIdentity) -> str:
    if one.kind == "e":
        return f"CREATE TYPE {one.name} AS ENUM ({', '.join(map(literal, one.parts))})"
    if one.kind == "c":
        parts = [_attribute(part, identity.plain) for part in one.parts]
        if not one.table:
            return f"CREATE TYPE {one.name} AS ({', '.join(parts)})"
        # create the table, because a type with its name would prevent mirroring the table itself
        key = [f"PRIMARY KEY ({', '.join(map(quoted, one.key))})"] if one.key else []
        return f"CREATE TABLE {one.name} ({', '.join([*parts, *key])})"
    if one.kind == "r":
        options = [f"subtype = {_plain(one.base, identity.plain)}", *one.parts]
        return f"CREATE TYPE {one.name} AS RANGE ({', '.join(options)})"
    return f"CREATE DOMAIN {one.name} AS {_plain(one.base, identity.plain)}" if one.kind == "d" else ""


def _attribute(part: str, plain: Callable[[str], str]) -> str:
    """Return a composite's attribute with the type that a created target would have."""
    name, own = type_name.attribute(part)
    return f"{name} {_plain(own.text, plain)}"


def _plain(spelled: str, plain: Callable[[str], str]) -> str:
    return type_name.sql(pg_types.at_postgres(plain(spelled)))
