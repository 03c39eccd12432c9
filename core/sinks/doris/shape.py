"""The target's structure as Doris reports it, objections to it, and how to create it. Pure except for two queries.

An existing target must be a UNIQUE table with the source's key and columns, and with types that store each value
unchanged. Its delete sign must be enabled, as in every new UNIQUE table (Doris, "Batch Deletion"). It can have further
columns that are nullable or have a default, if its loads can leave them unchanged: `partial_columns` of a load needs
merge-on-write, and a listed delete sign is accepted (Doris, "Partial Column Update"; apache/doris #22874, 2.0.2).

A created target is a UNIQUE KEY table whose key columns come first and are not FLOAT, DOUBLE or STRING, and whose
buckets consist of key columns (Doris, "Unique Key Model", "CREATE TABLE"). It gets no sequence column: with one, rows
that are copied again would be older than existing rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from slotkeeper.core.domain.endpoint import Place
from slotkeeper.core.domain.finding import Objection
from slotkeeper.core.domain.shape import Act, ColumnChange, Reshape, TargetShape, marked, needs
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import Constant
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.errors import SlotkeeperError, Unreachable
from slotkeeper.core.sinks.doris.encode import SEQUENCE, SIGN, Layout, backquoted

_MODEL = re.compile(r"^(UNIQUE|DUPLICATE|AGGREGATE|AGG|PRIMARY) KEY\s*\(([^)]*)\)", re.M | re.I)
_MAPPED = re.compile(r'"function_column\.sequence_col"\s*=\s*"([^"]*)"')
_MERGED = re.compile(r'"enable_unique_key_merge_on_write"\s*=\s*"true"', re.I)
_SIZES = re.compile(r"\((\d+)(?:,\s*(\d+))?\)")
_WHOLE = ("tinyint", "smallint", "int", "bigint", "largeint")
_TEXTS = frozenset({"string", "text", "varchar", "char"})
UNSIZED = frozenset({"string", "text"})
"""Types whose length is limited only by a BE setting; DESC shows STRING as `text`."""
_NO_HEADER = frozenset("\0\r\n")
_AT_LEAST = {"smallint": 1, "tinyint": 1, "integer": 2, "bigint": 3}
"""Indexes in _WHOLE of the smallest type that can store the source's type; the tinyint of DWS is unsigned."""
_SAME = {
    "boolean": frozenset({"boolean", "tinyint"}),
    "real": frozenset({"float", "double"}),
    "double precision": frozenset({"double"}),
    "date": frozenset({"date", "datev2"}),
    "json": frozenset({"json", "jsonb"}),
    "jsonb": frozenset({"json", "jsonb"}),
}
_LOOSE = frozenset({"numeric", "real", "double precision", "interval", "json", "jsonb", "citext", "money"})
INEXACT = frozenset({"float", "double"})
"""Types whose numbers Doris formats differently than the source, so they are compared as numbers."""
RENDERED = frozenset({"json", "jsonb"})
"""Types whose values Doris returns in a format other than the one it received."""
_FILLERS = {
    "date": "1970-01-01",
    "datev2": "1970-01-01",
    "datetime": "1970-01-01 00:00:00",
    "json": "{}",
    "jsonb": "{}",
}
"""Values for NOT NULL columns in a deleted row, by type."""


@dataclass(frozen=True, slots=True)
class DorisColumn:
    """A column; `type`: the type that DESC returns, in lower case; `defaulted`: it has a default."""

    name: str
    type: str
    nullable: bool
    defaulted: bool = False

    @property
    def base(self) -> str:
        """The type without sizes.

        >>> DorisColumn("a", "decimalv3(10,2)", True).base, DorisColumn("a", "datetimev2(6)", True).base
        ('decimal', 'datetime')
        """
        base = self.type.partition("(")[0].strip()
        return {"decimalv3": "decimal", "datetimev2": "datetime"}.get(base, base)


