"""What differs between the servers that this sink speaks to: PostgreSQL, and a DWS. Nothing else tells them apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slotkeeper.core.drivers import pg, pg_types

SQL = pg.sql.SQL
Composable = pg.sql.Composable


@dataclass(frozen=True, slots=True)
class SinkDialect:
    """A server's ways; `name` is the sink's kind in the configuration, and the end of statements of its own.

    `spreads`: a table lies on DNs by the hash of columns, and no column of its key is updated. `follows`: a temporary
    table takes its columns from a query. `plain`: a statement has no WITH before INSERT ... ON CONFLICT, no DISTINCT
    ON, no FILTER and no RETURNING, so a step goes through the table of net effects, and MERGE leaves what an upsert
    behind it brings. `analyzes`: ANALYZE is allowed inside a transaction (of a DWS that is not documented).
    `merges_since` is the first version with MERGE, 0 where every one has it. `path` is the search_path of its sessions.
    """

    name: str
    own_rows: str = ""
    """The storage of a table of ours whose rows change one by one."""
    target: str = ""
    """The storage of a target that is made."""
    spreads: bool = False
    follows: bool = True
    plain: bool = False
    analyzes: bool = True
    merges_since: int = 0
    path: str = "pg_catalog, pg_temp"
    settings: tuple[tuple[str, str], ...] = ()
    """What its sessions set beside those of every sink."""
    has_modes: bool = False
    """Whether a database of it imitates another system's SQL, by which an empty text may be NULL."""

    def spread(self, key: Iterable[Composable]) -> Composable:
        """How a table is spread: by the hash of its key, staging like the target, so that they join on each DN."""
        return SQL(" DISTRIBUTE BY HASH ({})").format(SQL(", ").join(key)) if self.spreads else SQL("")

    def spelled(self, type_: str) -> str:
        """A source's type as this server has it."""
        return type_ if self.spreads else pg_types.at_postgres(type_)


POSTGRES = SinkDialect("postgres", merges_since=150_000)
DWS = SinkDialect(
    "dws",
    own_rows=" WITH (orientation = row)",
    # a real-time mirror is an HStore-opt table, as in the vendor's example
    target=" WITH (orientation = column, enable_hstore_opt = on)",
    spreads=True,
    follows=False,
    plain=True,
    analyzes=False,
    path="pg_catalog",  # DWS, "Statement Behavior": pg_temp is always first, and named behind another it is an error
    # DWS, "Platform and Client Compatibility": on, a text that is too long for its column is cut without a word
    settings=(("td_compatible_truncation", "off"),),
    has_modes=True,
)
DIALECTS = {one.name: one for one in (POSTGRES, DWS)}
