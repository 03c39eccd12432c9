"""What `[alerts]` says: from where on something is a fault, how often and to whom it is told. Values only.

Starting values: a slot by the part of its TTL (`slotkeeper.core.domain.ttl`), five minutes without a commit while the
source moves, fifteen minutes between two notifications (PeerDB's defaults); the others are our own proposals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

MIB = 1 << 20
BEHIND_SECONDS = 10.0
"""A lane that lags by less keeps up, and counts as in sync."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Times are in seconds, sizes in bytes.

    `lag_warning` and `lag_critical`: of the DN that lags most; `stuck_critical`: how long something is tried again
    before that is critical; `silent_warning` and `silent_critical`: a driver that lives and reports nothing; `crashes`:
    for so long a crash is told; `disk_free`: room for the state folder; `verify_age`: None where the age of a
    comparison is nobody's concern; `gap`: between two tellings of one alert.
    """

    lag_warning: float = 30.0
    lag_critical: float = 300.0
    stuck_critical: float = 300.0
    silent_warning: float = 30.0
    silent_critical: float = 300.0
    crashes: float = 600.0
    disk_free: int = 256 * MIB
    verify_age: float | None = None
    gap: float = 900.0


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class AlertOptions:
    """`command` are the words of a program that is told, without a shell; none: nobody is told.

    `command_timeout` is in seconds; `metrics_file` None: no figures are written. The gap is one of the `limits`.
    """

    limits: Limits = field(default_factory=Limits)
    command: tuple[str, ...] = ()
    command_timeout: float = 10.0
    metrics_file: Path | None = None