@dataclass(frozen=True, slots=True)
class DorisTable:
    """A table: `model` is UNIQUE, DUPLICATE or AGGREGATE; `sequence`: the type of its hidden sequence column, or "".

    `mapped`: the column that determines the sequence, if one does. `merged`: rows are merged when they are written.
    """

    name: str
    columns: tuple[DorisColumn, ...]
    key: tuple[str, ...]
    model: str
    signed: bool
    sequence: str = ""
    mapped: str = ""
    merged: bool = False

    def column(self, name: str) -> DorisColumn | None:
        return next((one for one in self.columns if one.name == name), None)


def quoted(target: str) -> str:
    """Quote `database.table` for Doris.

    >>> quoted("mart.t`1")
    '`mart`.`t``1`'
    """
    return ".".join(map(backquoted, target.split(".", 1)))


def condition(constant: Constant) -> str:
    """Return the condition that a row belongs to the part of a target with this constant.

    >>> condition(Constant("shop_id", "eu_1")), condition(Constant("shop_id", 7))
    ("`shop_id` = 'eu_1'", "`shop_id` = '7'")
    """
    return f"{backquoted(constant.column)} = '{constant.text}'"


def read(queries: MysqlQueries, target: str) -> DorisTable:
    """Return the target; raises Refused if it or its database does not exist."""
    made = str(queries.rows(f"SHOW CREATE TABLE {quoted(target)}")[0][1])
    shown, described = "SET show_hidden_columns = {}", f"DESC {quoted(target)}"
    _, described_columns, _ = queries.in_one_session(shown.format("true"), described, shown.format("false"))
    columns = [
        DorisColumn(
            *(str(row[0]), str(row[1]).lower(), str(row[2]).lower() == "yes"),
            defaulted=row[4] is not None and str(row[4]).upper() != "NULL",
        )
        for row in described_columns
    ]
    hidden = {one.name: one for one in columns if one.name.startswith("__DORIS_")}
    found, mapped = _MODEL.search(made), _MAPPED.search(made)
    model = found[1].upper() if found else "UNKNOWN"
    key = tuple(re.findall(r"`((?:[^`]|``)*)`", found[2])) if found else ()
    sequence = hidden[SEQUENCE].base if SEQUENCE in hidden else ""
    own = tuple(one for one in columns if one.name not in hidden)
    merged = _MERGED.search(made) is not None
    return DorisTable(target, own, key, model, SIGN in hidden, sequence, mapped[1] if mapped else "", merged)


def backends(queries: MysqlQueries) -> list[Place]:
    """Return host and HttpPort of each BE; none if this login cannot see them.

    Doris, "SHOW BACKENDS": it needs ADMIN_PRIV or NODE_PRIV. Versions before 2.0 name the host column IP.
    """
    try:
        rows = queries.records("SHOW BACKENDS")
    except Unreachable:
        raise
    except SlotkeeperError:
        return []
    found = [(str(row.get("Host", row.get("IP", ""))), str(row.get("HttpPort", ""))) for row in rows]
    return [(host, int(port)) for host, port in found if port.isdecimal()]


def objections(table: DorisTable, image: TableIdentity) -> Iterator[Objection]:
    """Yield objections to the target for the table `image`; the first two use Doris's own wording."""
    name = table.name
    if table.model != "UNIQUE":
        yield Objection(f"Table: {name} is not a unique table, key type: {table.model}", "recreate it with UNIQUE KEY")
        return
    if not table.signed:
        cure = f'ALTER TABLE {quoted(name)} ENABLE FEATURE "BATCH_DELETE"'
        yield Objection(f"Table: {name} don't support batch delete.", cure)
    if set(table.key) != set(image.key):
        what = f"the key of {name} is ({', '.join(table.key)}), but ({', '.join(image.key)}) in the source"
        yield Objection(what, "recreate it with the source's key")
    yield from _sequence_objections(table)
    yield from unsendable(image)
    known = {one.name for one in image.columns}
    for column in image.columns:
        there = table.column(column.name)
        if there is None:
            yield Objection(f"{name} has no column {column.name}", f"ALTER TABLE {quoted(name)} ADD COLUMN")
        elif not fits(image.plain(column.type), there):
            what = f"{name}.{column.name} is {there.type}, which cannot hold every {column.type}"
            yield Objection(what, "change it to a larger type, or STRING")
        elif column.name in image.key and there.base in _TEXTS and _several_texts(image.plain(column.type)):
            what = f"equal keys of {name}.{column.name}, {column.type} in the source, can differ as {there.type}"
            yield Objection(
                what, "change the source's column to a type with one text form per value, such as numeric(38,9)"
            )
    for other in table.columns:
        if other.name not in known:
            yield from _other_objections(table, other)


