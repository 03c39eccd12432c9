"""Rules that determine from the catalogs whether a job can use a server running DWS, a table and a row filter.

Sources of the rules: DWS "Real-Time Binlog Consumption by Flink" (precautions), "Subscribing to Hybrid Data Warehouse
Binlog" (constraints), the pages of CREATE TABLE and of the GUC parameters. A fact that cannot be read (None) raises no
objection: `doctor` reports it as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from slotkeeper.core.domain.finding import INHERITED, Objection
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.sqltext import dotted, quoted

LEAST_KERNEL = (9, 1, 0, 200)
"""DWS: the first kernel with the binlog functions."""

NEEDED = (
    "pgxc_get_binlog_sync_point",
    "pgxc_get_binlog_changes",
    "pgxc_register_binlog_sync_point",
    "pgxc_get_binlog_cursor_by_syncpoint",
)
"""The functions that a job needs; kernel 9.1.0.200 and newer kernels have all of them."""

NEW_NAMES = ("gs_binlog_sync_point", "gs_binlog_event_sequence", "gs_binlog_event_type")
OLD_NAMES = ("sync_point", "event_sequence", "type")
"""The old names of the three system columns; kernels that still have them need `new_system_value = false`."""

TIME = "gs_binlog_timestamp_us"
"""The time of a record, which only the new names have; NULL unless the table has enable_binlog_timestamp."""

_TAKEN = {True: (*NEW_NAMES, TIME), False: OLD_NAMES}

_KERNEL = re.compile(r"GaussDB[^\d]{0,12}(\d+(?:\.\d+)+)")
_ON = ("on", "true", "yes", "1")
_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "c": "a composite type",
    "i": "an index",
    "t": "a TOAST table",
}
_SPREADS = {"R": "replicated to every DN", "N": "distributed round robin"}
FREE, LITE = ("gtm-free", "2"), ("gtm-lite", "1")
"""Values of gtm_option in DWS, by name and by number; gtm (0) is the default."""
_WITH = "WITH (orientation = column, enable_hstore_opt = on, enable_binlog = on)"


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Properties of a table from the catalogs; None if unknown. `kind` and `persistence` are the letters in pg_class.

    `usable` means that this login can use the schema, and `readable` that it can also read the table. `row_security`
    means that the server hides rows from this login, and `redacted` that a redaction policy is on. `owned` means that
    this login owns the table, and `administers` that it is a system administrator. `partitioned` means that parttype is
    not n (DWS, PG_CLASS). `columns` are all column names in order, `virtual` the columns that are computed when read,
    and `inheritors` the tables that inherit from this table.
    """

    readable: bool
    has_key: bool
    deferrable: bool
    options: str
    distribution: str | None
    kind: str = "r"
    persistence: str = "p"
    row_security: bool | None = None
    redacted: bool | None = None
    owned: bool = False
    administers: bool = False
    partitioned: bool = False
    columns: tuple[str, ...] = ()
    virtual: tuple[str, ...] = ()
    inheritors: tuple[str, ...] = ()
    usable: bool = True


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Properties of a server: version string, binlog functions (and whether this login can call each), settings."""

    version: str
    functions: Mapping[str, bool]
    settings: Mapping[str, str] = field(default_factory=dict)


def kernel(version: str) -> tuple[int, ...] | None:
    """Return the kernel's version from the result of `version()`; None if the result contains no kernel version.

    >>> kernel("PostgreSQL 9.2.4 (GaussDB 9.1.0.210 build 1a2b3c) compiled at ..."), kernel("PostgreSQL 18.1")
    ((9, 1, 0, 210), None)
    """
    found = _KERNEL.search(version)
    return tuple(map(int, found[1].split("."))) if found else None


def server_objections(facts: ServerFacts, source: str = "SOURCE", points_proven: bool = False) -> Iterator[Objection]:
    """Yield the objections that apply to every table of this server.

    `source` is the server's name in the configuration. `points_proven`: a probe recorded how it creates sync points.
    """
    found = kernel(facts.version)
    if found and found < LEAST_KERNEL[: len(found)]:
        text = ".".join(map(str, found))
        yield Objection(
            f"kernel {text} is too old for the binlog functions", "upgrade the cluster to 9.1.0.200 or newer"
        )
    absent = [name for name in NEEDED if name not in facts.functions]
    if absent:
        yield Objection(f"missing {', '.join(absent)}: a job needs kernel 9.1.0.200 or newer", "upgrade the cluster")
    for name in NEEDED:
        if facts.functions.get(name) is False:
            yield Objection(f"cannot execute {name}", f"GRANT EXECUTE ON FUNCTION pg_catalog.{name} TO <this user>")
    yield from _point_objections(facts.settings, source, points_proven)


def _point_objections(settings: Mapping[str, str], source: str, points_proven: bool) -> Iterator[Objection]:
    """Yield an objection unless each transaction has one sync point, in the order of commits.

    DWS, "Subscribing to Hybrid Data Warehouse Binlog": points are unique and ordered "in common GTM mode"; GTM-Lite is
    not mentioned. DWS, enable_gtm_free: on selects GTM-Free regardless of gtm_option, and every DN then has its own
    transaction numbers; older kernels have only enable_gtm_free.
    """
    mode, free = settings.get("gtm_option", ""), settings.get("enable_gtm_free", "")
    if free.lower() in _ON:
        cure = "ask an administrator to set enable_gtm_free to off and gtm_option to gtm, and to restart the cluster"
        yield Objection(f"enable_gtm_free is {free}: a job needs one sync point per transaction", cure)
    elif mode.lower() in FREE:
        cure = "ask an administrator to set gtm_option to gtm, and to restart the cluster"
        yield Objection(f"gtm_option is {mode}: a job needs one sync point per transaction", cure)
    elif mode.lower() in LITE and not points_proven:
        what = f"gtm_option is {mode}: DWS does not document one ordered sync point per transaction"
        cure = f"run `slotkeeper doctor --probe {source}`; or ask an administrator to set gtm_option to gtm"
        yield Objection(what, cure)


def table_objections(
    table: str, facts: TableFacts | None, binlog: bool, settings: Mapping[str, str] | None = None
) -> Iterator[Objection]:
    """Yield the objections to this table; if `binlog` is false (a single full copy), only the objections to a copy."""
    name = dotted(table)
    yield from name_objections(table)
    if facts is None:
        yield Objection(
            f"unknown table {table}, or this login cannot use its schema", "correct the name, or GRANT USAGE"
        )
        return
    if facts.kind in _KINDS:
        yield Objection(f"{table} is {_KINDS[facts.kind]}", "name the table that holds the rows")
        return
    if not facts.usable:
        schema = quoted(table.partition(".")[0])
        yield Objection(
            f"this login cannot use the schema of {table}", f"GRANT USAGE ON SCHEMA {schema} TO <this user>"
        )
    elif not facts.readable:
        yield Objection(f"this login cannot read {table}", f"GRANT SELECT ON {name} TO <this user>")
    yield from hidden_objections(table, facts)
    if facts.persistence in ("t", "g"):
        yield Objection(
            f"{table} is a temporary table", "recreate it as an ordinary table: no other session sees its rows"
        )
    elif facts.persistence == "u":
        yield Objection(
            f"{table} is unlogged: a crash empties it without a record in the binlog",
            "recreate it as an ordinary table",
        )
    if facts.inheritors and facts.kind == "r":
        # DWS has no CREATE TABLE ... INHERITS; if a table nevertheless has children, no key is unique across them
        cure = f"ALTER TABLE {facts.inheritors[0]} NO INHERIT {name}; then add a channel for it"
        yield Objection(f"{table} {INHERITED}", cure)
    if not facts.has_key:
        yield no_key(table)
    elif facts.deferrable:
        yield deferrable(table)
    if binlog:
        yield from _binlog_objections(table, facts, settings or {})


def hidden_objections(table: str, facts: TableFacts) -> Iterator[Objection]:
    """Yield objections to a table with rows or values hidden from this login: a copy and `verify` would miss them.

    PostgreSQL: row_security_active. DWS, "Row-Level Access Control": ENABLE ROW LEVEL SECURITY sets the option
    enable_rowsecurity; ALTER TABLE: the owner is exempt unless FORCE is on as well; a system administrator is always
    exempt. DWS, CREATE REDACTION POLICY: only users with the sysadmin permission are exempt from policies; the catalog
    does not show which users the policy's expression selects.
    """
    name, given = dotted(table), given_options(facts.options)
    exempt = facts.administers or (facts.owned and not _on(given, "force_rowsecurity"))
    if facts.row_security or (_on(given, "enable_rowsecurity") and not exempt):
        cure = f"ALTER TABLE {name} DISABLE ROW LEVEL SECURITY, or use a login that bypasses it (BYPASSRLS, sysadmin)"
        yield Objection(f"{table} has row-level security, which can hide rows from this login", cure)
    if facts.redacted and not facts.administers:
        cure = f"DROP REDACTION POLICY <name> ON {name}, or use a login with sysadmin"
        yield Objection(f"{table} has a redaction policy: the job would copy masked values", cure)


def column_objections(
    table: str, facts: TableFacts | None, new_names: bool, mirrored: Collection[str]
) -> Iterator[Objection]:
    """Yield the objections to the columns that a job mirrors (all columns if none is named).

    DWS does not document a table column that has the name of a binlog column; neither column could be read by name.
    DWS, CREATE TABLE: a column-store table, and so an HStore table, has no generated columns.
    """
    if facts is None:
        return
    for name in facts.columns:
        if name in _TAKEN[new_names]:
            cure = f"ALTER TABLE {dotted(table)} RENAME COLUMN {quoted(name)} TO ..."
            yield Objection(f"column {name} of {table} has the name of a column of the binlog", cure)
    for name in facts.virtual:
        if not mirrored or name in mirrored:
            what = f"column {name} of {table} is a virtual column: the binlog does not contain its value"
            made = f"recreate it with GENERATED ALWAYS AS (...) STORED: ALTER TABLE {dotted(table)} DROP COLUMN"
            yield Objection(what, f"omit it with columns = {{ ... }}, or {made} {quoted(name)}, ADD COLUMN ...")


def name_objections(table: str) -> Iterator[Objection]:
    """Yield an objection to special characters in the name, such as periods and double quotation marks (DWS)."""
    schema, _, own = table.partition(".")
    if "." in own or '"' in table:
        plain = re.sub(r'[."]', "_", own)
        new = f'ALTER TABLE "{schema}"."{own.replace(chr(34), chr(34) * 2)}" RENAME TO {plain}'
        yield Objection(f"the name of {table} contains a period or a double quotation mark", new)


def no_key(table: str) -> Objection:
    """Return the objection to a missing key; DWS: "must have primary keys"."""
    return Objection(
        f"source table {table} has no primary key", f"ALTER TABLE {dotted(table)} ADD PRIMARY KEY (...); see doctor"
    )


def cast_key(table: str, column: str, function: str) -> Objection:
    """Return the objection to a key type with an implicit cast through a user's function, which affects comparisons."""
    what = f"key column {column!r} of {table} has an implicit cast, which runs {function} as the job's login"
    return Objection(what, "drop the cast (DROP CAST), or recreate it AS ASSIGNMENT")


