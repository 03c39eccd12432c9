"""Column types: the server's name of a type, and how its values are parsed. Pure.

A string from a server is never inserted into a statement: it is parsed, and only this module generates the SQL.
`format_type` of PostgreSQL, DWS and Hologres writes a name, sizes in parentheses, and `[]` (PostgreSQL, "System
Information Functions"); a type outside pg_catalog has its schema as a prefix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused

_PLAIN = r"[a-z_][a-z0-9_$]*"
IDENTIFIER = rf'(?:{_PLAIN}|"(?:[^"\0]|"")+")'
"""A name as `quote_ident` writes it."""
_SIZE = r"-?[A-Za-z0-9_]+(?: [A-Za-z0-9_]+)?"
_FIELDS = (
    "year|month|day|hour|minute|second"
    "|year to month|day to (?:hour|minute|second)|hour to (?:minute|second)|minute to second"
)
_TYPE = re.compile(
    rf"(?:(?P<words>bit varying|character varying|double precision|interval(?: (?:{_FIELDS}))?)"
    rf"|(?P<clock>time|timestamp)(?=(?:\({_SIZE}\))? with)"
    rf"|(?:(?P<schema>{IDENTIFIER})\.)?(?P<name>{IDENTIFIER}))"
    rf"(?:\((?P<sizes>{_SIZE}(?:,{_SIZE})*)\))?"
    r"(?P<zone>(?<=[a-z0-9_)]) with(?:out)? time zone)?"
    r"(?P<dimensions>(?:\[\]){0,6})"
)
_QUALIFIED = re.compile(rf"{IDENTIFIER}\.{IDENTIFIER}")
_OPTION = rf"(?:subtype_opclass|collation|multirange_type_name) = {IDENTIFIER}\.{IDENTIFIER}"
_OPTIONS = re.compile(rf"{_OPTION}(?:, {_OPTION})*")
_ATTRIBUTE = re.compile(rf"({IDENTIFIER}) (.*)", re.DOTALL)
_LONGEST = 1_000
"""Maximum length of a type in characters: two names of 63 bytes, and sizes."""
_OWN = frozenset(
    re.findall(
        r"\S+",
        """
    smallint integer bigint real numeric money boolean text character bpchar "char" name bytea bit uuid date time
    timestamp oid json jsonb xml inet cidr macaddr macaddr8 point line lseg box path polygon circle tsvector tsquery
    int4range int8range numrange tsrange tstzrange daterange int4multirange int8multirange nummultirange
    tsmultirange tstzmultirange datemultirange pg_lsn regclass regtype regproc xid cid tid int2vector oidvector
    tinyint smalldatetime nvarchar2 clob blob raw hll roaringbitmap
        """,
    )
)
"""Built-in type names that a statement can contain unchanged. Other built-in names are qualified with pg_catalog, so
that the server does not read them as keywords (serial)."""
_CURE = "change the column's type in the source"


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type: `name` and `schema` as SQL identifiers, the schema empty for the server's own types.

    `sizes` are the type modifiers, `zone` is the time zone clause after them, `dimensions` is the number of `[]`.
    """

    name: str
    schema: str = ""
    sizes: tuple[str, ...] = ()
    zone: str = ""
    dimensions: int = 0

    @property
    def text(self) -> str:
        """The type as the server writes it; types are compared by this text.

        >>> parsed("numeric(12,2)[]").text, parsed('kinds."A b"').text
        ('numeric(12,2)[]', 'kinds."A b"')
        """
        return self._written(f"{self.schema}.{self.name}" if self.schema else self.name)

    @property
    def sql(self) -> str:
        """The type as SQL for a statement.

        >>> parsed("timestamp(3) with time zone").sql, parsed("kinds.mood[]").sql, parsed("serial").sql
        ('timestamp(3) with time zone', 'kinds.mood[]', 'pg_catalog."serial"')
        """
        if self.schema or self.zone or " " in self.name or self.name in _OWN or self.name == "interval":
            return self.text
        return self._written("pg_catalog." + (self.name if self.name.startswith('"') else f'"{self.name}"'))

    def _written(self, name: str) -> str:
        sizes = f"({','.join(self.sizes)})" if self.sizes else ""
        return f"{name}{sizes}{self.zone}{'[]' * self.dimensions}"


def parsed(text: str, of: str = "") -> TypeName:
    """Parse a type as a server writes it; raises Refused if it is not a type. `of` names its owner in the message."""
    found = _parsed(text)
    if found is None:
        raise _refused("type", text, of)
    return found


def sql(text: str) -> str:
    """Return a type as SQL for a statement; raises Refused if the string is not a type.

    >>> sql("character varying(20)")
    'character varying(20)'
    """
    return parsed(text).sql


