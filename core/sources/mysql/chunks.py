"""Read whole tables in key chunks, in the server's order and text form, for a copy or a comparison.

Each chunk contains the rows as they are when it is read; concurrent changes are in the stream, after the position at
which the copy started.

A comparison hashes the rows of these chunks on this host (`HashedHere`): the server's text of a FLOAT or of bytes
differs from PostgreSQL's, so the server cannot compute the hash. Text keys are ordered by their bytes, as in the
target.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Any

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.drivers.mysql_queries import HashedHere
from slotkeeper.core.drivers.pg_types import plain_number
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import Key, KeyRange
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sources.mysql import filters
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.tables import (
    Image,
    TableSeen,
    bound_text,
    double_literal,
    quoted,
    read_table,
    speller,
)

Ask = Callable[[str, Sequence[object]], list[Any]]
Bound = tuple[str, ...]


def plan(table: TableSeen, rows: int, ask: Ask) -> list[Chunk]:
    """Return chunks of about `rows` rows; the bounds are found one after the other, in one pass over the key's index.

    Raises Refused if a bound repeats: the text of the bound then does not identify the key's value, and planning would
    omit rows or never end.
    """
    bounds: list[Bound] = []
    known = set[Bound]()

    def add(row: Sequence[Any]) -> None:
        bound = _bound(table, row)
        if bound in known:
            raise _no_growth(table, bound)
        known.add(bound)
        bounds.append(bound)

    while found := ask(*_bound_statement(table, bounds[-1] if bounds else (), max(1, rows) - 1)):
        add(found[0])
    if last := ask(*_bound_statement(table, bounds[-1] if bounds else ())):
        add(last[0])
        beyond = ask(*_bound_statement(table, bounds[-1]))  # a row inserted meanwhile, or the last row itself
        if beyond and _bound(table, beyond[0]) in known:
            raise _no_growth(table, bounds[-1])
    lows: list[Bound] = [(), *bounds]
    return [Chunk(number, lo, hi) for number, (lo, hi) in enumerate(zip(lows, bounds, strict=False))]


def _no_growth(table: TableSeen, bound: Bound) -> Refused:
    key = ", ".join(image.name for image in table.key)
    return Refused(
        f"table {table.schema}.{table.name}: cannot split key ({key}) into chunks: bound {', '.join(bound)!r} repeats",
        "remove the table from the job, and report its key type and the server version",
        where="source",
    )


def plan_again(table: TableSeen, rows: int, ask: Ask) -> list[Chunk]:
    """Return chunks for a copy of a streaming table: all possible keys, in an order that the target shares.

    Raises Refused if the target can order the key differently: its surplus rows could not be found by key ranges.
    """
    if other := [image.name for image in table.key if image.family not in _NUMBERS]:
        raise Refused(
            f"table {table.schema}.{table.name}: cannot be copied again while it streams: the target can order the key"
            f" column {other[0]} differently",
            "only tables with a numeric key can be; reset the table to a snapshot instead",
            where="source",
        )
    found = plan(table, rows, ask)
    return [*found, Chunk(len(found), found[-1].hi if found else (), ())]


def read_statement(table: TableSeen, images: Sequence[Image], chunk: Chunk) -> tuple[str, list[object]]:
    """Return SQL that reads these columns of the rows with lo < key <= hi, and the parameter values of that SQL."""
    values: list[object] = []
    parts = [_beyond(table.key, bound, sign, values) for bound, sign in ((chunk.lo, ">"), (chunk.hi, "<")) if bound]
    return f"SELECT {selected(images)} FROM {table.quoted} WHERE {' AND '.join(parts) or 'TRUE'}", values


def selected(images: Sequence[Image]) -> str:
    """Return SQL that selects the columns in the same format as the stream."""
    return ", ".join(image.selected.format(quoted(image.name)) for image in images)


def _bound(table: TableSeen, row: Sequence[Any]) -> Bound:
    return tuple(bound_text(image, value) for image, value in zip(table.key, row, strict=True))


def _bound_statement(table: TableSeen, lo: Bound, offset: int | None = None) -> tuple[str, list[object]]:
    """Return SQL that reads the key `offset` rows after a bound (0: the next row); without `offset`, the last key."""
    values: list[object] = []
    where = f" WHERE {_beyond(table.key, lo, '>', values)}" if lo else ""
    bounds = ", ".join((image.bound or image.ordered).format(quoted(image.name)) for image in table.key)
    down, far = (" DESC", "") if offset is None else ("", f" OFFSET {offset}")
    order = ", ".join(f"{_ordered(image)}{down}" for image in table.key)
    return f"SELECT {bounds} FROM {table.quoted}{where} ORDER BY {order} LIMIT 1{far}", values


def _ordered(image: Image) -> str:
    return image.ordered.format(quoted(image.name))


def _beyond(key: Sequence[Image], bound: Bound, sign: str, values: list[object]) -> str:
    """Return SQL for key > bound or key <= bound, by column; the bound on the first column lets an index be used."""
    names = list(map(_ordered, key))
    written = [partial(_value, image, text, values) for image, text in zip(key, bound, strict=True)]
    lead = f"{names[0]} {sign}= {written[0]()} AND " if len(key) > 1 else ""
    return f"({lead}{_nested(names, written, sign, '>' if sign == '>' else '<=')})"


def _nested(names: Sequence[str], written: Sequence[Callable[[], str]], sign: str, last: str) -> str:
    """Return SQL that compares names with values, column by column; appends the values in placeholder order."""
    if len(names) == 1:
        return f"{names[0]} {last} {written[0]()}"
    strict, equal = f"{names[0]} {sign} {written[0]()}", f"{names[0]} = {written[0]()}"
    return f"({strict} OR ({equal} AND {_nested(names[1:], written[1:], sign, last)}))"


def _value(image: Image, text: str, values: list[object]) -> str:
    """Return SQL for a bound: a literal if a string would be compared as another type, otherwise a placeholder."""
    if image.literal is not None:
        return image.literal(text)
    values.append(text)
    return "%s"


_NUMBERS = frozenset({"integer", "numeric"})
_FLOAT = struct.Struct("<f")


@dataclass(frozen=True, slots=True)
class MysqlKey:
    """A key column; implements `slotkeeper.core.drivers.mysql_queries.OrderedKey`."""

    image: Image

    @property
    def name(self) -> str:
        return self.image.name

    def of_copy(self, text: str) -> str:
        """Return the canonical form of a value from the stream or a copy."""
        return canonical(self.image.family)(text)

    @property
    def ordered(self) -> str:
        name = quoted(self.name)
        if self.image.family == "text":
            return f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)"
        return self.image.ordered.format(name)

    def bound(self, text: str, values: list[object]) -> str:
        """Return SQL for a value of this key column; `text` is canonical."""
        if self.image.family == "float":
            # a FLOAT is compared as a DOUBLE, but its text parses to a different DOUBLE
            single = self.image.type == "real"
            return double_literal(repr(_FLOAT.unpack(_FLOAT.pack(float(text)))[0]) if single else text)
        if self.image.family in _NUMBERS:
            return str(Decimal(text))
        if self.image.family == "bytea":
            return f"x'{bytes.fromhex(text.removeprefix(chr(92) + 'x')).hex()}'"
        values.append(text)
        return "CAST(%s AS BINARY)" if self.image.family == "text" else "%s"


def canonical(family: str) -> Callable[[str], str]:
    """Return a function that converts key values to the canonical form of `slotkeeper.core.drivers.pg_table`.

    >>> canonical("numeric")("1.500"), canonical("timestamp")("2020-01-01 00:00:00.120000"), canonical("text")("1.0")
    ('1.5', '2020-01-01 00:00:00.12', '1.0')
    """
    if family == "numeric":
        return plain_number
    if family == "float":
        return lambda text: repr(float(text))
    return trimmed if family == "timestamp" else str


def trimmed(text: str) -> str:
    """Format a time as PostgreSQL does: without trailing zeros in its fraction."""
    return text.rstrip("0").rstrip(".") if "." in text else text


class MysqlTableReader(HashedHere):
    """One compared table; implements `slotkeeper.core.ports.kinds.ComparedTable`."""

    def __init__(
        self, session: MysqlSession, name: str, key: Sequence[str], columns: Sequence[str], where: str, limit: float
    ) -> None:
        self._session, self._limit = session, limit
        self._seen = read_table(session, name)
        there = {image.name: image for image in self._seen.images}
        keys = list(key) or list(self._seen.identity.key)
        super().__init__(name, columns, keys, list(there))
        self._key = tuple(MysqlKey(there[one]) for one in keys)
        self.signature = ["UTF8", *(one.image.family for one in self._key)]
        images = [there[one] for one in (*keys, *self.columns)]
        self._names = selected([*images, *self._seen.images] if where else images)
        self._spell, self._width = speller(images), len(images)
        self._accepts = filters.compiled(where, self._seen.images) if where else None
        self._key_of = [canonical(image.family) for image in images[: len(keys)]]
        self._trims = [place for place, image in enumerate(images) if image.family == "timestamp"]

    @property
    def key(self) -> Sequence[MysqlKey]:
        return self._key

    def count(self, bounds: KeyRange) -> int:
        if self._accepts is not None:
            return sum(1 for _ in self._selected(*self._within(bounds)))
        where, values = self._within(bounds)
        statement = f"SELECT count(*) FROM {self._seen.quoted} WHERE {where}"
        return int(self._session.rows(statement, values, self._limit)[0][0])

    def split(self, bounds: KeyRange, rows: int) -> list[Key]:
        where, values = self._within(bounds)
        order = ", ".join(one.ordered for one in self._key)
        names = selected([one.image for one in self._key])
        spell = speller([one.image for one in self._key])
        statement = f"SELECT {names} FROM {self._seen.quoted} WHERE {where} ORDER BY {order}"
        found, place = list[Key](), 0
        for some in self._session.read(statement, values, self._limit):
            for row in some:
                if place and place % rows == 0:
                    found.append(self._as_key(spell(row)))
                place += 1
        return found

    def _selected(
        self, where: str, values: Sequence[object], limit: int | None = None
    ) -> Iterator[tuple[Key, list[str | None]]]:
        more = "" if limit is None or self._accepts is not None else f" LIMIT {limit}"
        return islice(self._selected_rows(f"{where}{more}", values), limit)

    def _selected_rows(self, where: str, values: Sequence[object]) -> Iterator[tuple[Key, list[str | None]]]:
        statement = f"SELECT {self._names} FROM {self._seen.quoted} WHERE {where}"
        for some in self._session.read(statement, values, self._limit):
            for row in some:
                if self._accepts is not None and not self._accepts(row[self._width :]):
                    continue
                texts: list[str | None] = list(self._spell(row))
                for place in self._trims:
                    text = texts[place]
                    texts[place] = None if text is None else trimmed(text)
                yield self._as_key(texts), texts[len(self._key) :]

    def _as_key(self, texts: Sequence[str | None]) -> Key:
        return tuple(plain(text or "") for plain, text in zip(self._key_of, texts, strict=False))


class MysqlTables:
    """A session that reads whole tables; implements `slotkeeper.core.ports.kinds.TableSession`."""

    def __init__(self, login: Login, limit_ms: int) -> None:
        self._session = MysqlSession(login)
        self._limit = limit_ms / 1000 if limit_ms else 3600.0

    def table(
        self, name: str, key: Sequence[str] = (), columns: Sequence[str] = (), where: str = ""
    ) -> MysqlTableReader:
        return MysqlTableReader(self._session, name, key, columns, where, self._limit)

    def close(self) -> None:
        self._session.close()
