"""The model of a job whose channels stop, are reset and start alone (ADR 32).

Contents: two channels of one job, each with a row (position, epoch), a slot, a step and a registration by the
driver; an operator that resets or starts channel A beside B's steps; a worker and a registration of A that were left
behind. Not included: wipes, fallbacks of the sink, the copy, several DNs (`stream.py`, `creation.py` have them): a
channel has one lane here.

An operator is a reset, or the start of one channel: it takes the channel's lease, raises its epoch, ends or waits out
its sessions, reads the status, does its work, and gives the lease back or streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from .space import Space, explore, trace

Move = tuple[str, "Job"]
JobSpace = Space["Job"]
Name = Literal["a", "b"]
At = Literal["none", "named", "locked", "sent", "asleep"]
Phase = Literal["rest", "leased", "raised", "silenced", "written"]

LOST = "the row passes an event that the target has not"
TWICE = "an event is applied twice"
LEADS = "the slot leads the row"
ALARM = "SLOT MOVED is named, and no stranger moved it"
INTERRUPTED = "a session of B was ended by what was done to A"
STOPPED = "B was superseded by what was done to A"


@dataclass(frozen=True, slots=True)
class JobBounds:
    """One explored space."""

    name: str
    events: int = 2
    resets: int = 1
    stops: int = 2
    """The number of failures or stops of channel A."""
    losses: int = 1
    """The number of lost answers or sink sessions."""
    kills: int = 0
    """The number of kills of the driver."""


@dataclass(frozen=True, slots=True)
class JobRules:
    """The rules of independent channels; each switched off is one seeded fault."""

    # An operator raises the epoch of its own channel only.
    own_epoch: bool = True
    # It ends the sessions of its own channel only.
    ends_only_its_own: bool = True
    # It reads and writes nothing until no call of an earlier epoch of its channel can be under way.
    silence_first: bool = True
    # A session shows its channel before the row is locked, and until its call is answered.
    named_before_lock: bool = True
    # A commit compares the channel's epoch.
    commit_compares_epoch: bool = True
    # A registration finds its epoch in the row that it locks.
    registration_compares_epoch: bool = True
    # The driver returns the lease of a channel that has stopped.
    lease_given_back: bool = True
    # An operator needs the channel's lease.
    lease_needed: bool = True

    def without(self, *rules: str) -> JobRules:
        return replace(self, **dict.fromkeys(rules, False))


ALL_JOB_RULES = JobRules()
BESIDE = JobBounds("a reset beside a stream")
KILLED = JobBounds("a reset, and the driver is killed", events=1, stops=1, kills=1)
JOBS = (BESIDE, KILLED)


class Step(NamedTuple):
    """A range that was read: (after, end], with the events of it that were still there."""

    epoch: int
    after: int
    end: int
    there: tuple[int, ...]


class Channel(NamedTuple):
    """One table of the job; `applied` counts each event in the target, `slot` is what the source purges up to."""

    applied: tuple[int, ...]
    position: int = 0
    epoch: int = 1
    slot: int = 0
    streams: bool = True
    """Whether the driver has it; its epoch is `mine`."""
    mine: int = 1
    leased: bool = True
    """Whether the driver holds its lease."""
    step: Step | None = None
    behind: Step | None = None
    """A step of a worker that is still running."""
    registering: At = "none"
    value: int = 0
    late: int = 0
    """A registration in progress although its caller has exited; 0 for none."""


class Job(NamedTuple):
    """The whole state."""

    a: Channel
    b: Channel
    phase: Phase = "rest"
    resets: bool = False
    """Whether the operator at work is a reset, not a start."""
    done: int = 0
    stops: int = 0
    losses: int = 0
    kills: int = 0
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class JobSetup:
    bounds: JobBounds
    rules: JobRules

    def first_state(self) -> Job:
        zero = (0,) * self.bounds.events
        return Job(Channel(zero), Channel(zero))


def registered(one: Channel, value: int) -> Channel:
    """The source takes a point, and purges up to it."""
    return one._replace(slot=value)


# -- moves of the driver on a streaming channel
# -------------------------------------------------------------------------


def step_moves(setup: JobSetup, one: Channel) -> Iterator[tuple[str, Channel]]:
    """Read, and commit by compare-and-swap."""
    if one.step is None:
        for end in range(one.position + 1, setup.bounds.events + 1):
            there = tuple(number for number in range(one.position + 1, end + 1) if number > one.slot)
            yield f"reads up to {end}", one._replace(step=Step(one.mine, one.position, end, there))
    else:
        yield "commits", committed(setup, one, one.step)._replace(step=None)


def committed(setup: JobSetup, one: Channel, step: Step) -> Channel:
    """Return the channel after a commit; unchanged if the fence does not match."""
    ours = one.epoch == step.epoch or not setup.rules.commit_compares_epoch
    if not ours or one.position != step.after:
        return one
    counts = tuple(count + (number in step.there) for number, count in enumerate(one.applied, start=1))
    return one._replace(applied=counts, position=step.end)


def register_moves(setup: JobSetup, one: Channel) -> Iterator[tuple[str, Channel]]:
    """Name the session, lock the row, send, get the answer."""
    if one.registering == "none" and one.streams and one.position > one.slot and not one.late:
        yield "turns a session to it", one._replace(registering="named")
    elif one.registering == "named":
        if one.epoch != one.mine and setup.rules.registration_compares_epoch:
            yield "finds another epoch", one._replace(registering="none")
        else:
            yield "locks the row", one._replace(registering="locked", value=one.position)
    elif one.registering == "locked":
        yield "sends", one._replace(registering="sent")
    elif one.registering == "sent":
        yield "is answered", registered(one, one.value)._replace(registering="none", value=0)
    elif one.registering == "asleep":
        yield "wakes and sends", one._replace(registering="none", value=0, late=one.value)


def lost_moves(one: Channel) -> Iterator[tuple[str, Channel]]:
    """A sink session is lost, which frees the row; a call that was sent continues."""
    if one.registering == "locked":
        yield "loses its sink session, and sleeps", one._replace(registering="asleep")
    elif one.registering == "sent":
        yield "loses its answer", one._replace(registering="none", value=0, late=one.value)


def left_moves(setup: JobSetup, one: Channel) -> Iterator[tuple[str, Channel]]:
    """Leftovers without a caller: a late registration, a worker that is still running."""
    if one.late:
        yield "a late registration lands", registered(one, one.late)._replace(late=0)
    if one.behind is not None:
        yield "a worker left behind commits", committed(setup, one, one.behind)._replace(behind=None)


def let_go(one: Channel, gives_back: bool) -> Channel:
    """The driver has lost this channel: its step, and possibly a registration, continue without it."""
    return one._replace(streams=False, leased=one.leased and not gives_back, step=None, behind=one.step or one.behind)


# -- the operator: a reset, or a start, of channel A ----------------------------------------------------------------


def operator_moves(setup: JobSetup, job: Job) -> Iterator[Move]:
    """One operator at a time: the lease guarantees that."""
    a, rules = job.a, setup.rules
    free = not (a.leased and rules.lease_needed)
    if job.phase == "rest" and free:
        if job.done < setup.bounds.resets:
            yield "a reset of A takes the lease", job._replace(phase="leased", resets=True)
        if not a.streams:
            yield "a start of A takes the lease", job._replace(phase="leased", resets=False)
    elif job.phase == "leased" and a.registering not in ("locked", "sent"):
        yield "raises the epoch", raised(setup, job)._replace(phase="raised")
    elif job.phase == "raised":
        yield "ends the sessions, or waits them out", silenced(setup, job)._replace(phase="silenced")
    elif job.phase == "silenced" and a.slot > a.position:
        yield "finds the slot beyond the row", job._replace(wrong=ALARM)
    elif job.phase == "silenced" and not job.resets:
        begun = a._replace(streams=True, mine=a.epoch, leased=True)
        yield "streams", job._replace(a=begun, phase="rest")
    elif job.phase == "silenced":
        yield "puts the row back", job._replace(a=back(a), phase="written")
    elif job.phase == "written":
        yield (
            "registers and ends",
            job._replace(
                a=registered(a, a.position)._replace(leased=a.leased and not rules.lease_needed),
                phase="rest",
                done=job.done + 1,
            ),
        )


def raised(setup: JobSetup, job: Job) -> Job:
    newest = max(job.a.epoch, job.b.epoch) + 1
    job = job._replace(a=job.a._replace(epoch=newest))
    return job if setup.rules.own_epoch else job._replace(b=job.b._replace(epoch=newest))


def silenced(setup: JobSetup, job: Job) -> Job:
    """Sessions that show A are ended; if that is not allowed, 15 s outlast a call. A worker may keep running."""
    a, b, rules = job.a, job.b, setup.rules
    shown = a.registering == "named" or (a.registering == "asleep" and rules.named_before_lock)
    if rules.silence_first:
        a = a._replace(late=0)
        a = a._replace(registering="none", value=0) if shown else a
    if not rules.ends_only_its_own and (b.step is not None or b.registering != "none"):
        return job._replace(a=a, b=b._replace(step=None, registering="none", value=0), wrong=INTERRUPTED)
    return job._replace(a=a)


def back(a: Channel) -> Channel:
    """Return the oldest retained position; later changes have to be applied again."""
    counts = tuple(count if number <= a.slot else 0 for number, count in enumerate(a.applied, start=1))
    return a._replace(position=a.slot, applied=counts)


# -- everything together --------------------------------------------------------------------------------------------


def world_moves(setup: JobSetup, job: Job) -> Iterator[Move]:
    bounds, rules = setup.bounds, setup.rules
    if job.a.streams and job.stops < bounds.stops:
        stopped = let_go(job.a, rules.lease_given_back)
        yield "driver: A fails, and stops alone", job._replace(a=stopped, stops=job.stops + 1)
    if job.kills < bounds.kills and job.b.streams:
        dead = [let_go(dying(one), True) for one in (job.a, job.b)]
        yield "driver: is killed", job._replace(a=dead[0], b=dead[1], kills=job.kills + 1)
    if not job.b.streams and job.b.registering == "none":
        epoch = max(job.a.epoch, job.b.epoch) + 1
        begun = job.b._replace(streams=True, leased=True, epoch=epoch, mine=epoch, late=0)
        yield "driver: another start, of B", job._replace(b=begun)


def dying(one: Channel) -> Channel:
    """A call that was sent continues; a caller that only held the lock or slept has no further effect."""
    late = one.value if one.registering == "sent" else one.late
    return one._replace(registering="none", value=0, late=late)


def channel_moves(setup: JobSetup, job: Job, name: Name) -> Iterator[Move]:
    one: Channel = getattr(job, name)
    if name == "b" and one.streams and one.epoch != one.mine:
        yield "b: finds another epoch", job._replace(wrong=STOPPED)
        return
    found = list(step_moves(setup, one)) if one.streams else []
    found += [*register_moves(setup, one), *left_moves(setup, one)]
    for label, after in found:
        yield f"{name}: {label}", put(job, name, after)
    if job.losses < setup.bounds.losses:
        for label, after in lost_moves(one):
            yield f"{name}: {label}", put(job, name, after)._replace(losses=job.losses + 1)


def put(job: Job, name: Name, one: Channel) -> Job:
    return job._replace(a=one) if name == "a" else job._replace(b=one)


def judged(job: Job) -> str:
    """The violation in a state, if any."""
    for one in (job.a, job.b):
        if 0 in one.applied[: one.position]:
            return LOST
        if max(one.applied) > 1:
            return TWICE
        if one.slot > one.position:
            return LEADS
    return job.wrong


def successors(setup: JobSetup) -> Callable[[Job], list[Move]]:
    def moves(job: Job) -> list[Move]:
        if job.wrong:
            return []
        found = [*world_moves(setup, job), *operator_moves(setup, job)]
        found += [*channel_moves(setup, job, "a"), *channel_moves(setup, job, "b")]
        return [(label, after) for label, after in found if after != job]

    return moves


def is_goal(setup: JobSetup, job: Job) -> bool:
    """Both channels stream and have everything once, and no operator is at work."""
    both = (job.a, job.b)
    return job.phase == "rest" and all(one.streams and one.position == setup.bounds.events for one in both)


def show(job: Job) -> str:
    a, b = job.a, job.b
    return f"A {a.position} epoch {a.epoch} slot {a.slot} {a.applied}; B {b.position} epoch {b.epoch} slot {b.slot}"


def run(bounds: JobBounds, rules: JobRules, kinds: frozenset[str] = frozenset()) -> JobSpace:
    """Explore; stop at these kinds of violation only, or at any if none is named."""
    setup = JobSetup(bounds, rules)

    def verdict(job: Job) -> str:
        wrong = judged(job)
        return wrong if not kinds or wrong in kinds else ""

    return explore(bounds.name, setup.first_state(), successors(setup), verdict)


def story(space: JobSpace, setup: JobSetup, number: int) -> str:
    return "\n".join(trace(space, number, successors(setup), show))
