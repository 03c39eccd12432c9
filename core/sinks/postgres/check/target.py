"""Creates and checks the target table, swaps it after a copy, and alters it when the source's columns change.

PostgreSQL, ALTER TABLE: a type is converted automatically with an implicit or assignment cast, otherwise with USING. If
no such cast is known, for example from text, the column is emptied and the copy writes its values. A new column is
always added without NOT NULL, because existing rows have no value in it until the copy writes them again. The source
itself never sends a row without a value for a NOT NULL column.
DWS, ALTER TABLE (column-store tables, and so HStore tables): ADD COLUMN, ALTER TYPE, DROP COLUMN and DROP NOT NULL are
supported; USING accepts constants and the column itself, and ADD COLUMN needs its own statement. GAUSS-00781,
GAUSS-00836: a distribution column cannot be dropped, and its type cannot be altered; created targets are distributed by
their key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from slotkeeper.core.domain import type_name
from slotkeeper.core.domain.finding import Objection, refuse
from slotkeeper.core.domain.row_counts import UNTOLD_CODES, RowCount, count_within
from slotkeeper.core.domain.shape import Act, ColumnChange, Need, Reshape, TargetShape, changes, marked, needs
from slotkeeper.core.domain.slot import Column, TableIdentity, without_domains
from slotkeeper.core.domain.spec import ChannelSpec, SinkOptions
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import pg, pg_types
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.driver import NO_DEFAULTS
from slotkeeper.core.sinks.postgres.check import eligibility, made_types
from slotkeeper.core.sinks.postgres.check.eligibility import TargetColumn, TargetFacts
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write.statements import TargetTable, nulled_columns, retain_marked, shadow
from slotkeeper.core.sqltext import dotted, literal, quoted

SQL, Identifier = pg.sql.SQL, pg.sql.Identifier


def target_of(channel: ChannelSpec, identity: TableIdentity) -> TargetTable:
    """Return the target of a one-to-one channel, with columns as mapped by the channel, or all columns by name."""
    image = image_of(channel, identity)
    keys = {column.name: column.type for column in image.columns if column.name in image.key}
    loose = tuple(name for name, type_ in keys.items() if not pg_types.exact(type_))
    forms = tuple(eligibility.form(keys[name], identity) for name in image.key)
    columns = tuple(column.name for column in image.columns)
    target = TargetTable(channel.target, columns, image.key, loose=loose, forms=forms, constant=channel.constant)
    return replace(target, marks=channel.marks, computed=tuple(one.name for one in channel.compute if one.inputs))


def seen(session: SinkSession, target: TargetTable) -> TargetTable:
    """Return the target with details from the server: its kind, its column types, and its own columns.

    Generated columns that are computed from mirrored columns do not count as the target's own columns.
    """
    there = eligibility.columns(session, target.name)
    others = tuple(name for name, it in there.items() if name not in target.columns and not it.computed)
    spelled = tuple(there[name].type for name in target.columns if name in there)
    base_of = {name: it.base or it.type for name, it in there.items()}
    bases = tuple(base_of[name] for name in target.columns if name in there)
    loose = () if session.dialect.spreads else target.loose
    made = any("." in base_of[name] for name in target.key if name in there)
    found = eligibility.operators(session, target.name, target.key) if made else {}
    signs = tuple(found.get(name, {}).get("=", "=") for name in target.key)
    named = zip(target.key, target.forms, strict=False)  # in a test setup, the target has no forms
    forms = tuple(pg_types.form_at(base_of.get(name, ""), form) for name, form in named)
    strict = all(there[name].needed for name in target.key if name in there)
    known = replace(target, loose=loose, others=others, types=spelled, bases=bases, strict_key=strict)
    # DWS tables have no children (DWS, CREATE TABLE: no INHERITS), and its MERGE does not accept ONLY
    only = not session.dialect.plain and not eligibility.is_partitioned(session, target.name)
    return replace(known, dialect=session.dialect, signs=signs, forms=forms, only=only)


exists = eligibility.exists


def create(session: SinkSession, name: str, identity: TableIdentity) -> bool:
    """Create a missing target, with the source's columns and key; return whether it was created."""
    if exists(session, name):
        return False
    refuse(eligibility.made_objections(name, identity, session), "sink")
    with session.transaction() as cursor:
        columns = _made_columns(cursor, session, identity)
        key = SQL("PRIMARY KEY ({})").format(SQL(", ").join(map(Identifier, identity.key)))
        schema, dot, _ = name.partition(".")
        if dot:
            # IF NOT EXISTS requires the privilege to create schemas even if the schema exists
            cursor.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
            if not cursor.fetchone():
                cursor.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
        body = SQL(", ").join([*columns, key])
        layout = SQL(session.dialect.target) + session.dialect.spread([Identifier(name) for name in identity.key])
        cursor.execute(SQL("CREATE TABLE {} ({}){}").format(Identifier(*name.split(".", 1)), body, layout))
    return True


