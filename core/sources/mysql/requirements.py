"""What a server has to be before its binlog can be followed, each refusal with one line and its cure.

The decision is pure, over what was asked. Sources: MySQL, "Binary Logging Options and Variables"; MariaDB, "Replication
and Binary Log System Variables".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.mysql import faults

OLDEST_MYSQL, OLDEST_MARIADB = (5, 7), (10, 3)
"""MySQL: what Doris asked for. MariaDB: the oldest with INVISIBLE columns and versioned tables as they are read here;
column names in the binlog come with 10.5 (`binlog_row_metadata`)."""
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
    "binlog_expire_logs_seconds",
    "lower_case_table_names",
    "innodb_native_foreign_keys",
    "partial_revokes",
)
"""What is asked; a server leaves out those that it does not have."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server's variables by name, as it shows them."""

    variables: Mapping[str, str]

    def of(self, name: str) -> str:
        """A variable in upper case; "" where the server has none of this name."""
        return self.variables.get(name, "").upper()

    @property
    def is_mariadb(self) -> bool:
        """Whether it is MariaDB, which says so in its version."""
        return "MARIADB" in self.of("version")

    @property
    def version(self) -> tuple[int, int]:
        """The first two numbers of the version; (0, 0) where it has none.

        >>> ServerFacts({"version": "10.11.19-MariaDB-log"}).version, ServerFacts({"version": "8.4.2"}).version
        ((10, 11), (8, 4))
        """
        found = re.match(r"(\d+)\.(\d+)", self.variables.get("version", ""))
        return (int(found[1]), int(found[2])) if found else (0, 0)

    @property
    def names_columns(self) -> bool:
        """Whether the binlog names the columns of what it has."""
        return self.of("binlog_row_metadata") == "FULL"

    @property
    def keeps_gtids(self) -> bool:
        """Whether a position can be named by GTIDs."""
        return self.is_mariadb or self.of("gtid_mode") == "ON"


def read_facts(session: my.Session) -> ServerFacts:
    """Ask a server for its variables. Raises DriverError."""
    wanted = ", ".join(["%s"] * len(VARIABLES))
    rows = session.rows(f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({wanted})", VARIABLES)
    return ServerFacts({str(name).lower(): str(value) for name, value in rows})


def objections(facts: ServerFacts) -> Iterator[tuple[str, str]]:
    """(what stands against following this server, its cure), the first the one to be named."""
    oldest = OLDEST_MARIADB if facts.is_mariadb else OLDEST_MYSQL
    if facts.version < oldest:
        name = "MariaDB" if facts.is_mariadb else "MySQL"
        least = ".".join(map(str, oldest))
        yield f"version {facts.variables.get('version', 'unknown')} is too old", f"{name} {least} or later is needed"
    if facts.of("log_bin") not in ("ON", "1"):
        yield "it writes no binlog (log_bin is off)", "set log_bin and restart the server"
    if facts.of("binlog_format") != "ROW":
        yield f"binlog_format is {facts.of('binlog_format') or 'unknown'}, not ROW", "SET GLOBAL binlog_format = 'ROW'"
    if facts.of("binlog_row_image") != "FULL":
        image = facts.of("binlog_row_image") or "unknown"
        yield f"binlog_row_image is {image}, not FULL", "SET GLOBAL binlog_row_image = 'FULL'"
    if facts.of("log_bin_compress") in ("ON", "1"):
        yield "it compresses its binlog (log_bin_compress is on)", "SET GLOBAL log_bin_compress = OFF"
    if "PARTIAL_JSON" in facts.of("binlog_row_value_options"):
        yield (
            "it writes JSON in part (binlog_row_value_options is PARTIAL_JSON)",
            "SET GLOBAL binlog_row_value_options = ''",
        )
    if facts.of("server_id") in ("", "0"):
        yield "server_id is 0: it takes no replica", "set server_id to a number of its own"


def admit(session: my.Session, place: str, user: str) -> ServerFacts:
    """The server's facts; Refused with the first objection, AccessRefused with the GRANT where a right is missing.

    A setting holds for new sessions and new events: what was written before shows only when it is read.
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
    """The file that is written now and where it ends; needs the right REPLICATION CLIENT.

    MySQL 8.4 has another name for the statement ("SHOW BINARY LOG STATUS"). Raises DriverError.
    """
    try:
        row = session.row("SHOW MASTER STATUS")
    except my.DriverError as error:
        if my.code_of(error) != _SYNTAX:
            raise
        row = session.row("SHOW BINARY LOG STATUS")
    return (str(row[0]), int(row[1])) if row else ("", 0)


_SYNTAX = 1064
