"""Decides whether a target can store the source, with pure rules over facts from the sink's catalogs.

Each objection names the object and the statement that fixes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slotkeeper.core.domain import type_name
from slotkeeper.core.domain.finding import INHERITED, Objection
from slotkeeper.core.domain.slot import Column, TableIdentity, UserType, without_domains
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg, pg_types
from slotkeeper.core.drivers.pg_table import Operators, operators_of
from slotkeeper.core.drivers.session import Book, Rows
from slotkeeper.core.sinks.postgres.check import made_types
from slotkeeper.core.sinks.postgres.session import SinkDialect, SinkSession
from slotkeeper.core.sinks.postgres.write.statements import TargetTable
from slotkeeper.core.sqltext import dotted, quoted

_SQL: Book = ("slotkeeper.core.sinks.postgres.check", "eligibility.sql")
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "c": "a composite type"}
_SHORTER_TARGET = "name a shorter target in `into`"
_OTHER_COLUMN = "map the column to another name in the channel's `columns`"


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column of the target; `base` is set for a domain, `refuses_null` if that domain is NOT NULL.

    `generated`: the column accepts no explicit value; `computed`: the server computes it from other columns.
    """

    type: str
    needed: bool
    filled: bool
    generated: bool
    computed: bool = False
    base: str = ""
    refuses_null: bool = False


@dataclass(frozen=True, slots=True)
class TargetKey:
    """A unique index; `plain`: without predicate and expressions; `constraint`: empty if the index has none.

    A key that is not `valid` is incomplete: for example, a partitioned table's index before each partition has its own.
    """

    index: str
    constraint: str
    immediate: bool
    plain: bool
    columns: tuple[str, ...]
    valid: bool = True


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """A target's facts from the catalogs; `foreign`: (name, table with the constraint, whether it is the target).

    `folding`: columns whose collation treats different strings as equal. `functions`: (constraint, index or column,
    function, its schema as SQL) for functions whose bodies resolve names through their caller's search_path. `casts`:
    implicit casts, as (column, function). `inheritors`: tables that inherit from a table that is not partitioned.
    `sharers`: (target, job) for jobs that write to a parent table or a partition of this one.
    """

    kind: str
    persistence: str
    row_security: bool
    columns: dict[str, TargetColumn]
    keys: tuple[TargetKey, ...]
    foreign: tuple[tuple[str, str, bool], ...]
    triggers: tuple[str, ...]
    rules: tuple[str, ...]
    types: dict[str, UserType]
    folding: tuple[str, ...] = ()
    functions: tuple[tuple[str, str, str], ...] = ()
    casts: tuple[tuple[str, str], ...] = ()
    inheritors: tuple[str, ...] = ()
    partitions: tuple[Partition, ...] = ()
    sharers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition on any level, with its own facts and only the columns that are stricter than the target's.

    The facts exclude copied triggers, keys and parts of indexes that the partition only inherits from its table.
    """

    name: str
    parent: str
    facts: TargetFacts


def exists(session: SinkSession, name: str) -> bool:
    """Whether `schema.table`, taken literally, exists."""
    return bool(session.fetched("oid", _named(name), _SQL))


def is_partitioned(session: SinkSession, name: str) -> bool:
    """Whether the rows of `schema.table` are stored in partitions."""
    return session.fetched("kind", _named(name), _SQL) == [("p",)]


def columns(session: SinkSession, name: str) -> dict[str, TargetColumn]:
    """Return the columns of `schema.table` in order; empty if the table does not exist."""
    with session.transaction() as cursor:
        found = _rows(cursor, session, "oid", _named(name))
        return _columns(cursor, session, {"oid": found[0][0]}) if found else {}


def operators(session: SinkSession, name: str, key: Sequence[str]) -> Operators:
    """Return the operators that compare the key of `schema.table`, from the first unique index on exactly that key."""
    with session.transaction() as cursor:
        found = _rows(cursor, session, "oid", _named(name))
        rows = _rows(cursor, session, "operators", {"oid": found[0][0]}) if found else []
    return operators_of(row[:4] for row in rows if set(row[4]) == set(key))


def read(session: SinkSession, name: str, wanted: Sequence[UserType] = ()) -> TargetFacts | None:
    """Return the facts of `schema.table`; None if it does not exist. `wanted`: the source's user-defined types."""
    with session.transaction() as cursor:
        found = _rows(cursor, session, "oid", _named(name))
        if not found:
            return None
        oid = found[0][0]
        tree = _rows(cursor, session, "tree", {"oid": oid})
        inner = {at: (name, parent) for at, is_partition, name, parent in tree if is_partition}
        place = {"oid": oid, "oids": [oid, *inner], "schema": session.schema.string}
        every = _own_facts(cursor, session, place)
        if oid not in every:
            return None  # it was dropped meanwhile
        stricter: dict[int, dict[str, TargetColumn]] = defaultdict(dict)
        for at, column, needed, computed in _rows(cursor, session, "stricter", place) if inner else ():
            stricter[at][column] = TargetColumn("", needed, False, computed, computed)
        types: dict[str, UserType] = {}
        for one in wanted:
            for kind, base, parts in _rows(cursor, session, "type", {"type": one.name})[:1]:
                types[one.name] = UserType(one.name, kind, base, tuple(parts))
        # DWS partitions are not tables, so no target is a partition of another target
        within, sharers = {"oid": oid, "schema": session.schema.string}, Rows()
        if not session.dialect.plain and _rows(cursor, session, "lies_in_a_tree", within):
            sharers = _rows(cursor, session, "sharers", within)
        return replace(
            every[oid],
            columns=_columns(cursor, session, place),
            types=types,
            folding=tuple(row[0] for row in _rows(cursor, session, "folding", place)),
            casts=tuple(_rows(cursor, session, "implicit_casts", place)),
            inheritors=tuple(row[2] for row in tree if not row[1]),
            sharers=tuple(sharers),
            partitions=tuple(
                Partition(name, parent, replace(every[at], columns=stricter[at]))
                for at, (name, parent) in inner.items()
                if at in every
            ),
        )