def _made_columns(cursor: pg.Cursor, session: SinkSession, identity: TableIdentity) -> list[pg.sql.Composable]:
    """Return the column definitions: name, type, collation (if it exists in the sink), and NOT NULL.

    NOT NULL is safe with every filter, mapping and write mode: each write contains a whole source row, and old images,
    which contain only the key, are used only to delete rows. DWS, CREATE TABLE: COLLATE follows the type, and the
    column constraints of a column-store table are NULL, NOT NULL and DEFAULT.
    """
    wanted = [column.collation for column in identity.columns if column.collation]
    known = eligibility.collations(cursor, session, wanted)
    made: list[pg.sql.Composable] = []
    for column in identity.columns:
        spelled = eligibility.made_type(column.type, identity, session.dialect)
        collated = f" COLLATE {column.collation}" if column.collation in known else ""
        required = " NOT NULL" if column.required and column.name not in identity.key else ""
        made.append(SQL("{} {}").format(Identifier(column.name), SQL(type_name.sql(spelled) + collated + required)))
    return made


def check(session: SinkSession, target: TargetTable, identity: TableIdentity, options: SinkOptions) -> None:
    """Raise Refused if the target cannot hold the source's rows; `identity` is the source's image (`image_of`)."""
    if options.write_mode == "copy_merge" and session.ready().server_version < session.dialect.merges_since:
        what = 'write_mode = "copy_merge" needs a sink with PostgreSQL 15 or later'
        raise Refused(what, 'set write_mode = "auto", which does the same', where="sink")
    facts = eligibility.read(session, target.name, identity.user_types)
    refuse(list(eligibility.objections(target, identity, facts, options)), "sink")


def _own_rows(target: TargetTable) -> pg.sql.Composable:
    """Return the condition that a row of the table is one of the target's."""
    one = target.constant
    return SQL("true") if one is None else SQL("{} = {}").format(Identifier(one.column), pg.sql.Literal(one.text))


def is_empty(session: SinkSession, target: TargetTable) -> bool:
    with session.transaction() as cursor:
        cursor.execute(SQL("SELECT NOT EXISTS (SELECT 1 FROM {} WHERE {})").format(target.rows, _own_rows(target)))
        found = cursor.fetchone()
    return bool(found and found[0])


def count_rows(session: SinkSession, target: TargetTable) -> RowCount:
    """Count the target's rows that are not marked as deleted; unknown if this login cannot read them.

    The session and its lease survive an error.
    """
    live = SQL("{} IS NULL").format(Identifier(target.marks[0])) if target.marks else SQL("true")
    rows = SQL("{} WHERE {} AND {}").format(target.rows, _own_rows(target), live)
    with session.transaction() as cursor:

        def ask(most: int | None, limit_ms: int) -> int | None:
            limit = SQL("") if most is None else SQL(" LIMIT {}").format(pg.sql.Literal(most))
            cursor.execute("SAVEPOINT counting")
            try:
                pg.limit_transaction(cursor, limit_ms)
                counted = SQL("SELECT count(*) FROM (SELECT 1 FROM {}{}) c")
                cursor.execute(counted.format(rows, limit))
                return int(cursor.fetchall()[0][0])
            except pg.DriverError as error:
                if pg.failure(error)[0] != "57014":
                    raise
                cursor.execute("ROLLBACK TO SAVEPOINT counting")
                return None

        try:
            return count_within(ask)
        except pg.DriverError as error:
            code, text = pg.failure(error)
            if code[:2] not in UNTOLD_CODES:
                raise
            cursor.execute("ROLLBACK TO SAVEPOINT counting")
            return RowCount(None, why=safe(text, 200))


