"""A table's columns as sinks know them: PostgreSQL's types, and each value as the text that PostgreSQL writes. Pure.

The stream and a copy have to spell a value alike, or a comparison would call equal rows different. A TIMESTAMP is a
moment, written in UTC; TIME has a range that no other server's has, so it is text. Zero dates stay what they are: a
sink that has none refuses them by the row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from slotkeeper.core.domain.text import safe
from slotkeeper.core.sources.mysql.columns import SchemaColumn
from slotkeeper.core.sources.mysql.errors import Unsupported
from slotkeeper.core.sources.mysql.values import shortest_float

Spell = Callable[[Any], str]
_SIZE = re.compile(r"\((\d+)")
_INTEGERS = {
    "tinyint": ("smallint", "smallint"),
    "smallint": ("smallint", "integer"),
    "mediumint": ("integer", "integer"),
    "int": ("integer", "bigint"),
    "bigint": ("bigint", "numeric(20,0)"),
}
"""With a sign, and without."""
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_SPATIAL = frozenset(
    {
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
        *("geometrycollection", "geomcollection"),
    }
)
_LONG_TEXT = frozenset({"tinytext", "text", "mediumtext", "longtext", "json", "enum", "set", "inet4", "inet6"})
_BY_NUMBER = frozenset({"enum", "set", "bit"})
"""Types that a server orders by their number, whatever their text is."""


@dataclass(frozen=True, slots=True)
class Image:
    """A column: its type as sinks know it, and how a value becomes text.

    `spell` is None where the value is that text. `family` orders keys alike on both ends of a comparison. `selected` is
    the expression for a SELECT, `{0}` the column's name, that gives what the stream gives; `ordered` that by which a
    table is cut into chunks, `bound` that which gives a bound of it exactly, and `literal` writes one.
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
        """A value as text; None for NULL."""
        return None if value is None else value if self.spell is None else self.spell(value)


def image_of(column: SchemaColumn) -> Image:
    """A column as sinks know it. Raises Unsupported with its name for a type that is not read.

    >>> image_of(SchemaColumn("a", "int", "int(10) unsigned", True)).type
    'bigint'
    >>> image_of(SchemaColumn("a", "varchar", "varchar(20)", True)).type
    'character varying(20)'
    """
    name, kind = column.name, column.kind
    if kind in _INTEGERS:
        type_ = _INTEGERS[kind]["unsigned" in column.full_type]
        return Image(name, type_, "numeric" if type_.startswith("n") else "integer", str, literal=_number)
    if kind == "decimal":
        return Image(name, f"numeric({column.precision},{column.scale})", "numeric", _plain_decimal, literal=_number)
    if kind == "float":
        # a SELECT rounds a FLOAT to six digits; as a DOUBLE it is the very number, and compared with one as a DOUBLE
        exact, spell = "({0} + 0e0)", lambda value: float_text(shortest_float(value), True)
        return Image(name, "real", "float", spell, exact, literal=double_literal, bound=exact)
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
    what = f"column {safe(name, 80)} has type {safe(column.full_type, 120)}, which is not read"
    raise Unsupported(what, "leave the table out of the job")


def bytes_text(value: bytes) -> str:
    r"""Bytes as PostgreSQL writes them.

    >>> bytes_text(b"a")
    '\\x61'
    """
    return "\\x" + value.hex()


def _plain_decimal(value: str) -> str:
    """A decimal without the zeros that ZEROFILL puts before it, which the binlog has not.

    >>> _plain_decimal("0001.10"), _plain_decimal("0.10"), _plain_decimal("-1.10")
    ('1.10', '0.10', '-1.10')
    """
    if value[:1] == "0" and value[1:2].isdigit():
        stripped = value.lstrip("0")
        return f"0{stripped}" if stripped[:1] in ("", ".") else stripped
    return value


def float_text(value: float, single: bool = False) -> str:
    """A number as PostgreSQL writes a double precision, or a real where `single`.

    PostgreSQL, src/common/d2s.c and f2s.c: digits as they are from 1e-4 to below 1e15, or 1e6 of a real.

    >>> float_text(1e15), float_text(1e14), float_text(1.5), float_text(-0.0), float_text(1e-5)
    ('1e+15', '100000000000000', '1.5', '-0', '1e-05')
    >>> float_text(1e6, True), float_text(123456.0, True), float_text(1234567.0, True)
    ('1e+06', '123456', '1.234567e+06')
    """
    plain = repr(float(value))
    if "e" not in plain and abs(value) < (1e6 if single else 1e15):  # nearly all are: both write the fewest digits
        return plain.removesuffix(".0")
    sign, digits, exponent = Decimal(plain).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    if text == "0" or not isinstance(exponent, int):
        return "-0" if sign else "0"
    leading = len(digits) + exponent - 1
    dash = "-" if sign else ""
    if -4 <= leading < (6 if single else 15):
        if leading < 0:
            return f"{dash}0.{'0' * (-leading - 1)}{text}"
        whole = text[: leading + 1].ljust(leading + 1, "0")
        return f"{dash}{whole}{'.' + text[leading + 1 :] if len(text) > leading + 1 else ''}"
    rest = f".{text[1:]}" if len(text) > 1 else ""
    return f"{dash}{text[0]}{rest}e{'-' if leading < 0 else '+'}{abs(leading):02d}"


# -- bounds of chunks -------------------------------------------------------------------------------------------------

_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def _number(text: str) -> str:
    """A number that goes into a statement as it is: as a string it would be compared as a DOUBLE."""
    if not _PLAIN_NUMBER.fullmatch(text):
        raise ValueError("not a number")
    return text


def double_literal(text: str) -> str:
    """A number as a DOUBLE of a statement: without an exponent it would be a DECIMAL."""
    return f"{float(text)!r}e0" if "e" not in repr(float(text)) else repr(float(text))


def _hex(text: str) -> str:
    bytes.fromhex(text)
    return f"x'{text}'"


def bound_text(image: Image, value: Any) -> str:
    """A key's value as a chunk keeps it: bytes as hex digits, all else as its own text."""
    if image.literal is _hex:
        return bytes(value).hex()
    return repr(value) if isinstance(value, float) else str(value)


# -- rows as a whole --------------------------------------------------------------------------------------------------


def speller(
    images: Sequence[Image], places: Sequence[int] = (), kept: Sequence[bool] = ()
) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Spells the values of a row at some places, all where none is named; those that are not `kept` as None.

    `images` and `kept` are of the whole row. Compiled, for it is done for every row.

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
    exec(f"def spell(r):\n    return ({''.join(f'{part}, ' for part in parts)})", scope)  # noqa: S102  places only
    made: Callable[[Sequence[Any]], tuple[Any, ...]] = scope["spell"]
    return made