def _own_facts(cursor: pg.Cursor, session: SinkSession, place: dict[str, Any]) -> dict[int, TargetFacts]:
    """Return the facts of the target and its partitions, by oid, with as many statements as for a single table."""

    def of(name: str) -> dict[int, list[tuple[Any, ...]]]:
        found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for at, *rest in _rows(cursor, session, name, place):
            found[at].append(tuple(rest))
        return found

    keys, foreign, triggers, rules, functions = map(of, ("keys", "foreign_keys", "triggers", "rules", "functions"))
    return {
        at: TargetFacts(
            kind,
            persistence,
            row_security,
            columns={},
            keys=tuple(
                TargetKey(index, constraint or "", immediate, plain, tuple(names), valid)
                for index, constraint, immediate, plain, names, valid in keys[at]
            ),
            foreign=tuple(foreign[at]),
            triggers=tuple(name for (name,) in triggers[at]),
            rules=tuple(name for (name,) in rules[at]),
            types={},
            functions=tuple(functions[at]),
        )
        for at, kind, persistence, row_security in _rows(cursor, session, "relations", place)
    }


def _columns(cursor: pg.Cursor, session: SinkSession, place: dict[str, Any]) -> dict[str, TargetColumn]:
    return {row[0]: TargetColumn(*row[1:]) for row in _rows(cursor, session, "columns", place)}


def _rows(cursor: pg.Cursor, session: SinkSession, name: str, parameters: dict[str, Any]) -> Rows:
    return session.run(cursor, session.of_dialect(name, _SQL), parameters, _SQL).fetchall()


def _named(name: str) -> dict[str, Any]:
    schema, _, table = name.partition(".")
    return {"schema": schema, "name": table}


