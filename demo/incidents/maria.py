"""Incidents of a MySQL source: purged binlogs, a binlog whose end was lost in a crash, changes without row events.

See also: docs/mysql.md.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from contextlib import closing

from slotkeeper.core.domain.fault import Party
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Refused, Unreachable
from slotkeeper.demo.incidents.record import (
    COPY_ANEW,
    JOB,
    START,
    STOP,
    Command,
    Incident,
    Manual,
    World,
    by_status,
    start_refused,
)
from slotkeeper.demo.orders import TABLE

WITHIN = 60.0
_POLL = 0.1
_CHANGE = f"UPDATE {TABLE} SET amount = amount + 1 WHERE order_no BETWEEN 1 AND 100"
_PARENTS = "ods.customers"
_DROP_KEY = f"ALTER TABLE {TABLE} DROP FOREIGN KEY of_customer"
_POSITION = Command(f"slotkeeper jobs show {JOB} --json")


def _wait(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WITHIN
    while not condition():
        if time.monotonic() > end:
            raise Unreachable(f"timed out after {WITHIN:g} s waiting for {what}")
        time.sleep(_POLL)


def _newest(session: my.Session) -> tuple[str, int]:
    """Return the current binlog file, and the position of its end."""
    file, offset, *_ = session.rows("SHOW MASTER STATUS")[0]
    return str(file), int(offset)


def _run(world: World, command: Command) -> str:
    answer = world.run(command.text.split()[1:])
    if answer.code not in command.ends:
        raise Refused(f"{command.text} exited with code {answer.code}: {answer.text}")
    return answer.text


def _purge(world: World) -> str:
    """Stop the job, end its sessions, and purge the binlogs: a file that a replica is still reading is not purged."""
    _run(world, STOP)
    world.at_source(_CHANGE, "FLUSH BINARY LOGS", _CHANGE)
    with closing(world.maria.session()) as session:
        file, _ = _newest(session)

        def purged() -> bool:
            session.rows(f"PURGE BINARY LOGS TO '{file}'")
            return str(session.rows("SHOW BINARY LOGS")[0][0]) == file

        world.begins()
        _wait(purged, f"the files before {file} to be purged")
    world.run(START.text.split()[1:])  # ends in state FAILED, on a slow host after the command has stopped waiting
    return f"the job was stopped, the binlogs before {file} were purged, and the job was started again"


def _lose_tail(world: World) -> str:
    """Truncate the binlog: with sync_binlog = 0 the operating system decides when it is written, so a crash
    can lose its end.
    """
    server = world.maria
    with closing(server.session()) as session:
        file, offset = _newest(session)
        session.rows(_CHANGE)
    _wait(lambda: _place(world) > (file, offset), f"the job to pass {file}/{offset}")
    server.stop(crash=True)
    os.truncate(server.data_dir / file, offset)
    world.begins()
    server.start()
    return f"the source crashed, and {file} now ends at {offset}, before the job's position"


def _place(world: World) -> tuple[str, int]:
    """Return the binlog file and offset up to which the job has applied everything."""
    lanes = (json.loads(_run(world, _POSITION))["report"] or {}).get("lanes") or [{}]
    file, _, rest = str(lanes[0].get("position") or "").partition("/")
    return file, int(re.split("[@/|]", rest)[0] or 0)


def is_caught_up(world: World) -> bool:
    """Whether the job has applied the server's whole binlog; `jobs drain` is only for servers that count rows."""
    with closing(world.maria.session()) as session:
        return _place(world) >= _newest(session)


def _write_a_statement(world: World) -> str:
    world.begins()
    world.at_source("SET SESSION binlog_format = 'STATEMENT'", _CHANGE)
    return f"a session with binlog_format = STATEMENT changed rows of {TABLE}; the binlog has no row events for them"


def _add_cascade(world: World) -> str:
    world.at_source(
        f"CREATE TABLE {_PARENTS} (cust BIGINT PRIMARY KEY)",
        f"INSERT INTO {_PARENTS} SELECT DISTINCT cust FROM {TABLE}",
    )
    world.begins()
    world.at_source(
        "SET SESSION foreign_key_checks = 0",  # the writers insert orders of customers that are not in the parent table
        f"ALTER TABLE {TABLE} ADD CONSTRAINT of_customer FOREIGN KEY (cust) REFERENCES {_PARENTS} (cust)"
        " ON DELETE CASCADE",
    )
    return f"{TABLE} has a new foreign key with ON DELETE CASCADE; the binlog has no row events for cascaded deletes"


BINLOGS_PURGED = Incident(
    "binlogs-purged",
    19,
    "MySQL: binlogs that a job needs were purged",
    "the binlogs that a stopped job still needs are purged",
    _purge,
    by_status(2, ("SLOT LOST",), "job_failed", Party.SLOT),
    start_refused("SLOT LOST"),
    COPY_ANEW,
    stand_in="no waiting: PURGE BINARY LOGS replaces binlog_expire_logs_seconds",
    source="mysql",
)
TAIL_LOST = Incident(
    "tail-lost",
    20,
    "MySQL: the end of the binlog was lost in a crash",
    "the source crashes, and its binlog ends before the position of the job",
    _lose_tail,
    by_status(2, ("SOURCE OLDER",), "job_failed", Party.SOURCE),
    start_refused("SOURCE OLDER"),
    COPY_ANEW,
    stand_in="the host does not crash; the server is killed, and its newest binlog file is truncated",
    source="mysql",
)
STATEMENT_SESSION = Incident(
    "statement-session",
    21,
    "MySQL: changes were logged as statements",
    "a session with binlog_format = STATEMENT changes rows of the table",
    _write_a_statement,
    by_status(2, ("SLOT LOST",), "job_failed", Party.SLOT),
    start_refused("SLOT LOST"),
    COPY_ANEW,
    source="mysql",
)
CASCADE_ADDED = Incident(
    "cascade-added",
    22,
    "MySQL: a foreign key with CASCADE was added",
    "a foreign key with ON DELETE CASCADE is added to the table",
    _add_cascade,
    by_status(2, ("foreign key",), "job_failed", Party.SOURCE),
    start_refused("foreign key of_customer with cascades"),
    (
        Manual(
            "drop the foreign key", lambda world: world.at_source(_DROP_KEY), lambda _: f"{_DROP_KEY}, in the source"
        ),
        *COPY_ANEW,
    ),
    source="mysql",
)
EVERY = (BINLOGS_PURGED, TAIL_LOST, STATEMENT_SESSION, CASCADE_ADDED)
