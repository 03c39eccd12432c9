"""Progress rows between SQL and `core.domain.progress`.

Next door: `store.py` and `core.sinks.postgres.write.sink` run the statements of `core/sinks/postgres/tables.sql`.
"""

from __future__ import annotations

from typing import Any

from core.domain.position import Position
from core.domain.progress import LaneKey, LaneState, ProgressRow, Registered
from core.errors import Trouble, TroubleName


def key_of(key: LaneKey) -> dict[str, Any]:
    """The key as statement parameters."""
    return {"source": key.source, "source_table": key.source_table, "slot": key.slot, "shard": key.shard}


def row_of(key: LaneKey, found: tuple[Any, ...]) -> ProgressRow:
    """A row of the statements `rows`, `row` and `lock`; a text that is no position is PROGRESS LOST, not guessed at."""
    shard, node_id, target, position, epoch, changes, state, start, end, channel, fingerprint = found[:11]
    live, durable, xmin = found[11:]
    try:
        parsed = Position.parse(position) if position else None
        lane_state = LaneState(state)
    except ValueError as error:
        raise Trouble(f"the progress row of {shard} is damaged: {error}", name=TroubleName.PROGRESS_LOST) from error
    registered = None if live is None else Registered(live, durable, xmin)
    return ProgressRow(
        LaneKey(key.source, key.source_table, key.slot, shard),
        node_id,
        target,
        parsed,
        epoch,
        changes,
        lane_state,
        start,
        end,
        channel,
        fingerprint,
        registered,
    )


def parameters_of(row: ProgressRow) -> dict[str, Any]:
    """A row as parameters of the statement `insert`, without who runs it."""
    registered = row.registered
    return {
        **key_of(row.key),
        "node_id": row.node_id,
        "target": row.target,
        "position": row.position.text if row.position else "",
        "epoch": row.epoch,
        "changes": row.changes,
        "state": row.state.value,
        "noted_start": row.noted_start,
        "noted_end": row.noted_end,
        "channel": row.channel,
        "fingerprint": row.fingerprint,
        "registered_live": registered.live if registered else None,
        "registered_durable": registered.durable if registered else None,
        "registered_xmin": registered.xmin if registered else None,
    }