def deferrable(table: str) -> Objection:
    """Return the objection to a deferrable key: two rows of a transaction can share it, so order per key is lost."""
    cure = f"ALTER TABLE {dotted(table)} DROP CONSTRAINT ..., ADD PRIMARY KEY (...) NOT DEFERRABLE"
    return Objection(f"the primary key of {table} is deferrable: a job needs a key that is not deferrable", cure)


def _binlog_objections(table: str, facts: TableFacts, settings: Mapping[str, str]) -> Iterator[Objection]:
    name, given = dotted(table), given_options(facts.options)
    again = f"recreate it: CREATE TABLE ... {_WITH}, and move the rows"
    if facts.distribution not in (None, "H"):
        spread = _SPREADS.get(facts.distribution, f"distributed by {facts.distribution}")
        cure = f"ALTER TABLE {name} DISTRIBUTE BY HASH (<columns of the key>)"
        yield Objection(f"{table} is {spread}: only a hash-distributed table has a binlog", cure)
    if not _on(given, "enable_hstore_opt"):
        if not _on(given, "enable_hstore"):
            yield Objection(f"{table} is neither an HStore nor an HStore-opt table", again)
            return
        if given.get("colversion", "").startswith("3"):
            yield Objection(f"{table} is a V3 HStore table: a V3 table has a binlog only with HStore-opt", again)
            return
    if not (_on(given, "enable_binlog") or _on(given, "enable_binlog_timestamp")):
        cure = f"ALTER TABLE {name} SET (enable_binlog = on)"
        if settings.get("enable_hstore_binlog_table") == "off":
            cure += "; first ask an administrator to set enable_hstore_binlog_table = on"
        yield Objection(f"{table} has neither enable_binlog nor enable_binlog_timestamp set", cure)


