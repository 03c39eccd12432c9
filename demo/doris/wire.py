"""The stand-in's MySQL protocol: it answers statements that describe tables as Doris does, and runs SELECT in DuckDB.

mysql-mimic implements the protocol, and sqlglot translates the SQL.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import sqlglot
from mysql_mimic import ColumnType, IdentityProvider, MysqlServer, ResultColumn, ResultSet, Session, User
from mysql_mimic.auth import AuthPlugin, NativePasswordAuthPlugin
from mysql_mimic.errors import ErrorCode, MysqlError

from slotkeeper.demo.doris import ddl
from slotkeeper.demo.doris.http import LOOPBACK
from slotkeeper.demo.doris.tables import SEQUENCE, SIGN, Column, Table, Tables

VERSION = "slotkeeper stand-in, not Apache Doris"
_NAME = r"`?([^`.\s]+)`?\.`?([^`\s]+)`?"
_DESCRIBE = re.compile(rf"(?:DESC|DESCRIBE)\s+{_NAME}$", re.I)
_CREATE = re.compile(rf"SHOW\s+CREATE\s+TABLE\s+{_NAME}$", re.I)
_PARTITIONS = re.compile(rf"SHOW\s+PARTITIONS\s+FROM\s+{_NAME}$", re.I)
_HIDDEN = re.compile(r"SET\s+(?:SESSION\s+)?show_hidden_columns\s*=\s*(\w+)$", re.I)
_THERE = re.compile(
    r"SELECT 1 FROM information_schema\.tables WHERE table_schema = '([^']*)' AND table_name = '([^']*)'$", re.I
)
_ALTERS = re.compile(r"SHOW\s+ALTER\s+TABLE\s+COLUMN\s+FROM\s", re.I)
_DATABASES = re.compile(r"SHOW\s+DATABASES$", re.I)
_BACKENDS = re.compile(r"SHOW\s+BACKENDS$", re.I)
_BE_CONFIG = re.compile(r"SHOW\s+BACKEND\s+CONFIG\s+LIKE\s+'(\w+)'$", re.I)
_CONFIG = re.compile(r"ADMIN\s+SHOW\s+FRONTEND\s+CONFIG\s+LIKE\s+'(\w+)'$", re.I)

Result = tuple[list[Sequence[Any]], list[str]]


class _Logins(IdentityProvider):  # type: ignore[misc]  # the library has no types
    def __init__(self, user: str, password: str) -> None:
        self._user = User(
            user,
            auth_string=NativePasswordAuthPlugin.create_auth_string(password) if password else None,
            auth_plugin="mysql_native_password",
        )

    def get_plugins(self) -> Sequence[AuthPlugin]:
        return [NativePasswordAuthPlugin()]

    async def get_user(self, username: str) -> User | None:
        return self._user if username == self._user.name else None


class _Asked(Session):  # type: ignore[misc]  # the library has no types
    """One session."""

    def __init__(self, tables: Tables, settings: dict[str, str]) -> None:
        super().__init__()
        self._tables = tables
        self._settings = settings
        self._hidden = False

    async def init(self, connection: Any) -> None:
        """Reject an unknown user after the login, because the library still accepts commands after it has rejected a
        login.
        """
        if self.username is None:
            raise MysqlError("Access denied", ErrorCode.ACCESS_DENIED_ERROR)
        await super().init(connection)

    async def handle_query(self, sql: str, attrs: dict[str, str]) -> Any:
        rows, names = await asyncio.to_thread(self._asked, sql.strip().rstrip(";"))
        return ResultSet(
            rows, [ResultColumn(name, _type_of([row[at] for row in rows])) for at, name in enumerate(names)]
        )

    def _asked(self, sql: str) -> Result:
        if found := _HIDDEN.match(sql):
            self._hidden = found[1].lower() in ("true", "1")
            return [], []
        if found := _DESCRIBE.match(sql):
            return _described(self._table(found[1], found[2]), self._hidden)
        if found := _CREATE.match(sql):
            return [(found[2], create_text(self._table(found[1], found[2])))], ["Table", "Create Table"]
        if found := _PARTITIONS.match(sql):
            table = self._table(found[1], found[2])
            if not self._tables.tells_partitions:
                what = f"errCode = 2, detailMessage = Access denied; you need the SHOW privilege on {table.name}"
                raise MysqlError(what, ErrorCode.ACCESS_DENIED_ERROR)
            number, version = self._tables.partition(table.database, table.name)
            return [(number, table.name, version)], ["PartitionId", "PartitionName", "VisibleVersion"]
        if found := _CONFIG.match(sql):
            known = [(key, value, "long", "true", "false", "") for key, value in self._settings.items()]
            names = ["Key", "Value", "Type", "IsMutable", "MasterOnly", "Comment"]
            return [row for row in known if row[0] == found[1]], names
        if found := _BE_CONFIG.match(sql):
            return self._be_config(found[1])
        if _DATABASES.match(sql):
            return [(one,) for one in ("information_schema", *self._tables.databases())], ["Database"]
        if _BACKENDS.match(sql):
            self._refuse_unless_admin()
            rows = [(number, LOOPBACK, port) for number, port in enumerate(self._tables.be_ports, 10_002)]
            return list(rows), ["BackendId", "Host", "HttpPort"]
        if _ALTERS.match(sql):
            return [], ["JobId", "TableName", "CreateTime", "State"]  # light schema changes: finished at once
        if found := _THERE.match(sql):
            return [(1,)] if self._tables.find(found[1], found[2]) else [], ["1"]
        try:
            if ddl.run(self._tables, sql):
                return [], []
        except ddl.NotDone as error:
            raise MysqlError(f"errCode = 2, detailMessage = {error}", ErrorCode.UNKNOWN_ERROR) from error
        word = sql.split(None, 1)[0].upper() if sql else ""
        if word in ("SET", "USE", "COMMIT", "ROLLBACK", "BEGIN"):
            return [], []
        if word != "SELECT":
            raise MysqlError(f"the stand-in does not support: {sql[:80]}", ErrorCode.NOT_SUPPORTED_YET)
        return self._selected(sql)

    def _be_config(self, name: str) -> Result:
        """Return the rows that the FE gets from each BE's `/api/show_config` (apache/doris, `ShowConfigCommand`)."""
        self._refuse_unless_admin()
        known = [
            ("10002", LOOPBACK, key, value, "int32_t", "true")
            for key, value in self._tables.be_conf.items()
            if key == name
        ]
        return list(known), ["BackendId", "Host", "Key", "Value", "Type", "IsMutable"]

    def _refuse_unless_admin(self) -> None:
        if not self._tables.tells_be_conf:
            what = "errCode = 2, detailMessage = Access denied; you need (at least one of) the (ADMIN) privilege(s)"
            raise MysqlError(what, ErrorCode.ACCESS_DENIED_ERROR)

    def _selected(self, sql: str) -> Result:
        if re.match(r"SELECT\s+@@(?:global\.)?version_comment", sql, re.I):
            return [(VERSION,)], ["@@version_comment"]
        try:
            statement = sqlglot.transpile(sql, read="doris", write="duckdb")[0]
            names, rows = self._tables.query(statement)
        except (sqlglot.errors.SqlglotError, duckdb.Error) as error:
            raise MysqlError(f"errCode = 2, detailMessage = {error}", ErrorCode.UNKNOWN_ERROR) from error
        return [tuple(map(_plain, row)) for row in rows], names

    def _table(self, database: str, name: str) -> Table:
        if not self._tables.has_database(database):
            what = f"errCode = 2, detailMessage = Unknown database '{database}'"
            raise MysqlError(what, ErrorCode.UNKNOWN_ERROR)
        table = self._tables.find(database, name)
        if table is None:
            what = f"errCode = 2, detailMessage = Unknown table '{name}'"
            raise MysqlError(what, ErrorCode.UNKNOWN_ERROR)
        return table


