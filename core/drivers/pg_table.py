"""Reads one table of a PostgreSQL-compatible server for a comparison, in the 9.2 dialect of DWS.

Connections come from `drivers.pg.connect`, which pins the text settings: equal values have equal text on both sides.
Each statement is one short transaction, so a comparison that takes hours holds no snapshot open on either side.

A row's hash is md5 over its columns' text, each written as `length:text` and NULL as `-`, so that the text is
unambiguous regardless of the separators in a value, and NULL, '' and 'NULL' differ. Types whose text never contains a
`|` and is never just `-` are written as `text|`, which is half the work. (`ROW(...)::text` is even faster and equally
unambiguous, but it is unknown whether DWS computes it on its DNs.) A range's hash is the sum of 60 bits of each row's
hash: the order of rows does not matter, and each row is hashed once, in one pass.

Two systems rarely share a collation, so text keys are ordered by their bytes (`COLLATE "C"`) on both sides; if a column
is already ordered by bytes, the plain column is used, so that its index can be used. Other types have the same order
everywhere. A key of a user-defined type is compared with the operators of its own index, each qualified with its
schema: with a search_path that lacks this schema, the server silently chooses other operators, and would compare a
citext as text (PostgreSQL, "Operator Type Resolution"). Names that need no schema are not qualified: ADR 0025.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg import MADE_TEXT, sql
from slotkeeper.core.drivers.pg_types import plain_number
from slotkeeper.core.drivers.session import Dialect, Rows, Session
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import COUNTED, Checksum, Digest, Key, KeyRange, Rewrite, hash_of, md5_of
from slotkeeper.core.sqltext import quoted

FAMILIES = {
    "int1": "integer",
    "int2": "integer",
    "int4": "integer",
    "int8": "integer",
    "oid": "integer",
    "numeric": "numeric",
    "float4": "float",
    "float8": "float",
    "uuid": "uuid",
    "timestamp": "timestamp",
    "smalldatetime": "timestamp",
    "timestamptz": "timestamptz",
    "date": "date",
    "time": "time",
    "bool": "bool",
    "bytea": "bytea",
}
"""Types with the same order everywhere; all other types are ordered by the bytes of their text.

int1 (tinyint) and smalldatetime exist only in DWS; a created target stores them as int2 and timestamp.
"""

PLAIN_TEXT = frozenset({"text", "varchar"})


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A key column."""

    name: str
    typname: str
    """Empty if the type is not in pg_catalog."""
    type: str
    """The type as SQL for a cast."""
    by_bytes: bool
    """Whether the server already orders this column by bytes."""

    @property
    def family(self) -> str:
        """The family of the type; columns of the same family have the same order on both sides."""
        return FAMILIES.get(self.typname, "text")

    @property
    def text(self) -> str:
        """A template for the column's text, without a cast of a user-defined type: a cast can run any function."""
        return "({0})::text" if self.typname else MADE_TEXT

    @property
    def ordered(self) -> str:
        """A template for the expression to order by; `{0}` is the column or a value already cast to its type.

        >>> KeyColumn("k", "text", "text", False).ordered, KeyColumn("k", "int8", "bigint", False).ordered
        ('(({0})::text) COLLATE "C"', '{0}')
        """
        if self.family != "text" or (self.by_bytes and self.typname in PLAIN_TEXT):
            return "{0}"
        return f'({self.text}) COLLATE "C"'

    def canonical(self, text: str) -> str:
        """Return the same text for equal keys: servers differ in trailing zeros and in the digits of a float.

        >>> KeyColumn("k", "numeric", "numeric", False).canonical("1.500")
        '1.5'
        >>> KeyColumn("k", "float8", "double precision", False).canonical("0.10000000000000001")
        '0.1'
        """
        if self.family == "numeric" and text[-1:].isdigit():
            return plain_number(text)
        if self.family == "float" and text[-1:].isdigit():
            return repr(float(text))
        return text

    def of_copy(self, text: str) -> str:
        """Return the canonical text of a key that COPY wrote; for some types it differs from the cast to text.

        >>> KeyColumn("k", "bool", "boolean", False).of_copy("t")
        'true'
        >>> KeyColumn("k", "bpchar", "bpchar", False).of_copy("a ")
        'a'
        """
        if self.typname == "bool":
            return {"t": "true", "f": "false"}.get(text, text)
        if self.typname == "inet" and "/" not in text:
            return text + ("/128" if ":" in text else "/32")
        return text.rstrip(" ") if self.typname == "bpchar" else self.canonical(text)


SIGNS = ("<", "<=", "=", ">=", ">")
"""The operators of the B-tree strategies 1 to 5 (PostgreSQL, "B-Tree Strategies")."""

