"""The statements of a comparison, composed for one table; everything here exists in the 9.2 dialect that DWS speaks.

A row's hash is md5 over its columns' text, each written as `length:text` and NULL as `-`, so that neither a separator
inside a value nor the difference between NULL, '' and 'NULL' can hide. Types whose text never holds a `|` and is never
a lone `-` are written as `text|`, which is half the work. (`ROW(...)::text` is faster still and as unambiguous, but
whether a DWS computes it on its DNs is not known.) A range's hash is the sum of 60 bits of each
row's: the order of rows does not matter, and each row is hashed once, in one pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from slotkeeper.core.drivers.pg import MADE_TEXT, sql
from slotkeeper.core.drivers.pg_table.keys import FAMILIES, KeyColumn
from slotkeeper.core.ports.kinds import COUNTED, Key, KeyRange

Composable = sql.Composable

BITS, BARE = "bits", "bare"
"""How a column stands in a row's hash: a float by its bits, text that is bare or has its length before it."""

_BARE = frozenset(FAMILIES) - {"bytea"}
_TERMINATED = "coalesce({0}, '-') || '|'"
_COUNTED = "coalesce(length({0})::text || ':' || {0}, '-')"


def form_of(typname: str) -> str:
    """How a column of this type (no domain) stands in a hash; where two sides differ, both count its text.

    >>> form_of("float4"), form_of("int4"), form_of("text")
    ('bits', 'bare', 'counted')
    """
    if typname in ("float4", "float8"):
        return BITS
    return BARE if typname in _BARE else COUNTED


class Statements:
    """Statements over one table: `key` columns, `columns` compared as (name, form), `where` a trusted filter.

    `made` are those columns whose type somebody made.
    """

    def __init__(
        self,
        table: Composable,
        key: Sequence[KeyColumn],
        columns: Sequence[tuple[str, str]],
        where: str = "",
        made: Collection[str] = (),
    ) -> None:
        self._table = table
        self._key = key
        self._texts = [_text(name, form, name in made) for name, form in columns]
        self._where: Composable = sql.SQL("(" + where + ")") if where else sql.SQL("true")
        self._names = sql.SQL(", ").join(_spelled(c, _column(c)) for c in key)
        framed = [
            sql.SQL(_COUNTED if form == COUNTED else _TERMINATED).format(text)
            for text, (_, form) in zip(self._texts, columns, strict=True)
        ]
        self._hash = sql.SQL("md5({})").format(sql.SQL(" || ").join(framed))

    def count(self, bounds: KeyRange) -> Composable:
        """Rows of a range."""
        return sql.SQL("SELECT count(*) FROM {} t WHERE {}").format(self._table, self._within(bounds))

    def checksum(self, bounds: KeyRange) -> Composable:
        """Rows of a range and the sum of their hashes."""
        return sql.SQL(
            "SELECT count(*), coalesce(sum(('x' || substr({}, 1, 15))::bit(60)::bigint), 0) FROM {} t WHERE {}"
        ).format(self._hash, self._table, self._within(bounds))

    def split(self, bounds: KeyRange, rows: int) -> Composable:
        """Every `rows`-th key of a range but the first."""
        order = sql.SQL(", ").join(_ordered(c, _column(c)) for c in self._key)
        names = [sql.Identifier(f"k{place}") for place in range(len(self._key))]
        named = sql.SQL("{} AS {}")
        picked = [named.format(_spelled(c, _column(c)), n) for c, n in zip(self._key, names, strict=True)]
        return sql.SQL(
            "SELECT {} FROM (SELECT {}, row_number() OVER (ORDER BY {}) AS place FROM {} t WHERE {}) q "
            "WHERE place > 1 AND (place - 1) % {} = 0 ORDER BY place"
        ).format(
            sql.SQL(", ").join(names),
            sql.SQL(", ").join(picked),
            order,
            self._table,
            self._within(bounds),
            sql.Literal(rows),
        )

    def rows(self, bounds: KeyRange, limit: int) -> Composable:
        """Key and hash of each row of a range."""
        return sql.SQL("SELECT {}, {} FROM {} t WHERE {} LIMIT {}").format(
            self._names, self._hash, self._table, self._within(bounds), sql.Literal(limit)
        )

    def digests(self, keys: Sequence[Key]) -> Composable:
        """Key and one hash per column of the rows with these keys."""
        wanted = sql.SQL(", ").join(
            sql.SQL("({})").format(sql.SQL(", ").join(_value(c, part) for c, part in zip(self._key, key, strict=True)))
            for key in keys
        )
        names = [sql.Identifier(f"k{place}") for place in range(len(self._key))]
        match = [_equal(c, sql.SQL("wanted.{}").format(n)) for c, n in zip(self._key, names, strict=True)]
        # the filter's columns have no alias, so it stands where there are none but the table's
        return sql.SQL(
            "SELECT {}, {} FROM (SELECT * FROM {} t WHERE {}) t JOIN (VALUES {}) AS wanted ({}) ON {}"
        ).format(
            self._names,
            sql.SQL(", ").join(sql.SQL("md5({})").format(text) for text in self._texts),
            self._table,
            self._where,
            wanted,
            sql.SQL(", ").join(names),
            sql.SQL(" AND ").join(match),
        )

    def _within(self, bounds: KeyRange) -> Composable:
        parts: list[Composable] = [self._where]
        if bounds.low is not None:
            parts.append(_edge(self._key, bounds.low, ">", closed=True))
        if bounds.high is not None:
            parts.append(_edge(self._key, bounds.high, "<", closed=False))
        return sql.SQL(" AND ").join(parts)


def _edge(key: Sequence[KeyColumn], at: Key, beyond: str, closed: bool) -> Composable:
    """`key` beyond `at`, expanded so that an index on the first columns serves: a >= x AND (a > x OR b >= y)."""
    column, part = key[0], at[0]
    left, right = _ordered(column, _column(column)), _ordered(column, _value(column, part))
    if len(key) == 1:
        return sql.SQL(f"{{}} {beyond}{'=' if closed else ''} {{}}").format(left, right)
    rest = _edge(key[1:], at[1:], beyond, closed)
    return sql.SQL(f"({{0}} {beyond}= {{1}} AND ({{0}} {beyond} {{1}} OR {{2}}))").format(left, right, rest)


def _column(column: KeyColumn) -> Composable:
    return sql.SQL("t.{}").format(sql.Identifier(column.name))


def _equal(column: KeyColumn, value: Composable) -> Composable:
    """A key equal to a value of its type; one of a made type by its text, because its own operator may be anywhere."""
    left = _column(column)
    if not column.typname:
        left, value = _ordered(column, left), _ordered(column, value)
    return sql.SQL("{} = {}").format(left, value)


def _value(column: KeyColumn, text: str) -> Composable:
    return sql.SQL("{}::" + column.type.replace("{", "{{").replace("}", "}}")).format(sql.Literal(text))


def _ordered(column: KeyColumn, expression: Composable) -> Composable:
    return sql.SQL(column.ordered).format(expression)


def _spelled(column: KeyColumn, expression: Composable) -> Composable:
    return sql.SQL(column.text).format(expression)


def _text(name: str, form: str, made: bool) -> Composable:
    """A column as text. Floats by their bits: servers print different digits for the same number."""
    column = sql.SQL("t.{}").format(sql.Identifier(name))
    if form == BITS:
        return sql.SQL("encode(float8send({}::float8), 'hex')").format(column)
    return sql.SQL(MADE_TEXT if made else "{0}::text").format(column)
