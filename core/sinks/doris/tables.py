"""Reads whole Doris tables for a comparison: rows arrive as text, in key order, and are hashed on this host.

The hash is computed here and not by Doris, because Doris's hash functions have not been tested against a Doris server.
Therefore every row of a hashed range is sent to this host.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.drivers.mysql_queries import HashedHere, MysqlQueries
from slotkeeper.core.ports.kinds import Key, KeyRange
from slotkeeper.core.sinks.doris import shape
from slotkeeper.core.sinks.doris.encode import backquoted
from slotkeeper.core.sinks.doris.shape import quoted

_FAMILIES = {
    "tinyint": "integer",
    "smallint": "integer",
    "int": "integer",
    "bigint": "integer",
    "largeint": "integer",
    "decimal": "numeric",
    "float": "single",
    "double": "double",
    "datetime": "timestamp",
    "date": "date",
    "datev2": "date",
    "boolean": "bool",
}


@dataclass(frozen=True, slots=True)
class DorisKey:
    """A column of a key; implements `slotkeeper.core.drivers.mysql_queries.OrderedKey`."""

    name: str
    family: str

    @property
    def ordered(self) -> str:
        return _name(self.name)

    def bound(self, text: str, values: list[object]) -> str:
        values.append(text)
        return "%s"

    def of_copy(self, text: str) -> str:
        """Convert a key's text form in the source to its text form in this reader."""
        return {"t": "true", "f": "false"}.get(text, text) if self.family == "bool" else plain_of(self.family)(text)


def plain_of(family: str) -> Callable[[str], str]:
    """Return the conversion of a column's text to the text that PostgreSQL writes.

    >>> plain_of("timestamp")("2020-01-01 00:00:00.120000"), plain_of("timestamp")("2020-01-01 00:00:00.000000")
    ('2020-01-01 00:00:00.12', '2020-01-01 00:00:00')
    >>> plain_of("bool")("1"), plain_of("text")("1.0"), plain_of("numeric")("-.5"), plain_of("numeric")("10.5")
    ('true', '1.0', '-0.5', '10.5')
    """
    if family == "timestamp":
        return lambda text: text.rstrip("0").rstrip(".") if "." in text else text
    if family == "bool":
        return lambda text: {"1": "true", "0": "false"}.get(text, text)
    if family == "numeric":  # a server can omit the zero of a DECIMAL(5,5), which has no digit before its point
        return lambda text: text.replace(".", "0.", 1) if text.lstrip("-")[:1] == "." else text
    if family in ("single", "double"):
        return partial(number_text, single=family == "single")
    return str


def number_text(text: str, single: bool) -> str:
    """Format a number as PostgreSQL does: the shortest text that is exactly this number (extra_float_digits = 1).

    >>> number_text("100000.0", False), number_text("1e15", False), number_text("0.00001", False)
    ('100000', '1e+15', '1e-05')
    >>> number_text("1.1000000238418579", True), number_text("-0.0", False), number_text("inf", False)
    ('1.1', '-0', 'Infinity')
    """
    try:
        value = float(text)
    except ValueError:
        return text
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    shortest = repr(value)
    if single:
        value = struct.unpack("f", struct.pack("f", value))[0]
        tries = (f"{value:.{digits}g}" for digits in range(1, 10))
        shortest = next(one for one in tries if struct.unpack("f", struct.pack("f", float(one)))[0] == value)
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    place = len(digits) + exponent - 1
    minus, spelled = "-" * sign, "".join(map(str, digits))
    if value == 0:
        return f"{minus}0"
    if -5 < place < (6 if single else 15):
        return f"{minus}{abs(Decimal(shortest).normalize()):f}"
    rest = f".{spelled[1:]}" if len(spelled) > 1 else ""
    return f"{minus}{spelled[0]}{rest}e{'-' if place < 0 else '+'}{abs(place):02d}"


class DorisReader(HashedHere):
    """One table; implements `slotkeeper.core.ports.kinds.ComparedTable`."""

    def __init__(
        self, queries: MysqlQueries, name: str, key: Sequence[str], columns: Sequence[str], part: str = ""
    ) -> None:
        self._queries = queries
        self._part = f"{part} AND " if part else ""
        table = shape.read(queries, name)
        keys = list(key) or list(table.key)
        families = {column.name: _FAMILIES.get(column.base, "text") for column in table.columns}
        super().__init__(name, columns, keys, list(families))
        self._key = tuple(DorisKey(one, families[one]) for one in keys)
        self.signature = ["UTF8", *(one.family for one in self._key)]
        self._plain = [plain_of(families[column]) for column in (*keys, *self.columns)]

    @property
    def key(self) -> Sequence[DorisKey]:
        return self._key

    def count(self, bounds: KeyRange) -> int:
        where, values = self._within(bounds)
        counted = f"SELECT count(*) FROM {quoted(self.label)} WHERE {self._part}{where}"
        return int(self._queries.rows(counted, values)[0][0])

    def split(self, bounds: KeyRange, rows: int) -> list[Key]:
        where, values = self._within(bounds)
        names = _as_texts([one.name for one in self.key])
        order = ", ".join(one.ordered for one in self.key)
        statement = f"SELECT {names} FROM {quoted(self.label)} WHERE {self._part}{where} ORDER BY {order}"
        found = self._queries.streamed(statement, values)
        return [self._key_of(row) for place, row in enumerate(found) if place and place % rows == 0]

    def _selected(
        self, where: str, values: Sequence[object], limit: int | None = None
    ) -> Iterator[tuple[Key, list[str | None]]]:
        where = f"{self._part}({where})" + ("" if limit is None else f" LIMIT {limit}")
        texts = _as_texts([*(one.name for one in self.key), *self.columns])
        for row in self._queries.streamed(f"SELECT {texts} FROM {quoted(self.label)} WHERE {where}", values):
            spelled = [None if text is None else plain(str(text)) for text, plain in zip(row, self._plain, strict=True)]
            yield self._key_of(row), spelled[len(self.key) :]

    def _key_of(self, row: Sequence[Any]) -> Key:
        return tuple(plain(str(text)) for plain, text in zip(self._plain, row[: len(self.key)], strict=False))


def _name(column: str) -> str:
    return backquoted(column).replace("%", "%%")


def _as_texts(columns: Iterable[str]) -> str:
    return ", ".join(f"CAST({_name(column)} AS STRING)" for column in columns)


class DorisTables:
    """A session that reads whole tables; implements `slotkeeper.core.ports.kinds.TableSession`."""

    def __init__(self, login: Login, limit_ms: int) -> None:
        self._queries = MysqlQueries(login, "sink", limit_ms / 1000 if limit_ms else 600.0)

    def table(self, name: str, key: Sequence[str] = (), columns: Sequence[str] = (), where: str = "") -> DorisReader:
        """Open a table of this server; `where` is the condition of a part (`shape.condition`)."""
        return DorisReader(self._queries, name, key, columns, where)

    def close(self) -> None:
        self._queries.close()
