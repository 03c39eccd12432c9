"""Tables of the stand-in in DuckDB: their structure as Doris reports it, and the rows of loads.

A load is first read into a table with text columns; rows with a value that does not fit its column are filtered and
reported, as in a BE.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import duckdb

SIGN, SEQUENCE = "__DORIS_DELETE_SIGN__", "__DORIS_SEQUENCE_COL__"
TYPES = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INTEGER",
    "BIGINT": "BIGINT",
    "LARGEINT": "HUGEINT",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "DECIMAL": "DECIMAL",
    "DATE": "DATE",
    "DATETIME": "TIMESTAMP",
    "CHAR": "VARCHAR",
    "VARCHAR": "VARCHAR",
    "STRING": "VARCHAR",
    "JSON": "VARCHAR",
}
"""DuckDB's type for each type of Doris."""
STRING_LIMIT = "string_type_length_soft_limit_bytes"
"""The setting of a BE (be.conf) that limits STRING, VARCHAR and CHAR (apache/doris, be/src/common/config.cpp)."""
STRING_BYTES = 2_147_483_643
"""The length of the type STRING itself (Doris, "STRING")."""
NAMED_ROWS = 100
"""Maximum number of rejected rows that an error page lists."""
NUMBER, BAD, GONE = '"load number"', '"load error"', '"load deletes"'
"""Columns of a load's tables besides its own: names that no column of a test has."""


@dataclass(frozen=True)
class Column:
    """A column with its Doris type, such as `DECIMAL(18,4)`."""

    name: str
    type: str
    nullable: bool = True
    default: str | None = None

    @property
    def stored(self) -> str:
        """The column's type in DuckDB.

        >>> Column("a", "DECIMAL(18,4)").stored, Column("b", "VARCHAR(20)").stored
        ('DECIMAL(18,4)', 'VARCHAR')
        """
        base, _, rest = self.type.partition("(")
        kept = TYPES[base.upper()]
        return f"{kept}({rest}" if kept == "DECIMAL" and rest else kept


@dataclass(frozen=True)
class Table:
    """A table; `model` is UNIQUE, DUPLICATE or AGGREGATE, `sequence` is the type of the hidden column, or "" if the
    table has none.
    """

    database: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    model: str = "UNIQUE"
    delete_sign: bool = True
    sequence: str = ""
    merge_on_write: bool = True

    def column(self, name: str) -> Column | None:
        hidden = {SIGN: Column(SIGN, "TINYINT", False)} if self.delete_sign else {}
        if self.sequence:
            hidden[SEQUENCE] = Column(SEQUENCE, self.sequence)
        return next((one for one in self.columns if one.name == name), hidden.get(name))


