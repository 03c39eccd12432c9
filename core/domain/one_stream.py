"""Where a server keeps one position for the stream of all channels: up to where it may be told that all is done. Pure.

What lies before that position the server may drop, for every channel: so it is the least of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable

from slotkeeper.core.domain.position import Position, further


def confirmable(wanted: Position, others: Iterable[Position | None], stands: Position | None) -> Position:
    """The place that may be confirmed for a channel that wants `wanted`: the least of all channels' positions.

    `others` are the positions of the other channels' rows, None for one that has not begun: it begins at the newest
    place, behind what is confirmed before. `stands` is what is confirmed already, to which the server is never set
    back.
    """
    least = min([wanted, *(one for one in others if one is not None)])
    return further(least, stands) or least
