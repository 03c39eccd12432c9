"""The party that caused each scene's fault, and the action that ends it, both written before anything runs.

`SINGLES` is the table of the incidents of DWS. The expected first fault of two at once is not written down but derived
from it, by the documented order of faults (docs/alerts.md): severity; what is present before what is past; what blocks
a job before what delays it before what threatens it; a cause before its consequences; the newest first. The order is
written out here and not taken from the product.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations

from slotkeeper.core.domain.fault import Fault, Party, Severity


class Holds(IntEnum):
    """The effect of a fault on its job."""

    BLOCKS = 0
    DELAYS = 1
    THREATENS = 2


class Seen(IntEnum):
    """The party that can observe a fault."""

    BY_DRIVER = 0
    """A fault that is unknown for a job without a running driver."""
    BY_HOST = 1
    """Every process on this host can observe it."""
    AT_SINK = 2
    """The driver observes it in a step that reaches the sink."""
    AT_SOURCE = 3
    """The driver observes it if the source answers."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """The expected first report of one fault."""

    rules: tuple[str, ...]
    """A fault is observed by one of the two."""
    parties: tuple[Party, ...]
    severity: Severity
    act: str
    """A regular expression for the action that belongs to it."""
    holds: Holds = Holds.BLOCKS
    root: int = 1
    """Among faults with the same effect on a job, the lower number causes the higher one."""
    seen: Seen = Seen.BY_DRIVER
    ends: bool = False
    """Whether the fault ends its job."""
    passes: bool = False
    """It ends without an action, and leaves no fault once the driver runs again."""
    late: float = 0.0
    """Seconds of a documented limit that has to pass before it is a fault."""
    code: str = ""
    """SK- and four digits, if a server's answer has a code; several are separated by blanks."""
    says: str = ""
    """A regular expression for the cause: it names the row, or says that the cause is unknown."""

    def is_of(self, fault: Fault) -> bool:
        """Whether a fault is this one."""
        code = not self.code or fault.rule == "job_failed" or fault.code in self.code.split()
        says = re.search(self.says, fault.cause) is not None
        return fault.rule in self.rules and fault.party in self.parties and code and says

    def has_act(self, fault: Fault) -> bool:
        """Whether the answer contains this fault's own action."""
        return re.search(self.act, fault.do) is not None