def objections(
    target: TargetTable, identity: TableIdentity, facts: TargetFacts | None, options: SinkOptions
) -> Iterator[Objection]:
    """Yield objections to this target for this source; `identity`: the source as mapped by the channel."""
    if facts is None:
        yield _objection(target, "does not exist", "create it, or set create_target = true")
        return
    yield from table_objections(target.name, facts, target.columns)
    if facts.kind in _KINDS:
        return
    for column in identity.columns:
        yield from _column_objections(target, column, identity, facts)
    yield from _other_objections(target, facts.columns, options)
    for name in target.computed if target.marks else ():
        if name in facts.columns and facts.columns[name].needed:
            what = f"has NOT NULL column {name!r}, which a replacing copy sets to NULL in deleted rows"
            yield _objection(
                target, what, f"ALTER TABLE {dotted(target.name)} ALTER COLUMN {quoted(name)} DROP NOT NULL"
            )
    yield from _key_objections(target, facts)
    for part in facts.partitions:
        yield from _partition_objections(target, part, facts, options)
    for name, function in facts.casts:
        if name in target.key:
            what = f"has key column {name!r} whose type has an implicit cast, which runs {function} as the job's login"
            yield _objection(target, what, "drop the cast (DROP CAST), or recreate it AS ASSIGNMENT")
    for column in identity.columns if options.quarantines else ():
        # a quarantined row is found through the text of its key, so equal keys must have the same text
        if column.name in target.key and not form(column.type, identity):
            what = (
                f"stores key column {column.name!r} as {column.type}, whose equal values can have different text forms"
            )
            yield _objection(target, f"{what}: the job cannot quarantine its rows", 'set on_bad_row = "stop"')


def form(spelled: str, identity: TableIdentity) -> str:
    """Return the conversion that gives equal values of a key column of this type the same text; empty if unknown."""
    plain = identity.plain(spelled)
    own = identity.user_type(plain)
    return pg_types.form_of(plain, own.kind if own and own.name == plain else "")


def _other_objections(
    target: TargetTable, columns: Mapping[str, TargetColumn], options: SinkOptions, part: str = ""
) -> Iterator[Objection]:
    """Yield objections to columns that exist only in the target, depending on the options."""
    for name, it in columns.items():
        if name in target.columns or not it.needed or it.computed:
            continue
        alter = f"ALTER TABLE {dotted(part or target.name)} ALTER COLUMN {quoted(name)}"
        if options.conflict_strategy == "replace":
            what = f'has NOT NULL column {name!r}, which conflict_strategy = "replace" sets to NULL'
            yield _objection(target, what, f"{alter} DROP NOT NULL", part)
        elif not it.filled and not options.updates_only:
            what = f"requires a value for column {name!r}, which is not mapped"
            cure = f"{alter} DROP NOT NULL" if part else f"{alter} SET DEFAULT ... (or DROP NOT NULL)"
            yield _objection(target, what, cure, part)


def _partition_objections(
    target: TargetTable, part: Partition, facts: TargetFacts, options: SinkOptions
) -> Iterator[Objection]:
    """Yield objections to one partition; a row gets the defaults of the target, because statements name the target."""
    filled = {
        name: replace(it, filled=facts.columns[name].filled)
        for name, it in part.facts.columns.items()
        if name in facts.columns
    }
    yield from _other_objections(target, filled, options, part.name)
    for name, it in part.facts.columns.items():
        if name in target.columns and it.generated:
            cure = f"ALTER TABLE {dotted(part.name)} ALTER COLUMN {quoted(name)} DROP EXPRESSION"
            yield _objection(target, f"generates column {name!r} itself", cure, part.name)
    yield from _colliding_keys(target, part.facts.keys, part.name)


