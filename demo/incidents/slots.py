"""Incidents of slots and source tables: an expired slot, a slot without a reader, points cleared by DDL, lag, and a
waiting VACUUM FULL.
"""

from __future__ import annotations

import threading
from contextlib import closing, suppress

from slotkeeper.core.domain.fault import Party
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused
from slotkeeper.core.judgement.facts import LIMITS
from slotkeeper.demo import workload
from slotkeeper.demo.incidents.record import (
    COPY_ANEW,
    EXECUTE,
    PLAN,
    SLOT,
    START,
    TARGET,
    VERIFY,
    AtSink,
    Command,
    Incident,
    Refusal,
    World,
    by_status,
    start_refused,
)
from slotkeeper.demo.orders import TABLE
from slotkeeper.demo.scaling import vacuum_full
from slotkeeper.demo.warehouse import STATISTICS, USER

RETIRED = "retired"
LATE_FIRST = 600_000_000_000
"""First order number that an incident writes."""
BAD_FIRST = 700_000_000_000
"""First number of the orders that the target rejects."""
_APART = 100_000_000_000
FEW, MANY = 200, 30_000
"""Numbers of rows that an incident writes."""
_WAITS = 300
"""Seconds that the stand-in's VACUUM FULL waits; DWS waits an hour by default."""


def write(world: World, rows: int, first: int = LATE_FIRST) -> int:
    """Insert orders into the source in one transaction, numbered from `first`; return their first number.

    If another incident has inserted orders from `first` on, those orders remain, and the new numbers follow theirs.
    """
    with closing(world.warehouse.connect(autocommit=False)) as connection:
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT max(order_no) + 1 FROM {TABLE} WHERE order_no BETWEEN %s AND %s", (first, first + _APART - 1)
            )
            first = cursor.fetchall()[0][0] or first
        connection.commit()
        workload.bulk(connection, "insert", rows, first)
    return first


def _expire(world: World) -> str:
    world.begins()
    world.warehouse.expire(TABLE, SLOT)
    return f"slot {SLOT} of {TABLE} expired (TTL), and its unread changes were deleted"


def _leave_behind(world: World) -> str:
    world.at_source(
        f"SELECT pgxc_register_full_sync_point('{TABLE}', '{RETIRED}')",
        "UPDATE dws.slot s SET sync_timestamp = sync_timestamp - t.ttl_s * 0.8 * interval '1 second'"
        f" FROM dws.tab t WHERE t.rel = s.rel AND s.slot_name = '{RETIRED}'",
    )
    world.begins()
    write(world, FEW)
    return f"slot {RETIRED} of {TABLE} was last confirmed 80 % of its TTL ago"


def _add_column(world: World) -> str:
    world.begins()
    world.at_source(f"ALTER TABLE {TABLE} ADD COLUMN channel text")
    return f"ALTER TABLE {TABLE} ADD COLUMN channel text, in the source"


def _slow_down(world: World) -> str:
    """Make the sink take 8 ms per row, as with a missing index or a slow disk: an index calls a function that sleeps.

    A trigger on the target would end the job with TARGET CHANGED.
    """
    world.at_sink(
        "CREATE FUNCTION public.nightly_check(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE"
        " SET search_path = public AS $$ BEGIN PERFORM pg_sleep(0.008); RETURN $1; END $$",
        f"CREATE INDEX nightly_check ON {TARGET} (public.nightly_check(order_no)) WHERE order_no >= {LATE_FIRST}",
    )
    write(world, MANY)
    world.begins()
    return f"{MANY:,} rows were inserted at once, and an index in the sink takes 8 ms per row"


def _vacuum(world: World) -> str:
    """Run VACUUM FULL as documented: it locks the table against DML and waits until every slot has read everything."""
    world.at_source(f"GRANT {STATISTICS} TO {USER}")
    world.opened.callback(world.at_source, f"REVOKE {STATISTICS} FROM {USER}")
    if (paused := world.run(("jobs", "pause", "orders_rt"))).code:
        raise Refused(f"cannot pause the job: {paused.text}")
    write(world, FEW)
    connection, locked = world.warehouse.connect(autocommit=False), threading.Event()
    world.opened.callback(
        world.at_source, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'VACUUM FULL%'"
    )

    def wait() -> None:
        with suppress(pg.DriverError, Refused), pg.transaction(connection) as cursor:
            cursor.execute("SET application_name = 'gsql'")
            vacuum_full(cursor, TABLE, _WAITS, locked.set)
        locked.set()

    threading.Thread(target=wait, name="vacuum-full", daemon=True).start()
    locked.wait(30)
    world.begins()
    return f"one user paused the job, and another started VACUUM FULL {TABLE}"


