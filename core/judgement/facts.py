"""What is judged, as values: the limits of `[alerts]`, and what was seen of jobs, slots and this machine at one moment.

Unknown is None, never 0. Starting values of the limits: a slot by the part of its TTL (`slotkeeper.core.domain.ttl`),
five minutes without a commit while the source moves, fifteen minutes between two notifications (PeerDB's defaults); the
others are our own proposals.
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
"""A lane that lags by less keeps up, and counts as in sync."""


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on something is a fault; times in seconds, sizes in bytes."""

    lag_warning: float = 30.0
    """Of the DN that lags most."""
    lag_critical: float = 300.0
    stuck_critical: float = 300.0
    """How long something is retried before that is critical."""
    silent_warning: float = 30.0
    """Of a driver that runs and reports nothing."""
    silent_critical: float = 300.0
    crashes: float = 600.0
    """How long a crash is reported."""
    disk_free: int = 256 * MIB
    """Room for the state folder."""
    verify_age: float | None = None
    """How old a comparison may be; None: of any age."""
    gap: float = 900.0
    """Between two notifications of one alert."""


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class AlertOptions:
    """What `[alerts]` says."""

    limits: Limits = field(default_factory=Limits)
    command: tuple[str, ...] = ()
    """The words of the program that gets each notification, run without a shell; empty: there is none."""
    command_timeout: float = 10.0
    """In seconds."""
    metrics_file: Path | None = None
    """Where the figures are written; None: nowhere."""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job."""

    view: JobStatus
    lags: Mapping[str, float | None] = field(default_factory=dict)
    """Seconds by lane."""
    crashes: tuple[datetime, ...] = ()
    """When its drivers crashed lately."""
    crash: str = ""
    """How the last one ended."""
    asked_by: str = ""
    """Who asked for the state that it is in, as far as the audit says."""
    asked_why: str = ""
    """The reason that was given for it."""
    quarantine_limit: int | None = None
    verified: Verified | None = None
    copy_anew: str = ""
    """How its target is copied again, "" where no command does it."""
    least_lags: Mapping[str, float] = field(default_factory=dict)
    """By lane of unknown lag: what it lags by at least."""
    host: HostReport | None = None
    """What its supervisor measured of this host last."""


@dataclass(frozen=True, slots=True)
class SlotSeen:
    """One slot as it was seen last, by whichever process."""

    source: str
    table: str
    slot: str
    job: str
    at: datetime
    exists: bool | None = None
    """None where that is unknown."""
    expires_at: datetime | None = None
    """When its TTL ends unless it is confirmed, by this host's clock."""
    ttl: float | None = None
    """In seconds."""
    unread: int | None = None
    shard: str = ""


@dataclass(frozen=True, slots=True)
class Evaluator:
    """A running process that evaluates alerts, or sends them, and keeps all others from it."""

    name: str
    """Who it is in words."""
    pid: int
    since: datetime
    stopped: bool = False
    """A signal or a debugger keeps it from running."""
    does: str = "evaluates alerts"


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine."""

    folder: str = ""
    fault: str = ""
    """Why the state store cannot be read."""
    full: str = ""
    """Which disk of the state folder is full."""
    free: int | None = None
    """In bytes."""
    damaged: int = 0
    """Lines of the audit that cannot be read."""
    command_fails: str = ""
    """Why the command of `[alerts]` takes no notification."""
    command_fails_since: datetime | None = None
    evaluator: Evaluator | None = None
    """Who evaluates at this moment."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All of it."""

    now: datetime
    jobs: tuple[JobSeen, ...] = ()
    slots: tuple[SlotSeen, ...] = ()
    machine: Machine = Machine()
    refused: Mapping[str, str] = field(default_factory=dict)
    """By job, why its configuration cannot be used."""
    resets: tuple[OpenReset, ...] = ()
    limits: Limits = LIMITS
