"""How a DWS behaves, decided from what was seen on a scratch table: pure functions from facts to what is told.

A cluster has other writers, so a number that moves is compared with how it moves without us; where that does not tell,
nothing is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from slotkeeper.core.domain.inspection import ProbeFinding
from slotkeeper.core.sources.dws.position import NOTHING, DwsPosition
from slotkeeper.core.sources.dws.probe.questions import needs, yes_or_no

CODES = ("I", "d", "B", "U")
_BUSY = "other writers move the cluster's point too often"


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the scratch table's binlog; `key` is (place, id), `time_us` None where the row carries none."""

    point: int
    sequence: int
    kind: str
    time_us: int | None
    key: tuple[int | None, int | None]
    value: str | None


@dataclass(frozen=True, slots=True)
class Written:
    """A transaction of ours: what its events are, as (kind, key, value) in order."""

    events: tuple[tuple[str, tuple[int, int], str], ...]


def by_point(events: Iterable[Event]) -> dict[int, list[Event]]:
    """Events by their point, in order."""
    ordered = sorted(events, key=lambda one: (one.point, one.sequence))
    return {point: list(found) for point, found in groupby(ordered, key=lambda one: one.point)}


def bounds(asked: tuple[int, int], own: Sequence[int], found: Sequence[int]) -> tuple[bool | None, bool | None]:
    """(start inclusive, end inclusive) of a range between two points that hold records; `own` are all in between.

    >>> bounds((10, 30), [10, 20, 30], [10, 20]), bounds((10, 30), [10, 20, 30], [20, 30])
    ((True, False), (False, True))
    >>> bounds((10, 30), [10, 20, 30], [10])
    (None, None)
    """
    if set(found) - set(own) or set(own) - set(asked) - set(found):
        return None, None
    return asked[0] in found, asked[1] in found


def counted(number: int, during: int, after: int) -> ProbeFinding:
    """Whether a snapshot counts a transaction: where it begins while transaction `number` is open, and afterwards.

    >>> counted(70, 70, 75).answer, counted(70, 73, 75).answer, counted(70, 60, 60).answer
    ('yes', 'no', None)
    """
    if during > number:
        return yes_or_no(False)
    return yes_or_no(True if after > number else None, "older transactions of others hold the snapshot back")


@dataclass(frozen=True, slots=True)
class Beside:
    """The newest point before and after a commit of ours, as its distance from that commit's point."""

    before: int
    after: int


def latest(rounds: Sequence[Beside], least: int = 3) -> ProbeFinding | None:
    """What the newest point is, from rounds with one commit of ours each; None where more rounds may tell.

    A point that is not handed out yet is shown only where the newest point is the first unsafe one: one such round is a
    proof. For the other answer the newest point has to stop at our own commit, in most rounds: others move it as well.

    >>> latest([Beside(0, 1)]).answer, latest([Beside(-1, 0)] * 3).answer, latest([Beside(-1, 0)])
    ('no', 'yes', None)
    """
    if any(one.before >= 0 for one in rounds):
        return yes_or_no(False)
    stopped = sum(one.after == 0 for one in rounds)
    if stopped >= least and 2 * stopped > len(rounds):
        return yes_or_no(True)
    return None


def moves(rounds: Sequence[tuple[int, int]], times: int, least: int = 3) -> ProbeFinding | None:
    """Whether an act of ours moves the cluster's point, from how far apart two commits of ours lie: with as many
    statuses in between, and with so many acts. None where more rounds may tell.

    Acts that move it put at least `times` points between the two: one round with fewer is a proof. Others may put them
    there as well, so for the other answer there have to be few with the statuses.

    >>> moves([(1, 1)], 8).answer, moves([(1, 9)] * 3, 8).answer, moves([(9, 12)] * 3, 8)
    ('no', 'yes', None)
    """
    if any(with_acts <= times for _, with_acts in rounds):
        return yes_or_no(False)
    if len(rounds) >= least and all(2 * with_statuses <= times for with_statuses, _ in rounds):
        return yes_or_no(True)
    return None


def no_finding() -> ProbeFinding:
    """Where other writers moved what was looked at all the time."""
    return ProbeFinding(None, because=_BUSY)


def refreshes(before: object, same: object, other: object) -> ProbeFinding:
    """From a slot's time of registration: before, after the same point again, after another point.

    >>> refreshes(1, 2, 3).answer, refreshes(1, 1, 2).answer, refreshes(1, 1, 1).answer
    ('yes', 'no', None)
    """
    if None in (before, same, other):
        return ProbeFinding(None, because="this kernel does not tell when a slot was registered")
    if same != before:
        return yes_or_no(True)
    return yes_or_no(
        False if other != before else None, "the time of a registration does not move by another one either"
    )


def xmin_kept(kept: int, seen: Sequence[int], released: Sequence[int], again: Sequence[int]) -> ProbeFinding:
    """From xmins while all slots hold `kept`, while they hold a newer one, and while they hold `kept` again.

    An xmin that goes back follows the slots; one that other transactions held does not go back.

    >>> xmin_kept(5, [5, 7], [], []).answer, xmin_kept(5, [5], [9], [5]).answer, xmin_kept(5, [5], [9], [9]).answer
    ('no', 'yes', 'no')
    >>> xmin_kept(5, [5], [5], []).answer
    """
    if max(seen) > kept:
        return yes_or_no(False)
    if max(released, default=kept) <= kept:
        return ProbeFinding(None, because="an open transaction holds the xmin back")
    return yes_or_no(min(again) <= kept)


