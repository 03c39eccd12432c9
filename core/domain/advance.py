"""When a position may move, and what it means when the fence was not hit. Pure (design 4.1, 4.2).

Next door: `core.sinks.postgres.progress.store` holds the rows; `core.engine.worker.step` asks here.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.domain.position import Position
from core.domain.progress import STREAMING, ProgressRow
from core.domain.watch import trouble
from core.errors import Busy, Defect, SlotkeeperError, Superseded, TroubleName


def explain_miss(row: ProgressRow | None, epoch: int, after: Position) -> Position | SlotkeeperError:
    """Why the fenced UPDATE hit no row: the position to go on from, or the error to end with.

    Positions are compared as positions: their texts do not sort.
    """
    if row is None:
        return trouble(TroubleName.PROGRESS_LOST, "the progress row is gone from the sink")
    if row.epoch > epoch:
        return Superseded(f"epoch {row.epoch} has taken over from our {epoch}", "this copy of the job ends quietly")
    if row.epoch < epoch or row.position is None or row.position < after:
        was = row.position.text if row.position else "none"
        sentence = f"the sink's row is at {was} (epoch {row.epoch}), we were at {after.text}"
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


def range_end(after: Position, latest: int, width: int) -> int:
    """The last sync point of the next range: never beyond latest, never more than `width` points.

    >>> range_end(Position(100), 10_000, 5_000)
    5100
    """
    return min(latest, after.point + max(1, width))


def position_after(after: Position, up_to: int, top_sequence: int | None) -> Position:
    """The position once everything up to `up_to` is applied; `top_sequence` is the highest one staged at `up_to`.

    >>> position_after(Position(100, 4), 100, None)
    Position(point=100, sequence=4)
    >>> position_after(Position(100, 4), 120, 7)
    Position(point=120, sequence=7)
    """
    kept = after.sequence if up_to == after.point else -1
    return Position(up_to, kept if top_sequence is None else top_sequence)


@dataclass(frozen=True, slots=True)
class XminChoice:
    """Where the xmin to hand back comes from: a known value, or the record at `ask_at` with `fallback`."""

    known: int | None
    ask_at: int | None
    fallback: int


def choose_xmin(up_to: int, status_latest: int, status_xmin: int, top_point: int | None, previous: int) -> XminChoice:
    """An xmin that is never newer than the point that is registered (design 4.2 step 6)."""
    if up_to == status_latest:
        return XminChoice(max(status_xmin, previous), None, previous)
    return XminChoice(None, top_point, previous)