_COPY = r"`slotkeeper slots reset ods\.orders orders_rt --to snapshot --on-existing replace`"
SINGLES: Mapping[str, Culprit] = {
    "slot-expired": Culprit(("job_failed",), (Party.SLOT,), Severity.CRITICAL, _COPY, seen=Seen.AT_SOURCE, ends=True),
    "dead-slot": Culprit(
        ("slot_ttl",), (Party.SLOT,), Severity.CRITICAL,
        r"start that program; or .*`slotkeeper slots drop ods\.orders retired", Holds.THREATENS,
    ),
    "ddl-reset": Culprit(
        ("job_failed",), (Party.SLOT, Party.TABLE), Severity.CRITICAL, r"slotkeeper slots reset ods\.orders orders_rt",
        seen=Seen.AT_SOURCE, ends=True,
    ),
    "poison-row": Culprit(
        ("rows_quarantined",), (Party.TABLE,), Severity.WARNING,
        r"^`slotkeeper errors list orders_rt`.*`slotkeeper errors replay orders_rt --all", Holds.THREATENS,
        seen=Seen.AT_SINK,
    ),
    "lag-grows": Culprit(  # a step that exceeds its limit is the sink's own fault, before it is one that delays
        ("lag", "sink_fails"), (Party.DN, Party.SINK), Severity.WARNING,
        r"(?i)fix the cause there|find what (has become slow|slows the (sink|source))",
        Holds.DELAYS, 4, seen=Seen.AT_SINK, late=30.0, code="SK-2105 SK-1406",
    ),
    "second-job": Culprit(
        ("job_stopped",), (Party.PROCESS,), Severity.WARNING, r"`slotkeeper jobs start orders_rt", ends=True,
    ),
    "dn-added": Culprit(
        ("job_failed",), (Party.SOURCE,), Severity.CRITICAL, _COPY, seen=Seen.AT_SOURCE, ends=True
    ),
    "vacuum-blocked": Culprit(
        ("source_blocked",), (Party.LOCK, Party.SOURCE, Party.PERSON, Party.SLOT), Severity.WARNING,
        r"`slotkeeper jobs resume orders_rt`", root=0, seen=Seen.AT_SOURCE,
    ),
    "sink-deadlock": Culprit(
        ("lock_waits",), (Party.LOCK,), Severity.WARNING, r"`SELECT pg_terminate_backend\(\d+\)[^`]*`", root=0,
        seen=Seen.AT_SINK,
    ),
    "credentials-rotated": Culprit(
        ("sink_fails",), (Party.SINK,), Severity.WARNING,
        r"^Write the current password of \S+ to password_file \S+ \(changed .*\)", root=2, seen=Seen.AT_SINK,
        code="SK-1102",
    ),
    "driver-killed": Culprit(
        ("driver_crashed", "driver_gone"), (Party.PROCESS,), Severity.WARNING, r"^No action needed", root=2,
        seen=Seen.BY_HOST, passes=True,
    ),
    "sink-restored": Culprit(
        ("job_failed",), (Party.SINK, Party.SLOT), Severity.CRITICAL, r"slotkeeper slots reset ods\.orders orders_rt",
        seen=Seen.AT_SINK, ends=True,
    ),
    "clock-skew": Culprit(
        ("clocks_differ",), (Party.SOURCE,), Severity.WARNING, r"NTP.*`slotkeeper doctor`", Holds.THREATENS, 2,
        seen=Seen.AT_SOURCE,
    ),
    "source-restored": Culprit(
        ("job_failed",), (Party.SLOT, Party.SOURCE), Severity.CRITICAL, _COPY, seen=Seen.AT_SOURCE, ends=True
    ),
    "half-open-line": Culprit(
        ("source_fails", "sink_fails"), (Party.SOURCE, Party.SINK), Severity.WARNING,
        r"^Check (source|sink) .*, and the network to it", root=2, late=5.0, code="SK-1704",
    ),
    "disk-full": Culprit(
        ("disk_full",), (Party.MACHINE,), Severity.CRITICAL, r"^Free disk space there", Holds.DELAYS, 0,
        seen=Seen.BY_HOST,
    ),
    "sink-truncated": Culprit(
        ("job_failed",), (Party.SINK,), Severity.CRITICAL, r"slotkeeper slots reset ods\.orders orders_rt",
        seen=Seen.AT_SINK, ends=True,
    ),
    "quarantine-full": Culprit(
        ("job_failed",), (Party.TABLE,), Severity.CRITICAL, r"`slotkeeper errors (list|replay) orders_rt",
        seen=Seen.AT_SINK, ends=True,
    ),
}  # fmt: skip
"""By the names of `slotkeeper.demo.incidents.registry`. The server of a half-open connection is the source and the
sink.
"""

_SEVERITIES = (Severity.CRITICAL, Severity.WARNING, Severity.UNKNOWN)
_HIDES = {
    "half-open-line": "one server is source and sink: once it is stopped, no second fault can be made there",
    "disk-full": "the job's end cannot be recorded any more",
    "vacuum-blocked": "writers at the source wait for it, and the job applies nothing",
    "sink-deadlock": "no step reaches the sink, and no other user alters the target",
    "credentials-rotated": "no step reaches the sink",
    "lag-grows": "each try of a step takes twice as long as the one before: what a step would find is found late",
}
"""Incidents that come second in a pair, the first named here the latest, because another could not be made or seen
after them.
"""
_RUNS = {"second-job", "vacuum-blocked", "driver-killed", "sink-restored", "quarantine-full", "poison-row", "dn-added"}
"""Incidents of a running job: they cannot be made for a job that has ended, or have no effect on it."""
_APART = {
    frozenset(("dead-slot", "dn-added")): "a DN is added once every slot has read on, and a dead one does not",
    frozenset(("poison-row", "quarantine-full")): "both add the same constraint",
    frozenset(("sink-restored", "source-restored")): "both put back the same rows",
    frozenset(("sink-deadlock", "half-open-line")): "one server is both: its locks cannot be read any more",
    frozenset(("vacuum-blocked", "disk-full")): "the one writes at the source, where the other has locked",
    frozenset(("sink-deadlock", "credentials-rotated")): "without a login the sink's locks cannot be read",
    frozenset(("dead-slot", "dn-added")): "a DN is added once every slot has read on, and a dead one does not",
    frozenset(("half-open-line", "disk-full")): "a small disk and a stopped server: neither can be seen to begin",
}


