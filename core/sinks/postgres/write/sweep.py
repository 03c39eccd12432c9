"""A sweep: small steps of several lanes in one transaction, a fence each (ADR 85).

The fences are taken first, in one statement that waits for no row: a row that a registration or another worker holds
locked is left out, so no two sweeps can wait for each other's rows. Only the effects of lanes whose fence matched are
sent, in one message. A target's lock is waited for briefly, because the transaction holds the rows of all its lanes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.progress import LaneKey, ProgressRow
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.ports.sink import BufferedStep, Top
from slotkeeper.core.sinks.postgres.progress.store import key_of, row_of
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write.small_step import REJECTED, SmallStep

SWEEPS: Book = ("slotkeeper.core.sinks.postgres.write", "sweep.sql")
LOCK_MS = 50
"""Maximum wait for a lock of a target in a sweep; the target's own step then waits for `lock_timeout`."""
ALONE = (*REJECTED, "55P03", "40P01")
"""SQLSTATEs and their classes after which each step is committed alone: a rejected row or statement; lock_not_available
and deadlock_detected (PostgreSQL, "Error Codes")."""


class Owner(Protocol):
    """The sink of one target."""

    def prepare_small(self) -> bool:
        """Create what the target's small steps need in this session; return False if the server refuses it."""

    def execute_small(self, cursor: pg.Cursor, step: SmallStep) -> pg.sql.Composable:
        """Return the statement that applies a step; prepares it if needed."""

    def count_small(self, step: SmallStep) -> None:
        """Count a step that a sweep committed."""


@dataclass(frozen=True, slots=True)
class BufferedSmall:
    """A buffered small step and the sink of its target."""

    owner: Owner
    step: SmallStep

    def top(self, up_to: Position) -> Top:
        return Top(*self.step.top(up_to.pair[0]))


def read_rows(session: SinkSession, positions: Positions, keys: Sequence[LaneKey]) -> dict[LaneKey, ProgressRow]:
    """Return the progress rows of lanes of one slot."""
    found: dict[LaneKey, ProgressRow] = {}
    with session.transaction() as cursor:
        for table, *row in session.run(cursor, "rows", _lanes(keys), SWEEPS).fetchall():
            key = LaneKey(keys[0].source, table, keys[0].slot, row[0])
            found[key] = row_of(key, tuple(row), positions)
    return found


def take_fences(session: SinkSession, cursor: pg.Cursor, steps: Sequence[BufferedStep]) -> Set[LaneKey]:
    """Update the rows of the lanes whose fence matches and whose row is not locked; return these lanes."""
    values: dict[str, object] = {
        **_lanes([step.key for step in steps]),
        "epochs": [step.epoch for step in steps],
        "afters": [step.after.text for step in steps],
        "news": [step.new.text for step in steps],
        "rows": [step.rows for step in steps],
        "lock_ms": LOCK_MS,
    }
    lanes = {(step.key.source_table, step.key.shard): step.key for step in steps}
    return {lanes[table, shard] for table, shard in session.run(cursor, "fences", values, SWEEPS).fetchall()}


def apply(cursor: pg.Cursor, steps: Sequence[tuple[Owner, SmallStep]]) -> None:
    """Apply the steps in one message."""
    if statements := [owner.execute_small(cursor, step) for owner, step in steps if step.rows]:
        cursor.execute(pg.sql.SQL("; ").join(statements))


def is_rejection(error: BaseException) -> bool:
    """Whether the steps of a sweep that failed with this error are to be committed alone."""
    code = pg.failure(error)[0]
    return code in ALONE or code[:2] in ALONE


def _lanes(keys: Sequence[LaneKey]) -> Mapping[str, object]:
    one = key_of(keys[0])
    lanes = {"tables": [key.source_table for key in keys], "shards": [key.shard for key in keys]}
    return {"source": one["source"], "slot": one["slot"], **lanes}