_NAME = re.compile(r"[-+*/<>=~!@#%^&|`?]+")
"""The characters of an operator name, which cannot be quoted (PostgreSQL, CREATE OPERATOR)."""

Operators = Mapping[str, Mapping[str, str]]
"""The operators by column and comparison symbol; other columns use the built-in operators."""


def operators_of(rows: Iterable[tuple[Any, ...]]) -> Operators:
    """Convert rows (column, strategy, schema, name) to operators; raises Refused for an invalid name.

    >>> operators_of([("k", 3, "ext", "="), ("k", 5, "ext", ">"), ("n", 3, "pg_catalog", "=")])
    {'k': {'=': 'OPERATOR(ext.=)', '>': 'OPERATOR(ext.>)'}, 'n': {'=': '='}}
    """
    found: dict[str, dict[str, str]] = {}
    for column, strategy, schema, name in rows:
        if not _NAME.fullmatch(str(name)):
            raise Refused(
                f"the comparison operator of key column {column!r} has an unsupported name", "use another type"
            )
        sign = SIGNS[int(strategy) - 1]
        spelled = str(name) if schema == "pg_catalog" else f"OPERATOR({quoted(str(schema))}.{name})"
        found.setdefault(str(column), {})[sign] = spelled
    return found


def spelled(operators: Operators, column: str, sign: str) -> sql.Composable:
    """Return the operator for a comparison symbol between two values of a key column."""
    return sql.SQL(operators.get(column, {}).get(sign, sign))


Composable = sql.Composable

BITS, BARE = "bits", "bare"
"""Forms of a column in a row's hash, besides COUNTED (text after its length): a float's bits, and bare text."""

_BARE = frozenset(FAMILIES) - {"bytea"}
_TERMINATED = "coalesce({0}, '-') || '|'"
_COUNTED = "coalesce(length({0})::text || ':' || {0}, '-')"


def form_of(typname: str) -> str:
    """Return the form of a type (not a domain) in a hash; if the two sides differ, both use COUNTED.

    >>> form_of("float4"), form_of("int4"), form_of("text")
    ('bits', 'bare', 'counted')
    """
    if typname in ("float4", "float8"):
        return BITS
    return BARE if typname in _BARE else COUNTED


class Statements:
    """Statements on one table: its `key` columns, compared `columns` as (name, form), and `where`, a trusted filter.

    `made` contains the columns of user-defined types.
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
        return sql.SQL("SELECT count(*) FROM {} t WHERE {}").format(self._table, self._within(bounds))

    def checksum(self, bounds: KeyRange) -> Composable:
        return sql.SQL(
            "SELECT count(*), coalesce(sum(('x' || substr({}, 1, 15))::bit(60)::bigint), 0) FROM {} t WHERE {}"
        ).format(self._hash, self._table, self._within(bounds))

    def split(self, bounds: KeyRange, rows: int) -> Composable:
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
        return sql.SQL("SELECT {}, {} FROM {} t WHERE {} LIMIT {}").format(
            self._names, self._hash, self._table, self._within(bounds), sql.Literal(limit)
        )

    def texts(self, bounds: KeyRange, limit: int | None = None) -> Composable:
        most = sql.SQL("" if limit is None else f" LIMIT {limit}")
        return sql.SQL("SELECT {}, {} FROM {} t WHERE {}{}").format(
            self._names, sql.SQL(", ").join(self._texts), self._table, self._within(bounds), most
        )

    def digests(self, keys: Sequence[Key], form: str = "md5({})") -> Composable:
        wanted = sql.SQL(", ").join(
            sql.SQL("({})").format(sql.SQL(", ").join(_value(c, part) for c, part in zip(self._key, key, strict=True)))
            for key in keys
        )
        names = [sql.Identifier(f"k{place}") for place in range(len(self._key))]
        match = [_equal(c, sql.SQL("wanted.{}").format(n)) for c, n in zip(self._key, names, strict=True)]
        # the filter's columns have no alias, so it is applied in a subquery with only the table's columns
        return sql.SQL(
            "SELECT {}, {} FROM (SELECT * FROM {} t WHERE {}) t JOIN (VALUES {}) AS wanted ({}) ON {}"
        ).format(
            self._names,
            sql.SQL(", ").join(sql.SQL(form).format(text) for text in self._texts),
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
    """Return the condition that `key` is beyond `at`, in a form that can use an index: a >= x AND (a > x OR b >= y)."""
    column, part = key[0], at[0]
    left, right = _ordered(column, _column(column)), _ordered(column, _value(column, part))
    if len(key) == 1:
        return sql.SQL(f"{{}} {beyond}{'=' if closed else ''} {{}}").format(left, right)
    rest = _edge(key[1:], at[1:], beyond, closed)
    return sql.SQL(f"({{0}} {beyond}= {{1}} AND ({{0}} {beyond} {{1}} OR {{2}}))").format(left, right, rest)


def _column(column: KeyColumn) -> Composable:
    return sql.SQL("t.{}").format(sql.Identifier(column.name))


def _equal(column: KeyColumn, value: Composable) -> Composable:
    """Return the condition that a key equals a value, by text for user-defined types, whose operator varies."""
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
    """Return a column as text; floats as their bits, because servers print different digits for the same number."""
    column = sql.SQL("t.{}").format(sql.Identifier(name))
    if form == BITS:
        return sql.SQL("encode(float8send({}::float8), 'hex')").format(column)
    return sql.SQL(MADE_TEXT if made else "{0}::text").format(column)


KEYS_PER_STATEMENT = 500

Opened = Callable[[], AbstractContextManager[pg.Cursor]]
"""Opens a short transaction, either a session's own or `pg.transaction` over a connection."""

