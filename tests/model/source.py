"""The source's side of the model: `latest`, reading, wiping, and points that arrive. Contents: the server's behaviour,
in each of the ways its documents leave open. Purging is immediate, the worst moment for a consumer that still needs an
event. Not included: xmin, old row images, several DNs (every lane moves on its own).
"""

from __future__ import annotations

from .state import ABSENT, LEADS, UNREGISTERED, Lane, Position, Setup, State


def latest(setup: Setup, lane: Lane) -> int:
    """The newest point: the last safe one, or (exclusive) the first that is not safe yet."""
    point = 2
    while lane.visible >> point & 1:
        point += 1
    return point if setup.server.exclusive else point - 1


def may_become_visible(setup: Setup, lane: Lane) -> list[int]:
    """Points whose transaction may end now: the lowest open one, and one straggler ahead."""
    point = 2
    while lane.visible >> point & 1:
        point += 1
    ahead = point + 1
    points = [point] if point <= setup.last else []
    if setup.bounds.straggler and ahead <= setup.last and not lane.visible >> ahead & 1:
        points.append(ahead)
    return points


def become_visible(setup: Setup, lane: Lane, point: int) -> Lane:
    """A transaction ends. Its event is recorded only while the slot exists."""
    recorded = point in setup.events and (lane.false != ABSENT or lane.true != ABSENT)
    kept = lane.kept | 1 << point if recorded else lane.kept
    return lane._replace(visible=lane.visible | 1 << point, kept=kept)


def wipe(lane: Lane) -> Lane:
    """TRUNCATE, DDL or TTL: both points and all retained events are gone."""
    return lane._replace(kept=0, false=ABSENT, true=ABSENT, wiped=True)


def polled_at(lane: Lane) -> Lane:
    """Asking for the sync point of an absent slot creates it at 0 and recording starts."""
    if ABSENT not in (lane.false, lane.true):
        return lane
    return lane._replace(
        false=max(lane.false, UNREGISTERED),
        true=max(lane.true, UNREGISTERED),
    )


def events_between(lane: Lane, after: Position, up_to: int, reread_boundary: bool) -> int:
    """The events that a range yields, as a mask: those kept in (after, up_to]."""
    point, sequence = after
    first = point if reread_boundary and sequence < 0 else point + 1
    if up_to < first:
        return 0
    return lane.kept & (1 << up_to + 1) - (1 << first)


def land(setup: Setup, state: State, checkpoint: bool, point: int) -> State:
    """A registration reaches the source: the point is set, records below it are purged."""
    lane = state.lane
    lane = lane._replace(true=point) if checkpoint else lane._replace(false=point)
    registered = [value for value in (lane.false, lane.true) if value != ABSENT]
    floor = min(registered)
    if setup.server.purges_own_point and floor > UNREGISTERED:
        floor += 1
    lane = lane._replace(kept=lane.kept & ~((1 << floor) - 1))
    if point > state.row.position[0] and not state.fallen:
        return state._replace(lane=lane, wrong=state.wrong or LEADS)
    return state._replace(lane=lane)
