"""The input of the evaluation: the limits of `[alerts]`, and the state of jobs, slots and this host at one moment.

An unknown value is None, never 0. The default limits of a slot are fractions of its TTL (`slotkeeper.core.domain.ttl`).
Two defaults are PeerDB's: five minutes without a commit while the source advances, and fifteen minutes between two
notifications. The other defaults are Slotkeeper's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every command reads the limits, but importing the reset types is slow
    from slotkeeper.core.domain.host import HostReport
    from slotkeeper.core.domain.report import JobStatus
    from slotkeeper.core.domain.reset import OpenReset
    from slotkeeper.core.domain.row_counts import Verified

MIB = 1 << 20
BEHIND_SECONDS = 10.0
"""A lane with a lag below this limit counts as in sync."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits beyond which a value is a fault; times in seconds, sizes in bytes."""

    lag_warning: float = 30.0
    """The largest lag of a DN."""
    lag_critical: float = 300.0
    stuck_critical: float = 300.0
    """How long a lane can keep retrying before the fault becomes critical."""
    silent_warning: float = 30.0
    """Time without a report from a running driver."""
    silent_critical: float = 300.0
    crashes: float = 600.0
    """How long a crash is reported as a fault."""
    disk_free: int = 256 * MIB
    """Minimum free space on the disk of the state folder."""
    verify_age: float | None = None
    """Maximum age of the last comparison; None: any age."""
    gap: float = 900.0
    """Time between two notifications of one alert."""


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class AlertOptions:
    """The settings of `[alerts]`."""

    limits: Limits = field(default_factory=Limits)
    command: tuple[str, ...] = ()
    """The program that receives each notification, and its arguments; run without a shell. Empty: no program."""
    command_timeout: float = 10.0
    """Time limit of the command, in seconds."""
    metrics_file: Path | None = None
    """The file to which metrics are written; None: no file."""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """The facts about one job."""

    view: JobStatus
    lags: Mapping[str, float | None] = field(default_factory=dict)
    """Lag in seconds by lane."""
    crashes: tuple[datetime, ...] = ()
    """Times of recent driver crashes."""
    crash: str = ""
    """How the last driver ended."""
    asked_by: str = ""
    """The user who requested the job's current state, according to the audit; "" if unknown."""
    asked_why: str = ""
    """The reason given for that request."""
    quarantine_limit: int | None = None
    verified: Verified | None = None
    new_snapshot: str = ""
    """The commands that copy the job's target again; "" if no command can."""
    least_lags: Mapping[str, float] = field(default_factory=dict)
    """Minimum lag in seconds, for lanes whose exact lag is unknown."""
    host: HostReport | None = None
    """The last measurement of this host by the job's supervisor."""


@dataclass(frozen=True, slots=True)
class SlotSeen:
    """The last state of one slot, as observed by any process."""

    source: str
    table: str
    slot: str
    job: str
    at: datetime
    exists: bool | None = None
    """Whether the slot exists; None if unknown."""
    expires_at: datetime | None = None
    """When the slot's TTL ends, by this host's clock, unless the slot is confirmed before."""
    ttl: float | None = None
    """The TTL in seconds."""
    unread: int | None = None
    shard: str = ""


@dataclass(frozen=True, slots=True)
class Evaluator:
    """A running process that evaluates or sends alerts; no other process can do so at the same time."""

    name: str
    """Display name of the process."""
    pid: int
    since: datetime
    stopped: bool = False
    """Whether a signal or a debugger has stopped the process."""
    does: str = "evaluates alerts"


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts about this host."""

    folder: str = ""
    fault: str = ""
    """Why the state store cannot be read."""
    full: str = ""
    """Message that names the full disk of the state folder; "" if it is not full."""
    free: int | None = None
    """Free disk space in bytes."""
    damaged: int = 0
    """The number of unreadable lines in the audit."""
    command_fails: str = ""
    """Why the command of `[alerts]` failed for a notification."""
    command_fails_since: datetime | None = None
    evaluator: Evaluator | None = None
    """The process that is evaluating alerts at this moment."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts at one moment."""

    now: datetime
    jobs: tuple[JobSeen, ...] = ()
    slots: tuple[SlotSeen, ...] = ()
    machine: Machine = Machine()
    refused: Mapping[str, str] = field(default_factory=dict)
    """Why a configuration cannot be used, by job name."""
    resets: tuple[OpenReset, ...] = ()
    limits: Limits = LIMITS
    dead_queries: Mapping[str, str] = field(default_factory=dict)
    """A description of the DataFrame queries that read a job's slots and are not running, by job name."""
