"""A session to MySQL or MariaDB, and the requirements that a server must meet before its binlog can be followed.

The session connects on its first call and reconnects after a failure; it raises errors of `slotkeeper.core.errors`. The
check of a server is pure: it uses only the variables that were read. Sources: MySQL, "Binary Logging Options and
Variables"; MariaDB, "Replication and Binary Log System Variables".
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Refused, SlotkeeperError, Unclassified, Unreachable
from slotkeeper.core.sources.mysql import faults, hosts
from slotkeeper.core.sources.mysql.faults import BinlogError
from slotkeeper.core.sources.mysql.position import MysqlPosition

OLDEST_MYSQL, OLDEST_MARIADB = (5, 7), (10, 3)
"""Oldest supported versions. MySQL: the version that Doris requires. MariaDB: the first version that has INVISIBLE
columns and versioned tables in the form read here; 10.5 adds column names to the binlog (`binlog_row_metadata`)."""
VARIABLES = (
    "version",
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_row_value_options",
    "log_bin_compress",
    "gtid_mode",
    "server_id",
    "server_uuid",
    "server_uid",
    "hostname",
    "port",
    "read_only",
    "log_slave_updates",
    "log_replica_updates",
    "binlog_expire_logs_seconds",
    "lower_case_table_names",
    "innodb_native_foreign_keys",
    "partial_revokes",
)
"""Variables that a session reads; a server omits those that it does not have."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server's variables by name, with the values that the server shows."""

    variables: Mapping[str, str]

    def of(self, name: str) -> str:
        """Return a variable in upper case; "" if the server has no such variable."""
        return self.variables.get(name, "").upper()

    @property
    def is_mariadb(self) -> bool:
        return "MARIADB" in self.of("version")

    @property
    def version(self) -> tuple[int, int]:
        """The first two numbers of the server version; (0, 0) if the version has no numbers.

        >>> ServerFacts({"version": "10.11.19-MariaDB-log"}).version, ServerFacts({"version": "8.4.2"}).version
        ((10, 11), (8, 4))
        """
        found = re.match(r"(\d+)\.(\d+)", self.variables.get("version", ""))
        return (int(found[1]), int(found[2])) if found else (0, 0)

    @property
    def server(self) -> str:
        """An identifier of this server: the UUID or, for MariaDB, which has no UUID, the server_id."""
        return self.variables.get("server_uuid", "") or f"server-{self.variables.get('server_id', '')}"

    @property
    def identity(self) -> tuple[str, ...]:
        """What distinguishes this server from another one that answers at the same address.

        Two MariaDB servers can have the same server_id, and they have no server_uuid; `server_uid` is a hash of the
        network address and the port (MariaDB, "Feedback Plugin").
        """
        return tuple(
            self.variables.get(name, "") for name in ("server_uuid", "server_id", "server_uid", "hostname", "port")
        )

    @property
    def names_columns(self) -> bool:
        return self.of("binlog_row_metadata") == "FULL"


