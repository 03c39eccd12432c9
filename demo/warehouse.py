"""Installs the stand-in for DWS in a database of an embedded server, creates tables, sets switches, and causes faults.

`SELECT dws.label()` identifies it as a stand-in, and `docs/delivery.md` lists what it cannot prove. The SQL is in
`standin/`, numbered in the order of installation.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import ConfigError
from slotkeeper.demo.postgres import Server, write_password
from slotkeeper.demo.switches import Switches, fragments

LABEL = "stand-in for the DWS binlog functions, not GaussDB(DWS)"
READERS = "dws_readers"
STATISTICS = "gs_role_read_all_stats"
"""DWS "Preset roles": its members see all users' sessions, and can read pgxc_stat_activity."""
USER = "etl"
PURGE_BATCH = 20_000
"""Number of transactions whose records one purge transaction deletes."""

_FOLDER = Path(__file__).with_name("standin")
_CALLS = "5_calls.sql"
_DOCUMENTED_IDS = (-1300059100, -1051926843, 888802358, -905831925)


@dataclass(frozen=True, slots=True)
class Warehouse:
    """An installed stand-in; it holds no connection, every call opens its own superuser session."""

    server: Server
    database: str

    @classmethod
    def install(
        cls, server: Server, dns: int = 4, switches: Switches | None = None, database: str = "warehouse"
    ) -> Warehouse:
        """Create `database` if missing, and install the stand-in with `dns` data nodes (1 to 64) into it.

        Raises ConfigError if it already has a stand-in, slotkeeper.core.drivers.pg.DriverError otherwise.
        """
        if not 1 <= dns <= 64:
            raise ConfigError(f"the stand-in supports 1 to 64 DNs, not {dns}")
        with _session(server, "postgres") as cursor:
            _make_roles(server, cursor)
            cursor.execute("SELECT FROM pg_database WHERE datname = %s", (database,))
            if not cursor.rowcount:
                cursor.execute(pg.sql.SQL("CREATE DATABASE {}").format(pg.sql.Identifier(database)))
        warehouse = cls(server, database)
        with warehouse.control() as cursor:
            cursor.execute("SELECT FROM pg_namespace WHERE nspname = 'dws'")
            if cursor.rowcount:
                raise ConfigError(f"{warehouse.place} already has a stand-in", hint="use Warehouse.attach")
            for file in sorted(_FOLDER.glob("*.sql")):
                if file.name == _CALLS:
                    _configure(cursor, switches or Switches())
                else:
                    cursor.execute(file.read_text(encoding="utf-8"))
            cursor.executemany("INSERT INTO dws.node VALUES (%s, %s, %s)", _node_rows(dns))
        return warehouse

    @classmethod
    def attach(cls, server: Server, database: str = "warehouse") -> Warehouse:
        """Return the stand-in in `database`. Raises ConfigError if there is none."""
        warehouse = cls(server, database)
        with warehouse.control() as cursor:
            cursor.execute("SELECT FROM pg_namespace WHERE nspname = 'dws'")
            if not cursor.rowcount:
                raise ConfigError(f"{warehouse.place} has no stand-in", hint="use Warehouse.install")
        return warehouse

    @property
    def place(self) -> str:
        """The database, server and port of the stand-in, as text."""
        return f"database {self.database} of server {self.server.name} (port {self.server.port})"

    @property
    def etl_password_file(self) -> Path:
        """The 0600 file with the password of the ordinary role `etl`."""
        return self.server.folder / f"{USER}.password"

    def endpoint(self, user: str = USER) -> Endpoint:
        """Return the endpoint for clients: as `etl`, or as the superuser if that user is given."""
        if user == self.server.superuser:
            return self.server.endpoint(self.database)
        return self.server.endpoint(self.database, user, self.server.folder / f"{user}.password")

    def connect(self, autocommit: bool = True) -> pg.Connection:
        """Open a superuser session, for writers and for inspection."""
        return self.server.connect(self.database, autocommit)

    def connect_etl(self, autocommit: bool = True) -> pg.Connection:
        """Open a session of the ordinary role `etl`."""
        password = self.etl_password_file.read_text(encoding="utf-8").strip()
        return pg.connect(self.endpoint(), password, "slotkeeper/embedded", autocommit=autocommit)

    def nodes(self) -> list[tuple[str, int]]:
        """Return (name, id) of every data node, in the stand-in's own order."""
        rows = self._rows("SELECT node_name, node_id FROM dws.node ORDER BY ord")
        return [(str(name), int(node)) for name, node in rows]

    def create_table(
        self,
        sql_name: str,
        ddl_columns: str,
        primary_key: Sequence[str],
        distribute_by: Sequence[str] | None = None,
        ttl_s: int = 86_400,
        timestamp: bool = False,
        binlog: bool = True,
    ) -> None:
        """Create a table (and its schema) that `etl` can read, and record its changes.

        `sql_name` is SQL text ("ods.orders"); `ddl_columns` is the text between the parentheses of CREATE TABLE,
        without the key. `distribute_by` are columns of the key, by default its first.
        """
        key = pg.sql.SQL(", ").join(map(pg.sql.Identifier, primary_key))
        name, columns = pg.sql.SQL(sql_name), pg.sql.SQL(ddl_columns)
        with self.control() as cursor:
            schema, dot, _ = sql_name.rpartition(".")
            if dot:
                cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
                cursor.execute(f"GRANT USAGE ON SCHEMA {schema} TO {USER}")
            cursor.execute(pg.sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY ({}))").format(name, columns, key))
            cursor.execute(pg.sql.SQL("GRANT SELECT ON {} TO {}").format(name, pg.sql.Identifier(USER)))
            if binlog:
                _enable(cursor, sql_name, distribute_by, ttl_s, timestamp)

    def run(self, text: str) -> list[str]:
        """Run CREATE TABLE, ALTER TABLE ... SET and SHOW in the syntax of DWS; return the values of SHOW.

        `etl` can read every table of the schema public afterwards.
        """
        shown = []
        with self.control() as cursor:
            for statement in filter(str.strip, re.sub(r"--.*", "", text).split(";")):
                cursor.execute("SELECT dws.ddl(%s)", (statement,))
                shown += [str(value) for (value,) in cursor.fetchall() if value is not None]
            cursor.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {USER}")
        return shown

    def enable_binlog(
        self, sql_name: str, distribute_by: Sequence[str] | None = None, ttl_s: int = 86_400, timestamp: bool = False
    ) -> None:
        """Record the changes of an existing table, as DWS does after ALTER TABLE ... SET (enable_binlog = on)."""
        with self.control() as cursor:
            _enable(cursor, sql_name, distribute_by, ttl_s, timestamp)

    def configure(self, switches: Switches) -> None:
        """Write `switches` into the bodies of all functions, for the next call of every session."""
        with self.control() as cursor:
            _configure(cursor, switches)

    def switches(self) -> Switches:
        """Return the configured switches."""
        return Switches.of((str(name), bool(value)) for name, value in self._rows("SELECT name, is_on FROM dws.switch"))

    def dn_down(self, name: str | None) -> None:
        """Make reads, status queries and registrations of this DN, and all-DN calls, fail as in DWS; None: all
        DNs are up.
        """
        self._set_control("down", name)

    def dn_hanging(self, name: str | None) -> None:
        """Make calls on this DN wait until released (None) or until their statement_timeout; writers continue."""
        self._set_control("hang", name)

    def node_elsewhere(self, name: str, answers: bool = False) -> None:
        """Add a DN of another logical cluster, without tables; `answers`: a status query of all DNs includes
        it, with point 0.
        """
        with self.control() as cursor:
            cursor.execute("INSERT INTO dws.elsewhere VALUES (%s, %s, %s)", (name, node_id(name), answers))

    def partial_registration(self, name: str, times: int = 1) -> None:
        """Make the next `times` registrations of this DN do nothing: they return one DN fewer."""
        self._set_control("partial", name, times)

    def note_readings(self, on: bool = True) -> None:
        """Make the changes function materialize the whole requested range, regardless of its caller's LIMIT, and record
        it.
        """
        with self.control() as cursor:
            cursor.execute("DELETE FROM dws.reading")
            if on:
                cursor.execute("INSERT INTO dws.reading VALUES (0, 0, 0)")
            cursor.execute("SELECT dws.build_reader(rel) FROM dws.tab")

    def readings(self) -> tuple[int, int, int]:
        """Return three figures since `note_readings`: calls of the changes function, most points between bounds, most
        rows at once.
        """
        ((calls, widest, rows),) = self._rows("SELECT calls, widest, most_rows FROM dws.reading")
        return int(calls), int(widest), int(rows)

    def time_cursor_by_time(self) -> None:
        """Make the cursor by time return the visible record with the earliest time, instead of the first safe record
        by point: a transaction that wrote first and committed last has a later point than transactions with later
        times.
        """
        self._set_control("by_time", self.nodes()[0][0])

    def newest_by_table(self) -> None:
        """Make the newest point of a table advance only with commits on the table itself."""
        self._set_control("own_latest", self.nodes()[0][0])

    def purge(self) -> None:
        """Clear expired points, and delete the records that no slot needs, in batches, as DWS does with a delay."""
        with _session(self.server, self.database) as cursor:
            cursor.execute("SELECT dws.lapse(rel) FROM dws.tab")
            cursor.execute("SELECT rel, dn FROM dws.shard")
            for rel, dn in cursor.fetchall():
                more = True
                while more:
                    cursor.execute("SELECT dws.purge_some(%s::oid, %s::smallint, %s)", (rel, dn, PURGE_BATCH))
                    more = bool(cursor.fetchall()[0][0])
            cursor.execute("SELECT dws.purge_transactions()")

    def expire(self, table: str, slot: str) -> None:
        """Make the TTL of a slot of `table` expire now: the next call of any kind clears its points."""
        with self.control() as cursor:
            cursor.execute(
                "UPDATE dws.slot s SET sync_timestamp = clock_timestamp() - (t.ttl_s + 1) * interval '1 second' "
                "FROM dws.tab t WHERE t.rel = %s::regclass AND s.rel = t.rel AND s.slot_name = %s",
                (table, slot),
            )

    def seed_order_fault(self, naive: bool) -> None:
        """Seed a fault that the tests must detect: sync points in the order of writing, which loses rows."""
        with self.control() as cursor:
            cursor.execute("SELECT dws.order_points(%s)", (naive,))

    def _set_control(self, kind: str, name: str | None, times: int = 0) -> None:
        with self.control() as cursor:
            cursor.execute("DELETE FROM dws.control WHERE kind = %s", (kind,))
            if name is not None:
                cursor.execute(
                    "INSERT INTO dws.control SELECT %s, node_id, %s FROM dws.node WHERE node_name = %s",
                    (kind, times, name),
                )
                if not cursor.rowcount:
                    raise ConfigError(f"unknown data node {name}")
            cursor.execute("SELECT dws.build_reader(rel) FROM dws.tab")

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        with _session(self.server, self.database) as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    @contextmanager
    def control(self) -> Iterator[pg.Cursor]:
        """Open one superuser transaction; a lock lets only one at a time change the stand-in."""
        with closing(self.connect(autocommit=False)) as connection, pg.transaction(connection) as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(7305, 0)")
            yield cursor


