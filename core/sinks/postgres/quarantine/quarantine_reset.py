"""What a reset of a lane makes of its entries in quarantine, in the transaction that moves the progress row.

Back: what lies beyond the new position is archived, because it will be read again. Forward to a backup: what the undone
reset archived comes back, as far as nobody has read it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slotkeeper.core.domain.position import Positions
from slotkeeper.core.domain.progress import ProgressRow
from slotkeeper.core.drivers import pg
from slotkeeper.core.sinks.postgres.quarantine import entries
from slotkeeper.core.sinks.postgres.session import SinkSession


def beyond(session: SinkSession, cursor: pg.Cursor, place: dict[str, Any], rows: Iterable[ProgressRow]) -> int:
    """How many held entries lie beyond these positions; a row without one counts none: its copy archives all."""
    if not entries.exists(session, cursor):
        return 0
    found = 0
    for row in rows:
        if row.position is not None:
            (count,) = entries.run(session, cursor, "beyond", _at(place, row)).fetchone() or (0,)
            found += int(count)
    return found


def before_move(
    session: SinkSession,
    cursor: pg.Cursor,
    place: dict[str, Any],
    positions: Positions,
    rows: Iterable[ProgressRow],
    by: str,
    undone: str,
) -> None:
    """Before the rows are moved to `rows`: archive as `by`, and bring back what `undone` archived."""
    if not entries.exists(session, cursor):
        return
    found = entries.run(session, cursor, "positions", place)
    now = {shard: positions.position(text) for shard, text in found if text}
    for row in rows:
        old, new = now.get(row.key.shard), row.position
        if old is None or new is None:
            continue
        if new < old:
            entries.run(session, cursor, "archive_beyond", {**_at(place, row), "by": by})
        elif undone and new > old:
            before = dict(zip(("old_point", "old_sequence"), old.pair, strict=True))
            entries.run(session, cursor, "revive", {**_at(place, row), **before, "by": undone})
            entries.run(session, cursor, "outdone", {**place, "by": by})


def _at(place: dict[str, Any], row: ProgressRow) -> dict[str, Any]:
    assert row.position is not None
    point, sequence = row.position.pair
    return {**place, "shard": row.key.shard, "point": point, "sequence": sequence}