def _other_objections(table: DorisTable, other: DorisColumn) -> Iterator[Objection]:
    """Yield why loads cannot leave a column unchanged that the source does not have."""
    what = f"{table.name}.{other.name} is not in the source"
    if not other.nullable and not other.defaulted:
        cure = f"ALTER TABLE {quoted(table.name)} MODIFY COLUMN {backquoted(other.name)} {other.type} NULL"
        yield Objection(f"{what}, and is NOT NULL without a default", cure)
    elif not table.merged or table.sequence:
        why = "has a sequence column" if table.sequence else "does not merge rows when they are written"
        cure = 'recreate it with "enable_unique_key_merge_on_write" = "true" and without a sequence column'
        yield Objection(
            f"{what}: each change would reset it, because {table.name} {why}", f"{cure}, or drop the column"
        )


def unsendable(image: TableIdentity) -> Iterator[Objection]:
    """Yield objections to column names that an HTTP header, as used by a load, cannot contain (RFC 9110, 5.5)."""
    for column in image.columns:
        if _NO_HEADER.intersection(column.name):
            what = f"column {safe(column.name, 128)} has a line break or a NUL in its name: a load cannot name it"
            yield Objection(what, "rename it in the source, or map it to another name: `columns` of the channel")


def _several_texts(source: str) -> bool:
    """Whether equal values of a type can have several text forms, which as keys would become several rows.

    >>> [_several_texts(one) for one in ("numeric", "numeric(9,2)", "text", "interval", "jsonb", "timestamp(3)")]
    [True, False, False, True, True, False]
    """
    plain = _SIZES.sub("", source).strip()
    return plain in _LOOSE and not (plain == "numeric" and _SIZES.search(source))


def _sequence_objections(table: DorisTable) -> Iterator[Objection]:
    if table.mapped:
        what = (
            f"the sequence of {table.name} is its column {table.mapped}: Doris would drop a change with a lower value"
        )
        yield Objection(what, "recreate it without function_column.sequence_col: changes arrive in the source's order")
    elif table.sequence not in ("", "largeint"):
        what = f"the sequence column of {table.name} is {table.sequence}, which cannot hold the order of changes"
        yield Objection(what, 'recreate it without one, or with "function_column.sequence_type" = "largeint"')


def fits(source: str, there: DorisColumn) -> bool:
    """Whether a column stores each value of a PostgreSQL type unchanged when it is written as text.

    >>> fits("integer", DorisColumn("a", "bigint", True)), fits("bigint", DorisColumn("a", "int(11)", True))
    (True, False)
    >>> money = DorisColumn("a", "decimal(12,2)", True)
    >>> fits("numeric(10,2)", money), fits("numeric", money)
    (True, False)
    """
    base, sizes = there.base, _SIZES.search(there.type)
    if base in _TEXTS:
        return True
    plain = _SIZES.sub("", source).strip()
    if plain in _AT_LEAST:
        return base in _WHOLE and _WHOLE.index(base) >= _AT_LEAST[plain]
    if plain == "numeric":
        wanted = _SIZES.search(source)
        if wanted is None or sizes is None or base != "decimal":
            return False
        digits, scale = int(wanted[1]), int(wanted[2] or 0)
        there_digits, there_scale = int(sizes[1]), int(sizes[2] or 0)
        return there_scale >= scale and there_digits - there_scale >= digits - scale
    if plain == "timestamp without time zone":
        wanted = _SIZES.search(source)
        return base == "datetime" and int(sizes[1] if sizes else 0) >= int(wanted[1] if wanted else 6)
    return base in _SAME.get(plain, frozenset())


_TYPED = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "date": "date",
    "datev2": "date",
}