def table_objections(name: str, facts: TargetFacts, mapped: Sequence[str] = ()) -> Iterator[Objection]:
    """Yield objections to this table, or a partition of it, as the target of any job.

    The default of a `mapped` column never applies, because each row has a value for the column.
    """
    if facts.kind in _KINDS:
        yield Objection(
            f"target {name} is {_KINDS[facts.kind]}", "name an ordinary table, or one that does not exist yet"
        )
        return
    yield from _own_objections(f"target {name}", name, facts)
    if facts.inheritors:
        cure = f"ALTER TABLE {dotted(facts.inheritors[0])} NO INHERIT {dotted(name)}"
        yield Objection(f"target {name} {INHERITED}", cure)
    for other, job in facts.sharers:
        what = f"target {name} shares rows with target {other} of job {job}: one is a partition of the other"
        yield Objection(what, "choose another target, or cancel that job: a table can have only one job")
    silent, named = {f"default of {column}" for column in mapped}, set()
    for owner, function, schema in (one for one in facts.functions if one[0] not in silent):
        named.add(function)
        yield _looking_up(f"target {name}", owner, function, schema)
    for part in facts.partitions:
        subject = f"partition {part.name} of target {name}"
        if part.facts.kind in _KINDS:
            cure = f"ALTER TABLE {dotted(part.parent)} DETACH PARTITION {dotted(part.name)}"
            yield Objection(f"{subject} is {_KINDS[part.facts.kind]}", f"{cure}, and attach an ordinary table")
            continue
        yield from _own_objections(subject, part.name, part.facts)
        for owner, function, schema in (one for one in part.facts.functions if one[1] not in named):
            named.add(function)
            yield _looking_up(subject, owner, function, schema)


def _own_objections(subject: str, name: str, facts: TargetFacts) -> Iterator[Objection]:
    """Yield objections to one table's triggers, rules and similar objects, for the target or a partition of it."""
    spelled = dotted(name)
    if facts.persistence != "p":
        what = f"{subject} is not a logged table: a crash would empty it, but not its progress rows"
        yield Objection(what, f"ALTER TABLE {spelled} SET LOGGED")
    if facts.row_security:
        what = f"{subject} has row-level security, which can hide rows from the job"
        yield Objection(what, f"ALTER TABLE {spelled} DISABLE ROW LEVEL SECURITY, or a user with BYPASSRLS")
    for trigger in facts.triggers:
        cure = f"ALTER TABLE {spelled} DISABLE TRIGGER {quoted(trigger)}"
        yield Objection(f"{subject} has a trigger ({trigger}): its rows can differ from the source's", cure)
    for rule in facts.rules:
        yield Objection(f"{subject} has a rule ({rule})", f"DROP RULE {quoted(rule)} ON {spelled}")
    for constraint, table, own in facts.foreign:
        cure = f"ALTER TABLE {table} DROP CONSTRAINT {quoted(constraint)}"
        what = "has a foreign key" if own else "is referenced by a foreign key"
        yield Objection(f"{subject} {what} ({constraint}): the job does not preserve order between tables", cure)


def _looking_up(subject: str, owner: str, function: str, schema: str) -> Objection:
    what = f"{subject} runs {function} ({owner}), which resolves names by the job's pinned search_path"
    return Objection(
        what, f"ALTER FUNCTION {function} SET search_path = {schema}, plus other schemas that its body needs"
    )


def made_objections(name: str, identity: TableIdentity, session: SinkSession) -> list[Objection]:
    """Return objections to creating the target `name`: to its names, and to types that the sink lacks.

    On DWS, only user-defined types are checked: the source's built-in types are built in there, too.
    """
    with session.transaction() as cursor:
        longest, system = _rows(cursor, session, "names", {})[0]
        found = list(name_objections(name, [column.name for column in identity.columns], longest, system))

        def lacks(spelled: str) -> bool:
            return not _rows(cursor, session, "knows", {"type": spelled})[0][0]

        for column in identity.columns:
            made = made_type(column.type, identity, session.dialect)
            own = identity.user_type(made)
            if session.dialect.spreads and own is None:
                continue
            spelled = own.name if own else made
            if lacks(spelled):
                what = f"cannot create target {name}: the sink has no type {spelled} (column {column.name!r})"
                what += ", the row type of a table" if own and own.table else ""
                found.append(Objection(what, made_types.cure(own, identity, lacks) if own else made_types.MANUAL))
    return found


