"""The tables of a source that match a job's patterns, and the job's record of them."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from functools import cache

from slotkeeper.core.domain.spec import ChannelSpec, TablePattern


@dataclass(frozen=True, slots=True)
class TableListed:
    """A table of the source, with both names as the server stores them, or another relation with rows."""

    schema: str
    name: str
    unfit: str = ""
    """Why no job can mirror it, such as "a view"; empty if no reason is known."""

    @property
    def table(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A table that matches a pattern, but is not mirrored."""

    table: str
    """The source table, as schema.table."""
    reason: str
    """The reason."""
    conflict: bool = False
    """Whether the configuration is ambiguous for this table, so that a first start rejects it."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The last known list of the source for a job with patterns; stored on this host by the job's driver."""

    tables: tuple[str, ...] = ()
    """The tables that the job mirrors, as schema.table."""
    first: tuple[str, ...] = ()
    """The tables of the job's first list, to which the job's `start` applies; later tables are copied."""
    gone: tuple[str, ...] = ()
    """The tables that it mirrored before and that the source no longer lists."""
    skipped: tuple[Skipped, ...] = ()
    """The tables that match a pattern, but are not mirrored."""


@dataclass(frozen=True, slots=True)
class TablesFound:
    """One list from the source: the job's channels, the channels of dropped tables, and the skipped tables."""

    channels: tuple[ChannelSpec, ...]
    gone: tuple[ChannelSpec, ...] = ()
    skipped: tuple[Skipped, ...] = ()


def is_pattern(text: str) -> bool:
    """Return whether a source table's name is a shell pattern.

    >>> is_pattern("shop.*"), is_pattern("shop.order_[0-9]"), is_pattern("shop.orders")
    (True, True, False)
    """
    return any(mark in text for mark in "*?[")


def matches(pattern: str, schema: str, name: str) -> bool:
    """Return whether a table matches a pattern `schema.table`; each part is matched separately and case-sensitively.

    >>> matches("shop.*", "shop", "orders"), matches("s*.o*", "shop.x", "orders"), matches("shop.*", "shop2", "orders")
    (True, True, False)
    """
    of_schema, _, of_name = pattern.partition(".")
    return bool(_compiled(of_schema).fullmatch(schema) and _compiled(of_name).fullmatch(name))


def wants(pattern: TablePattern, schema: str, name: str) -> bool:
    """Return whether a pattern block of the configuration applies to a table."""
    return matches(pattern.source, schema, name) and not any(matches(one, schema, name) for one in pattern.excluded)


def literal_schemas(patterns: tuple[TablePattern, ...]) -> tuple[str, ...]:
    """Return the schemas to list; empty if a pattern can match tables of any schema.

    >>> literal_schemas((TablePattern("shop.*", ""), TablePattern("crm.a*", "")))
    ('crm', 'shop')
    >>> literal_schemas((TablePattern("shop.*", ""), TablePattern("s*.t", "")))
    ()
    """
    schemas = {one.source.partition(".")[0] for one in patterns}
    return () if any(is_pattern(one) for one in schemas) else tuple(sorted(schemas))


PLACEHOLDER = re.compile(r"\{(schema|table)\}")


def target_of(pattern: TablePattern, schema: str, name: str) -> str:
    """Return the target of a table.

    >>> target_of(TablePattern("shop.*", "mart.{schema}_{table}"), "shop", "{schema}")
    'mart.shop_{schema}'
    """
    return PLACEHOLDER.sub(lambda found: schema if found[1] == "schema" else name, pattern.into)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
