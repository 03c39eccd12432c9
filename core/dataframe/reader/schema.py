"""The columns of a read, with their types in the dialect, in Spark and in Arrow, and conditions on key columns.

docs/dataframes.md lists the types.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow
from pyspark.sql import types

from slotkeeper.core.dataframe.changelog import CHANGE, DN, NET, POINT, SEQUENCE, WEIGHT, WEIGHTED, marks
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.type_name import TEXT, Condition, Field, FieldKind, FieldType, field_type
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import Source

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

LEAD = (CHANGE, DN, POINT, SEQUENCE, WEIGHT)
"""The names of all columns that can precede a table's own columns in a changelog."""
_PLAIN = {
    FieldKind.BOOLEAN: types.BooleanType(),
    FieldKind.SHORT: types.ShortType(),
    FieldKind.INTEGER: types.IntegerType(),
    FieldKind.LONG: types.LongType(),
    FieldKind.FLOAT: types.FloatType(),
    FieldKind.DOUBLE: types.DoubleType(),
    FieldKind.DATE: types.DateType(),
    FieldKind.LOCAL_TIME: types.TimestampNTZType(),
    FieldKind.INSTANT: types.TimestampType(),
    FieldKind.BYTES: types.BinaryType(),
    FieldKind.TEXT: types.StringType(),
}
_ARROW = {
    FieldKind.BOOLEAN: pyarrow.bool_(),
    FieldKind.SHORT: pyarrow.int16(),
    FieldKind.INTEGER: pyarrow.int32(),
    FieldKind.LONG: pyarrow.int64(),
    FieldKind.FLOAT: pyarrow.float32(),
    FieldKind.DOUBLE: pyarrow.float64(),
    FieldKind.DATE: pyarrow.date32(),
    FieldKind.LOCAL_TIME: pyarrow.timestamp("us"),
    FieldKind.INSTANT: pyarrow.timestamp("us", "UTC"),
    FieldKind.BYTES: pyarrow.binary(),
    FieldKind.TEXT: pyarrow.string(),
}
_LEAD = tuple(zip(LEAD, (FieldKind.TEXT, FieldKind.TEXT, FieldKind.LONG, FieldKind.LONG), strict=False))


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a read: `columns` of the source, `fields` with types; those of a changelog come first.

    `form` is that of the changelog, or "" for rows of the table.
    `fingerprint` is the table's fingerprint, `key` its key columns.
    """

    columns: tuple[Column, ...]
    fields: tuple[Field, ...]
    form: str
    fingerprint: str
    key: tuple[str, ...]

    @property
    def lead(self) -> Sequence[tuple[str, FieldKind]]:
        """The columns that precede the table's own."""
        if not self.form:
            return ()
        return _LEAD if self.form != WEIGHTED else (*_LEAD, (WEIGHT, FieldKind.INTEGER))

    @property
    def spark(self) -> types.StructType:
        lead = [types.StructField(name, _PLAIN[kind]) for name, kind in self.lead]
        marked = marks(self.key, self.fingerprint)
        own = [types.StructField(one.name, spark_type(one.type), True, marked.get(one.name)) for one in self.fields]
        return types.StructType([*lead, *own])

    @property
    def arrow(self) -> pyarrow.Schema:
        """The schema in Arrow types, as required by Spark."""
        own = [(one.name, arrow_type(one.type)) for one in self.fields]
        return pyarrow.schema([*((name, _ARROW[kind]) for name, kind in self.lead), *own])


def spark_type(field: FieldType) -> types.DataType:
    """Return the Spark type of a field.

    >>> spark_type(FieldType(FieldKind.DECIMAL, 12, 2)).simpleString()
    'decimal(12,2)'
    """
    if field.kind is FieldKind.DECIMAL:
        return types.DecimalType(field.precision, field.scale)
    return _PLAIN[field.kind]


def arrow_type(field: FieldType) -> pyarrow.DataType:
    """Return the Arrow type of a field that Spark reads as `spark_type`."""
    if field.kind is FieldKind.DECIMAL:
        return pyarrow.decimal128(field.precision, field.scale)
    return _ARROW[field.kind]


def layout(log: Source, columns: Sequence[str], as_text: Sequence[str], form: str) -> Layout:
    """Return the layout of the given columns, or of all columns by default; raises Refused for an unknown column."""
    identity = log.identify()
    there = {column.name: column for column in identity.columns}
    absent = [name for name in (*columns, *as_text) if name not in there]
    if absent:
        raise Refused(f"unknown column {absent[0]!r}", f"the table has {', '.join(there)}", where="source")
    chosen = tuple(there[name] for name in columns) if columns else identity.columns
    taken = [column.name for column in chosen if form and column.name.lower() in LEAD]
    if taken:
        what = f"column {taken[0]!r} of the table has the name of a changelog column"
        raise Refused(what, "exclude it with the option columns", where="source")
    if form == NET and not set(identity.key) <= {column.name for column in chosen}:
        what = 'changelog = "net" needs the key columns'
        raise Refused(what, f"add {', '.join(identity.key)} to the option columns", where="spark")
    fields = tuple(
        Field(one.name, TEXT if one.name in as_text else field_type(identity.plain(one.type))) for one in chosen
    )
    return Layout(chosen, fields, form, identity.text, identity.key)


_SIGNS = {
    "EqualTo": "=",
    "In": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
"""SQL by the names of Spark's classes of conditions, which Spark 4.0 does not have."""
_TEXTS = re.compile(r"(text|character varying|character|varchar|nvarchar2|bpchar)(\(\d+\))?")
MOST = 1_000
"""Maximum number of values in an IN condition that is sent to the source; only Spark applies longer lists."""


def of_key(filters: Iterable[Filter], layout: Layout) -> tuple[Condition, ...]:
    """Return the conditions that the source can apply: those on key columns, whose values are always available.

    These conditions exclude only rows that Spark would also exclude, and Spark applies all of them again. A condition
    is not sent if the source and Spark may compare its values differently: strings are compared only for equality,
    because their order depends on a collation, and conditions on floats are never sent. Columns of other types that
    Spark reads as strings are not compared: a value that such a type does not accept would end the read.
    """
    columns = zip(layout.columns, layout.fields, strict=True)
    types = {
        field.name: field.type
        for column, field in columns
        if field.name in layout.key and (field.type.kind is not FieldKind.TEXT or _TEXTS.fullmatch(column.type))
    }
    found = []
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) == 1 and path[0] in types and (made := _condition(one, path[0], types[path[0]])) is not None:
            found.append(made)
    return tuple(found)


def _condition(one: Filter, name: str, field: FieldType) -> Condition | None:
    kind = type(one).__name__
    sign = _SIGNS.get(kind, "")
    if not sign or not (field.ranged or (sign == "=" and field.kind is FieldKind.TEXT)):
        return None
    given: Any = getattr(one, "value", None)
    values = [_text(value) for value in (given if kind == "In" else (given,))]
    if not values or len(values) > MOST or any(value is None for value in values):
        return None
    return Condition(name, sign, tuple(value for value in values if value is not None))


def _text(value: object) -> str | None:
    """Return the value in a format that the source and Spark interpret identically; None if that is uncertain."""
    if isinstance(value, bool):
        return None
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ") if value.tzinfo is None else value.astimezone(datetime.timezone.utc).isoformat(" ")
    if isinstance(value, int | datetime.date):
        return str(value)
    return value if isinstance(value, str) and "\0" not in value else None