_COLUMNS = """
SELECT a.attname, CASE WHEN s.nspname = 'pg_catalog' THEN t.typname::text ELSE '' END,
       format_type(a.atttypid, -1), t.typtype::text = 'd', t.typbasetype::bigint,
       CASE WHEN co.collname = 'default' THEN d.datcollate ELSE co.collcollate END IN ('C', 'POSIX')
         OR (co.collname = 'default' AND {}),
       current_setting('server_encoding'), a.attnotnull
  FROM pg_attribute a
  JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace s ON s.oid = t.typnamespace
  JOIN pg_database d ON d.datname = current_database()
  LEFT JOIN pg_collation co ON co.oid = a.attcollation
 WHERE a.attrelid = {}::regclass AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attnum
"""

_BASES = """
SELECT t.oid::bigint, CASE WHEN s.nspname = 'pg_catalog' THEN t.typname::text ELSE '' END,
       format_type(t.oid, -1), t.typtype::text = 'd', t.typbasetype::bigint
  FROM pg_type t JOIN pg_namespace s ON s.oid = t.typnamespace WHERE t.oid = ANY ({}::oid[])
"""
"""Base types of domains, read level by level if there are domains."""

_BY_CODE_POINT = "d.datlocprovider = 'b'"
"""PostgreSQL 17 and later: the built-in locales order by code point, which in UTF-8 is byte order."""

_PRIMARY_KEY = """
SELECT a.attname FROM pg_constraint c
  JOIN (SELECT generate_series(1, 32) AS place) p ON p.place <= array_upper(c.conkey, 1)
  JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[p.place]
 WHERE c.conrelid = {}::regclass AND c.contype = 'p' ORDER BY p.place
"""