def typed_as(table: DorisTable, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns; one of text gets the type of the target's column, whose values the text must then represent.

    >>> there = DorisTable("m.t", (DorisColumn("a", "decimalv3(9,2)", True),), (), "UNIQUE", True)
    >>> typed_as(there, (Column("a", "text"),))[0].type
    'numeric(9,2)'
    """

    def typed(column: Column) -> Column:
        there = table.column(column.name)
        if column.type != "text" or there is None or there.base in _TEXTS:
            return column
        sizes = _SIZES.search(there.type)
        plain = _TYPED.get(there.base, "text")
        if there.base in ("decimal", "largeint"):
            plain = f"numeric{sizes[0] if sizes else '(38,0)'}"
        if there.base == "datetime":
            plain = f"timestamp({sizes[1] if sizes else 0}) without time zone"
        return replace(column, type=plain)

    return tuple(map(typed, columns))


def of_types(table: DorisTable, names: Sequence[str], types: frozenset[str]) -> list[str]:
    """Return the columns among `names` whose type is in `types`."""
    return [one.name for one in table.columns if one.name in names and one.base in types]


def layout(table: DorisTable, image: TableIdentity) -> Layout:
    """Return the conversion from the source's rows to the lines of a load into the target."""
    names = tuple(one.name for one in image.columns)
    filled, booleans = [], set()
    for place, column in enumerate(image.columns):
        there = table.column(column.name)
        assert there is not None
        if not there.nullable and column.name not in image.key:
            # no query sees this value, because the row is deleted
            filled.append((place, _FILLERS.get(there.base, "" if there.base in _TEXTS else "0")))
        if image.plain(column.type) == "boolean" and there.base not in _TEXTS:
            booleans.add(place)
    key = tuple(names.index(name) for name in image.key)
    partial = any(one.name not in names for one in table.columns)
    types = tuple(column.type for column in image.columns)
    return Layout(names, key, frozenset(booleans), tuple(filled), bool(table.sequence), partial, types)


_PLAIN = {
    "tinyint": "SMALLINT",
    "smallint": "SMALLINT",
    "integer": "INT",
    "bigint": "BIGINT",
    "boolean": "BOOLEAN",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "date": "DATE",
}
"""Doris types by source type; the tinyint of DWS is unsigned."""
DIGITS = 38
"""Maximum number of digits of a DECIMAL (Doris, "DECIMAL")."""
MICROSECONDS = 6
LONGEST = 65_533
"""Maximum number of bytes of a VARCHAR (Doris, "VARCHAR")."""
_TEXT_BYTES = 4
"""Maximum number of bytes of a UTF-8 character: Doris counts the bytes of a VARCHAR."""
_NO_KEY = frozenset({"FLOAT", "DOUBLE"})


def type_of(source: str, key: bool) -> str:
    """Return the Doris type for a type of the source in PostgreSQL's notation.

    >>> type_of("numeric(12,2)", False), type_of("numeric", False), type_of("timestamp(3) without time zone", False)
    ('DECIMAL(12,2)', 'STRING', 'DATETIME(3)')
    >>> type_of("text", False), type_of("text", True), type_of("character varying(20)", True)
    ('STRING', 'VARCHAR(65533)', 'VARCHAR(80)')
    """
    plain, found = _SIZES.sub("", source).strip(), _SIZES.search(source)
    sizes = [int(one) for one in found.groups() if one] if found else []
    if plain in _PLAIN:
        return _PLAIN[plain]
    if plain == "numeric" and sizes:
        digits, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
        if digits <= DIGITS and scale <= digits:
            return f"DECIMAL({digits},{scale})"
    if plain == "timestamp without time zone":
        return f"DATETIME({min(sizes[0] if sizes else MICROSECONDS, MICROSECONDS)})"
    if not key:
        return "STRING"
    characters = sizes[0] if sizes and plain.startswith("character") else LONGEST
    return f"VARCHAR({min(characters * _TEXT_BYTES, LONGEST)})"


def unmakeable(name: str, image: TableIdentity) -> Iterator[Objection]:
    """Yield reasons why no target can be created for the table `image`."""
    if not image.key:
        yield Objection(f"cannot create {name}: the source has no key", "add a primary key to the source's table")
    yield from unsendable(image)
    for column in image.columns:
        if column.name in image.key and type_of(image.plain(column.type), True) in _NO_KEY:
            what = f"cannot create {name}: Doris does not support its key column {column.name} of type {column.type}"
            yield Objection(what, "remove the column from the key, or choose another kind of sink")


def statement(name: str, image: TableIdentity) -> str:
    key = [column for column in image.columns if column.name in image.key]
    order = sorted(key, key=lambda column: image.key.index(column.name))
    order += [column for column in image.columns if column not in key]
    columns = []
    for column in order:
        kind = type_of(image.plain(column.type), column in key)
        columns.append(f"  {backquoted(column.name)} {kind} {'NOT NULL' if column in key else 'NULL'}")
    names, separated = ", ".join(map(backquoted, image.key)), ",\n".join(columns)
    return (
        f"CREATE TABLE IF NOT EXISTS {quoted(name)} (\n{separated}\n)\nUNIQUE KEY({names})\n"
        f"DISTRIBUTED BY HASH({names}) BUCKETS AUTO\n"
        'PROPERTIES ("enable_unique_key_merge_on_write" = "true")'
    )


def reshaped(
    table: DorisTable, image: TableIdentity, found: Sequence[ColumnChange], mapped: bool, defaults: Mapping[str, str]
) -> Reshape:
    """Return how to alter a target so that it fits `image`, the source's columns as the channel maps them.

    Doris, "ALTER TABLE COLUMN", "ALTER TABLE RENAME": each change needs its own statement. A value column can be
    added, renamed, dropped, made nullable, and get a larger type; key columns are left as they are.
    """
    columns = {one.name: (one.type, not one.nullable) for one in table.columns}

    def there(type_: str, wanted: str) -> bool:
        return fits(image.plain(wanted), DorisColumn("", type_, True))

    made = needs(found, mapped, image.columns, TargetShape(columns, image.key, there))
    statements: list[str] = []
    left, stuck = list(table.columns), list[Objection]()
    for need in made:
        alter, column = f"ALTER TABLE {quoted(table.name)}", backquoted(need.column)
        was = next((one for one in left if one.name == need.column), None)
        if need.act is Act.DROP and need.column not in table.key:
            statements.append(f"{alter} DROP COLUMN {column}")
            left = [one for one in left if one is not was]
        elif need.column in (*image.key, *table.key):
            stuck.append(
                Objection(f"column {need.column} of {table.name} is left as it is", "alter it, or recreate it")
            )
        elif need.act is Act.ADD:
            kind, default = type_of(image.plain(need.to), False), defaults.get(need.column)
            if default is not None and any(one in default for one in '"\\'):
                stuck.append(Objection(f"the default of {need.column} has a quote", "add the column with its default"))
            given = "" if default is None else f' DEFAULT "{default}"'
            statements.append(f"{alter} ADD COLUMN {column} {kind} NULL{given}")
            left.append(DorisColumn(need.column, kind.lower(), True))
        elif need.act is Act.RENAME:
            statements.append(f"{alter} RENAME COLUMN {column} {backquoted(need.to)}")
            left = [replace(one, name=need.to) if one.name == need.column else one for one in left]
        elif was is not None:
            kind = was.type if need.act is Act.NULLABLE else type_of(image.plain(need.to), False).lower()
            null = "NULL" if was.nullable or need.act is Act.NULLABLE else "NOT NULL"
            statements.append(f"{alter} MODIFY COLUMN {column} {kind.upper()} {null}")
            left = [replace(one, type=kind, nullable=null == "NULL") if one is was else one for one in left]
    after = [*stuck, *objections(replace(table, columns=tuple(left)), image)]
    source, target = marked(image.columns, columns, there)
    whole = Reshape(tuple(found), tuple(statements), after=tuple(after), source=source, target=target)
    return replace(whole, needs=tuple(made), there=frozenset(columns))


def shadow_of(name: str) -> str:
    """Return the name of a replacing copy's shadow table.

    >>> shadow_of("mart.orders")
    'mart.slotkeeper_copy_orders'
    """
    database, _, table = name.partition(".")
    return f"{database}.slotkeeper_copy_{table}"