def name_objections(target: str, columns: Sequence[str], longest: int, system: Collection[str]) -> Iterator[Objection]:
    """Yield objections to names that are too long for the sink, which truncates them, or belong to system columns.

    PostgreSQL, "Identifiers and Key Words" (NAMEDATALEN) and "System Columns".

    >>> [one.what for one in name_objections("mart.t", ["id", "ctid"], 63, ["ctid"])]
    ["cannot create target mart.t: column 'ctid' has the name of a system column of the sink"]
    >>> [one.what for one in name_objections("mart.tables", ["a", "longer"], 5, [])]
    ["cannot create target mart.tables: name 'tables' has 6 bytes, the sink's limit is 5", \
"cannot create target mart.tables: name 'longer' has 6 bytes, the sink's limit is 5"]
    """
    named = [(name, _SHORTER_TARGET) for name in target.split(".", 1)] + [(name, _OTHER_COLUMN) for name in columns]
    for name, cure in named:
        size = len(name.encode())
        if size > longest:
            what = f"cannot create target {target}: name {name!r} has {size} bytes, the sink's limit is {longest}"
            yield Objection(what, cure)
    for name in columns:
        if name in system:
            what = f"cannot create target {target}: column {name!r} has the name of a system column of the sink"
            yield Objection(what, _OTHER_COLUMN)


def made_type(spelled: str, identity: TableIdentity, dialect: SinkDialect) -> str:
    """Return the type of a new column, as the sink names it; for a domain, its base type, which has the same text."""
    return dialect.spelled(identity.plain(spelled))


def collations(cursor: pg.Cursor, session: SinkSession, names: Sequence[str]) -> set[str]:
    """Return the collations among `names` (SQL text with schemas) that the sink supports for a created column."""
    if not names:
        return set()
    return {str(name) for (name,) in _rows(cursor, session, "collations", {"names": sorted(set(names))})}


def collations_lacked(identity: TableIdentity, session: SinkSession) -> list[tuple[str, str]]:
    """Return each (column, collation) of the source that a created target lacks because the sink does not have it."""
    wanted = [(column.name, column.collation) for column in identity.columns if column.collation]
    with session.transaction() as cursor:
        known = collations(cursor, session, [collation for _, collation in wanted])
    return [(name, collation) for name, collation in wanted if collation not in known]


def _column_objections(
    target: TargetTable, column: Column, identity: TableIdentity, facts: TargetFacts
) -> Iterator[Objection]:
    alter = f"ALTER TABLE {dotted(target.name)} ALTER COLUMN {quoted(column.name)}"
    there = facts.columns.get(column.name)
    wanted = identity.plain(column.type)
    if there is None:
        made = type_name.sql(pg_types.at_postgres(wanted))
        cure = f"ALTER TABLE {dotted(target.name)} ADD COLUMN {quoted(column.name)} {made}"
        yield _objection(target, f"has no column {column.name!r}", cure)
        return
    if there.generated:
        left = "omit it with columns = { ... }: the target continues to compute it"
        cure = f"{alter} DROP EXPRESSION (an identity: SET GENERATED BY DEFAULT), or {left}"
        yield _objection(target, f"generates column {column.name!r} itself", cure)
    if there.refuses_null:
        what = f"stores column {column.name!r} in a NOT NULL domain, but old images contain NULL"
        yield _objection(target, what, f"{alter} TYPE {type_name.sql(there.base)}")
    source, has = identity.user_type(wanted), there.base or without_domains(there.type, facts.types.values())
    if source is None or there.type == "text":
        if not pg_types.fits(has, wanted):
            over = f"a domain over {wanted}" if wanted != column.type else column.type
            what = f"column {column.name!r} is {there.type}, but {over} in the source"
            yield _objection(target, what, f"{alter} TYPE {type_name.sql(pg_types.at_postgres(wanted))}")
        return
    yield from _user_type_objections(target, column, source, (wanted, has), identity, facts)


