"""Whether a Hologres table can be followed: pure rules over what its catalogs say, each with its cure.

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
"""Hologres: from 2.1 on a stream needs no slot, and SELECT is enough."""
COMPRESSED = (3, 2)
"""Hologres connector: `enable_compression` from 3.2 on."""
_VERSION = re.compile(r"Hologres ([^ ]*)")
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index"}


def records(state: TableState) -> bool:
    """Whether changes of the table go into a binlog."""
    return state.properties.get("binlog.level", "").lower() == "replica"


def refuse_absent(session: HoloSession, table: str) -> None:
    """Refuse by name what is no table of rows that this login may read, before more is asked of it."""
    refuse(list(absent(session, table)), "source")


def absent(session: HoloSession, table: str) -> Iterator[Objection]:
    """Why a name cannot be read at all."""
    name, given = dotted(table), parts(table)
    if not given["name"]:
        yield Objection(f"{table} names no schema", "write schema.table")
        return
    try:
        rows = session.rows("exists", given)
    except SlotkeeperError as error:
        if error.code != "3F000":
            raise
        rows = []
    if not rows:
        yield Objection(f"there is no table {table}", "correct the name")
        return
    kind, readable, usable, parent = rows[0]
    if str(kind) in _KINDS:
        yield Objection(f"{table} is {_KINDS[str(kind)]}", "name the table that holds the rows")
    elif parent:
        cure = "make a channel of each of its partitions: they have binlogs of their own"
        yield Objection(f"{table} is the parent of a partitioned table, whose binlog cannot be read", cure)
    elif not usable:
        yield Objection(
            f"the schema of {table} may not be used", f"GRANT USAGE ON SCHEMA {name.partition('.')[0]} TO <this user>"
        )
    elif not readable:
        yield Objection(f"{table} may not be read", f"GRANT SELECT ON {name} TO <this user>")


def table_objections(table: str, state: TableState) -> Iterator[Objection]:
    """What keeps a job from following the binlog of this table."""
    if not records(state):
        level = state.properties.get("binlog.level", "not set")
        yield Objection(f"{table} records no binlog: its binlog.level is {level}", turn_on(table))
    if not state.shards:
        what = f"how many shards {table} has cannot be read (hologres.hg_table_properties, hg_table_group_properties)"
        yield Objection(what, "see that the table is in a table group, and that this login may read schema hologres")
    if whole(state.properties.get("binlog.ttl", "1")) is None:
        what = f"binlog.ttl of {table} is {safe(state.properties['binlog.ttl'], 60)!r}, no number of seconds"
        yield Objection(what, ttl_text(table, ADVISED_TTL))


def warnings(table: str, state: TableState) -> Iterator[Objection]:
    """What a job can live with, and a person should know."""
    if state.ttl < ADVISED_TTL:
        what = (
            f"binlog.ttl of {table} is {state.ttl} s, below the seven days that Hologres advises: records go by their"
            " own age, read or not, so a job that stands still for longer loses them"
        )
        yield Objection(what, ttl_text(table, ADVISED_TTL))
    orientation = state.properties.get("orientation", "").lower()
    if orientation == "column":
        what = f"{table} is stored by column only: each of its binlog records costs the server a look-up by key"
        yield Objection(what, "make it with orientation row, or row,column (Hologres: row storage is advised)")
    if state.properties.get("is_logical_partitioned_table", "").lower() == "true":
        what = f"{table} is a logical partition table: what is written outside its binlog window is not recorded"
        yield Objection(what, "see partition_generate_binlog_window of the table")
    if "table_id" not in state.properties:
        what = f"table_id of {table} cannot be read: TRUNCATE of it would be seen by its LSNs only"
        yield Objection(what, "let this login read hologres.hg_table_properties")


def version_of(text: str) -> tuple[int, ...] | None:
    """The version out of `hg_version()`.

    >>> version_of("Hologres 2.1.27 (tag: r2.1)"), version_of("PostgreSQL 11.3")
    ((2, 1, 27), None)
    """
    found = _VERSION.search(text)
    numbers = re.match(r"\d+(?:\.\d+)*", found[1]) if found else None
    return tuple(map(int, numbers[0].split("."))) if numbers else None


def stream_objections(
    table: str, state: TableState, version: str, options: BinlogOptions, by_slot: bool = False
) -> Iterator[Objection]:
    """What keeps a job from reading this table by its stream; `version` is what hg_version() says."""
    cure = 'set read_by = "sql", which has every type and every version'
    found = version_of(version)
    if found is not None and found < SLOTLESS and not by_slot:
        spelled = ".".join(map(str, found))
        what = f"Hologres {spelled} streams {table} to a slot only; without one from 2.1 on"
        yield Objection(what, f'{cure}, or dialect = "hologres_slot"')
    elif found is not None and options.enable_compression and found < COMPRESSED:
        spelled = ".".join(map(str, found))
        yield Objection(f"Hologres {spelled} compresses no stream; it does from 3.2 on", "leave enable_compression out")
    if whole(state.properties.get("schema_version", "")) is None:
        what = f"schema_version of {table} cannot be read, by which a stream's rows are understood"
        yield Objection(what, "let this login read hologres.hg_table_properties")
    for column in state.identity.columns:
        try:
            field_of(column)
        except Refused as error:
            yield Objection(f"{table}: {error.message}", cure)


def turn_on(table: str) -> str:
    """The statement that turns a table's binlog on."""
    name = literal(dotted(table))
    return f"BEGIN; CALL set_table_property({name}, 'binlog.level', 'replica'); {ttl_text(table, 2_592_000)} COMMIT;"


def ttl_text(table: str, seconds: int) -> str:
    """The statement that sets a table's TTL."""
    return f"CALL set_table_property({literal(dotted(table))}, 'binlog.ttl', '{seconds}');"
