"""Read a table's current definition from the server: its columns and key, in the form that sinks use.

Sinks receive PostgreSQL types, and each value in PostgreSQL's text format. The stream and a copy have to write a value
identically, or a comparison would report equal rows as different. A TIMESTAMP is a point in time and is written in UTC.
No other server supports the range of TIME, so TIME values are text. Zero dates are not changed: a sink that does not
support zero dates rejects rows with such dates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slotkeeper.core.domain.finding import Objection
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import my
from slotkeeper.core.drivers.pg_types import float_text
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.mysql import kernel
from slotkeeper.core.sources.mysql.alters import OPAQUE
from slotkeeper.core.sources.mysql.faults import Unsupported
from slotkeeper.core.sources.mysql.rows import Column as RowColumn
from slotkeeper.core.sources.mysql.rows import Described, SchemaColumn
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.values import shortest_float

if TYPE_CHECKING:
    from slotkeeper.core.sources.mysql._kernel import Plan

Spell = Callable[[Any], str]
_SIZE = re.compile(r"\((\d+)")
_INTEGERS = {
    "tinyint": ("smallint", "smallint"),
    "smallint": ("smallint", "integer"),
    "mediumint": ("integer", "integer"),
    "int": ("integer", "bigint"),
    "bigint": ("bigint", "numeric(20,0)"),
}
"""Sink types of signed and unsigned integers."""
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_SPATIAL = frozenset(
    {
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
        *("geometrycollection", "geomcollection"),
    }
)
_LONG_TEXT = frozenset({"tinytext", "text", "mediumtext", "longtext", "json", "enum", "set", "inet4", "inet6"})
_BY_NUMBER = frozenset({"enum", "set", "bit"})
"""Types whose values a server orders by their number, not by their text."""


@dataclass(frozen=True, slots=True)
class Image:
    """A column: its type for sinks, and the conversion of its values to text.

    `spell` is None if the value is already text. `family` ensures that source and target of a comparison order keys in
    the same way. In the expressions, `{0}` is the column's name: `selected` returns the value as the stream does,
    `ordered` is the order for splitting a table into chunks, and `bound` returns an exact bound. `literal` writes a
    bound.
    """

    name: str
    type: str
    family: str
    spell: Spell | None = None
    selected: str = "{0}"
    ordered: str = "{0}"
    literal: Callable[[Any], str] | None = None
    bound: str = ""

    def text(self, value: Any) -> str | None:
        return None if value is None else value if self.spell is None else self.spell(value)


def image_of(column: SchemaColumn) -> Image:
    """Return a column in the form for sinks. Raises Unsupported with the column's name if its type is not supported.

    >>> image_of(SchemaColumn("a", "int", "int(10) unsigned", True)).type
    'bigint'
    >>> image_of(SchemaColumn("a", "varchar", "varchar(20)", True)).type
    'character varying(20)'
    """
    name, kind = column.name, column.kind
    if kind == OPAQUE:
        return Image(name, "bytea", OPAQUE)
    if kind in _INTEGERS:
        type_ = _INTEGERS[kind]["unsigned" in column.full_type]
        return Image(name, type_, "numeric" if type_.startswith("n") else "integer", str, literal=_number)
    if kind == "decimal":
        return Image(name, f"numeric({column.precision},{column.scale})", "numeric", _plain_decimal, literal=_number)
    if kind == "float":
        # a SELECT rounds a FLOAT to six digits; as a DOUBLE it is exact, and it is compared as a DOUBLE
        exact = "({0} + 0e0)"
        return Image(name, "real", "float", real_text, exact, literal=double_literal, bound=exact)
    if kind == "double":
        return Image(name, "double precision", "float", float_text, literal=double_literal)
    if kind == "bit":
        wide = (column.precision or 1) > 63
        selected = "({0} + 0)"
        return Image(
            name,
            "numeric(20,0)" if wide else "bigint",
            "numeric" if wide else "integer",
            str,
            selected,
            selected,
            _number,
        )
    if kind == "year":
        return Image(name, "smallint", "integer", str, literal=_number)
    if kind in ("datetime", "timestamp"):
        return Image(name, f"timestamp({column.fraction or 0}) without time zone", "timestamp")
    if kind in ("date", "uuid"):
        return Image(name, kind, kind)
    return _characters(column)


def _characters(column: SchemaColumn) -> Image:
    name, kind, size = column.name, column.kind, _SIZE.search(column.full_type)
    if kind == "time":
        return Image(name, "character varying(17)", "text")
    if kind in _BYTES or kind in _SPATIAL:
        return Image(name, "bytea", "bytea", bytes_text, literal=_hex)
    if kind in ("char", "varchar"):
        return Image(name, f"character varying({max(1, int(size[1]) if size else 1)})", "text")
    if kind in _LONG_TEXT:
        if kind in _BY_NUMBER:
            return Image(name, "text", "text", ordered="({0} + 0)", literal=_number)
        return Image(name, "text", "text")
    what = f"column {safe(name, 80)} has the unsupported type {safe(column.full_type, 120)}"
    raise Unsupported(what, "remove the table from the job")


def real_text(value: float) -> str:
    return float_text(shortest_float(value), True)


def bytes_text(value: bytes) -> str:
    r"""Format bytes as PostgreSQL does.

    >>> bytes_text(b"a")
    '\\x61'
    """
    return "\\x" + value.hex()


def _plain_decimal(value: str) -> str:
    """Return a decimal without the leading zeros of ZEROFILL, which the binlog does not contain.

    >>> _plain_decimal("0001.10"), _plain_decimal("0.10"), _plain_decimal("-1.10")
    ('1.10', '0.10', '-1.10')
    """
    if value[:1] == "0" and value[1:2].isdigit():
        stripped = value.lstrip("0")
        return f"0{stripped}" if stripped[:1] in ("", ".") else stripped
    return value


# -- bounds of chunks -------------------------------------------------------------------------------------------------

_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def _number(text: str) -> str:
    """Return a number for use in a statement without quotes, because the server would compare a string as a DOUBLE."""
    if not _PLAIN_NUMBER.fullmatch(text):
        raise ValueError("not a number")
    return text


def double_literal(text: str) -> str:
    """Return a number as a DOUBLE literal; without an exponent, the literal would be a DECIMAL."""
    return f"{float(text)!r}e0" if "e" not in repr(float(text)) else repr(float(text))


def _hex(text: str) -> str:
    bytes.fromhex(text)
    return f"x'{text}'"


def bound_text(image: Image, value: Any) -> str:
    """Return a key's value as a chunk stores it: bytes as hexadecimal digits, every other type in its text form."""
    if image.literal is _hex:
        return bytes(value).hex()
    return repr(value) if isinstance(value, float) else str(value)


