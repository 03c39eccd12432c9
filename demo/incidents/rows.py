"""Incidents of rows that the target rejects, and of a target that another user emptied."""

from __future__ import annotations

from slotkeeper.core.domain.fault import Party
from slotkeeper.demo.incidents.record import (
    COPY_ANEW,
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
from slotkeeper.demo.incidents.slots import BAD_FIRST, FEW, write
from slotkeeper.demo.orders import TABLE

LIMIT = 5
"""quarantine_limit of the incidents with bad rows."""
_KEEP = {"on_bad_row": "quarantine", "quarantine_limit": LIMIT}
_NOT_LATE = (
    f"ALTER TABLE {TARGET} ADD CONSTRAINT not_late"
    f" CHECK (order_no NOT BETWEEN {BAD_FIRST} AND {BAD_FIRST + FEW}) NOT VALID"
)


def _one_bad_row(world: World) -> str:
    world.at_sink(_NOT_LATE)
    world.begins()
    write(world, 1, BAD_FIRST)
    return f"a CHECK constraint was added to {TARGET}, and one row violates it"


def _many_bad_rows(world: World) -> str:
    world.at_sink(_NOT_LATE)
    world.begins()
    write(world, FEW, BAD_FIRST)
    return f"a CHECK constraint was added to {TARGET}, and {FEW} rows violate it (quarantine limit: {LIMIT})"


def _truncate(world: World) -> str:
    world.at_sink(f"TRUNCATE {TARGET}")  # may wait for a step in progress
    world.begins()
    return f"another user ran TRUNCATE {TARGET} in the sink; {TABLE} still has all rows"


POISON_ROW = Incident(
    "poison-row",
    4,
    "Rows are in quarantine",
    "the target rejects one row",
    _one_bad_row,
    by_status(1, ("1 row in quarantine", "1 row quarantined", "quarantine"), "rows_quarantined", Party.TABLE),
    Refusal(Command('slotkeeper errors replay orders_rt --all --reason "again"', (1,)), ("rejected again: 23514",)),
    (
        AtSink("ALTER TABLE mart.orders DROP CONSTRAINT not_late;"),
        Command('slotkeeper errors replay orders_rt --all --reason "constraint dropped"'),
        VERIFY,
    ),
    options=_KEEP,
)
SINK_TRUNCATED = Incident(
    "sink-truncated",
    17,
    "TARGET CHANGED: the target was emptied, replaced or altered",
    "another user empties the target",
    _truncate,
    by_status(2, ("TARGET CHANGED",), "job_failed", Party.SINK),
    start_refused("TARGET CHANGED"),
    COPY_ANEW,
)
QUARANTINE_FULL = Incident(
    "quarantine-full",
    18,
    "QUARANTINE FULL",
    "the target rejects more rows than the limit allows",
    _many_bad_rows,
    by_status(2, ("QUARANTINE FULL",), "job_failed", Party.TABLE),
    start_refused("QUARANTINE FULL"),
    (
        AtSink("ALTER TABLE mart.orders DROP CONSTRAINT not_late;"),
        START,
        Command('slotkeeper errors replay orders_rt --all --reason "constraint dropped"'),
        VERIFY,
    ),
    options=_KEEP,
)
EVERY = (POISON_ROW, SINK_TRUNCATED, QUARANTINE_FULL)