class PgTable:
    """Implements `TableReader` for one table; reads only through `opened`, from one thread at a time."""

    def __init__(
        self, opened: Opened, table: str, key: Sequence[str] = (), columns: Sequence[str] = (), where: str = ""
    ) -> None:
        """`table` is `schema.table` as stored; an empty `key` means the primary key, empty `columns` all columns.

        `where` is a trusted SQL filter over the columns of alias t. Raises `Refused` if the table has no usable key.
        """
        self._opened = opened
        self._rewrite: Rewrite | None = None
        self.label = table
        name = pg.sql.Identifier(*table.split(".", 1))
        with opened() as cursor:
            spelled = pg.sql.Literal(name.as_string(cursor))
            built_in = pg.sql.SQL(_BY_CODE_POINT if cursor.connection.server_version >= 170000 else "false")
        described = self._based({str(row[0]): row for row in self._all(pg.sql.SQL(_COLUMNS).format(built_in, spelled))})
        keys = list(key) or [str(row[0]) for row in self._all(pg.sql.SQL(_PRIMARY_KEY).format(spelled))]
        self.columns = list(columns) or list(described)
        _refuse(table, keys, self.columns, described)
        self.key = tuple(
            KeyColumn(name=str(row[0]), typname=str(row[1] or ""), type=str(row[2]), by_bytes=bool(row[5]))
            for row in (described[name] for name in keys)
        )
        self._name, self._where = name, where
        self._made = frozenset(column for column in self.columns if not described[column][1])
        self.hashes_by([form_of(str(described[column][1] or "")) for column in self.columns])
        encoding = str(next(iter(described.values()))[6])
        self.signature = [encoding, *(column.family for column in self.key)]

    def hashes_by(self, forms: Sequence[str]) -> None:
        self.forms = list(forms)
        if self._rewrite is not None:
            return
        columns = list(zip(self.columns, self.forms, strict=True))
        self._statements = Statements(self._name, self.key, columns, self._where, self._made)

    def rewrite(self, columns: Sequence[str], values: Rewrite) -> None:
        self.hashes_by([COUNTED] * len(self.columns))  # floats are not supported in expressions
        self.columns, self._rewrite = list(columns), values
        self.forms = [COUNTED] * len(self.columns)

    def _rewritten(self, statement: Composable, rewrite: Rewrite) -> Iterator[tuple[Key, Sequence[str | None]]]:
        return ((self._key_of(row), rewrite(row[len(self.key) :])) for row in self._all(statement))

    def count(self, bounds: KeyRange) -> int:
        return int(self._all(self._statements.count(bounds))[0][0])

    def checksum(self, bounds: KeyRange) -> Checksum:
        if self._rewrite is not None:
            found = [hash_of(texts) for _, texts in self._rewritten(self._statements.texts(bounds), self._rewrite)]
            return Checksum(len(found), sum(int(one[:15], 16) for one in found))
        rows, total = self._all(self._statements.checksum(bounds))[0]
        return Checksum(int(rows), int(total))

    def split(self, bounds: KeyRange, rows: int) -> list[Key]:
        return [self._key_of(row) for row in self._all(self._statements.split(bounds, rows))]

    def rows(self, bounds: KeyRange, limit: int) -> list[tuple[Key, str]]:
        if self._rewrite is not None:
            texts = self._rewritten(self._statements.texts(bounds, limit), self._rewrite)
            return [(key, hash_of(one)) for key, one in texts]
        found = self._all(self._statements.rows(bounds, limit))
        return [(self._key_of(row), str(row[len(self.key)])) for row in found]

    def digests(self, keys: Collection[Key]) -> dict[Key, Digest]:
        wanted, width = list(keys), len(self.key)
        found: dict[Key, Digest] = {}
        for start in range(0, len(wanted), KEYS_PER_STATEMENT):
            some = wanted[start : start + KEYS_PER_STATEMENT]
            if self._rewrite is not None:
                for key, texts in self._rewritten(self._statements.digests(some, "{}"), self._rewrite):
                    found[key] = tuple(None if text is None else md5_of(text) for text in texts)
                continue
            for row in self._all(self._statements.digests(some)):
                key = self._key_of(row)
                found[key] = found.get(key, ()) + tuple(row[width:])
        return found

    def _key_of(self, row: tuple[Any, ...]) -> Key:
        return tuple(column.canonical(str(text)) for column, text in zip(self.key, row, strict=False))

    def _based(self, described: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
        """Replace domains with their base types, which are also used by a target created from the table."""
        while any(row[3] for row in described.values()):
            wanted = sorted({row[4] for row in described.values() if row[3]})
            bases = {row[0]: row[1:] for row in self._all(pg.sql.SQL(_BASES).format(pg.sql.Literal(wanted)))}
            described = {name: (row[0], *bases[row[4]], *row[5:]) if row[3] else row for name, row in described.items()}
        return described

    def _all(self, statement: pg.sql.Composable) -> Rows:
        with self._opened() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()


def over(connection: pg.Connection) -> Callable[..., PgTable]:
    """Return a function that opens tables over a connection that is not in autocommit."""
    return partial(PgTable, partial(pg.transaction, connection))


class PgTables:
    """A session that reads whole tables; implements `slotkeeper.core.ports.kinds.TableSession`."""

    def __init__(self, login: Login, dialect: Dialect, limit_ms: int) -> None:
        limit = {"statement_timeout": str(limit_ms), "default_transaction_read_only": "on"}
        read = replace(dialect, settings=limit, autocommit=False, limit_ms=None)
        self._session = Session(login.endpoint, login.password, login.name, read)
        self._session.ready()

    def table(self, name: str, key: Sequence[str] = (), columns: Sequence[str] = (), where: str = "") -> PgTable:
        return PgTable(self._session.transaction, name, key, columns, where)

    def close(self) -> None:
        self._session.close()


def _refuse(table: str, keys: Sequence[str], columns: Sequence[str], described: Mapping[str, Any]) -> None:
    if not keys:
        raise Refused(f"{table} has no primary key", hint="name the key columns, or add a primary key to the table")
    absent = [name for name in dict.fromkeys([*keys, *columns]) if name not in described]
    if absent:
        raise Refused(f"unknown column {', '.join(absent)} of {table}", hint="correct the column mapping")
    loose = [name for name in keys if not described[name][7]]
    if loose:
        # A NULL key is in no range, so such rows would not be compared.
        raise Refused(f"key column {', '.join(loose)} of {table} is nullable", hint="make it NOT NULL")