TRACES = ("events", "clears", "clears some", "refused")
"""Answers of the probe that mean that the binlog shows the removal of a partition."""


def partition_warning(table: str, source: str, answers: Sequence[str]) -> Objection | None:
    """Return a warning unless the binlog shows that a partition was truncated or dropped.

    `answers` are the probe's answers about TRUNCATE PARTITION and DROP PARTITION, "" if unknown. DWS, "Subscribing to
    Hybrid Data Warehouse Binlog", lists the DDL that clears increments and points; the list contains neither of these
    statements.
    """
    if all(one in TRACES for one in answers):
        return None
    what = f"{table} is partitioned: DWS does not document whether its binlog shows TRUNCATE or DROP PARTITION"
    cure = f"run `slotkeeper doctor --probe {source}`; until then DELETE the rows before you remove a partition"
    if "neither" in answers:
        what = f"{table} is partitioned: a probe showed that TRUNCATE or DROP PARTITION leaves rows in the target"
        cure = "DELETE the rows before you remove a partition, or take a new snapshot afterwards"
    return Objection(what, cure)


def creation_objections(settings: Mapping[str, str]) -> Iterator[Objection]:
    """Yield objections to creating a table with a binlog on this server."""
    if settings.get("enable_hstore_binlog_table") == "off":
        cure = "to create tables with a binlog, ask an administrator to set it to on (needs only a reload)"
        yield Objection("enable_hstore_binlog_table is off: no new table can have a binlog", cure)