def _type_of(values: list[object]) -> Any:
    """Return a numeric type for numbers, else VARCHAR; by default, the library confuses columns of the same name."""
    there = [one for one in values if one is not None]
    if there and all(isinstance(one, int) and abs(one) < 1 << 63 for one in there):
        return ColumnType.LONGLONG
    return ColumnType.DOUBLE if there and all(isinstance(one, float) for one in there) else ColumnType.VARCHAR


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    if value is None or isinstance(value, int | float):
        return value
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _described(table: Table, hidden: bool) -> Result:
    columns = list(table.columns)
    if hidden and table.delete_sign and table.model == "UNIQUE":
        columns.append(Column(SIGN, "TINYINT", False))
    if hidden and table.sequence:
        columns.append(Column(SEQUENCE, table.sequence))
    rows: list[Sequence[Any]] = [
        (
            one.name,
            one.type.lower(),
            "Yes" if one.nullable and one.name not in table.key else "No",
            "true" if one.name in table.key else "false",
            one.default,
            "" if one.name in table.key else "NONE",
        )
        for one in columns
    ]
    return rows, ["Field", "Type", "Null", "Key", "Default", "Extra"]


def create_text(table: Table) -> str:
    """Return the text of SHOW CREATE TABLE."""
    columns = ",\n".join(
        f"  `{one.name}` {one.type.lower()} {'NULL' if one.nullable and one.name not in table.key else 'NOT NULL'}"
        for one in table.columns
    )
    key = ", ".join(f"`{one}`" for one in table.key)
    sequence = f',\n"function_column.sequence_type" = "{table.sequence}"' if table.sequence else ""
    if table.model == "UNIQUE" and table.merge_on_write:
        sequence += ',\n"enable_unique_key_merge_on_write" = "true"'
    return (
        f"CREATE TABLE `{table.name}` (\n{columns}\n) ENGINE=OLAP\n{table.model} KEY({key})\n"
        f"DISTRIBUTED BY HASH({key}) BUCKETS 1\n"
        f'PROPERTIES (\n"replication_allocation" = "tag.location.default: 1"{sequence}\n);'
    )


class Wire:
    """The server, in its own thread."""

    def __init__(
        self,
        tables: Tables,
        user: str,
        password: str,
        settings: dict[str, str],
    ) -> None:
        self._loop = asyncio.new_event_loop()
        logins = _Logins(user, password)
        self._server = MysqlServer(lambda: _Asked(tables, settings), identity_provider=logins)
        # sessions that are still open when the loop ends are canceled; asyncio would print each cancellation
        self._loop.set_exception_handler(lambda loop, context: None)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._server.start_server(host=LOOPBACK, port=0))

    @property
    def port(self) -> int:
        listening = self._server._server
        assert listening is not None
        return int(listening.sockets[0].getsockname()[1])

    def close(self) -> None:
        self._run(self._ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _ended(self) -> None:
        listening = self._server._server
        assert listening is not None
        for one in listening.sockets:  # asyncio leaks a socket that it accepts right before its server is closed
            self._loop.remove_reader(one.fileno())
        while left := [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]:
            await asyncio.sleep(0)  # the task of an accepted connection takes over its socket only in its first step
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        listening.close()
        for transport in list(self._loop._transports.values()):  # type: ignore[attr-defined]
            transport.abort()  # close() would wait for a client that does not read
        await asyncio.sleep(0)  # the loop closes an aborted transport's socket in its next step

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)
