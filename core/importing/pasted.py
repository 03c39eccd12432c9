"""What a pasted text contains, independent of its syntax: tables with options, and flows from one table to another.

`slotkeeper.core.importing.statements` reads SQL and `slotkeeper.core.importing.lists` reads option lists; both return
`Pasted`. `slotkeeper.core.importing.written` turns it into a configuration. Pure: no file is read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from slotkeeper.core.errors import ConfigError

SIZE_MAX = 1_048_576
"""Maximum size of one pasted text in bytes: the limit of the configuration that is made from it."""
CANAL = "canal"
"""The connector of the tables that Binlog Load reads through canal; its options are in another text."""
_SECRET_NAME = re.compile(r"pass(?:word|wd|phrase)?$|pwd$|secret|token|credential|access.?key", re.IGNORECASE)
_AFTER_SECRET = re.compile(
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|access.?key\w*)[\w.\-]{0,40}[\"'`]?\s*(?:=|:|,|\()+\s*"
    r"(?:'([^'\n]*)|\"([^\"\n]*)|([^\s\"']+))",
    re.IGNORECASE,
)
_IN_URL = re.compile(r"//[^/\s:@'\"]+:([^\s'\"]+)@")
_NAME = re.compile(r"(?:--)?[A-Za-z][A-Za-z0-9_.\-]{0,79}")


class Fate(Enum):
    """What became of an option or a statement."""

    TAKEN = "taken"
    UNNEEDED = "not needed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Option:
    """One option as written; `line` is its line in the text, from 1."""

    name: str
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class Remark:
    """What became of an option or a statement, with its line; `text` gives the reason, or the fix of a refusal."""

    line: int
    what: str
    fate: Fate
    text: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a server with the options of its connector."""

    name: str
    """The name under which statements refer to it; in Flink SQL, the name of the mapping table."""
    connector: str
    options: tuple[Option, ...]
    line: int = 1
    columns: tuple[str, ...] = ()
    """The declared columns, in order; empty if the text declares none."""
    derived: frozenset[str] = frozenset()
    """The declared columns that the connector computes or reads from metadata."""

    def option(self, name: str) -> str:
        """Return the value of an option, or "" if it is not set; names are compared as vendors spell them."""
        return next((one.value for one in self.options if plain(one.name) == plain(name)), "")


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows of one table that are written to another; None if the text does not contain that end."""

    source: Table | None
    target: Table | None
    line: int
    columns: tuple[tuple[str, str], ...] = ()
    """Pairs of source column and target column; empty: all columns by name."""
    compute: tuple[tuple[str, str], ...] = ()
    """Pairs of target column and expression, in PostgreSQL's syntax."""
    where: str = ""
    """A condition in PostgreSQL's syntax."""
    together: int = 0
    """The number of its statement set, whose flows are one job; 0 if it is a job of its own."""
    remarks: tuple[Remark, ...] = ()
    """Parts that cannot be mirrored, each with its fix."""
    view: str = ""
    """The SELECT of a statement that joins or groups, as it would be written in a view."""
    latest: bool = False
    """Whether the text says that the target already contains the rows, so that only changes are read."""


@dataclass(frozen=True, slots=True)
class Pasted:
    """The content of one or several texts."""

    flows: tuple[Flow, ...] = ()
    tables: tuple[Table, ...] = ()
    """Tables that no flow uses."""
    settings: tuple[Option, ...] = ()
    """The settings of the whole pipeline (`SET` in Flink SQL)."""
    remarks: tuple[Remark, ...] = ()

    def plus(self, other: Pasted) -> Pasted:
        """Return the content of both texts."""
        apart = max((one.together for one in self.flows), default=0)
        theirs = tuple(replace(one, together=one.together and one.together + apart) for one in other.flows)
        return Pasted(
            self.flows + theirs,
            self.tables + other.tables,
            self.settings + other.settings,
            self.remarks + other.remarks,
        )


@dataclass(slots=True)
class Reading:
    """A text while it is read: the tables by name, and what was found so far."""

    tables: dict[str, Table] = field(default_factory=dict)
    flows: list[Flow] = field(default_factory=list)
    settings: list[Option] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    def pasted(self) -> Pasted:
        """Return what was read; a table that no flow uses stays in `tables`."""
        used = {id(end) for flow in self.flows for end in (flow.source, flow.target)}
        alone = tuple(table for table in self.tables.values() if id(table) not in used)
        return Pasted(tuple(self.flows), alone, tuple(self.settings), tuple(self.remarks))


def wrong(line: int, what: str, hint: str = "") -> ConfigError:
    """Return the error for a text that cannot be read; it names the line, and never the text."""
    return ConfigError(f"line {line}: {what}", hint)


def plain(name: str) -> str:
    """Return an option's name without case and separators, as vendors' versions spell it differently.

    >>> plain("binlogStartUpMode") == plain("binlog_startup_mode"), plain("sink.parallelism")
    (True, 'sinkparallelism')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def is_secret(name: str) -> bool:
    return bool(_SECRET_NAME.search(name))


def secrets_in(text: str) -> Iterator[str]:
    """Yield the values that follow a secret's name, also in a text that cannot be parsed.

    A value without quotes is yielded whole and in parts, because a password can contain the signs that end it.
    """
    for found in _AFTER_SECRET.finditer(text):
        if value := found[1] or found[2]:
            yield value
        yield from _parts(found[3] or "")
    for found in _IN_URL.finditer(text):
        yield from _parts(found[1])


def _parts(value: str) -> Iterator[str]:
    yield from filter(None, {value, *re.split(r"[&;,/?#@)}]", value)})


def shown(name: str, secrets: Iterable[str] = ()) -> str:
    """Return an option's name for a message; a name that could be a misplaced value is not repeated.

    >>> shown("sink.parallelism"), shown("it's 'x"), shown("Tr0ub4dor", ["Tr0ub4dor"])
    ('sink.parallelism', 'an option', 'an option')
    """
    if not _NAME.fullmatch(name) or any(len(one) > 3 and one in name for one in secrets):
        return "an option"
    return name