@contextmanager
def _session(server: Server, database: str) -> Iterator[pg.Cursor]:
    with closing(server.connect(database)) as connection, connection.cursor() as cursor:
        yield cursor


def _make_roles(server: Server, cursor: pg.Cursor) -> None:
    cursor.execute("SELECT FROM pg_roles WHERE rolname = %s", (READERS,))
    if not cursor.rowcount:
        cursor.execute(f"CREATE ROLE {READERS} NOLOGIN")
    cursor.execute("SELECT FROM pg_roles WHERE rolname = %s", (STATISTICS,))
    if not cursor.rowcount:
        cursor.execute(f"CREATE ROLE {STATISTICS} NOLOGIN IN ROLE pg_read_all_stats")
    cursor.execute("SELECT FROM pg_roles WHERE rolname = %s", (USER,))
    if not cursor.rowcount:
        password = write_password(server.folder / f"{USER}.password")
        cursor.execute(f"CREATE ROLE {USER} LOGIN PASSWORD %s", (password,))
    # another stand-in of the same server can have created the login; repeating an existing grant changes nothing
    cursor.execute(f"GRANT {READERS} TO {USER}")


def _enable(cursor: pg.Cursor, table: str, distribute_by: Sequence[str] | None, ttl_s: int, timestamp: bool) -> None:
    keys = list(distribute_by) if distribute_by else None
    cursor.execute("SELECT dws.enable_binlog(%s, %s, %s, %s::text[])", (table, ttl_s, timestamp, keys))