def delete_part(cursor: pg.Cursor, target: TargetTable) -> None:
    cursor.execute(SQL("DELETE FROM {} WHERE {}").format(target.rows, _own_rows(target)))


def drop_shadow(cursor: pg.Cursor, target: TargetTable) -> None:
    cursor.execute(SQL("DROP TABLE IF EXISTS {}").format(shadow(target)))


def make_shadow(cursor: pg.Cursor, target: TargetTable, checked: bool) -> None:
    """Create the empty shadow table of a replacing copy.

    With `checked`, it has the target's check constraints, so that a violation is found before the exchange.
    """
    checks = SQL(" INCLUDING CONSTRAINTS" if checked else "")
    made = SQL("CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS{})")
    cursor.execute(made.format(shadow(target), target.identifier, checks))


def exchange_shadow(cursor: pg.Cursor, target: TargetTable, options: SinkOptions) -> None:
    """Replace the target's rows with the shadow's; the target keeps its grants, views and indexes."""
    nulled = nulled_columns(target, options)
    into = SQL(", ").join(map(Identifier, (*target.columns, *nulled)))
    values = SQL(", ").join([*map(Identifier, target.columns), *[SQL("NULL")] * len(nulled)])
    if target.marks:
        cursor.execute(retain_marked(target))
    cursor.execute(SQL("TRUNCATE {}").format(target.rows))
    _refuse_altered(cursor, target)
    cursor.execute(SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(target.identifier, into, values, shadow(target)))
    cursor.execute(SQL("DROP TABLE {}").format(shadow(target)))


def _refuse_altered(cursor: pg.Cursor, target: TargetTable) -> None:
    """Raise Refused if a column's type has changed since the shadow table was created from the target.

    PostgreSQL would silently round and truncate the copied values (CREATE CAST, "assignment"). After the TRUNCATE, no
    other session can alter the target.
    """
    names = [dotted(target.name), dotted(".".join(shadow(target).strings))]
    cursor.execute(
        "SELECT t.attname::text FROM pg_attribute t JOIN pg_attribute s ON s.attname = t.attname"
        " WHERE t.attrelid = %s::regclass AND s.attrelid = %s::regclass AND t.attnum > 0"
        " AND (t.atttypid <> s.atttypid OR t.atttypmod <> s.atttypmod)",
        names,
    )
    altered = [str(name) for (name,) in cursor.fetchall() if name in target.columns]
    if altered:
        what = f"target {target.name} was altered during its copy: column {safe(altered[0], 60)} has another type"
        raise Refused(what, "restore the column's type, or take a new snapshot", where="sink")


def has_shadow(session: SinkSession, target: TargetTable) -> bool:
    return exists(session, ".".join(shadow(target).strings))


_SQL: Book = ("slotkeeper.core.sinks.postgres.check", "eligibility.sql")
_AUTOMATIC = ("i", "a")
"""Values of pg_cast.castcontext for implicit and assignment casts."""
_EMPTIED = " USING NULL"
_TEXTS = "S"
"""Value of pg_type.typcategory for string types: a value assigned to a string column is cast automatically."""


def reshape(
    session: SinkSession,
    channel: ChannelSpec,
    identity: TableIdentity,
    old: Sequence[Column] | None,
    options: SinkOptions,
    defaults: Mapping[str, str] = NO_DEFAULTS,
) -> Reshape:
    """Return how to alter the channel's target so that it fits the source; this function itself changes nothing.

    `old` contains the source's columns when the target last matched, or None if unknown. With None, columns that were
    dropped in the source cannot be distinguished from the target's own columns and are not dropped.
    """
    image = image_of(channel, identity)
    # domains are replaced by their base types, as in a created target
    image = replace(image, columns=tuple(replace(column, type=image.plain(column.type)) for column in image.columns))
    target = target_of(channel, identity)
    found = changes(old, identity.columns) if old is not None else ()
    facts = eligibility.read(session, channel.target, identity.user_types)
    if facts is None:
        return Reshape(found, source=marked(image.columns, {}, pg_types.fits)[0])
    return _Reshaping(session, target, image, facts, options, defaults).plan(found, bool(channel.columns))