@dataclass(frozen=True, slots=True)
class Scene:
    """One incident, or two of which the second starts once the first is reported."""

    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return " + ".join(self.names)

    def expected(self, begun: int) -> tuple[str, ...]:
        """The faults that exist and can be known once this number has started, in the order in which they have to be
        shown.
        """
        known: list[str] = []
        for name in self.names[:begun]:
            ended = any(SINGLES[one].ends for one in known)
            if not ended or SINGLES[name].seen is Seen.BY_HOST:
                if SINGLES[name].ends:  # facts that only its driver knows are lost with it
                    known = [one for one in known if _outlasts(one)]
                known.append(name)
        return tuple(sorted(known, key=lambda one: _place(one, known)))


def _outlasts(name: str) -> bool:
    """Whether it is still reported for a job that has ended: rows that the target lacks, a slot's TTL, this host."""
    return name in ("poison-row", "dead-slot") or SINGLES[name].seen is Seen.BY_HOST


def _place(name: str, known: Sequence[str]) -> tuple[int, int, int, int]:
    one = SINGLES[name]
    return (_SEVERITIES.index(one.severity), one.holds, one.root, -known.index(name))


def pair(one: str, other: str) -> Scene | str:
    """Return the scene of both, in the order in which they can be caused; or the reason why they cannot."""
    if (why := _APART.get(frozenset((one, other)))) is not None:
        return why
    hiding = list(_HIDES)
    first, second = sorted((one, other), key=lambda each: -(hiding.index(each) if each in hiding else len(hiding)))
    if second in hiding:
        hidden_first = SINGLES[first].ends and second in _RUNS
        return f"{second} needs a job that runs" if hidden_first else Scene((first, second))
    if SINGLES[first].ends and not SINGLES[second].ends:
        first, second = second, first  # faults that the end of a job replaces
    if SINGLES[first].ends and second in _RUNS:
        first, second = second, first
    if SINGLES[first].ends and second in _RUNS:
        return f"{second} needs a job that runs"
    return Scene((first, second))


def pairs() -> list[Scene]:
    """Every pair that can be made, in the order of the table."""
    made = (pair(one, other) for one, other in combinations(SINGLES, 2))
    return [one for one in made if isinstance(one, Scene)]


_DEAR = {"lag-grows", "second-job", "vacuum-blocked", "driver-killed", "half-open-line", "disk-full"}
"""Incidents that wait for half a minute, start a second job, hold the server that other tests use, end before the next
sample, or mount a disk.
"""


def drawn(seed: int, singles: int, doubles: int, cheap: bool = False) -> list[Scene]:
    """Return this number of scenes of one incident and of two; `cheap` leaves out the slow ones."""
    chance, left_out = random.Random(seed), _DEAR if cheap else set()
    alone = [Scene((name,)) for name in chance.sample([one for one in SINGLES if one not in left_out], singles)]
    return alone + chance.sample([one for one in pairs() if not left_out & set(one.names)], doubles)


_PARTICIPLE = re.compile(r"^[A-Za-z]+ed\b(?!:)")


def borrowed(fault: Fault) -> str:
    """Return the reason why a fault's action is empty; "" if it has one."""
    if not fault.do:
        return "no act"
    if _PARTICIPLE.match(fault.do) and not fault.do.lower().startswith(("need", "feed")):
        return "begins with a past participle"
    if fault.cause and (fault.do == fault.cause or fault.do.startswith(fault.cause)):
        return "a reason in the place of an act"
    return ""