def backward(error: str, before: int | None, asked: int, after: int | None) -> ProbeFinding:
    """From what a registration below the registered point did: its SQLSTATE, and the point before and after.

    >>> backward("", 9, 8, 8).answer, backward("22023", 9, 8, 9).answer, backward("", 9, 8, 9).because
    ('yes', 'no', 'accepted without an error, and the point stayed')
    """
    if not error and after == asked:
        return yes_or_no(True)
    if after == before:
        return ProbeFinding("no", because="" if error else "accepted without an error, and the point stayed")
    return ProbeFinding(None, because=f"the point became {after}")


def old_images(events: Sequence[Event]) -> ProbeFinding:
    """Whether B and d carry columns beside the key (all of ours have a value there)."""
    full = {one.value is not None for one in events if one.kind in ("B", "d")}
    if len(full) != 1:
        return ProbeFinding("some" if full else None, because="" if full else "no old image was recorded")
    return yes_or_no(full.pop())


def codes(events: Sequence[Event]) -> ProbeFinding:
    """Which codes there are, in the documented order; the reader knows no others."""
    found = {one.kind for one in events}
    unknown = sorted(found - set(CODES))
    said = " ".join([code for code in CODES if code in found] + unknown)
    return ProbeFinding(
        said or None, not unknown, f"{', '.join(unknown)} is not known to the reader" if unknown else ""
    )


def pairs(events: Sequence[Event]) -> ProbeFinding:
    """Whether every B has its U right behind it."""
    ordered = sorted(events, key=lambda one: (one.point, one.sequence))
    befores = [i for i, one in enumerate(ordered) if one.kind == "B"]
    if not befores:
        return ProbeFinding(None, because="no update was recorded")
    behind = {i: ordered[i + 1] if i + 1 < len(ordered) else None for i in befores}
    fine = all(
        u is not None and (u.kind, u.point, u.sequence) == ("U", ordered[i].point, ordered[i].sequence + 1)
        for i, u in behind.items()
    )
    return needs(fine, True, "a B without its U ends its row")


def old_keys(events: Sequence[Event], written: Sequence[Written]) -> ProbeFinding:
    """Whether B and d name the keys that were there."""
    wanted = sorted(key for each in written for kind, key, _ in each.events if kind in ("B", "d"))
    found = [one.key for one in events if one.kind in ("B", "d")]
    return needs(sorted(map(str, found)) == sorted(map(str, wanted)), True, "rows are deleted by that key")


def one_point(events: Sequence[Event], written: Sequence[Written]) -> ProbeFinding:
    """Whether our transactions, in the order of their commits, are the points in their order, whole."""
    found = [sorted(str((one.kind, one.key)) for one in each) for each in by_point(events).values()]
    wanted = [sorted(str((kind, key)) for kind, key, _ in each.events) for each in written]
    return needs(found == wanted, True, "a step would apply half a transaction, or in another order")


def partition(refused: str, missing: Sequence[bool], deletes: int) -> ProbeFinding:
    """What a partition that goes leaves: delete events of its rows, no point on any DN, or neither."""
    if refused:
        return ProbeFinding("refused")
    if missing and all(missing):
        return ProbeFinding("clears")
    if any(missing):
        return ProbeFinding("clears some", because="SLOT LOST is what a job says")
    if deletes:
        return ProbeFinding("events")
    return ProbeFinding("neither", because="its rows stay in targets: DELETE them first, or take a new snapshot")


def ordered(answers: Sequence[Sequence[Event]]) -> bool:
    """Whether each answer came in order of point and sequence."""
    return all((a.point, a.sequence) < (b.point, b.sequence) for rows in answers for a, b in pairwise(rows))


def reached(after: DwsPosition, end: int, events: Sequence[Event]) -> DwsPosition:
    """Where a reader stands after a range up to `end` in which it got `events` (design: position after a step)."""
    top = max((one.sequence for one in events if one.point == end), default=None)
    kept = after.sequence if end == after.point else NOTHING
    return DwsPosition(end, kept if top is None else top)


def exact(wanted: Sequence[Event], got: Sequence[Sequence[tuple[int, int, str]]]) -> ProbeFinding:
    """Whether each way of stepping got every change once; `got` is what each got."""
    there = sorted((one.point, one.sequence, one.kind) for one in wanted)
    fine = all(sorted(each) == there for each in got)
    return needs(fine, True, "changes would be lost or doubled: run no job here, and report this")


def purged(
    points: Sequence[int], registered: int, left: Sequence[int], latest_inclusive: str | None
) -> tuple[ProbeFinding, ProbeFinding]:
    """(gone at once, registered point kept) from the points before, the registered one, and what is left.

    >>> [told.answer for told in purged([1, 2, 3], 2, [2, 3], "no")], purged([1, 2, 3], 2, [3], "no")[1].reader.value
    (['yes', 'yes'], 'WRONG')
    """
    gone = set(points) - set(left)
    if not gone:
        return yes_or_no(False), ProbeFinding(None, because="nothing was purged while the probe ran")
    unread = any(point > registered for point in gone)
    at_once = ProbeFinding("yes", not unread, "records beyond the registered point are gone" if unread else "")
    if registered in left:
        return at_once, yes_or_no(True)
    safe = latest_inclusive == "yes"
    because = "a change that is committed late at that point would be lost: run no job here"
    return at_once, ProbeFinding("no", safe, "" if safe else because)