def _user_type_objections(
    target: TargetTable,
    column: Column,
    source: UserType,
    spelled: tuple[str, str],
    identity: TableIdentity,
    facts: TargetFacts,
) -> Iterator[Objection]:
    """Yield objections to a column whose user-defined type the sink needs; `spelled`: both types without domains."""
    alter = f"ALTER TABLE {dotted(target.name)} ALTER COLUMN {quoted(column.name)}"
    wanted, has = spelled
    if has != wanted:
        what = f"column {column.name!r} is {has}, but {wanted} in the source"
        yield _objection(target, what, made_types.pasteable(f"{alter} TYPE {type_name.sql(wanted)}, or TYPE text"))
        return
    known = facts.types.get(source.name)
    if known is None:
        return
    lacking = [one for one in source.parts if one not in known.parts]
    if source.kind == "e" and lacking:
        value = made_types.literal(lacking[0])
        what = f"stores column {column.name!r} in an enum without the label {made_types.pasteable(value)}"
        yield _objection(target, what, made_types.pasteable(f"ALTER TYPE {source.name} ADD VALUE {value}"))
    elif source.kind != "e" and not made_types.same(source, known, identity, facts.types.values()):
        what = f"stores column {column.name!r} in a type {source.name} that differs from the source's"
        yield _objection(target, what, f"{alter} TYPE text")


def _key_objections(target: TargetTable, facts: TargetFacts) -> Iterator[Objection]:
    for name in (one for one in target.key if one in facts.folding):
        what = f"has a nondeterministic collation on key column {name!r}: different keys would become one row"
        alter = f"ALTER TABLE {dotted(target.name)} ALTER COLUMN {quoted(name)}"
        yield _objection(target, what, f'{alter} TYPE {type_name.sql(facts.columns[name].type)} COLLATE "C"')
    for key in (one for one in facts.keys if _is_key(target, one) and not one.immediate):
        cure = f"{_dropped(target.name, key)}; {_with_key(target)}"
        yield _objection(target, f"has a deferrable key ({key.index})", cure)
    yield from _colliding_keys(target, facts.keys)
    if not any(_is_key(target, key) and key.valid for key in facts.keys):
        yield _objection(target, f"has no unique key on ({', '.join(target.key)})", _with_key(target))


def _is_key(target: TargetTable, key: TargetKey) -> bool:
    return key.plain and set(key.columns) == set(target.key)


def _colliding_keys(target: TargetTable, keys: Sequence[TargetKey], part: str = "") -> Iterator[Objection]:
    for key in (one for one in keys if not _is_key(target, one)):
        what = f"has another unique key ({', '.join(key.columns) or key.index})"
        cure = _dropped(part or target.name, key)
        yield _objection(target, f"{what}: changes of two keys could conflict on it", cure, part)


def _dropped(table: str, key: TargetKey) -> str:
    if key.constraint:
        return f"ALTER TABLE {dotted(table)} DROP CONSTRAINT {quoted(key.constraint)}"
    schema, dot, _ = table.rpartition(".")
    return f"DROP INDEX {quoted(schema) + dot if dot else ''}{quoted(key.index)}"


def _with_key(target: TargetTable) -> str:
    return f"ALTER TABLE {dotted(target.name)} ADD PRIMARY KEY ({', '.join(map(quoted, target.key))})"


def _objection(target: TargetTable, what: str, cure: str, part: str = "") -> Objection:
    return Objection(f"{f'partition {part} of ' if part else ''}target {target.name} {what}", cure)
