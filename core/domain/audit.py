"""One line of the audit: who did what to which thing, why, and what was seen afterwards. Values only.

An action that changes something writes two lines under one `action_id`: the intent before, the outcome after.
Next door: `core.state.audit` keeps the lines, `core.sinks.postgres.progress.resets` a copy beside the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any


class Phase(Enum):
    """Before and after."""

    INTENT = "intent"
    OUTCOME = "outcome"


@dataclass(frozen=True, slots=True)
class Actor:
    """A person at a machine: `sudo_user` and `origin` (the SSH client's address) are empty where there is none."""

    os_user: str
    host: str
    pid: int
    sudo_user: str = ""
    origin: str = ""

    @property
    def text(self) -> str:
        """In words.

        >>> Actor("root", "h1", 7, "eva", "10.0.0.9").text
        'root@h1 (sudo by eva) from 10.0.0.9'
        """
        sudo = f" (sudo by {self.sudo_user})" if self.sudo_user else ""
        return f"{self.os_user}@{self.host}{sudo}" + (f" from {self.origin}" if self.origin else "")


@dataclass(frozen=True, slots=True)
class AuditLine:
    """`what` names the thing ("dws1 ods.orders slot orders_rt"), `result` says per DN what was asked or seen."""

    at: datetime
    actor: Actor
    action: str
    action_id: str
    phase: Phase
    what: str
    reason: str = ""
    plan: str = ""
    outcome: str = ""
    result: Mapping[str, str] = field(default_factory=dict)

    @property
    def said(self) -> str:
        """Why before, and how it ended after."""
        return f"because: {self.reason}" if self.phase is Phase.INTENT else self.outcome

    @property
    def failed(self) -> bool:
        """Whether it is the outcome of something that failed."""
        return self.phase is Phase.OUTCOME and self.outcome.startswith("failed")

    def as_json(self) -> dict[str, Any]:
        """The line as JSON values; times are UTC."""
        found = asdict(self) | {"phase": self.phase.value}
        found["at"] = self.at.astimezone(timezone.utc).isoformat(timespec="milliseconds")
        found["result"] = dict(self.result)
        return found

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> AuditLine:
        """The line that `as_json` wrote; raises ValueError, KeyError or TypeError for anything else."""
        values = dict(found)
        values["at"] = datetime.fromisoformat(values["at"])
        values["actor"] = Actor(**values["actor"])
        values["phase"] = Phase(values["phase"])
        return cls(**values)