# -- rows as a whole --------------------------------------------------------------------------------------------------


def speller(
    images: Sequence[Image], places: Sequence[int] = (), kept: Sequence[bool] = ()
) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a function that converts a row's values at `places` (default: all) to text, and values not `kept` to None.

    `images` and `kept` cover the whole row. The function is compiled, because it runs for every row.

    >>> speller([Image("a", "integer", "integer", str), Image("b", "text", "text")])((1, None))
    ('1', None)
    """
    scope: dict[str, Any] = {}
    parts = []
    for place in places or range(len(images)):
        image = images[place]
        if kept and not kept[place]:
            parts.append("None")
        elif image.spell is None:
            parts.append(f"r[{place}]")
        else:
            scope[f"f{place}"] = image.spell
            parts.append(f"(None if r[{place}] is None else f{place}(r[{place}]))")
    exec(f"def spell(r):\n    return ({''.join(f'{part}, ' for part in parts)})", scope)  # noqa: S102 indexes only
    made: Callable[[Sequence[Any]], tuple[Any, ...]] = scope["spell"]
    return made


_ALIKE: Mapping[Spell | None, str] = {
    str: "iyb",
    float_text: "d",
    real_text: "f",
    _plain_decimal: "n",  # a decimal of the binlog has no leading zeros
    bytes_text: "rp",
    None: "nDMSTesuacU4",
}
"""By a column's `spell`, the kernel's operations (`Op`) that write the same text as `spell` does with their values."""


def kernel_plan(
    columns: Sequence[RowColumn], images: Sequence[Image], places: Sequence[int], kept: Sequence[bool]
) -> Plan | None:
    """Return the kernel's plan for the text of rows as `speller` returns it; `places` and `kept` as for `speller`."""
    ops = [
        None if one.form.op is None else (*one.form.op, one.form.op[0] not in _ALIKE.get(image.spell, ""), image.spell)
        for one, image in zip(columns, images, strict=True)
    ]
    found = places or range(len(images))
    return kernel.plan_of(ops, found, [kept[place] for place in found])