def read_facts(session: my.Session) -> ServerFacts:
    wanted = ", ".join(["%s"] * len(VARIABLES))
    rows = session.rows(f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({wanted})", VARIABLES)
    return ServerFacts({str(name).lower(): str(value) for name, value in rows})


def objections(facts: ServerFacts) -> Iterator[tuple[str, str]]:
    """Return objections to following this server as (problem, fix); the first is the one to report."""
    oldest = OLDEST_MARIADB if facts.is_mariadb else OLDEST_MYSQL
    if facts.version < oldest:
        name = "MariaDB" if facts.is_mariadb else "MySQL"
        least = ".".join(map(str, oldest))
        yield f"version {facts.variables.get('version', 'unknown')} is too old", f"upgrade to {name} {least} or later"
    if facts.of("log_bin") not in ("ON", "1"):
        yield "the server writes no binlog (log_bin is off)", "set log_bin and restart the server"
    if facts.of("binlog_format") != "ROW":
        yield f"binlog_format is {facts.of('binlog_format') or 'unknown'}, not ROW", "SET GLOBAL binlog_format = 'ROW'"
    if facts.of("binlog_row_image") != "FULL":
        image = facts.of("binlog_row_image") or "unknown"
        yield f"binlog_row_image is {image}, not FULL", "SET GLOBAL binlog_row_image = 'FULL'"
    if facts.of("log_bin_compress") in ("ON", "1"):
        yield "the server compresses its binlog (log_bin_compress is on)", "SET GLOBAL log_bin_compress = OFF"
    if "PARTIAL_JSON" in facts.of("binlog_row_value_options"):
        yield (
            "the server writes partial JSON updates (binlog_row_value_options is PARTIAL_JSON)",
            "SET GLOBAL binlog_row_value_options = ''",
        )
    if facts.of("server_id") in ("", "0"):
        yield "server_id is 0: the server accepts no replica", "set server_id to a unique number"


def admit(session: my.Session, place: str, user: str) -> ServerFacts:
    """Return the server's facts. Raises Refused with the first objection, or AccessRefused with the GRANT.

    A server setting applies only to new sessions and new events; events written earlier are checked when they are read.
    """
    try:
        facts = read_facts(session)
        for what, cure in objections(facts):
            raise Refused(f"source {place}: {what}", cure, "", "source")
        newest(session)
    except my.DriverError as error:
        raise faults.classify(error, place, user) from error
    return facts


def newest(session: my.Session) -> tuple[str, int]:
    """Return the current binlog file and its end offset; needs the REPLICATION CLIENT privilege.

    Raises DriverError.
    """
    row = _status(session)
    return (str(row[0]), int(row[1])) if row else ("", 0)


def is_hidden(session: my.Session, database: str) -> bool:
    """Whether binlog_do_db or binlog_ignore_db excludes a database's rows from the binlog. Raises DriverError.

    MySQL, "Evaluation of Database-Level Replication and Binary Logging Options": with binlog_do_db, the server ignores
    binlog_ignore_db.
    """
    do, ignore = filters(session)
    return database not in do if do else database in ignore


def filters(session: my.Session) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the databases of binlog_do_db and of binlog_ignore_db; both empty if the server records all databases.

    MySQL, "SHOW BINARY LOG STATUS Statement": Binlog_Do_DB, Binlog_Ignore_DB. Raises DriverError.
    """
    texts = [str(one or "") for one in (_status(session) or ())[2:4]]
    do, ignore = (tuple(filter(None, text.split(","))) for text in (*texts, "", "")[:2])
    return do, ignore


def _status(session: my.Session) -> tuple[Any, ...] | None:
    """MySQL 8.4 has another name for the statement ("SHOW BINARY LOG STATUS")."""
    try:
        return session.row("SHOW MASTER STATUS")
    except my.DriverError as error:
        if my.code_of(error) != _SYNTAX:
            raise
        return session.row("SHOW BINARY LOG STATUS")


_SYNTAX = 1064


T = TypeVar("T")
STATUS_SECONDS = 5.0
"""Time limit in seconds for a query about the server or a table's columns."""
HEARTBEAT_SECONDS = 1.0
_FIRST_ID, _IDS = 1 << 30, 1 << 30
"""Lowest server_id of a job, and the number of possible values. Administrators usually assign small numbers, or an IP
address as a number, to replicas."""


class MysqlSession:
    """A session of a login. Not thread-safe, except that any thread can call `sever`."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._open: my.Session | None = None
        self._facts: ServerFacts | None = None
        self._account = ""
        self.opened = 0
        """The number of connections that this session has opened for its queries."""
        self.oldest: tuple[int, float, str] | None = None
        """The server's oldest binlog file, after the value of `opened` and the time at which it was read."""

    @property
    def name(self) -> str:
        return self._login.name

    @property
    def place(self) -> str:
        """The name of the source in messages."""
        return self._login.endpoint.name

    @property
    def user(self) -> str:
        """The account as written in a GRANT; the host is `faults.NO_HOST` if no open session can be queried."""
        account = (self._login.endpoint.user, faults.NO_HOST)
        if self._account or self._open is not None:
            with suppress(SlotkeeperError):
                account = self.account
        return "@".join("'{}'".format(part.replace("'", "''")) for part in account)

    @property
    def account(self) -> tuple[str, str]:
        """The (user, host) of the account, queried once.

        A login can have several accounts, one for each host that it connects from; a GRANT to another account of the
        login has no effect. MySQL, "Information Functions": CURRENT_USER() is the account that the server used to
        authenticate the client.
        """
        if not self._account:
            self._account = str(self.rows("SELECT CURRENT_USER()")[0][0])
        user, _, host = self._account.rpartition("@")
        return user, host

    @property
    def facts(self) -> ServerFacts:
        """The server's variables; read once per connection."""
        if self._facts is None:
            self._facts = self.asking(read_facts)
        return self._facts

    def check_expected(self) -> None:
        """Raise Unclassified if the open connection is not at the server that the login expects.

        A copy has no position that would show it: rows of a replica that is behind would be older than the copy's
        start. The driver then reads a status, which shows whether the source has switched.
        """
        expected, found = self._login.endpoint.server, self.facts.server
        if expected and found != expected:
            self.close()  # the next attempt can reach the expected server
            what = f"source {self.place}: server {found} answers instead of server {expected}"
            raise Unclassified(what, "", where="source")

    def connect_same(self) -> my.Session:
        """Open a separate connection to this session's server, for its binlog; raises Unreachable if another server
        answers.

        Behind a virtual address or a proxy, each connection can reach another server. Raises DriverError.
        """
        expected = self.facts.identity
        session = self.connect()
        try:
            found = read_facts(session).identity
        except BaseException:
            session.close()
            raise
        if found == expected:
            return session
        session.close()
        self.close()  # the session itself may be the one at the former server
        names = " and ".join(":".join(one for one in each if one) for each in (expected, found))
        what = f"source {self.place}: two connections reached different servers ({names})"
        raise Unreachable(what, "use an address that leads to one server, not a load balancer", where="source")

    def connect(self) -> my.Session:
        seconds = max(2.0, self._login.endpoint.connect_timeout_ms / 1000)

        def attempt(endpoint: Endpoint) -> my.Session:
            return my.connect(endpoint, self._login.password, self._login.name, seconds)

        return hosts.connect(self._login.endpoint, attempt, _found)

    def rows(self, statement: str, values: Sequence[object] = (), seconds: float = STATUS_SECONDS) -> list[Any]:
        def ask(session: my.Session) -> list[Any]:
            session.seconds = seconds
            return session.rows(_plain(statement, values), values)

        return self.asking(ask)

    def asking(self, ask: Callable[[my.Session], T]) -> T:
        """Return the result of `ask` on the open session; closes the session after an error that may have broken it."""
        try:
            if self._open is None:
                self._open = self.connect()
                self._facts, self.opened = None, self.opened + 1
            self._open.seconds = STATUS_SECONDS
            return ask(self._open)
        except my.DriverError as error:
            found = self.error(error)
            code = my.code_of(error)
            if code not in _LEAVES or code in _ENDS:
                self.close()
            raise found from error
        except SlotkeeperError:
            raise
        except BinlogError as error:
            raise faults.of_binlog(error, self.place, "the query") from error
        except BaseException:
            self.close()
            raise

    def read(self, statement: str, values: Sequence[object], seconds: float) -> Iterator[list[tuple[Any, ...]]]:
        """Return a large result in parts as they arrive; the time limit applies to each part."""
        done = False
        try:
            if self._open is None:
                self._open = self.connect()
                self._facts, self.opened = None, self.opened + 1
            self._open.seconds = seconds
            yield from self._open.read(_plain(statement, values), values)
            done = True
        except my.DriverError as error:
            raise self.error(error) from error
        finally:
            if not done:
                self.close()  # the connection still has rows that were not read

    def error(self, error: BaseException) -> SlotkeeperError:
        user = self.user if my.code_of(error) in faults.RIGHTS else ""  # another error may have broken the connection
        return faults.classify(error, self.place, user, self._login.endpoint.sslmode == "disable")

    def replica(self, reader: str) -> my.Replica:
        """Return the replica identity for `reader`. The identity never changes, so that the server ends an earlier
        reader when a later one connects.
        """
        number = _FIRST_ID + zlib.crc32(f"{self.place}\x1f{reader}".encode()) % _IDS
        return my.Replica(number, f"{number:08x}-5107-4bee-9e55-{number:012x}", HEARTBEAT_SECONDS)

    def resolved(self, place: MysqlPosition) -> MysqlPosition:
        """Return the position with its full file name, even if a user typed the displayed form."""
        if not place.file.startswith("."):
            return place
        base = self.asking(newest)[0].rpartition(".")[0]
        return replace(place, file=f"{base}{place.file}")

    def beside(self, mark: str) -> MysqlSession:
        return MysqlSession(replace(self._login, name=f"{self._login.name[: 63 - len(mark)]}{mark}"))

    def sever(self) -> None:
        session = self._open
        if session is not None:
            session.sever()

    def close(self) -> None:
        session, self._open = self._open, None
        if session is not None:
            session.close()


def _found(session: my.Session) -> hosts.Found:
    facts = read_facts(session)
    return hosts.Found(facts.server, hosts.why_unsuitable(facts.variables))


def _plain(statement: str, values: Sequence[object]) -> str:
    """Replace `%%` with `%` in a statement without values, because the driver replaces it only if there are values."""
    return statement if values else statement.replace("%%", "%")


_LEAVES = range(1000, 1900)
"""Error numbers of failed statements; the session stays usable after most of these errors."""
_ENDS = frozenset({1040, 1053, 1077, 1079, 1080, 1152, 1153, 1156, 1158, 1159, 1160, 1161, 1317})
