"""A turn of all lanes of a slot from one state to the next, by compare-and-swap, and what a missed one means. Pure.

A lane comes to copying from creating, to catching up from copying, and to running from catching up once its own row has
passed the point noted for it; without a copy from creating, without a stream from copying.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slotkeeper.core.domain.progress import LaneState, ProgressRow
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.errors import SlotkeeperError, Superseded, TroubleName


@dataclass(frozen=True, slots=True)
class Turn:
    """All `lanes` lanes of a slot, each in a state of `came_from`, go to `to` under the epoch, or none does."""

    epoch: int
    lanes: int
    came_from: tuple[LaneState, ...]
    to: LaneState


def explain_turn(rows: Sequence[ProgressRow], turn: Turn) -> SlotkeeperError:
    """Why a turn did not hit every lane, from the rows as they are."""
    newest = max((row.epoch for row in rows), default=0)
    if newest > turn.epoch:
        return Superseded(f"epoch {newest} has taken over from our {turn.epoch}", "this copy of the job ends quietly")
    if len(rows) < turn.lanes:
        return trouble(TroubleName.PROGRESS_LOST, f"{len(rows)} of {turn.lanes} progress rows are left at the sink")
    behind = not_passed(rows, turn)
    if behind:
        row = behind[0]
        where = row.position.text if row.position else "none"
        noted = row.noted_end.shown if row.noted_end else "nothing"
        sentence = f"{row.key.shard}: the sink's row is back at {where}, we had seen it beyond {noted}"
        return trouble(TroubleName.SINK_OLDER, sentence)
    found = ", ".join(sorted({f"{row.state.value} (epoch {row.epoch})" for row in rows}))
    wanted = " or ".join(state.value for state in turn.came_from)
    sentence = f"the sink's rows are {found}, we had left them {wanted} (epoch {turn.epoch})"
    return trouble(TroubleName.SINK_OLDER, sentence)


def not_passed(rows: Sequence[ProgressRow], turn: Turn) -> list[ProgressRow]:
    """The rows that a turn to running must not take: they have not passed the place that was noted for them."""
    if turn.to is not LaneState.RUNNING:
        return []
    return [row for row in rows if row.state in turn.came_from and not _passed(row)]


def _passed(row: ProgressRow) -> bool:
    return row.noted_end is None or (row.position is not None and row.position >= row.noted_end)


def explain_chunks(done: int, there: int, planned: int | None) -> SlotkeeperError:
    """Why a copy whose chunks are all done to our knowledge has not ended, from the chunks as the sink has them.

    `planned` is what was recorded with the plan; None where the rows do not agree on it.
    """
    said = "how many were planned is not known" if planned is None else f"{planned} were planned"
    sentence = f"the sink holds {done} done of {there} chunks, and {said}: it does not have what was copied"
    return trouble(TroubleName.SINK_OLDER, sentence)
