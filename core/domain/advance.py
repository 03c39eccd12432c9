"""When a position may move, and what it means when the fence was not hit. Pure (design 4.1, 4.2)."""

from __future__ import annotations

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import STREAMING, ProgressRow
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.errors import Busy, Defect, SlotkeeperError, Superseded, TroubleName


def stands_free(row: ProgressRow | None, epoch: int, after: Position | None) -> bool:
    """Whether a row is as a step's swap asks for: this epoch and position, the copy ended, nothing decided."""
    if row is None or row.epoch != epoch or row.decided is not None:
        return False
    return row.position is not None and row.position == after and row.state in STREAMING


def explain_miss(row: ProgressRow | None, epoch: int, after: Position | None = None) -> Position | SlotkeeperError:
    """Why the fenced UPDATE hit no row: the position to go on from, or the error to end with.

    `after` is None for a lane that is only beginning.

    Positions are compared as positions: their texts do not sort. The row is read after the swap: where plans may be
    withdrawn, one that stood in the way may be gone by then, so whoever has such a sink asks `stands_free` first.
    """
    if row is None:
        return trouble(TroubleName.PROGRESS_LOST, "the progress row is gone from the sink")
    if row.epoch > epoch:
        return Superseded(f"epoch {row.epoch} has taken over from our {epoch}", "this copy of the job ends quietly")
    older = after is not None and row.position is not None and row.position < after
    if row.epoch < epoch or row.position is None or older:
        was = row.position.text if row.position else "none"
        here = after.text if after else "no position"
        sentence = f"the sink's row is at {was} (epoch {row.epoch}), we were at {here}"
        return trouble(TroubleName.SINK_OLDER, sentence)
    if row.state not in STREAMING:
        sentence = f"the sink's row is back in state {row.state.value} (epoch {row.epoch}), in which no step commits"
        return trouble(TroubleName.SINK_OLDER, sentence)
    if row.position == after and row.decided is not None:
        return Busy(
            f"a range up to {row.decided.end.text} is decided at {after.text}: it is finished first", where="sink"
        )
    if row.position == after:
        return Defect(f"the fence at {after.text} was not hit although the row is there")
    return row.position
