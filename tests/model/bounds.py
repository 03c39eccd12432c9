"""Every bound of the model, every kind of server, and every rule that can be switched off.

Contents: the sizes of the explored spaces (`Bounds`), the allowed behaviour of the server (`Server`), and the
protocol's rules as named switches (`Rules`). The steps themselves are in `task.py`, `registrar.py` and `creation.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Server:
    """Two interpretations of a source's terms; the vendor's documents allow both."""

    name: str
    # `latest` names a point whose event may not be visible yet.
    exclusive: bool
    # A purge removes the registered point itself, not only the points below it.
    purges_own_point: bool = False


INCLUSIVE = Server("inclusive", exclusive=False)
EXCLUSIVE = Server("exclusive", exclusive=True)
GREEDY = Server("inclusive, purges its own point", exclusive=False, purges_own_point=True)
UNSUPPORTED = Server("exclusive, purges its own point", exclusive=True, purges_own_point=True)


@dataclass(frozen=True, slots=True)
class Bounds:
    """One explored space of the stream model. Wipes are never bounded: any moment, any number."""

    name: str
    # Sync points after the base; each is one committed transaction of the source.
    points: int
    # Widest range of one step, in sync points.
    width: int
    # Highest epoch; the number of restarts is one less.
    epochs: int
    # Sync points that belong to other tables: the point passes, this lane has no event there.
    foreign: frozenset[int] = frozenset()
    # A later transaction may become visible before an earlier one.
    straggler: bool = True
    # An overrun task may keep running while its lane is assigned again (one such copy at a time).
    copies: bool = False
    # Answers to a registration may be lost or name too few nodes, and registrars may be killed.
    answers_lost: bool = False
    # Only killed registrars: every other answer arrives.
    only_kills: bool = False
    # Calls of registrations that may be under way to the source after their caller has exited.
    late: int = 0
    # Sessions may be at a second coordinator, which the driver's coordinator does not show.
    second_coordinator: bool = False
    # The sink may fall back, once, to its initial state.
    sink_falls_back: bool = False
    # Check, read, check and commit are one move, for spaces about registration.
    whole_tasks: bool = False


# Tasks step by step: one driver, and the zombie of the epoch before.
STREAM = Bounds("stream", points=3, width=2, epochs=2)
# Wider and longer spaces with one driver and no restart: ranges, stragglers, a point of another table.
RANGES = Bounds("ranges", points=5, width=2, epochs=1, foreign=frozenset({3}))
# Two copies of one task in one epoch.
COPIES = Bounds("copies", points=3, width=2, epochs=1, copies=True)
# Registration: lost answers, killed registrars, calls that arrive late, three restarts.
REGISTER = Bounds(
    "register", points=2, width=2, epochs=4,
    answers_lost=True, late=2, whole_tasks=True,
)  # fmt: skip
# As before, smaller, and calls are late only where a registrar was killed.
KILLED = Bounds(
    "killed",
    points=2,
    width=2,
    epochs=3,
    straggler=False,
    answers_lost=True,
    only_kills=True,
    late=2,
    whole_tasks=True,
)
# As KILLED, and the killed registrar's session may have been at another coordinator.
COORDINATORS = replace(KILLED, name="coordinators", second_coordinator=True)
# The sink is replaced by an older copy of itself.
FALLBACK = Bounds("fallback", points=2, width=2, epochs=2, sink_falls_back=True)
# As before, with late calls and one restart more.
REVIVAL = Bounds(
    "revival", points=1, width=1, epochs=3,
    answers_lost=True, late=1, sink_falls_back=True,
)  # fmt: skip
# Everything at once, as small as it can be.
TOGETHER = Bounds(
    "together", points=1, width=1, epochs=2,
    copies=True, answers_lost=True, late=1, sink_falls_back=True,
)  # fmt: skip

BOTH = (EXCLUSIVE, INCLUSIVE)
# TOGETHER with an exclusive server was run once outside the tests (README.md): it takes a minute.
EXPLORED: tuple[tuple[Bounds, Server], ...] = (
    *((bounds, server) for bounds in (STREAM, RANGES, COPIES, REGISTER, KILLED, COORDINATORS) for server in BOTH),
    *((bounds, server) for bounds in (FALLBACK, REVIVAL) for server in BOTH),
    (TOGETHER, INCLUSIVE),
    (STREAM, GREEDY),
    (REGISTER, GREEDY),
)


@dataclass(frozen=True, slots=True)
class CreationBounds:
    """The explored space of the creation model."""

    name: str
    # Keys written by each transaction of the source, in order of writing.
    programme: tuple[tuple[int, ...], ...]
    keys: int
    # How often the job may be killed and started again.
    restarts: int
    # Transactions (a mask) that the list of open ones does not show: of another login, at another
    # coordinator, or prepared.
    hidden: int = 0


CREATION = CreationBounds("creation", programme=((1, 3), (2,), (1, 2)), keys=3, restarts=2)
# The list of open transactions shows none of them, as for an ordinary login of DWS.
CREATION_HIDDEN = replace(CREATION, name="creation, sessions hidden", hidden=0b111)


@dataclass(frozen=True, slots=True)
class Rules:
    """The protocol's rules. Each switched off is one seeded fault."""

    # The slot is registered only after the sink has committed.
    commit_before_register: bool = True
    # The position is a row of the sink, written together with the rows that it covers.
    progress_row: bool = True
    # The points are checked again between the read and the commit.
    recheck: bool = True
    # `true` must still have its old value after `false` was registered.
    check_between: bool = True
    # A registration holds the progress row and checks its epoch.
    row_lock: bool = True
    # No first check while a registration may still be in flight.
    wait_for_late_calls: bool = True
    # The view of one coordinator does not prove that no such call is in flight.
    silence_of_all_coordinators: bool = True
    # The boundary point is read again by the next range.
    reread_boundary: bool = True
    # The commit compares the position as well as the epoch.
    compare_position: bool = True
    # Every check compares the points with the row: the slot must not be ahead of it.
    compare_row_with_points: bool = True
    # A registrar that lost its lock sends nothing more to the source.
    silent_without_lock: bool = True
    # A driver whose sink session is new waits for late calls and checks, as at a start.
    wait_on_new_session: bool = True
    # A start's epoch is higher than any earlier one, also if the sink has forgotten some.
    epochs_never_repeat: bool = True
    # Creation: after registering, wait for the transactions that were open.
    wait_after_registering: bool = True
    # Creation: beside the list, the snapshot's xmin has to pass the counter taken after registering.
    wait_for_the_snapshots_xmin: bool = True
    # Creation: wait once more before the end point is noted.
    wait_before_noting: bool = True
    # Creation: chunks are planned after the first wait, not before.
    plan_after_wait: bool = True
    # Creation: the slot is registered before the copy, not after.
    register_before_copy: bool = True

    def without(self, *rules: str) -> Rules:
        return replace(self, **dict.fromkeys(rules, False))


ALL_RULES = Rules()