@dataclass
class Loaded:
    """The result of a load's body: `staged` is the table with its good rows, `errors` the error page."""

    staged: str
    total: int
    filtered: int
    errors: list[str] = field(default_factory=list)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Tables:
    """All tables, in one DuckDB that exists as long as this object; a lock serializes calls from several threads."""

    def __init__(self) -> None:
        self._db = duckdb.connect(":memory:")
        self._lock = threading.RLock()
        self._tables: dict[tuple[str, str], Table] = {}
        self._databases: set[str] = set()
        self._partitions: dict[tuple[str, str], int] = {}
        self._versions: dict[tuple[str, str], int] = {}
        self._number, self._id = 0, 10_000
        self.be_conf = {STRING_LIMIT: "1048576"}
        self.tells_partitions = True
        """Whether this login can read partitions ("SHOW PARTITIONS": it needs the SHOW permission)."""
        self.unicode_names = False
        """`enable_unicode_name_support`, a session variable of the FE."""
        self.tells_be_conf = True
        """Whether this login can read BEs and their settings (SHOW BACKENDS, SHOW BACKEND CONFIG: ADMIN_PRIV)."""
        self.be_ports: list[int] = []
        """The HttpPorts that SHOW BACKENDS lists."""
        self._db.execute("CREATE SCHEMA slotkeeper_loads")
        self._loads = tempfile.TemporaryDirectory(prefix="slotkeeper-loads-")
        # DuckDB, "Securing DuckDB": a login of the stand-in can only read and write the files that are being loaded
        self._db.execute(f"SET allowed_directories = [{_text(self._loads.name)}]")
        self._db.execute("SET enable_external_access = false")
        self._db.execute("SET lock_configuration = true")

    def create_database(self, name: str) -> None:
        with self._lock:
            self._databases.add(name)
            self._db.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(name)}")

    def drop_database(self, name: str) -> None:
        with self._lock:
            self._databases.discard(name)
            self._tables = {key: one for key, one in self._tables.items() if key[0] != name}
            self._db.execute(f"DROP SCHEMA IF EXISTS {quoted(name)} CASCADE")

    def databases(self) -> list[str]:
        return sorted(self._databases)

    def has_database(self, name: str) -> bool:
        return name in self._databases

    def create(self, table: Table) -> None:
        """Create a table, and its database if it does not exist."""
        with self._lock:
            self.create_database(table.database)
            kept = [_definition(one) for one in table.columns]
            if table.sequence:
                kept.append(f"{quoted(SEQUENCE)} HUGEINT")
            if table.model == "UNIQUE":
                kept.append(f"PRIMARY KEY ({', '.join(map(quoted, table.key))})")
            self._db.execute(f"CREATE TABLE {_at(table)} ({', '.join(kept)})")
            self._tables[table.database, table.name] = table
            self._new_partition(table.database, table.name)

    def _new_partition(self, database: str, name: str) -> None:
        """Give a table a new partition: an unpartitioned table has one partition with its own name, whose id
        is never reused.
        """
        self._id += 7
        self._partitions[database, name], self._versions[database, name] = self._id, 1

    def partition(self, database: str, name: str) -> tuple[int, int]:
        """Return the partition's id and visible version."""
        return self._partitions[database, name], self._versions[database, name]

    def truncate(self, database: str, name: str) -> None:
        """Empty a table; the table remains, but its partition is a new one (apache/doris #66255)."""
        with self._lock:
            self._db.execute(f"DELETE FROM {_at(self._tables[database, name])}")
            self._new_partition(database, name)

    def delete_all(self, database: str, name: str) -> None:
        """Delete all rows; the partition remains and gets one more version."""
        with self._lock:
            self._db.execute(f"DELETE FROM {_at(self._tables[database, name])}")
            self._versions[database, name] += 1

    def update(self, database: str, name: str, sets: str) -> None:
        """Change rows (UPDATE): the partition gets one more version."""
        with self._lock:
            self._db.execute(f"UPDATE {_at(self._tables[database, name])} SET {sets}")
            self._versions[database, name] += 1

    def add_column(self, database: str, name: str, column: Column) -> None:
        """Add a column with a light schema change: the partition remains, and existing rows have the default."""
        with self._lock:
            table = self._tables[database, name]
            self._db.execute(f"ALTER TABLE {_at(table)} ADD COLUMN {_definition(column)}")
            self._tables[database, name] = replace(table, columns=(*table.columns, column))

    def drop_column(self, database: str, name: str, column: str) -> None:
        """Drop a column with a light schema change: the partition remains."""
        with self._lock:
            table = self._tables[database, name]
            self._db.execute(f"ALTER TABLE {_at(table)} DROP COLUMN {quoted(column)}")
            left = tuple(one for one in table.columns if one.name != column)
            self._tables[database, name] = replace(table, columns=left)

    def rename_column(self, database: str, name: str, column: str, to: str) -> None:
        """Rename a column (RENAME COLUMN): the partition remains."""
        with self._lock:
            table = self._tables[database, name]
            self._db.execute(f"ALTER TABLE {_at(table)} RENAME COLUMN {quoted(column)} TO {quoted(to)}")
            named = tuple(replace(one, name=to) if one.name == column else one for one in table.columns)
            self._tables[database, name] = replace(table, columns=named)

    def widen(self, database: str, name: str, column: str, type: str, nullable: bool | None = None) -> None:
        """Change a column's type (MODIFY COLUMN): the partition remains."""
        with self._lock:
            table = self._tables[database, name]
            wide = tuple(
                replace(one, type=type, nullable=one.nullable if nullable is None else nullable)
                if one.name == column
                else one
                for one in table.columns
            )
            (stored,) = (one.stored for one in wide if one.name == column)
            self._db.execute(f"ALTER TABLE {_at(table)} ALTER COLUMN {quoted(column)} TYPE {stored}")
            self._tables[database, name] = replace(table, columns=wide)

    def drop(self, database: str, name: str) -> None:
        with self._lock:
            table = self._tables.pop((database, name))
            self._db.execute(f"DROP TABLE {_at(table)}")

    def take_place(self, database: str, name: str, other: str) -> None:
        """Drop a table and rename another table to its name, under one lock."""
        with self._lock:
            moved = self._tables[database, other]
            self.drop(database, name)
            self._db.execute(f"ALTER TABLE {_at(moved)} RENAME TO {quoted(name)}")
            del self._tables[database, other]
            self._tables[database, name] = replace(moved, name=name)
            for kept in (self._partitions, self._versions):
                kept[database, name] = kept.pop((database, other))

    def find(self, database: str, name: str) -> Table | None:
        return self._tables.get((database, name))

    def names(self, database: str) -> list[str]:
        return sorted(name for at, name in self._tables if at == database)

    def query(self, statement: str, values: Sequence[object] = ()) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return column names and rows of a statement in DuckDB's SQL, which must only read."""
        with self._lock:
            found = self._db.execute(statement, list(values))
            return [one[0] for one in found.description or ()], found.fetchall()

    def read(self, table: Table, body: BinaryIO, names: Sequence[str], strict: bool = False) -> Loaded:
        """Read JSON lines into a table with text columns; values that do not fit become NULL, and if `strict` their
        rows are filtered.
        """
        with tempfile.NamedTemporaryFile(suffix=".json", dir=self._loads.name) as file:
            while piece := body.read(1 << 16):
                file.write(piece)
            file.flush()
            with self._lock:
                return self._staged(table, Path(file.name), names, strict)

    def _staged(self, table: Table, file: Path, names: Sequence[str], strict: bool) -> Loaded:
        self._number += 1
        staged = f"slotkeeper_loads.load_{self._number}"
        shape = "{" + ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names) + "}"
        source = f"read_json({_text(str(file))}, format = 'newline_delimited', columns = {shape})"
        if file.stat().st_size == 0:
            empty = ", ".join(f"CAST(NULL AS VARCHAR) AS {quoted(name)}" for name in names)
            source = f"(SELECT {empty} LIMIT 0)"
        reasons = [_misfit(table, name, strict, int(self.be_conf[STRING_LIMIT])) for name in names]
        bad = f"concat_ws('; ', {', '.join(reasons)})"
        self._db.execute(
            f"CREATE TABLE {staged} AS SELECT row_number() OVER () AS {NUMBER}, {bad} AS {BAD}, * FROM {source}"
        )
        counted = self._db.execute(f"SELECT count(*), count(*) FILTER ({BAD} <> '') FROM {staged}").fetchone()
        total, filtered = counted or (0, 0)
        shown = self._db.execute(
            f"SELECT * FROM {staged} WHERE {BAD} <> '' ORDER BY {NUMBER} LIMIT {NAMED_ROWS}"
        ).fetchall()
        errors = [f"Reason: {row[1]}. src line [{json.dumps(list(row[2:]))}]; " for row in shown]
        self._db.execute(f"DELETE FROM {staged} WHERE {BAD} <> ''")
        return Loaded(staged, total, filtered, errors)

    def forget(self, staged: str) -> None:
        with self._lock:
            self._db.execute(f"DROP TABLE IF EXISTS {staged}")

    def apply(self, table: Table, staged: str, names: Sequence[str], partial: bool = False) -> None:
        """Make the rows of a load visible. For each key, the last row applies, or the row with the highest sequence."""
        with self._lock:
            self._db.execute("BEGIN")
            try:
                self._applied(table, staged, names, partial)
                self._db.execute("COMMIT")
                self._versions[table.database, table.name] += 1
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self.forget(staged)

    def _applied(self, table: Table, staged: str, names: Sequence[str], partial: bool) -> None:
        def cast(name: str) -> str:
            column = table.column(name)
            assert column is not None
            return f"TRY_CAST({quoted(name)} AS {column.stored}) AS {quoted(name)}"

        kept = [name for name in names if name != SIGN]
        into = ", ".join(map(quoted, kept))
        values = ", ".join(map(cast, kept))
        if table.model != "UNIQUE":
            self._db.execute(f"INSERT INTO {_at(table)} ({into}) SELECT {values} FROM {staged}")
            return
        key = ", ".join(map(quoted, table.key))
        order = f"CAST({quoted(SEQUENCE)} AS HUGEINT) DESC, {NUMBER} DESC" if SEQUENCE in names else f"{NUMBER} DESC"
        gone = f"{quoted(SIGN)} = '1'" if SIGN in names else "false"
        newest = f"row_number() OVER (PARTITION BY {key} ORDER BY {order}) = 1"
        last = f"SELECT {values}, {gone} AS {GONE} FROM {staged} QUALIFY {newest}"
        self._db.execute(f"CREATE OR REPLACE TEMP TABLE net AS {last}")
        if SEQUENCE in names:
            same = " AND ".join(f"t.{quoted(one)} = net.{quoted(one)}" for one in table.key)
            newer = f"t.{quoted(SEQUENCE)} > net.{quoted(SEQUENCE)}"
            self._db.execute(f"DELETE FROM net WHERE EXISTS (SELECT 1 FROM {_at(table)} t WHERE {same} AND {newer})")
        self._db.execute(f"DELETE FROM {_at(table)} WHERE ({key}) IN (SELECT ({key}) FROM net WHERE {GONE})")
        values_of = [name for name in kept if name not in table.key]
        if partial and values_of:  # the other columns of an existing row keep their values
            sets = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in values_of)
            update = f"ON CONFLICT ({key}) DO UPDATE SET {sets}"
            self._db.execute(f"INSERT INTO {_at(table)} ({into}) SELECT {into} FROM net WHERE NOT {GONE} {update}")
            return
        if len(kept) < len(table.columns):  # the other columns get their defaults
            self._db.execute(f"DELETE FROM {_at(table)} WHERE ({key}) IN (SELECT ({key}) FROM net)")
        self._db.execute(f"INSERT OR REPLACE INTO {_at(table)} ({into}) SELECT {into} FROM net WHERE NOT {GONE}")

    def close(self) -> None:
        with self._lock:
            self._db.close()
            self._loads.cleanup()


