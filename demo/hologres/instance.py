"""Installs a stand-in for Hologres in a database of an embedded server, behind a proxy; creates tables, causes faults.

`SELECT hg_standin.label()` identifies it as a stand-in. The SQL is in `standin/`, numbered in the order of
installation. Clients connect to `proxy.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import ConfigError
from slotkeeper.demo.hologres.faults import Faults
from slotkeeper.demo.hologres.proxy import HOST, Proxy
from slotkeeper.demo.postgres import Server, write_password

USER = "etl"
_FOLDER = Path(__file__).with_name("standin")
DEFAULT_TTL = 2_592_000
_TIMESTAMPTZ = re.compile(r"\btimestamptz\b(?!\()", re.IGNORECASE)


class Hologres:
    """A running stand-in; `close` ends its proxy but not the server."""

    def __init__(self, server: Server, database: str) -> None:
        self.server = server
        self.database = database
        self.faults = Faults()
        self.proxy = Proxy(lambda: (server.host, server.port), self.connect, self.faults)

    @classmethod
    def install(cls, server: Server, shards: int = 4, database: str = "hologres") -> Hologres:
        """Create `database` if missing, and install the stand-in with the given shards (1 to 64) into it."""
        if not 1 <= shards <= 64:
            raise ConfigError(f"the stand-in supports 1 to 64 shards, not {shards}")
        with closing(server.connect("postgres")) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT FROM pg_roles WHERE rolname = %s", (USER,))
            if not cursor.rowcount:
                password = write_password(server.folder / f"{USER}.password")
                cursor.execute(f"CREATE ROLE {USER} LOGIN PASSWORD %s", (password,))
            cursor.execute("SELECT FROM pg_database WHERE datname = %s", (database,))
            if not cursor.rowcount:
                cursor.execute(pg.sql.SQL("CREATE DATABASE {}").format(pg.sql.Identifier(database)))
        made = cls(server, database)
        with made.control() as cursor:
            for file in sorted(_FOLDER.glob("*.sql")):
                cursor.execute(file.read_text(encoding="utf-8"))
            for number in range(shards):
                cursor.execute(f"CREATE SEQUENCE hg_standin.lsn_{number} START {100 + 7 * number}")
                cursor.execute("INSERT INTO hg_standin.node VALUES (%s, %s)", (number, f"shard_{number}"))
        return made

    # -- where clients connect ----------------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        """The database, server and port of the stand-in, as text."""
        return f"database {self.database} of server {self.server.name} (proxy port {self.proxy.port})"

    def endpoint(self, user: str = USER) -> Endpoint:
        """Return the endpoint for clients: the proxy."""
        if user == self.server.superuser:
            direct = self.server.endpoint(self.database)
        else:
            direct = self.server.endpoint(self.database, user, self.server.folder / f"{user}.password")
        return replace(direct, host=HOST, port=self.proxy.port)

    def connect(self, autocommit: bool = True) -> pg.Connection:
        """Open a superuser session that bypasses the proxy, for writers and for inspection."""
        return self.server.connect(self.database, autocommit)

    def nodes(self) -> list[tuple[str, int]]:
        """Return (name, id) of every shard."""
        return [(str(name), int(number)) for name, number in self.rows("SELECT node_name, ord FROM hg_standin.node")]

    # -- tables -------------------------------------------------------------------------------------------------------

    def create_table(
        self,
        sql_name: str,
        ddl_columns: str,
        primary_key: Sequence[str],
        distribute_by: Sequence[str] | None = None,
        ttl_s: int = DEFAULT_TTL,
        binlog: bool = True,
        orientation: str = "row",
    ) -> None:
        """Create a table (and its schema) that `etl` can read, and record its changes.

        `sql_name` is `schema.table`; `ddl_columns` is the text between the parentheses of CREATE TABLE, without the
        key. A TIMESTAMPTZ stores milliseconds, as in Hologres ("Data types").
        """
        schema, _, name = sql_name.partition(".")
        ddl_columns = _TIMESTAMPTZ.sub(r"\g<0>(3)", ddl_columns)
        key = pg.sql.SQL(", ").join(map(pg.sql.Identifier, primary_key))
        table, user = pg.sql.Identifier(schema, name), pg.sql.Identifier(USER)
        with self.control() as cursor:
            cursor.execute(pg.sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(pg.sql.Identifier(schema)))
            cursor.execute(pg.sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(pg.sql.Identifier(schema), user))
            cursor.execute(
                pg.sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY ({}))").format(table, pg.sql.SQL(ddl_columns), key)
            )
            cursor.execute(pg.sql.SQL("GRANT SELECT ON {} TO {}").format(table, user))
            cursor.execute(
                "INSERT INTO hg_standin.tab (rel, nsp, name, shards, distribute_by, key, log)"
                " SELECT %s::regclass, %s, %s, count(*), %s, %s, %s FROM hg_standin.node",
                (sql_name, schema, name, list(distribute_by or primary_key), list(primary_key), sql_name),
            )
            cursor.execute(
                "INSERT INTO hg_standin.property VALUES (%s::regclass, 'orientation', %s)", (sql_name, orientation)
            )
            if binlog:
                cursor.execute("SELECT hg_standin.enable(%s::regclass, %s)", (sql_name, ttl_s))

    def set_property(self, sql_name: str, key: str, value: str) -> None:
        """Set a property of a table, like `call set_table_property`."""
        with self.control() as cursor:
            cursor.execute("CALL set_table_property(%s, %s, %s)", (sql_name, key, value))

    def add_column(self, sql_name: str, column: str) -> None:
        """Run ALTER TABLE ... ADD COLUMN, which leaves no record and raises schema_version."""
        with self.control() as cursor:
            cursor.execute(f"ALTER TABLE {sql_name} ADD COLUMN {column}")
            cursor.execute(f'ALTER TABLE hg_log."{sql_name}" ADD COLUMN {column}')
            cursor.execute(
                "UPDATE hg_standin.tab SET schema_version = schema_version + 1 WHERE rel = %s::regclass", (sql_name,)
            )
            cursor.execute("SELECT hg_standin.build(%s::regclass)", (sql_name,))

    # -- faults -------------------------------------------------------------------------------------------------------

    def updates_as(self, way: str) -> None:
        """Set how updates are represented from now on: "3+7" (SQL) or "2+5" (Holo Client, Flink)."""
        with self.control() as cursor:
            cursor.execute("UPDATE hg_standin.setting SET value = %s WHERE name = 'updates'", (way,))
            cursor.execute("SELECT hg_standin.build(rel) FROM hg_standin.tab")

    def version(self, text: str) -> None:
        """Set the string that hg_version() returns from now on."""
        with self.control() as cursor:
            cursor.execute("UPDATE hg_standin.setting SET value = %s WHERE name = 'version'", (text,))

    def raise_version(self, sql_name: str) -> None:
        """Raise schema_version, as DDL that changes no column does."""
        with self.control() as cursor:
            cursor.execute(
                "UPDATE hg_standin.tab SET schema_version = schema_version + 1 WHERE rel = %s::regclass", (sql_name,)
            )

    def heartbeat(self, sql_name: str, shard: int) -> None:
        """Insert a record of type 27, without a row."""
        names = "hg_shard_id, hg_binlog_lsn, hg_binlog_event_type, hg_binlog_timestamp_us"
        with self.control() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(7306, 1)")
            cursor.execute(
                f'INSERT INTO hg_log."{sql_name}" ({names})'
                f" SELECT {shard}, hg_standin.next_lsn({shard}), 27, hg_standin.now_us()"
            )

    def purge(self) -> int:
        """Remove records past their TTL, which Hologres does with a delay; return their number."""
        return int(self.rows("SELECT hg_standin.purge()")[0][0])

    def cut(self, sql_name: str, shard: int, lsn: int) -> None:
        """Remove a shard's records up to an LSN, regardless of their age."""
        with self.control() as cursor:
            cursor.execute(
                f'DELETE FROM hg_log."{sql_name}" WHERE hg_shard_id = %s AND hg_binlog_lsn <= %s', (shard, lsn)
            )

    def rebuild(self, sql_name: str, new_id: bool = True) -> None:
        """Recreate the table with its rows; its binlog is then empty, its LSNs restart, and it has a new table_id if
        `new_id`.
        """
        with self.control() as cursor:
            cursor.execute("SELECT hg_standin.rebuild(%s::regclass, %s)", (sql_name, new_id))

    def let_replicate(self, sql_name: str, user: str = USER) -> None:
        """Give a login the rights for slots of a table: table ownership, creation of publications, and the
        replication role.
        """
        with self.control() as cursor:
            cursor.execute(f"ALTER TABLE {sql_name} OWNER TO {user}")
            cursor.execute(f"GRANT CREATE ON DATABASE {self.database} TO {user}")
            cursor.execute("UPDATE hg_standin.setting SET value = %s WHERE name = 'replication'", (user,))

    def move_slot(self, slot: str, shard: int, lsn: int) -> None:
        """Confirm an LSN of the slot, as another reader would."""
        with self.control() as cursor:
            cursor.execute("SELECT hg_standin.confirmed(%s, %s, %s, true)", (slot, shard, lsn))

    def drop_slot(self, slot: str) -> None:
        """Drop the slot, as another user would."""
        with self.control() as cursor:
            cursor.execute("CALL hg_drop_logical_replication_slot(%s)", (slot,))

    def confirmed(self, slot: str) -> dict[int, int]:
        """Return the confirmed LSNs of a slot, by shard."""
        statement = "SELECT parallel_index, lsn FROM hologres.hg_replication_progress WHERE slot_name = %s"
        return {int(shard): int(lsn) for shard, lsn in self.rows(statement, (slot,))}

    def reshard(self, sql_name: str, shards: int) -> None:
        """Change a table's number of shards, as moving it to another table group does; its binlog starts over."""
        with self.control() as cursor:
            for number in range(shards):
                cursor.execute(f"CREATE SEQUENCE IF NOT EXISTS hg_standin.lsn_{number}")
                cursor.execute(
                    "INSERT INTO hg_standin.node VALUES (%s, %s) ON CONFLICT DO NOTHING", (number, f"shard_{number}")
                )
            cursor.execute("UPDATE hg_standin.tab SET shards = %s WHERE rel = %s::regclass", (shards, sql_name))
            cursor.execute(f'DELETE FROM hg_log."{sql_name}"')
            cursor.execute("SELECT hg_standin.build(%s::regclass)", (sql_name,))

    # -- inspection ---------------------------------------------------------------------------------------------------

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement, run as the superuser."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(statement, tuple(parameters) or None)
            return cursor.fetchall()

    def log(self, sql_name: str) -> list[tuple[int, int, int]]:
        """Return (shard, LSN, type) of all records of a table, by shard and LSN."""
        found = self.rows(
            f'SELECT hg_shard_id, hg_binlog_lsn, hg_binlog_event_type FROM hg_log."{sql_name}" ORDER BY 1, 2'
        )
        return [(int(shard), int(lsn), int(kind)) for shard, lsn, kind in found]

    @contextmanager
    def control(self) -> Iterator[pg.Cursor]:
        """Open a superuser transaction; a lock allows only one at a time to change the stand-in."""
        with closing(self.connect(autocommit=False)) as connection, pg.transaction(connection) as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(7305, 0)")
            yield cursor

    def close(self) -> None:
        """Stop the proxy; safe to call twice."""
        self.faults.release()
        self.proxy.close()