@lru_cache(4096)
def _parsed(text: str) -> TypeName | None:
    found = _TYPE.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or (found["zone"] and not found["clock"]):
        return None
    name = found["words"] or found["clock"] or found["name"]
    sizes = tuple(found["sizes"].split(",")) if found["sizes"] else ()
    return TypeName(name, found["schema"] or "", sizes, found["zone"] or "", len(found["dimensions"]) // 2)


def qualified(text: str, of: str = "") -> str:
    """Return a name with its schema, as SQL; raises Refused for any other string."""
    if len(text) > _LONGEST or not _QUALIFIED.fullmatch(text):
        raise _refused("name", text, of)
    return text


def range_options(text: str, of: str = "") -> str:
    """Return the options of a range type except its subtype, as SQL; raises Refused for any other string."""
    if len(text) > _LONGEST or not _OPTIONS.fullmatch(text):
        raise _refused("range option", text, of)
    return text


def attribute(text: str, of: str = "") -> tuple[str, TypeName]:
    """Return the name, as SQL, and the type of a composite's attribute; raises Refused for any other string.

    >>> attribute('"A b" kinds.price[]')[0], attribute("m text")[1].text
    ('"A b"', 'text')
    """
    found = _ATTRIBUTE.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise _refused("attribute", text, of)
    return found[1], parsed(found[2], of)


def _refused(what: str, text: str, of: str) -> Refused:
    owner = f"{safe(of, 80)}: " if of else ""
    return Refused(f"{owner}the server returned an invalid {what}: {safe(text, 120)!r}", _CURE, where="source")


class FieldKind(Enum):
    """Ways to parse a value. All types without their own kind use TEXT, the string as the server writes it."""

    BOOLEAN = "boolean"
    SHORT = "short"
    INTEGER = "integer"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    DATE = "date"
    LOCAL_TIME = "timestamp without a zone"
    INSTANT = "timestamp"
    BYTES = "bytes"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class FieldType:
    """The kind of a column's values; `precision` and `scale` are a decimal's total and fractional digits."""

    kind: FieldKind
    precision: int = 0
    scale: int = 0

    @property
    def ranged(self) -> bool:
        """Whether all systems sort these values in the same order, so that the source can select a range.

        Strings are sorted by a collation, and systems sort a float's NaN differently.
        """
        return self.kind in _RANGED


_RANGED = frozenset(
    {FieldKind.SHORT, FieldKind.INTEGER, FieldKind.LONG, FieldKind.DATE, FieldKind.LOCAL_TIME, FieldKind.INSTANT}
)
TEXT = FieldType(FieldKind.TEXT)


MOST_DIGITS = 38
"""Maximum number of digits of a reader's decimal type (Spark: DecimalType; Arrow: decimal128)."""
_OWN_KINDS = {
    "boolean": FieldKind.BOOLEAN,
    "tinyint": FieldKind.SHORT,
    "smallint": FieldKind.SHORT,
    "integer": FieldKind.INTEGER,
    "bigint": FieldKind.LONG,
    "real": FieldKind.FLOAT,
    "double precision": FieldKind.DOUBLE,
    "date": FieldKind.DATE,
    "bytea": FieldKind.BYTES,
}
_TIMES = re.compile(r"timestamp(\([0-6]\))? (with|without) time zone")
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")


def field_type(spelled: str) -> FieldType:
    """Return the reader's type for a type name from format_type; pass the base type for a domain.

    >>> field_type("numeric(12,2)"), field_type("numeric").kind, field_type("timestamp(3) with time zone").kind
    (FieldType(kind=<FieldKind.DECIMAL: 'decimal'>, precision=12, scale=2), <FieldKind.TEXT: 'text'>, \
<FieldKind.INSTANT: 'timestamp'>)
    """
    if spelled in _OWN_KINDS:
        return FieldType(_OWN_KINDS[spelled])
    if found := _TIMES.fullmatch(spelled):
        return FieldType(FieldKind.INSTANT if found[2] == "with" else FieldKind.LOCAL_TIME)
    if found := _NUMERIC.fullmatch(spelled):
        precision, scale = int(found[1]), int(found[2])
        if precision <= MOST_DIGITS and 0 <= scale <= precision:
            return FieldType(FieldKind.DECIMAL, precision, scale)
    return TEXT


@dataclass(frozen=True, slots=True)
class Field:
    """A column to read."""

    name: str
    type: FieldType


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a column. For "=", the column must equal one of `values`; other operators compare with one value.

    Values are strings in the source's format. NULL satisfies no condition.
    """

    column: str
    sign: str
    values: tuple[str, ...]
