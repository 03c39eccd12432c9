"""The input of the judgement: the limits of `[alerts]`, and the state of jobs, slots and this host at one moment.

Unknown is None, never 0. Default limits: a slot by the part of its TTL (`slotkeeper.core.domain.ttl`), five minutes
without a commit while the source moves, fifteen minutes between two notifications (PeerDB's defaults); Slotkeeper
chose the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every command reads limits; what a reset is loads much
    from slotkeeper.core.domain.host import HostReport
    from slotkeeper.core.domain.report import JobStatus
    from slotkeeper.core.domain.reset import OpenReset
    from slotkeeper.core.domain.row_counts import Verified

MIB = 1 << 20
BEHIND_SECONDS = 10.0
"""A lane that lags by less counts as in sync."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits beyond which a value is a fault; times in seconds, sizes in bytes."""

    lag_warning: float = 30.0
    """Of the DN that lags most."""
    lag_critical: float = 300.0
    stuck_critical: float = 300.0
    """How long retrying lasts before it is critical."""
    silent_warning: float = 30.0
    """Of a driver that is running and does not report."""
    silent_critical: float = 300.0
    crashes: float = 600.0
    """How long a crash is reported."""
    disk_free: int = 256 * MIB
    """Free space for the state folder."""
    verify_age: float | None = None
    """How old a comparison may be; None: of any age."""
    gap: float = 900.0
    """Between two notifications of one alert."""


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class AlertOptions:
    """The settings of `[alerts]`."""

    limits: Limits = field(default_factory=Limits)
    command: tuple[str, ...] = ()
    """The program that gets each notification, with its arguments, run without a shell; empty: none."""
    command_timeout: float = 10.0
    """In seconds."""
    metrics_file: Path | None = None
    """Where metrics are written; None: nowhere."""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job."""

    view: JobStatus
    lags: Mapping[str, float | None] = field(default_factory=dict)
    """Seconds by lane."""
    crashes: tuple[datetime, ...] = ()
    """When its drivers crashed recently."""
    crash: str = ""
    """How the last driver ended."""
    asked_by: str = ""
    """Who asked for its current state, by the audit; "" where unknown."""
    asked_why: str = ""
    """The reason given for it."""
    quarantine_limit: int | None = None
    verified: Verified | None = None
    new_snapshot: str = ""
    """The commands that copy its target again, "" where no command does it."""
    least_lags: Mapping[str, float] = field(default_factory=dict)
    """By lane of unknown lag: its least lag in seconds."""
    host: HostReport | None = None
    """Its supervisor's last measurement of this host."""


@dataclass(frozen=True, slots=True)
class SlotSeen:
    """One slot as any process last saw it."""

    source: str
    table: str
    slot: str
    job: str
    at: datetime
    exists: bool | None = None
    """None where unknown."""
    expires_at: datetime | None = None
    """When its TTL ends unless confirmed, by this host's clock."""
    ttl: float | None = None
    """In seconds."""
    unread: int | None = None
    shard: str = ""


@dataclass(frozen=True, slots=True)
class Evaluator:
    """A running process that evaluates or sends alerts, and excludes all others from it."""

    name: str
    """Its description."""
    pid: int
    since: datetime
    stopped: bool = False
    """Whether a signal or a debugger has stopped it."""
    does: str = "evaluates alerts"


@dataclass(frozen=True, slots=True)
class Machine:
    """This host."""

    folder: str = ""
    fault: str = ""
    """Why the state store cannot be read."""
    full: str = ""
    """Which disk of the state folder is full."""
    free: int | None = None
    """In bytes."""
    damaged: int = 0
    """The number of unreadable lines of the audit."""
    command_fails: str = ""
    """Why the command of `[alerts]` does not accept a notification."""
    command_fails_since: datetime | None = None
    evaluator: Evaluator | None = None
    """The process that evaluates at this moment."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts of one moment."""

    now: datetime
    jobs: tuple[JobSeen, ...] = ()
    slots: tuple[SlotSeen, ...] = ()
    machine: Machine = Machine()
    refused: Mapping[str, str] = field(default_factory=dict)
    """By job, why its configuration cannot be used."""
    resets: tuple[OpenReset, ...] = ()
    limits: Limits = LIMITS