def empties(settings: Mapping[str, str]) -> str:
    """Describe how this server stores empty strings; "" if unknown."""
    mode = settings.get("sql_compatibility", "").upper()
    if mode == "ORA":
        return "sql_compatibility is ORA: this server stores an empty string as NULL, and the job copies NULL"
    return f"sql_compatibility is {mode}: an empty string is stored as an empty string" if mode else ""


def given_options(text: str) -> dict[str, str]:
    """Return the storage options by name; names and values are in lower case.

    >>> given_options("orientation=column,enable_binlog=on")
    {'orientation': 'column', 'enable_binlog': 'on'}
    """
    pairs = (part.partition("=") for part in text.lower().split(",") if part)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _on(given: Mapping[str, str], name: str) -> bool:
    return given.get(name, "off") in _ON


_TEXTS = ("text", "character", "varchar", "bpchar", "nvarchar2", "clob", "name", '"char"')
"""Types whose values can be the string `now`, which yields a different time at each cast."""


def filter_objections(where: str, identity: TableIdentity, casts: Iterable[tuple[str, str]]) -> Iterator[Objection]:
    """Yield the objections to a row filter on this table; `where` is the string that `row_filter.read` returned.

    `casts` contains each column whose type has a cast through a user's function, and that function; the owner of a type
    can create such a cast.
    """
    from slotkeeper.core import row_filter  # imported here, because a worker has no parser

    try:
        found = row_filter.read(where)
    except row_filter.WrongFilter as error:
        yield Objection(f"cannot parse where: it {error}", "correct the channel's row filter")
        return
    if found.text != where:
        yield Objection(
            "where is not the text of its parsed row filter",
            "pass the text that slotkeeper.core.row_filter.read returns",
        )
        return
    types = {column.name: identity.plain(column.type) for column in identity.columns}
    absent = sorted(found.columns - set(types))
    if absent:
        known = ", ".join(types)
        yield Objection(
            f"where names column {absent[0]!r}, which the source table does not have", f"its columns: {known}"
        )
        return
    for name, function in casts:
        if name in found.columns:  # even if the filter does not cast the column: a function on text casts it implicitly
            what = f"where uses column {name!r}: a cast of its type {types[name]} runs {function} as the job's login"
            yield Objection(what, "filter on another column, or drop the cast (DROP CAST)")
    for name in sorted(found.bare):
        own = identity.user_type(types[name])
        if own and own.kind != "e":
            what = f"where uses column {name!r} without a cast: its type {types[name]} defines its own operators"
            yield Objection(what, "cast the column, such as column::text")
    for name in sorted(found.timed):
        if types[name].startswith(_TEXTS) or identity.user_type(types[name]):
            what = (
                f"where casts column {name!r} from {types[name]} to a time: the result for 'now' changes with each read"
            )
            yield Objection(what, "compare it as text, or store the time in its own column")
