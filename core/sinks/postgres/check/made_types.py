"""The statements that make a source's own types at the sink, spelled so that what is pasted makes the very same.

Pure: `eligibility.py` asks the sink which types it lacks, `slotkeeper.core.sources.dws.identity` reads them at the
source.
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
"""The hint without a known statement, for base types, which have their own functions."""

_TOKEN = re.compile(r"'(?:[^']|'')*'" + r'|"(?:[^"]|"")*"')


def cure(one: UserType, identity: TableIdentity, lacks: Callable[[str], bool]) -> str:
    """The statements that make a type and what it needs, the innermost first; `lacks` asks the sink by name."""
    needed = list(dict.fromkeys(_needed(one, identity, lacks)))
    made = [_statement(each, identity) for each in needed if each.kind != "m"]
    return pasteable("; ".join(made)) if all(made) else MANUAL


def same(source: UserType, known: UserType, identity: TableIdentity, there: Iterable[UserType]) -> bool:
    """Whether the sink's type of this name holds every value of the source's; labels of an enum are asked elsewhere."""
    if source.kind != known.kind:
        return False
    if source.kind == "m":  # its range says what it holds
        return True

    def plain(spelled: str) -> str:
        return without_domains(spelled, there)

    if source.kind == "c":
        ours = [_attribute(one, identity.plain) for one in source.parts]
        return ours == [_attribute(one, plain) for one in known.parts]
    # a base type has none, and a text for comparison only is not SQL
    return pg_types.at_postgres(identity.plain(source.base)) == pg_types.at_postgres(plain(known.base))


def literal(text: str) -> str:
    """A text as SQL, for `pasteable`."""
    return "'" + text.replace("'", "''") + "'"


def pasteable(statement: str) -> str:
    r"""The statement with Unicode escapes for what no terminal shows as it is; pasted, it means the same.

    A text with a backslash is escaped too: a session in which a backslash escapes takes no U& (PostgreSQL, "String
    Constants with Unicode Escapes"), so that no text ends earlier there.

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
    """The type and those within it that the sink lacks, the innermost first."""
    if not lacks(one.name):
        return
    within = [type_name.attribute(part)[1].text for part in one.parts] if one.kind == "c" else [one.base]
    for spelled in within:
        other = identity.user_type(identity.plain(spelled))
        if other is not None and other != one:
            yield from _needed(other, identity, lacks)
    yield one


def _statement(one: UserType, identity: TableIdentity) -> str:
    """Return the statement that creates this type; empty if there is none."""
    if one.kind == "e":
        return f"CREATE TYPE {one.name} AS ENUM ({', '.join(map(literal, one.parts))})"
    if one.kind == "c":
        parts = [_attribute(part, identity.plain) for part in one.parts]
        if not one.table:
            return f"CREATE TYPE {one.name} AS ({', '.join(parts)})"
        # a type of this name would stand in the way of the table's own mirror
        key = [f"PRIMARY KEY ({', '.join(map(quoted, one.key))})"] if one.key else []
        return f"CREATE TABLE {one.name} ({', '.join([*parts, *key])})"
    if one.kind == "r":
        options = [f"subtype = {_plain(one.base, identity.plain)}", *one.parts]
        return f"CREATE TYPE {one.name} AS RANGE ({', '.join(options)})"
    return f"CREATE DOMAIN {one.name} AS {_plain(one.base, identity.plain)}" if one.kind == "d" else ""


def _attribute(part: str, plain: Callable[[str], str]) -> str:
    """A composite's attribute with its type as a made target would have it."""
    name, own = type_name.attribute(part)
    return f"{name} {_plain(own.text, plain)}"


def _plain(spelled: str, plain: Callable[[str], str]) -> str:
    return type_name.sql(pg_types.at_postgres(plain(spelled)))
