"""Scaling of the stand-in: a DN is added, removed or renamed while clients continue, and rows move to other DNs.

DWS documents only the wait (`binlog_consume_timeout`) and its failure; the caller chooses the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import ConfigError, Refused
from slotkeeper.demo.warehouse import Warehouse, node_id

CONSUME_TIMEOUT = 3_600.0
"""Seconds; DWS, `binlog_consume_timeout`: how long scaling waits until all records are consumed."""
_NOT_CONSUMED = "55000"

Locked = Callable[[], None]


def add_dn(
    warehouse: Warehouse, name: str, *, wait: bool = True, points: bool = True, timeout: float = CONSUME_TIMEOUT
) -> int:
    """Add a DN and redistribute the rows over all DNs; return the sync point at which the rows moved.

    `points`: whether the new DN has the points of every registered slot, at that sync point, or none. `wait` False
    contradicts the DWS documentation: rows move past unread changes. Raises Refused if the wait timed out.
    """
    with warehouse.control() as cursor:
        _exist(cursor, name, False)
        _wait(cursor, wait, timeout)
        cursor.execute("SELECT dws.add_node(%s, %s, %s)", (name, node_id(name), points))
        return int(cursor.fetchall()[0][0])


def remove_dn(warehouse: Warehouse, name: str, *, wait: bool = True, timeout: float = CONSUME_TIMEOUT) -> None:
    """Remove a DN and redistribute its rows over the others; otherwise as `add_dn`."""
    with warehouse.control() as cursor:
        _exist(cursor, name, True)
        _wait(cursor, wait, timeout)
        cursor.execute("SELECT dws.remove_node(%s)", (name,))


def rename_dn(warehouse: Warehouse, name: str, new: str, *, keeps_id: bool = True) -> None:
    """Rename a DN, with its old id or another one; moves no row and waits for no reader."""
    with warehouse.control() as cursor:
        _exist(cursor, name, True)
        _exist(cursor, new, False)
        cursor.execute("SELECT dws.rename_node(%s, %s, %s)", (name, new, None if keeps_id else node_id(new)))


def _exist(cursor: pg.Cursor, name: str, wanted: bool) -> None:
    cursor.execute("SELECT FROM dws.node WHERE node_name = %s", (name,))
    if bool(cursor.rowcount) != wanted:
        raise ConfigError(f"data node {name} {'does not exist' if wanted else 'already exists'}")


def vacuum_full(cursor: pg.Cursor, table: str, timeout: float = CONSUME_TIMEOUT, locked: Locked = lambda: None) -> None:
    """Run the waiting part of VACUUM FULL: hold a lock that blocks writers until every slot has read everything.

    `locked` is called once the lock is held. Raises Refused if the timeout expires.
    """
    cursor.execute(f"/* as VACUUM FULL {table} */ SELECT dws.lock_tables()")
    locked()
    _await(cursor, f"/* as VACUUM FULL {table} */", timeout)


def _wait(cursor: pg.Cursor, wait: bool, timeout: float) -> None:
    """Block writers and wait until everything is consumed; after the timeout the scaling fails, as documented."""
    cursor.execute("SET LOCAL application_name = 'gs_redis'")
    cursor.execute("SELECT dws.lock_tables()")
    if wait:
        _await(cursor, "", timeout)


def _await(cursor: pg.Cursor, plays: str, timeout: float) -> None:
    try:
        cursor.execute(f"{plays} SELECT dws.await_consumed(%s)", (timeout,))
    except pg.DriverError as error:
        code, text = pg.failure(error)
        if code != _NOT_CONSUMED:
            raise
        raise Refused(
            text.strip().splitlines()[0], "resume the readers of all slots, or drop unused slots", code, "source"
        ) from error