def _configure(cursor: pg.Cursor, switches: Switches) -> None:
    cursor.execute("DELETE FROM dws.switch")
    cursor.executemany("INSERT INTO dws.switch VALUES (%s, %s)", switches.pairs())
    cursor.execute(_rendered((_FOLDER / _CALLS).read_text(encoding="utf-8"), fragments(switches)))
    cursor.execute(
        "SELECT dws.build_capture(rel), dws.build_reader(rel), dws.build_xc_node_id(rel) FROM dws.tab ORDER BY rel"
    )


def _rendered(text: str, words: Mapping[str, str]) -> str:
    """Return `text` with every @word@ replaced.

    >>> _rendered("RETURN 7 @offset@;", {"offset": "- 1"})
    'RETURN 7 - 1;'
    """
    return re.sub(r"@(\w+)@", lambda found: words[found.group(1)], text)


def _node_rows(dns: int) -> list[tuple[int, str, int]]:
    """Return (number, name, id) of each DN; the documented ids first, then signed 32-bit numbers derived from
    the name.
    """
    rows = []
    for number in range(dns):
        name = f"dn_{number + 1}"
        rows.append((number, name, _DOCUMENTED_IDS[number] if number < len(_DOCUMENTED_IDS) else node_id(name)))
    return rows


def node_id(name: str) -> int:
    """Return a signed 32-bit number derived from a DN's name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big", signed=True)