_COLUMN = (
    "column_name, data_type, column_type, is_nullable, character_set_name, character_octet_length,"
    " numeric_precision, numeric_scale, datetime_precision"
)
_COLUMNS = (
    f"SELECT {_COLUMN} FROM information_schema.columns"
    " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
)
_CHARSETS = (
    # MariaDB lists the numbers of its uca1400 collations only here; MySQL lists all numbers in the next table
    "SELECT id, character_set_name FROM information_schema.collation_character_set_applicability",
    "SELECT id, character_set_name FROM information_schema.collations",
)


def read_described(session: my.Session, schema: str, table: str) -> Described | None:
    """Return a table's current columns; None if it does not exist or this login cannot see it."""
    return _described(session.rows(_COLUMNS, (schema, table))) or None


def _described(rows: Iterable[Sequence[Any]]) -> Described:
    return tuple(
        SchemaColumn(
            str(name),
            str(kind).lower(),
            str(full),
            nullable == "YES",
            None if charset is None else str(charset),
            *(None if number is None else int(number) for number in numbers),
        )
        for name, kind, full, nullable, charset, *numbers in rows
    )


def read_charsets(session: my.Session) -> dict[int, str]:
    """Return character sets by collation number. Raises DriverError."""
    found: dict[int, str] = {}
    for statement in _CHARSETS:
        try:
            rows = session.rows(statement)
        except my.DriverError as error:
            if my.code_of(error) != _NO_COLUMN:
                raise
            continue
        found |= {int(number): str(charset) for number, charset in rows if number is not None and charset}
    return found


_NO_COLUMN = 1054
"""ER_BAD_FIELD_ERROR, which MySQL raises because its applicability table has no collation numbers."""


_TABLE = "SELECT table_schema, table_name, table_type, engine FROM information_schema.tables"


_COLLATION = "SELECT table_collation FROM information_schema.tables"


PRIMARY = "PRIMARY"


@dataclass(frozen=True, slots=True)
class IndexPart:
    """A column of an index, from SHOW INDEX. `name` is None for an expression, `prefix` is None for a whole column."""

    index: str
    unique: bool
    name: str | None
    prefix: int | None
    nullable: bool
    kind: str = "BTREE"


