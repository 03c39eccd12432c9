"""Everything that is judged, as values: what was seen of jobs, slots and this machine at one moment.

Unknown is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from slotkeeper.core.domain.report import JobView
from slotkeeper.core.domain.reset import OpenReset
from slotkeeper.core.domain.row_counts import Verified
from slotkeeper.core.judgement.limits import LIMITS, Limits


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job; `lags` are seconds by lane, `crashes` when its drivers crashed lately, `crash` how the last one ended.

    `least_lags` are by lane of unknown lag what it lags by at least.
    `asked_by` is who asked for the state that it is in, as far as the audit says, and `asked_why` the reason given.
    `copy_anew` is how its target is made anew, "" where no command does it.
    """

    view: JobView
    lags: Mapping[str, float | None] = field(default_factory=dict)
    crashes: tuple[datetime, ...] = ()
    crash: str = ""
    asked_by: str = ""
    asked_why: str = ""
    quarantine_limit: int | None = None
    verified: Verified | None = None
    copy_anew: str = ""
    least_lags: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlotSeen:
    """One slot as it was seen last, by whomever: `exists` None where that cannot be told.

    `expires_at` is when its TTL ends if nobody registers, by this host's clock; `ttl` is that TTL in seconds.
    """

    source: str
    table: str
    slot: str
    job: str
    at: datetime
    exists: bool | None = None
    expires_at: datetime | None = None
    ttl: float | None = None
    unread: int | None = None
    shard: str = ""


@dataclass(frozen=True, slots=True)
class Evaluator:
    """A living process that evaluates alerts, or tells them, since then and keeps all others from it.

    Who it is in words, its pid, what it `does`; `stopped`: a signal or a debugger keeps it from running.
    """

    name: str
    pid: int
    since: datetime
    stopped: bool = False
    does: str = "evaluates alerts"


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine: `fault` is why the state store cannot be read, `full` which disk of the state folder is full.

    `free` is in bytes; `damaged` counts lines of the audit that cannot be read. `command_fails` is why nobody is
    told by the command of `[alerts]`; `evaluator` is who evaluates at this moment, None where nobody does.
    """

    folder: str = ""
    fault: str = ""
    full: str = ""
    free: int | None = None
    damaged: int = 0
    command_fails: str = ""
    command_fails_since: datetime | None = None
    evaluator: Evaluator | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All of it; `refused` says by job why its configuration cannot be used."""

    now: datetime
    jobs: tuple[JobSeen, ...] = ()
    slots: tuple[SlotSeen, ...] = ()
    machine: Machine = Machine()
    refused: Mapping[str, str] = field(default_factory=dict)
    resets: tuple[OpenReset, ...] = ()
    limits: Limits = LIMITS
