"""Decides which of several hosts runs a job, and what each host does in a round. Pure.

All hosts share one row per job in the store of its progress rows. A host owns a job by a compare-and-swap of that row;
each swap raises `term`. Ownership is not a fence: the epoch of the progress rows is, and only the owner can raise it
(docs/adr/0099-jobs-of-several-hosts.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.spec import JobSpec, SparkOptions
from slotkeeper.core.errors import Refused


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The table `[hosts]` of a configuration."""

    name: str
    """The name of this host."""
    interval: float = 2.0
    """Seconds between two rounds, and so between two heartbeats."""
    take_over_after: float = 20.0
    """Seconds without a heartbeat after which another host takes a job over."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The row of one job that all hosts share, as read from the store."""

    job: str
    """The job's name."""
    desired: WantedState = WantedState.RUN
    """Its desired state."""
    version: int = 0
    """The number of the last request that changed the desired state."""
    answered: int = 0
    """The number of the last request that the owner has carried out."""
    answer: str = ""
    """The owner's answer to that request."""
    asked_by: str = ""
    """The user and the host of the last request."""
    asked_why: str = ""
    """The reason given with the last request."""
    settings: str = ""
    """The hash of the job's configuration at its owner."""
    owner: str = ""
    """The id of the state folder that owns the job; empty: no host owns it."""
    host: str = ""
    """The name of the owner's host."""
    term: int = 0
    """The number of the ownership; each change of owner raises it."""
    beats: int = 0
    """The number of heartbeats."""
    age: float = 0.0
    """Seconds since the last heartbeat by the store's clock; negative after that clock was set back."""
    state: str = ""
    """The job's state as its owner reported it."""
    text: str = ""
    """The reason for that state."""
    read_at: float = 0.0
    """When this host read the row, in seconds since 1970."""
    away: str = ""
    """Why the row could not be read again since then, or has an unknown value; empty if it is known."""

    @property
    def asks(self) -> bool:
        """Whether a request awaits its owner's answer."""
        return self.version > self.answered


@dataclass(frozen=True, slots=True)
class Order:
    """A command on a job that its owner carries out for a user of another host: at most once."""

    id: str
    """A random id; the reason of the owner's audit lines ends with it."""
    job: str
    """The job's name."""
    verb: str
    """The command, one of the keys of `ORDERS`; empty if the row is malformed."""
    options: Mapping[str, str]
    """The values of its arguments and options, as typed."""
    plan: str = ""
    """The text of the plan that a reset executes."""
    asked_by: str = ""
    """The user and the host of the request."""
    asked_why: str = ""
    """The reason given with it."""
    taken_by: str = ""
    """The id of the state folder that carries it out; empty: none has taken it."""
    code: int | None = None
    """The command's exit code; None until it has ended."""
    said: str = ""
    """The command's output."""

    @property
    def mark(self) -> str:
        """The end of the reason in the owner's audit."""
        return f"(requested by {self.asked_by}, order {self.id})"

    def words(self) -> list[str]:
        """Return the arguments of `slotkeeper`; only the options of `ORDERS` are passed on. Raises Refused for a
        command that only another version knows.

        >>> Order("1", "a", "retry", {"job": "b", "config": "x"}, asked_by="u@etl2").words()
        ['jobs', 'retry', '--reason=(requested by u@etl2, order 1)', '--', 'a']
        """
        if not self.verb:
            raise Refused("the command of another host is malformed")
        if self.verb not in ORDERS:
            raise Refused(f"this version does not know the command {self.verb!r} of another host", "upgrade this host")
        command, places, options = ORDERS[self.verb]
        given = [f"--{name}={self.options[name]}" for name in options if self.options.get(name)]
        fixed = {"retry": [], "resume": ["--resume"]}.get(self.verb, ["--execute"])
        # a resumed reset has the reason of its start
        why = [] if self.verb == "resume" else [f"--reason={f'{self.asked_why} {self.mark}'.strip()}"]
        shown = ["--json"] if self.options.get("json") else []
        return [
            *command,
            *given,
            *why,
            *fixed,
            *shown,
            "--",
            *({**self.options, "job": self.job}.get(name, "") for name in places),
        ]


ORDERS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "retry": (("jobs", "retry"), ("job",), ("table", "wait")),
    "reset": (("slots", "reset"), ("table", "slot"), ("plan", "confirm", "rows", "steal")),
    "undo": (("slots", "undo"), ("backup",), ("plan", "confirm", "rows", "steal")),
    "resume": (("slots", "reset"), ("table", "slot"), ("steal",)),
}
"""The commands that an owner carries out for other hosts: words, arguments, options."""


@dataclass(frozen=True, slots=True)
class HostSeen:
    """The row of one host, as read from the store."""

    owner: str
    """The id of its state folder."""
    host: str
    """Its name."""
    age: float
    """Seconds since its last heartbeat by the store's clock."""
    sources: frozenset[str] = frozenset()
    """The names of the sources that it reaches."""


@dataclass(frozen=True, slots=True)
class Known:
    """The rows of all jobs as this host last read them: a cache in its state folder."""

    owner: str
    """The id of this state folder."""
    host: str
    """The name of this host."""
    rows: tuple[Placement, ...] = ()
    """The rows, one for each job."""
    stale_after: float = 15.0
    """Seconds after which a row that was not read again counts as unknown."""


