"""Reads one table of a PostgreSQL-compatible server for a comparison.

Connections come from `drivers.pg.connect`, which pins the text settings: equal values have equal text at both sides.
Statements end at once (one short transaction each), so a comparison of hours holds no snapshot open at either side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table.keys import KeyColumn
from slotkeeper.core.drivers.pg_table.statements import Statements, form_of
from slotkeeper.core.drivers.session import Dialect, Rows, Session
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import Checksum, Digest, Key, KeyRange

KEYS_PER_STATEMENT = 500

Opened = Callable[[], AbstractContextManager[pg.Cursor]]
"""Opens a short transaction: a session's own, or `pg.transaction` over a connection."""

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
"""The types that domains are over; asked level by level, only where there are domains."""

_BY_CODE_POINT = "d.datlocprovider = 'b'"
"""From PostgreSQL 17 on: the built-in locales order by code point, which in UTF-8 is the order of bytes."""

_PRIMARY_KEY = """
SELECT a.attname FROM pg_constraint c
  JOIN (SELECT generate_series(1, 32) AS place) p ON p.place <= array_upper(c.conkey, 1)
  JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[p.place]
 WHERE c.conrelid = {}::regclass AND c.contype = 'p' ORDER BY p.place
"""


class PgTable:
    """`TableReader` over one table; it reads by `opened` alone, from one thread at a time."""

    def __init__(
        self,
        opened: Opened,
        table: str,
        key: Sequence[str] = (),
        columns: Sequence[str] = (),
        where: str = "",
    ) -> None:
        """`table` is `schema.table` as stored; no `key` means the primary key, no `columns` means all of them.

        `where` is a trusted SQL filter over the columns of alias t. Raises `Refused` where there is no usable key.
        """
        self._opened = opened
        self.label = table
        name = pg.sql.Identifier(*table.split(".", 1))
        with opened() as cursor:
            spelled = pg.sql.Literal(name.as_string(cursor))
            built_in = pg.sql.SQL(_BY_CODE_POINT if cursor.connection.server_version >= 170000 else "false")
        described = self._based({str(row[0]): row for row in self._all(pg.sql.SQL(_COLUMNS).format(built_in, spelled))})
        keys = list(key) or [str(row[0]) for row in self._all(pg.sql.SQL(_PRIMARY_KEY).format(spelled))]
        self.columns = list(columns) or list(described)
        _refuse(table, keys, self.columns, described)
        self.key = tuple(_key_column(described[name]) for name in keys)
        self._name, self._where = name, where
        self._made = frozenset(column for column in self.columns if not described[column][1])
        self.hashes_by([form_of(str(described[column][1] or "")) for column in self.columns])
        encoding = str(next(iter(described.values()))[6])
        self.signature = [encoding, *(column.family for column in self.key)]

    def hashes_by(self, forms: Sequence[str]) -> None:
        """Hash the columns in these forms; both sides of a comparison must have the same."""
        self.forms = list(forms)
        columns = list(zip(self.columns, self.forms, strict=True))
        self._statements = Statements(self._name, self.key, columns, self._where, self._made)

    def count(self, bounds: KeyRange) -> int:
        return int(self._all(self._statements.count(bounds))[0][0])

    def checksum(self, bounds: KeyRange) -> Checksum:
        rows, total = self._all(self._statements.checksum(bounds))[0]
        return Checksum(int(rows), int(total))

    def split(self, bounds: KeyRange, rows: int) -> list[Key]:
        return [self._key_of(row) for row in self._all(self._statements.split(bounds, rows))]

    def rows(self, bounds: KeyRange, limit: int) -> list[tuple[Key, str]]:
        found = self._all(self._statements.rows(bounds, limit))
        return [(self._key_of(row), str(row[len(self.key)])) for row in found]

    def digests(self, keys: Collection[Key]) -> dict[Key, Digest]:
        wanted, width = list(keys), len(self.key)
        found: dict[Key, Digest] = {}
        for start in range(0, len(wanted), KEYS_PER_STATEMENT):
            for row in self._all(self._statements.digests(wanted[start : start + KEYS_PER_STATEMENT])):
                key = self._key_of(row)
                found[key] = found.get(key, ()) + tuple(row[width:])
        return found

    def _key_of(self, row: tuple[Any, ...]) -> Key:
        return tuple(column.canonical(str(text)) for column, text in zip(self.key, row, strict=False))

    def _based(self, described: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
        """Columns of a domain as those of its base type, which is what a target made of it has."""
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
    """Opens tables over a connection that does not commit by itself."""
    return partial(PgTable, partial(pg.transaction, connection))


class PgTables:
    """A session that reads whole tables; implements `slotkeeper.core.ports.kinds.TableSession`."""

    def __init__(self, login: Login, dialect: Dialect, limit_ms: int) -> None:
        limit = {"statement_timeout": str(limit_ms), "default_transaction_read_only": "on"}
        read = replace(dialect, settings=limit, autocommit=False, limit_ms=None)
        self._session = Session(login.endpoint, login.password, login.name, read)
        self._session.ready()

    def table(self, name: str, key: Sequence[str] = (), columns: Sequence[str] = (), where: str = "") -> PgTable:
        """A table of this server."""
        return PgTable(self._session.transaction, name, key, columns, where)

    def close(self) -> None:
        """End the session; safe to call twice."""
        self._session.close()


def _key_column(row: tuple[Any, ...]) -> KeyColumn:
    return KeyColumn(name=str(row[0]), typname=str(row[1] or ""), type=str(row[2]), by_bytes=bool(row[5]))


def _refuse(table: str, keys: Sequence[str], columns: Sequence[str], described: Mapping[str, Any]) -> None:
    if not keys:
        raise Refused(f"{table} has no primary key", hint="name the key columns, or give the table a primary key")
    absent = [name for name in dict.fromkeys([*keys, *columns]) if name not in described]
    if absent:
        raise Refused(f"{table} has no column {', '.join(absent)}", hint="correct the column mapping")
    loose = [name for name in keys if not described[name][7]]
    if loose:
        # A NULL key lies in no range, so such rows could not be seen.
        raise Refused(f"key column {', '.join(loose)} of {table} may be NULL", hint="make it NOT NULL")
