"""What `doctor` finds at a MySQL or MariaDB server: login, settings, clock, rights, and the tables that jobs read.

Nothing is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.finding import Finding, Level, clock_finding
from slotkeeper.core.domain.spec import ALLOW, BinlogOptions
from slotkeeper.core.domain.ttl import hours
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.kinds import FollowedTable, SourceAsked
from slotkeeper.core.sources.mysql import inventory, purging, requirements
from slotkeeper.core.sources.mysql.requirements import objections
from slotkeeper.core.sources.mysql.retention import MysqlRetention
from slotkeeper.core.sources.mysql.session import MysqlSession

_DAY = 86_400


def findings(session: MysqlSession, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
    """What is found, the server first."""
    place = f"source {asked.name}"
    before = utc().timestamp()
    clock = float(session.rows("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0])
    after = utc().timestamp()
    facts = session.facts
    yield Finding(place, Level.OK, f"{asked.endpoint.place} answers: {facts.variables.get('version', 'unknown')}")
    yield clock_finding(place, clock, before, after)
    found = [Finding(place, Level.FAIL, f"{what}; cure: {cure}") for what, cure in objections(facts)]
    yield from found
    if not found:
        yield Finding(place, Level.OK, "the binlog is on, with rows whole and uncompressed")
    if not facts.names_columns:
        text = "binlog_row_metadata is not FULL: names and signs come from information_schema while it fits"
        yield Finding(place, Level.WARN, f"{text}; cure: SET GLOBAL binlog_row_metadata = 'FULL'")
    yield _expiry(place, *purging.age_of(purging.variables_of(session)))
    yield _rights(place, session)
    for one in asked.tables:
        yield from _table(f"{place} {one.name}", session, one)


def _expiry(place: str, seconds: int | None, setting: str) -> Finding:
    """For how long a stopped job can be brought back."""
    if seconds is None:
        return Finding(place, Level.UNKNOWN, "after how many hours binlogs are purged is unknown")
    if not seconds:
        return Finding(place, Level.OK, f"binlogs are purged only by PURGE BINARY LOGS ({setting})")
    level = Level.WARN if seconds < _DAY else Level.OK
    return Finding(place, level, f"binlogs are purged after {hours(seconds)}, whether read or not ({setting})")


def _rights(place: str, session: MysqlSession) -> Finding:
    try:
        session.asking(requirements.newest)
    except SlotkeeperError as error:
        return Finding(place, Level.FAIL, f"{error.message}" + (f"; cure: {error.hint}" if error.hint else ""))
    return Finding(place, Level.OK, "this login may read where the binlog ends")


def _table(place: str, session: MysqlSession, table: FollowedTable) -> Iterator[Finding]:
    source = MysqlRetention(session, table.name, "doctor", BinlogOptions(binlog=bool(table.followers)))
    known = all(job.channel.cascades == ALLOW for job in table.followers)
    try:
        source.identify()
        found = list(inventory.objections(session, source.seen, known)) if table.followers else []
    except SlotkeeperError as error:
        yield Finding(place, Level.FAIL, f"{error.message}" + (f"; cure: {error.hint}" if error.hint else ""))
        return
    yield from (Finding(place, Level.FAIL, one.text) for one in found)
    if table.followers and not inventory.is_transactional(source.seen.engine):
        text = f"engine {source.seen.engine} has no transactions: after a crash of the server, take a new snapshot"
        yield Finding(place, Level.WARN, text)
    if not found:
        yield Finding(place, Level.OK, "readable, with a key; all tables share one binlog")


def grants(endpoint: Endpoint, tables: Sequence[str]) -> list[str]:
    """The least rights that following and comparing these tables needs, as statements."""
    to = f"'{endpoint.user}'@'%'"
    return [
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {to};",
        *(f"GRANT SELECT ON {'.'.join(f'`{part}`' for part in name.split('.', 1))} TO {to};" for name in tables),
        f"GRANT PROCESS ON *.* TO {to}; -- of MySQL only: a copy waits for open transactions",
    ]