class _Reshaping:
    """A target and the changes that it needs."""

    def __init__(
        self,
        session: SinkSession,
        target: TargetTable,
        image: TableIdentity,
        facts: TargetFacts,
        options: SinkOptions,
        defaults: Mapping[str, str],
    ) -> None:
        self._defaults = defaults
        self._session, self._target, self._image = session, target, image
        self._facts, self._options = facts, options
        self._wanted = {one.name: one for one in image.columns}
        self._lacking: set[str] = set()

    def plan(self, found: Sequence[ColumnChange], mapped: bool) -> Reshape:
        """Return the statements, and the objections that apply before and after the statements are run."""
        columns = {name: (self._base(it), it.needed) for name, it in self._facts.columns.items()}
        made = needs(found, mapped, self._image.columns, TargetShape(columns, self._image.key, self._fits))
        before = self._types_lacking(made)
        source, target = marked(self._image.columns, columns, self._fits)
        stuck = self._stuck(made)
        if stuck:
            return Reshape(tuple(found), before=tuple(before), after=tuple(stuck), source=source, target=target)
        before = [*self._emptied(made), *before]
        after = list(eligibility.objections(self._target, self._image, self._projected(made), self._options))
        wanted = [one.collation for one in self._image.columns if one.collation]
        with self._session.transaction() as cursor:
            known = eligibility.collations(cursor, self._session, wanted)
        statements, blank = (
            tuple(made_types.pasteable(one) for one in self._statements(made, known, blanks))
            for blanks in (False, True)
        )
        empties = any(one.act is Act.TYPE and self._loses(one, made) for one in made)
        whole = Reshape(tuple(found), statements, blank, tuple(before), tuple(after), source, target, empties)
        return replace(whole, needs=tuple(made), there=frozenset(columns))

    def _base(self, it: TargetColumn) -> str:
        return it.base or without_domains(it.type, self._facts.types.values())

    def _fits(self, there: str, wanted: str) -> bool:
        if there != "text" and self._image.user_type(wanted):
            return there == wanted
        return pg_types.fits(there, wanted)

    def _stuck(self, made: Sequence[Need]) -> list[Objection]:
        """Return an objection if the target cannot be altered at all: DWS cannot alter a distribution column."""
        name, key = self._target.name, {one for key in self._facts.keys for one in key.columns}
        fixed = [one.column for one in made if one.act in (Act.TYPE, Act.DROP) and one.column in key]
        if not fixed or not self._session.dialect.spreads:
            return []
        what = f"target {name} is distributed by column {fixed[0]!r}, which ALTER cannot change: create_target = true"
        return [Objection(f"{what} recreates it", f"DROP TABLE {dotted(name)}")]

    def _types_lacking(self, made: Sequence[Need]) -> list[Objection]:
        """Return an objection for each user-defined type of the source that does not exist in the sink."""
        found = []
        for one in (need for need in made if need.act in (Act.TYPE, Act.ADD)):
            alone = replace(self._image, columns=(Column(one.column, one.to),), key=())
            lacking = eligibility.made_objections(self._target.name, alone, self._session)
            found += lacking
            self._lacking |= {one.column} if lacking else set()
        return found

    def _emptied(self, made: Sequence[Need]) -> list[Objection]:
        """Return an objection if all rows must be removed (the key differs or cannot be cast); a copy rewrites them."""
        key = self._image.key
        casts = any(one.act is Act.TYPE and one.column in key and not self._automatic(one, made) for one in made)
        same = any(one.plain and set(one.columns) == set(key) for one in self._projected(made).keys)
        if same and not casts:
            return []
        what = f"target {self._target.name} has rows with a different key than the source"
        return [Objection(what, f"TRUNCATE {dotted(self._target.name)}")]

    def _projected(self, made: Sequence[Need]) -> TargetFacts:
        """Return the expected state of the target after the statements have run."""
        columns, keys = dict(self._facts.columns), list(self._facts.keys)
        for one in made:
            if one.act is Act.DROP:
                del columns[one.column]
                keys = [key for key in keys if one.column not in key.columns]
            elif one.act is Act.RENAME:
                columns[one.to] = columns.pop(one.column)
                keys = [
                    replace(key, columns=tuple(one.to if name == one.column else name for name in key.columns))
                    for key in keys
                ]
            elif one.act is Act.NULLABLE:
                columns[one.column] = replace(columns[one.column], needed=False)
            elif one.act is Act.TYPE:
                columns[one.column] = replace(columns[one.column], type=self._made(one.to), base="", refuses_null=False)
            else:
                columns[one.column] = TargetColumn(self._made(one.to), False, False, False)
        return replace(self._facts, columns=columns, keys=tuple(keys))

    def _made(self, wanted: str) -> str:
        return eligibility.made_type(wanted, self._image, self._session.dialect)

    def _statements(self, made: Sequence[Need], known: set[str], blanks: bool) -> Iterator[str]:
        alter = f"ALTER TABLE {dotted(self._target.name)}"
        for one in made:
            name = quoted(one.column)
            if one.act is Act.DROP:
                yield f"{alter} DROP COLUMN {name}"
            elif one.act is Act.RENAME:
                yield f"{alter} RENAME COLUMN {name} TO {quoted(one.to)}"
            elif one.act is Act.NULLABLE:
                yield f"{alter} ALTER COLUMN {name} DROP NOT NULL"
            elif one.act is Act.ADD:
                # a user may run a statement twice; DWS, ALTER TABLE: DROP has IF EXISTS, ADD COLUMN has no such clause
                unless = "" if self._session.dialect.plain else " IF NOT EXISTS"
                filled = self._defaults.get(one.column)
                default = "" if filled is None else f" DEFAULT {literal(filled)}"
                yield f"{alter} ADD COLUMN{unless} {name} {self._spelled(one, known)}{default}"
                if filled is not None:  # existing rows have the value now; the source sends those of later rows
                    yield f"{alter} ALTER COLUMN {name} DROP DEFAULT"
            else:  # USING NULL if old values may not be convertible to the new type: the copy replaces all of them
                using = self._using(one, made, blanks)
                if using == _EMPTIED and one.column not in self._image.key and self._there(one, made).needed:
                    yield f"{alter} ALTER COLUMN {name} DROP NOT NULL"
                yield f"{alter} ALTER COLUMN {name} TYPE {self._spelled(one, known)}{using}"

    def _using(self, one: Need, made: Sequence[Need], blanks: bool) -> str:
        """Return the USING clause for a column's new type, or "" if the cast is automatic."""
        key = one.column in self._image.key
        if self._automatic(one, made) and not (blanks and not key):
            return ""
        emptied = key or blanks or self._cast(one, made)[1] == ""
        return _EMPTIED if emptied else f" USING {quoted(one.column)}::{type_name.sql(self._made(one.to))}"

    def _loses(self, one: Need, made: Sequence[Need]) -> bool:
        """Return whether a column's new type can lose old values: the column is emptied, or the type is too small.

        PostgreSQL, CREATE CAST: an automatic cast can round or truncate, for example from a timestamp to a date.
        """
        there = self._base(self._there(one, made))
        return self._using(one, made, False) == _EMPTIED or not pg_types.fits(self._made(one.to), there)

    def _there(self, need: Need, made: Sequence[Need]) -> TargetColumn:
        """Return the existing column, looked up by its current name."""
        before = {one.to: one.column for one in made if one.act is Act.RENAME}
        return self._facts.columns[before.get(need.column, need.column)]

    def _spelled(self, need: Need, known: set[str]) -> str:
        """Return a column's type in a created target, with its collation if the sink has that collation."""
        collation = self._wanted[need.column].collation
        return type_name.sql(self._made(need.to)) + (f" COLLATE {collation}" if collation in known else "")

    def _automatic(self, need: Need, made: Sequence[Need]) -> bool:
        same, context, category = self._cast(need, made)
        return same or context in _AUTOMATIC or category == _TEXTS

    def _cast(self, need: Need, made: Sequence[Need]) -> tuple[bool, str, str]:
        """Return whether only the type's length differs, the cast context ("" if no cast), and the new category."""
        if need.column in self._lacking:
            return False, "", ""
        names = {"there": self._base(self._there(need, made)), "wanted": self._made(need.to)}
        same, context, category = self._session.fetched("cast", names, _SQL)[0]
        return bool(same), str(context), str(category)