@dataclass(frozen=True, slots=True)
class TableSeen:
    """A table: `schema` and `name` as the server stores them and as the binlog contains them.

    `kind` is the table type in information_schema.TABLES, `engine` is the storage engine.
    """

    schema: str
    name: str
    described: Described
    images: tuple[Image, ...]
    identity: TableIdentity
    kind: str = "BASE TABLE"
    engine: str = "InnoDB"
    key_index: str = PRIMARY
    """The index whose columns are the key."""
    known: Known | None = None

    @property
    def quoted(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def key(self) -> tuple[Image, ...]:
        by_name = {one.name: one for one in self.images}
        return tuple(by_name[name] for name in self.identity.key)


def quoted(name: str) -> str:
    """Quote a name for a statement that pymysql runs.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


def shown(table: str) -> str:
    return ".".join("`{}`".format(part.replace("`", "``")) for part in table.split(".", 1)).replace(".`*`", ".*")


@dataclass(frozen=True, slots=True)
class Known:
    """A table's columns as stored: their numbers across renames, the key and its index, the default character set."""

    described: Described
    numbers: tuple[int, ...]
    key: tuple[str, ...]
    index: str = PRIMARY
    charset: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns for storage; each contains the server's description of itself, and that of the table."""
        found = []
        for one, number in zip(self.described, self.numbers, strict=True):
            place = self.key.index(one.name) + 1 if one.name in self.key else 0
            native = json.dumps([*(getattr(one, name) for name in _STORED), place, self.index, self.charset])
            found.append(Column(one.name, image_of(one).type, not one.nullable, number=number, native=native))
        return tuple(found)

    @classmethod
    def read(cls, columns: Sequence[Column]) -> Known | None:
        """Return stored columns; None if their descriptions are not stored.

        >>> from slotkeeper.core.sources.mysql.alters import opaque
        >>> table = Known((opaque("o"), SchemaColumn("i", "int", "int(11)", False)), (1, 2), ("i",), charset="latin1")
        >>> Known.read(table.columns) == table, Known.read([Column("a", "text")])
        (True, None)
        """
        try:
            found = [(one, json.loads(one.native)) for one in columns]
            described = tuple(SchemaColumn(one.name, *values[: len(_STORED)]) for one, values in found)
            tails = [(one.name, *values[len(_STORED) :]) for one, values in found]
            key = tuple(name for name, place, *_ in sorted(tails, key=lambda tail: int(tail[1])) if place)
            _, _, index, charset = tails[0]
        except (ValueError, TypeError, IndexError):
            return None
        return cls(described, tuple(one.number for one in columns), key, str(index), str(charset))


_STORED = ("kind", "full_type", "nullable", "charset", "most_bytes", "precision", "scale", "fraction")


def read_table(session: MysqlSession, table: str, known: Sequence[Column] = ()) -> TableSeen:
    """Return the table `schema.name` with its `known` columns, or as it is now.

    Raises Refused if it does not exist or has no usable key.
    """
    schema, name, sort = stored_names(session, table)
    found = Known.read(known) if known else None
    if found is None:
        described = session.asking(lambda line: read_described(line, schema, name))
        if described is None:
            raise _absent(session, table)
        indexes = read_indexes(session, f"{quoted(schema)}.{quoted(name)}")
        sorts = session.rows(f"{_COLLATION} WHERE table_schema = %s AND table_name = %s", (schema, name))
        found = _known(table, described, indexes, sorts[0][0] if sorts else None)
    return _seen(table, (schema, name, *sort), found, session.facts.server)


def _seen(table: str, stored: tuple[str, str, str, str], found: Known, server: str) -> TableSeen:
    try:
        images, every = tuple(map(image_of, found.described)), found.columns
    except Unsupported as error:
        raise Refused(f"{table}: {error.message}", error.cure, where="source") from None
    columns = tuple(one for one, other in zip(every, found.described, strict=True) if other.kind != OPAQUE)
    identity = TableIdentity(0, columns, found.key, server, known=every)
    schema, name, kind, engine = stored
    return TableSeen(schema, name, found.described, images, identity, kind, engine, key_index=found.index, known=found)


def _known(table: str, described: Described, indexes: Sequence[IndexPart], collation: object) -> Known:
    """Return a table's present columns; raises Refused if it has no usable key.

    A collation's name starts with its character set (MySQL, "Collation Naming Conventions").
    """
    index, key = key_of(indexes)
    for objection in key_objections(table, key):
        raise Refused(objection.text, objection.cure, where="source")
    numbers, names = tuple(range(1, len(described) + 1)), tuple(part.name or "" for part in key)
    return Known(described, numbers, names, index, str(collation or "").partition("_")[0])


_SEVERAL = (
    ("table_schema, table_name, table_type, engine, table_collation", "tables"),
    (f"ordinal_position, {_COLUMN}", "columns"),
    ("seq_in_index, non_unique, index_name, column_name, sub_part, nullable, index_type", "statistics"),
)
"""The parts of a table's definition: their columns, and their tables in information_schema."""


def read_tables(session: MysqlSession, tables: Sequence[tuple[str, Sequence[Column]]]) -> list[TableSeen]:
    """Return several tables, each with its known columns or as it is now, with three statements for all of them.

    Raises Refused if one of them does not exist or has no usable key. A table without a primary key is read separately,
    because the order of its indexes determines its key, and only SHOW INDEX guarantees this order. The same applies to
    every table of a server that does not distinguish names by case. MySQL, "Optimizing INFORMATION_SCHEMA Queries": a
    lookup of one schema and one table opens only that table, so each table has its own SELECT.
    """
    if session.facts.of("lower_case_table_names") not in ("", "0"):
        return [read_table(session, table, known) for table, known in tables]
    parts = [_read_several(session, [table for table, _ in tables], *part) for part in _SEVERAL]
    found = []
    for (table, known), named, columns, indexes in zip(tables, *parts, strict=True):
        stored = [tuple(str(one or "") for one in row) for row in named if ".".join(map(str, row[:2])) == table]
        keys = [
            IndexPart(
                name, not int(single), column, None if prefix is None else int(prefix), null == "YES", way.upper()
            )
            for _, single, name, column, prefix, null, way in sorted(indexes, key=lambda row: (str(row[2]), row[0]))
        ]
        if not stored or not columns or PRIMARY not in {part.index for part in keys}:
            found.append(read_table(session, table, known))
            continue
        schema, name, kind, engine, collation = stored[0]
        described = _described(row[1:] for row in sorted(columns, key=lambda row: int(row[0])))
        its = Known.read(known) if known else None
        its = its or _known(table, described, keys, collation)
        found.append(_seen(table, (schema, name, kind, engine), its, session.facts.server))
    return found


def _read_several(session: MysqlSession, tables: Sequence[str], columns: str, part: str) -> list[list[Sequence[Any]]]:
    one = f"SELECT {{}}, {columns} FROM information_schema.{part} WHERE table_schema = %s AND table_name = %s"
    statement = " UNION ALL ".join(one.format(number) for number in range(len(tables)))
    names = [name for table in tables for name in table.split(".", 1)]
    rows: list[list[Sequence[Any]]] = [[] for _ in tables]
    for number, *row in session.rows(statement, names):
        rows[int(number)].append(row)
    return rows


def read_indexes(session: MysqlSession, table: str) -> list[IndexPart]:
    """Return the columns of a table's indexes, in the server's order; `table` is quoted.

    MySQL, "SHOW INDEX Statement"; later columns of the result, which are not read here, differ between the servers.
    """
    return [
        IndexPart(
            str(row[2]),
            not int(row[1]),
            None if row[4] is None else str(row[4]),
            None if row[7] is None else int(row[7]),
            str(row[9]).upper() == "YES",
            str(row[10]).upper(),
        )
        for row in session.rows(f"SHOW INDEX FROM {table}")
    ]


def key_of(parts: Sequence[IndexPart]) -> tuple[str, list[IndexPart]]:
    """Return the index that identifies rows, and its columns: the primary key, else the first suitable UNIQUE index.

    A suitable index covers whole columns that are NOT NULL; the servers themselves use such an index if there is no
    primary key (MySQL, "Clustered and Secondary Indexes"). The server lists such indexes in the order of their
    creation, so a new index changes nothing. Hash indexes are not suitable, because a copy reads ranges of keys.
    """
    indexes: dict[str, list[IndexPart]] = {}
    for part in parts:
        indexes.setdefault(part.index, []).append(part)
    if PRIMARY in indexes:
        return PRIMARY, indexes[PRIMARY]
    for name, columns in indexes.items():
        whole = all(one.unique and one.name and one.prefix is None and not one.nullable for one in columns)
        if whole and columns[0].kind != "HASH":
            return name, columns
    return PRIMARY, []


def stored_names(session: MysqlSession, table: str) -> tuple[str, str, tuple[str, str]]:
    """Return the schema and name of a table in the form that the server stores, its type and its storage engine.

    MySQL, "Identifier Case Sensitivity": with lower_case_table_names 1 the server stores names in lower case, and with
    2 as written. The lookup ignores case if the server does. Raises Refused if the table does not exist or this login
    cannot see it.
    """
    schema, _, name = table.partition(".")
    if session.facts.of("lower_case_table_names") in ("", "0"):
        rows = session.rows(f"{_TABLE} WHERE table_schema = %s AND table_name = %s", (schema, name))
        rows = [row for row in rows if (str(row[0]), str(row[1])) == (schema, name)]
    else:
        where = "WHERE lower(table_schema) = lower(%s) AND lower(table_name) = lower(%s)"
        rows = session.rows(f"{_TABLE} {where}", (schema, name))
    if not rows:
        raise _absent(session, table)
    if "TABLE" not in str(rows[0][2]).upper() and "VERSIONED" not in str(rows[0][2]).upper():
        raise Refused(f"{table} is not a table: {str(rows[0][2]).lower()}", "name a base table", where="source")
    return str(rows[0][0]), str(rows[0][1]), (str(rows[0][2]), str(rows[0][3] or ""))


def key_objections(table: str, key: Sequence[IndexPart]) -> Iterator[Objection]:
    if not key:
        what = f"{table} has no primary key, and no UNIQUE key over whole columns that are NOT NULL"
        yield Objection(what, f"ALTER TABLE {table} ADD PRIMARY KEY (...)")
    for part in key:
        if part.prefix is not None:
            what = f"{table} has a primary key over a prefix of {part.name}:"
            yield Objection(f"{what} two rows could have the same key", "create a key over whole columns")


def _absent(session: MysqlSession, table: str) -> Refused:
    cure = f"check its name, or GRANT SELECT ON {shown(table)} TO {session.user}"
    return Refused(f"unknown table {table}, or this login cannot see it", cure, where="source")
