"""Rules that determine from the catalogs whether a Hologres table can be followed, each with its fix.

Hologres, "Subscribe to Hologres binlogs" (how a binlog is turned on, row storage, TTL of at least seven days), "CREATE
LOGICAL PARTITION TABLE", "TRUNCATE".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slotkeeper.core.domain.finding import Objection, refuse
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.domain.text import safe, whole
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.sources.hologres.catalog import TableState, parts
from slotkeeper.core.sources.hologres.session import HoloSession
from slotkeeper.core.sources.hologres.stream.values import field_of
from slotkeeper.core.sqltext import dotted, literal

ADVISED_TTL = 604_800
"""Hologres: "we recommend that you set this time to no less than seven days"."""
SLOTLESS = (2, 1)
"""Hologres: since 2.1, a stream needs only SELECT and no slot."""
COMPRESSED = (3, 2)
"""Hologres connector: `enable_compression` exists since 3.2."""
_VERSION = re.compile(r"Hologres ([^ ]*)")
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index"}


def records(state: TableState) -> bool:
    return state.properties.get("binlog.level", "").lower() == "replica"


def refuse_absent(session: HoloSession, table: str) -> None:
    """Raise Refused unless a table with this name exists and this login can read its rows."""
    refuse(list(absent(session, table)), "source")


def absent(session: HoloSession, table: str) -> Iterator[Objection]:
    """Yield the reasons why the table with this name cannot be read at all."""
    given = parts(table)
    if not given["name"]:
        yield Objection(f"{table} has no schema", "write schema.table")
        return
    try:
        rows = session.rows("exists", given)
    except SlotkeeperError as error:
        if error.code != "3F000":
            raise
        rows = []
    if not rows:
        yield Objection(f"unknown table {table}", "correct the name")
        return
    kind, readable, usable = rows[0]
    yield from kind_objections(table, str(kind), bool(readable), bool(usable))


def kind_objections(table: str, kind: str, readable: bool, usable: bool) -> Iterator[Objection]:
    """Yield the reasons why a relation of this kind, with these privileges of the login, cannot be read."""
    name = dotted(table)
    if kind in _KINDS:
        yield Objection(f"{table} is {_KINDS[kind]}", "name the table that holds the rows")
    elif kind == "p":
        cure = "give each partition its own channel: each has its own binlog"
        yield Objection(f"{table} is the parent of a partitioned table and has no readable binlog", cure)
    elif not usable:
        yield Objection(
            f"this login cannot use the schema of {table}",
            f"GRANT USAGE ON SCHEMA {name.partition('.')[0]} TO <this user>",
        )
    elif not readable:
        yield Objection(f"this login cannot read {table}", f"GRANT SELECT ON {name} TO <this user>")


def table_objections(table: str, state: TableState) -> Iterator[Objection]:
    """Yield the objections that prevent a job from following this table's binlog."""
    if not records(state):
        level = state.properties.get("binlog.level", "not set")
        yield Objection(f"{table} records no binlog: its binlog.level is {level}", turn_on(table))
    if not state.shards:
        what = f"cannot read the shard count of {table} (hologres.hg_table_properties, hg_table_group_properties)"
        yield Objection(what, "check that the table is in a table group and that this login can read schema hologres")
    if whole(state.properties.get("binlog.ttl", "1")) is None:
        what = f"binlog.ttl of {table} is {safe(state.properties['binlog.ttl'], 60)!r}, not a number of seconds"
        yield Objection(what, ttl_text(table, ADVISED_TTL))


def warnings(table: str, state: TableState) -> Iterator[Objection]:
    """Yield warnings about conditions that a job tolerates but that a user should know about."""
    if state.ttl < ADVISED_TTL:
        what = (
            f"binlog.ttl of {table} is {state.ttl} s, below the seven days that Hologres recommends: the server deletes"
            " records by age, read or not, so a job that is stopped for longer loses changes"
        )
        yield Objection(what, ttl_text(table, ADVISED_TTL))
    orientation = state.properties.get("orientation", "").lower()
    if orientation == "column":
        what = f"{table} is column-oriented: each binlog record costs the server a lookup by key"
        yield Objection(what, "recreate it with orientation row, or row,column (Hologres recommends row storage)")
    if state.properties.get("is_logical_partitioned_table", "").lower() == "true":
        what = f"{table} is a logical partition table: writes outside its binlog window are not recorded"
        yield Objection(what, "check partition_generate_binlog_window of the table")
    if "table_id" not in state.properties:
        what = f"cannot read table_id of {table}: only LSNs would reveal a TRUNCATE"
        yield Objection(what, "grant this login SELECT on hologres.hg_table_properties")


def version_of(text: str) -> tuple[int, ...] | None:
    """Return the version contained in the result of `hg_version()`.

    >>> version_of("Hologres 2.1.27 (tag: r2.1)"), version_of("PostgreSQL 11.3")
    ((2, 1, 27), None)
    """
    found = _VERSION.search(text)
    numbers = re.match(r"\d+(?:\.\d+)*", found[1]) if found else None
    return tuple(map(int, numbers[0].split("."))) if numbers else None


def stream_objections(
    table: str, state: TableState, version: str, options: BinlogOptions, by_slot: bool = False
) -> Iterator[Objection]:
    """Yield the objections to reading this table by stream; `version` is the result of hg_version()."""
    cure = 'set read_by = "sql", which supports every type and every version'
    found = version_of(version)
    if found is not None and found < SLOTLESS and not by_slot:
        spelled = ".".join(map(str, found))
        what = f"Hologres {spelled} streams {table} only to a slot (without a slot from 2.1 on)"
        yield Objection(what, f'{cure}, or dialect = "hologres_slot"')
    elif found is not None and options.enable_compression and found < COMPRESSED:
        spelled = ".".join(map(str, found))
        yield Objection(f"Hologres {spelled} cannot compress a stream (3.2 and later can)", "remove enable_compression")
    if whole(state.properties.get("schema_version", "")) is None:
        what = f"cannot read schema_version of {table}, which a stream needs"
        yield Objection(what, "grant this login SELECT on hologres.hg_table_properties")
    for column in state.identity.columns:
        try:
            field_of(column)
        except Refused as error:
            yield Objection(f"{table}: {error.message}", cure)


def turn_on(table: str) -> str:
    name = literal(dotted(table))
    return f"BEGIN; CALL set_table_property({name}, 'binlog.level', 'replica'); {ttl_text(table, 2_592_000)} COMMIT;"


def ttl_text(table: str, seconds: int) -> str:
    return f"CALL set_table_property({literal(dotted(table))}, 'binlog.ttl', '{seconds}');"
