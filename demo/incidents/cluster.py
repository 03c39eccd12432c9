"""Incidents of the source cluster: an added DN, clocks that differ, a restore, and an unresponsive connection."""

from __future__ import annotations

import signal
from contextlib import closing, suppress

import psutil

from slotkeeper.core.domain.fault import Party
from slotkeeper.core.drivers import pg
from slotkeeper.demo.incidents.record import (
    COPY_ANEW,
    SLOT,
    VERIFY,
    Command,
    Incident,
    Manual,
    Refusal,
    World,
    by_status,
    start_refused,
)
from slotkeeper.demo.incidents.slots import FEW, write
from slotkeeper.demo.orders import TABLE
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.scaling import add_dn

AHEAD_S = 90.0
SILENT_AFTER_S = 5.0
"""Seconds after which a server that does not answer counts as silent: the limit of the driver's pulse."""
_CLOCKS = (("now", "STABLE"), ("clock_timestamp", "VOLATILE"))
_SCALED_WITHIN = 60.0


def _add_dn(world: World) -> str:
    name = f"dn_{len(world.warehouse.nodes()) + 1}"
    world.begins()
    add_dn(world.warehouse, name, points=False, timeout=_SCALED_WITHIN)
    return f"DN {name} was added and received rows; the slot has no sync points on it"


def _restore(world: World) -> str:
    """Simulate a restore: it brings back older rows, but no increments and no points, as documented."""
    first = write(world, FEW)
    world.begins()
    with closing(world.warehouse.connect(autocommit=False)) as connection, pg.transaction(connection) as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(f"DELETE FROM {TABLE} WHERE order_no BETWEEN {first} AND {first + FEW - 1}")
        cursor.execute("DELETE FROM dws.slot WHERE slot_name = %s", (SLOT,))
    return f"the source was restored from a backup: {FEW} fewer rows, and no sync points of the slot"


def _set_clock(world: World) -> str:
    if not _clock_is_ours(world):
        world.at_source(
            "CREATE SCHEMA clocks",
            "CREATE TABLE clocks.ahead AS SELECT 0::float8 AS seconds",
            "CREATE FUNCTION clocks.by() RETURNS interval STABLE LANGUAGE sql"
            " AS $$SELECT seconds * interval '1 second' FROM clocks.ahead$$",
            "GRANT USAGE ON SCHEMA clocks TO PUBLIC",
            "GRANT SELECT ON clocks.ahead TO PUBLIC",
            *(text for name, kind in _CLOCKS for text in _own(name, kind)),
        )
    world.begins()
    _ahead(world, AHEAD_S)
    return f"the source's clock was set {AHEAD_S:g} s ahead of this host's clock"


def _own(name: str, kind: str) -> tuple[str, str]:
    """Return the statements that replace a clock function of the server with an expression that the planner inlines."""
    return (
        f"CREATE FUNCTION clocks.{name}() RETURNS timestamptz {kind} LANGUAGE internal AS '{name}'",
        f"CREATE OR REPLACE FUNCTION pg_catalog.{name}() RETURNS timestamptz {kind} LANGUAGE sql"
        f" AS $$SELECT clocks.{name}() + clocks.by()$$",
    )


def _clock_is_ours(world: World) -> bool:
    with closing(world.warehouse.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_namespace WHERE nspname = 'clocks'")
        return bool(cursor.rowcount)


def _ahead(world: World, seconds: float) -> None:
    world.at_source(f"UPDATE clocks.ahead SET seconds = {seconds}")


def _silence(world: World) -> str:
    """Stop the server's processes. They then answer nothing and close no connection, like a firewall that drops
    packets: the kernel continues to accept connections and bytes.
    """
    server = world.warehouse.server
    world.opened.callback(_tell_all, server, signal.SIGCONT)
    world.begins()
    _tell_all(server, signal.SIGSTOP)
    return "the connection to the source is half-open: the source accepts data but does not answer"


def _tell_all(server: Server, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        first = psutil.Process(server.pid)
        for one in (first, *first.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                one.send_signal(number)


DN_ADDED = Incident(
    "dn-added",
    7,
    "TOPOLOGY CHANGED: the cluster's DNs differ from the job's",
    "a DN is added to the cluster; the slot has no sync points on it",
    _add_dn,
    by_status(2, ("TOPOLOGY CHANGED",), "job_failed", Party.SOURCE),
    start_refused("TOPOLOGY CHANGED"),
    COPY_ANEW,
    stand_in="PostgreSQL has no DNs; a function adds one and moves the rows",
)
CLOCK_SKEW = Incident(
    "clock-skew",
    13,
    "The clocks of the source and of this host differ",
    "the source's clock is set ahead",
    _set_clock,
    by_status(1, ("ahead of this host",), "clocks_differ", Party.SOURCE),
    Refusal(
        Command("slotkeeper slots reset ods.orders orders_rt --to time --time 2026-11-23T02:00:00", (2,)),
        ("offset",),
    ),
    (
        Manual(
            "ask the NTP administrator of that host to correct the clock",
            lambda world: _ahead(world, 0.0),
            lambda world: "UPDATE clocks.ahead SET seconds = 0, in the source",
        ),
        Command("slotkeeper doctor"),
        VERIFY,
    ),
    stand_in="functions replace the server's now() and clock_timestamp() for new sessions",
)
SOURCE_RESTORED = Incident(
    "source-restored",
    14,
    "SOURCE OLDER, or SLOT LOST after a restore of the source",
    "the source is restored from a backup: older rows, no sync points of any slot",
    _restore,
    by_status(2, ("SLOT LOST", "SOURCE OLDER"), "job_failed", Party.SLOT, Party.SOURCE),
    start_refused("SLOT LOST", "SOURCE OLDER"),
    COPY_ANEW,
    stand_in="newer rows and the slot's sync points are deleted without binlog records; the server keeps running",
)
HALF_OPEN_LINE = Incident(
    "half-open-line",
    15,
    "The source or the sink does not answer",
    "the source accepts data but does not answer",
    _silence,
    by_status(1, ("does not answer",), "source_fails", Party.SOURCE, late=SILENT_AFTER_S),
    Refusal(Command("slotkeeper jobs start orders_rt --take-over", (3,)), ("is already running",)),
    (
        Manual(
            "check the firewall, the pooler, the server",
            lambda world: _tell_all(world.warehouse.server, signal.SIGCONT),
            lambda world: f"kill -CONT {world.warehouse.server.pid} $(pgrep -P {world.warehouse.server.pid})",
        ),
        VERIFY,
    ),
    stand_in="the server's processes are stopped (SIGSTOP); no packet is dropped",
)
EVERY = (DN_ADDED, CLOCK_SKEW, SOURCE_RESTORED, HALF_OPEN_LINE)