def _misfit(table: Table, name: str, strict: bool, soft: int) -> str:
    """Return an SQL expression for the reason why a row's text does not fit its column, NULL if it fits. A failed cast
    is a reason if `strict`, and always in a NOT NULL or key column.
    """
    column = table.column(name)
    assert column is not None
    at, wrong = quoted(name), []
    if strict or not column.nullable or name in table.key:
        wrong.append(
            f"WHEN {at} IS NOT NULL AND TRY_CAST({at} AS {column.stored}) IS NULL THEN"
            f" {_text(f'column_name[{name}], the value cannot be cast to {column.type}')}"
        )
    if not column.nullable or name in table.key:
        wrong.append(f"WHEN {at} IS NULL THEN {_text(f'column_name[{name}], null value for not null column')}")
    if TYPES[column.type.partition("(")[0].upper()] == "VARCHAR":
        sized = column.type.partition("(")[2].rstrip(")")
        wrong += _too_long(at, name, int(sized) if sized else STRING_BYTES, soft)
    return f"CASE {' '.join(wrong)} END" if wrong else "NULL"


def _too_long(at: str, name: str, schema: int, soft: int) -> list[str]:
    """Return the CASE branches for values with more UTF-8 bytes than their type, or the BE, accepts.

    apache/doris, `OlapTableBlockConvertor::_validate_column` (vtablet_block_convertor.cpp), with its messages.
    """
    length = f"octet_length(encode({at}))"
    found = f"' || left({at}, 32) || '] schema length: {schema}; "
    start, end = f"column_name[{name}], the length of input".replace("'", "''"), f"actual length: ' || {length} || '; '"
    own = f"'{start} is too long than schema. first 32 bytes of input str: [{found}{end}"
    vec = (
        f"'{start} string is too long than vec schema. first 32 bytes of input str: [{found}limit length: {soft}; {end}"
    )
    return [f"WHEN {length} > {schema} THEN {own}", f"WHEN {length} > {soft} THEN {vec}"]


def _definition(column: Column) -> str:
    default = "" if column.default is None else f" DEFAULT {_text(column.default)}"
    return f"{quoted(column.name)} {column.stored}{default}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _at(table: Table) -> str:
    return f"{quoted(table.database)}.{quoted(table.name)}"