SLOT_EXPIRED = Incident(
    "slot-expired",
    1,
    "SLOT LOST: the slot expired or was dropped",
    "the job's slot reaches its TTL and expires",
    _expire,
    by_status(2, ("SLOT LOST",), "job_failed", Party.SLOT),
    start_refused("SLOT LOST"),
    COPY_ANEW,
    stand_in="no waiting: the slot's last confirmation is backdated by its TTL",
)
DEAD_SLOT = Incident(
    "dead-slot",
    2,
    "A slot that no job reads retains the binlog",
    "another slot of the table is no longer confirmed",
    _leave_behind,
    by_status(2, ("of its TTL of",), "slot_ttl", Party.SLOT),
    Refusal(
        Command('slotkeeper slots drop ods.orders orders_rt --execute --reason "why" --confirm orders_rt', (3,)),
        ("job orders_rt is RUNNING",),
    ),
    (
        Command("slotkeeper slots drop ods.orders retired"),
        Command(
            'slotkeeper slots drop ods.orders retired --execute --reason "why" --confirm retired'
            " --confirm-table ods.orders --rows N"
        ),
        Command("slotkeeper jobs drain orders_rt"),
        Command('slotkeeper slots preflight ods.orders --for "vacuum full"'),
        VERIFY,
    ),
    stand_in="no waiting: the slot's last confirmation is backdated",
)
DDL_RESET = Incident(
    "ddl-reset",
    3,
    'SCHEMA CHANGED, or SLOT LOST with "the table\'s columns changed"',
    "a column is added to the source table, which clears the sync points of every slot",
    _add_column,
    by_status(2, ("SLOT LOST", "SCHEMA CHANGED"), "job_failed", Party.SLOT, Party.TABLE),
    start_refused("SCHEMA CHANGED", "the table's columns changed"),
    (AtSink("ALTER TABLE mart.orders ADD COLUMN IF NOT EXISTS channel text;"), PLAN, EXECUTE, START, VERIFY),
)
LAG_GROWS = Incident(
    "lag-grows",
    5,
    "The lag grows",
    "many rows are inserted at once, and the sink is slow",
    _slow_down,
    by_status(1, ("behind its source",), "lag", Party.DN, Party.SINK, late=LIMITS.lag_warning),
    Refusal(
        Command("slotkeeper slots reset ods.orders orders_rt --to latest", (3,)),
        ("job orders_rt is RUNNING", "its process is running here"),
    ),
    (AtSink("DROP INDEX mart.nightly_check;"), Command("slotkeeper jobs drain orders_rt"), VERIFY),
)
VACUUM_BLOCKED = Incident(
    "vacuum-blocked",
    8,
    "Can I run VACUUM FULL, scale out or ALTER now?",
    "VACUUM FULL waits for a paused job, and writers wait for VACUUM FULL",
    _vacuum,
    by_status(1, ("VACUUM FULL on ods.orders", "waits for slot"), "source_blocked", Party.LOCK),
    Refusal(
        Command('slotkeeper slots drop ods.orders orders_rt --execute --reason "why" --confirm orders_rt', (3,)),
        ("job orders_rt is PAUSED",),
    ),
    (
        Command("slotkeeper jobs resume orders_rt"),
        Command("slotkeeper jobs drain orders_rt"),
        Command('slotkeeper slots preflight ods.orders --for "vacuum full"'),
        VERIFY,
    ),
    stand_in="PostgreSQL's VACUUM FULL does not wait for slots; a function locks the table and waits, as documented for"
    " DWS; the login has the preset role for statistics, because DWS otherwise hides other sessions",
)
EVERY = (SLOT_EXPIRED, DEAD_SLOT, DDL_RESET, LAG_GROWS, VACUUM_BLOCKED)
