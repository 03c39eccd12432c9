"""What `[alerts]` says: from where on something is told, to whom, and where the figures are written. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from slotkeeper.core.judgement.limits import Limits


@dataclass(frozen=True, slots=True)
class AlertOptions:
    """`command` are the words of a program that is told, without a shell; none: nobody is told.

    `command_timeout` is in seconds; `metrics_file` None: no figures are written. The gap is one of the `limits`.
    """

    limits: Limits = field(default_factory=Limits)
    command: tuple[str, ...] = ()
    command_timeout: float = 10.0
    metrics_file: Path | None = None