class Act(Enum):
    """What a host does about one job in one round."""

    BEAT = "report it to the other hosts"
    LEAVE = "leave it"
    START = "start it here"
    CLAIM = "take it over, then start it here"
    STOP = "stop it here"
    OBEY = "bring it to its desired state"
    TELL = "report that a user stopped it here"
    HAND_OVER = "stop it here and release it"


@dataclass(frozen=True, slots=True)
class Here:
    """One job as its host sees it."""

    owner: str
    """The id of this host's state folder."""
    settings: str
    """The hash of the job's configuration here; empty if no usable job is configured."""
    lives: bool = False
    """Whether a process of the job runs here."""
    sound: bool = False
    """Whether that process is neither stopped by a signal nor silent."""
    ended: bool = False
    """Whether its run here has ended in a state that only a user can change."""
    wanted: WantedState = WantedState.RUN
    """The desired state in this host's state folder."""
    stopped_untold: bool = False
    """Whether a user stopped it here, and the row does not show it yet."""
    unchanged: float = 0.0
    """Seconds for which this host has seen the same heartbeat, excluding times when it or the store was down."""
    cut_off: float = 0.0
    """Seconds for which this host has not reached the job's source."""
    reached_elsewhere: bool = False
    """Whether another host with a fresh heartbeat reaches that source."""


_ENDED = frozenset(one.value for one in (JobState.FAILED, JobState.FINISHED, JobState.CANCELLED, JobState.AWAITS_COPY))


def ends(state: str) -> bool:
    """Return whether a job in this state stays as it is until a user acts, on any host."""
    return state in _ENDED


def decide(row: Placement, here: Here, options: HostOptions) -> Act:
    """Return what this host does about a job in this round.

    >>> row, here = Placement("orders", owner="b", host="etl2", settings="s", age=21.0), Here("a", "s", unchanged=6.0)
    >>> decide(row, here, HostOptions("etl1")), decide(replace(row, age=3.0), here, HostOptions("etl1"))
    (<Act.CLAIM: 'take it over, then start it here'>, <Act.LEAVE: 'leave it'>)
    """
    flees = here.cut_off >= options.take_over_after and here.reached_elsewhere
    if row.owner != here.owner:
        return Act.STOP if here.lives else Act.CLAIM if not flees and _may_claim(row, here, options) else Act.LEAVE
    if row.asks:
        return Act.OBEY
    if here.stopped_untold:
        return Act.TELL
    if here.lives and here.wanted is not row.desired:
        return Act.OBEY
    if here.ended or row.desired is WantedState.STOP:
        return Act.BEAT
    if flees:
        return Act.HAND_OVER
    if here.lives:
        return Act.BEAT if here.sound else Act.LEAVE
    return Act.START if here.settings else Act.LEAVE


def _may_claim(row: Placement, here: Here, options: HostOptions) -> bool:
    if row.desired is WantedState.STOP or ends(row.state) or not here.settings or here.settings != row.settings:
        return False
    return not row.owner or is_dead(row, here.unchanged, options)


def is_dead(row: Placement, unchanged: float, options: HostOptions) -> bool:
    """Return whether a job's owner counts as dead.

    The age alone is not sufficient, because the store's clock can be set, and no host could report while the store was
    unavailable. This host must therefore also have seen the same heartbeat for two intervals; after the clock was set
    back, only this condition applies.
    """
    seen_long = unchanged >= options.take_over_after
    return unchanged >= 2 * options.interval and (row.age >= options.take_over_after or seen_long)


_NOWHERE = Endpoint("", "", 0, "", "")


@dataclass(slots=True)
class Watch:
    """The time for which this host has seen the same heartbeat of each job, by this host's monotonic clock."""

    interval: float
    _seen: dict[str, tuple[tuple[int, int], float]] = field(default_factory=dict)
    _last: float | None = None

    def see(self, rows: Collection[Placement], now: float) -> dict[str, float]:
        """Return the seconds for each job; a gap between two rounds counts as at most two intervals."""
        gap = 0.0 if self._last is None else min(max(0.0, now - self._last), 2 * self.interval)
        self._last = now
        for row in rows:
            beat, since = self._seen.get(row.job, ((-1, -1), 0.0))
            same = beat == (row.term, row.beats)
            self._seen[row.job] = (row.term, row.beats), since + gap if same else 0.0
        return {row.job: self._seen[row.job][1] for row in rows}

    def forget(self) -> None:
        """Restart the measurement after a round without the store's answer, because no owner could report then."""
        self._seen.clear()
        self._last = None


def settings_of(job: JobSpec) -> str:
    """Return the hash of what a job's hosts must have in common; addresses, secrets and Spark's settings can differ."""
    import hashlib  # monitoring runs `status` every minute, and it needs no hash

    channels = () if job.patterns else job.channels
    common = replace(job, source=_NOWHERE, sink=_NOWHERE, store=None, spark=SparkOptions(), channels=channels)
    names = (job.source.name, job.source.database, job.sink.name, job.sink.database, job.in_two_parts)
    return hashlib.sha256(repr((names, common)).encode()).hexdigest()[:16]
