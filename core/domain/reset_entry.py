"""A reset as the sink keeps it, and the steps that it passes. Values only.

Next door: `core.sinks.postgres.progress.resets` stores it, `core.slots.reset.apply` takes the steps.
"""

from __future__ import annotations

from dataclasses import dataclass

BACKED_UP, BEGUN, WRITTEN, GOING_BACK = "backed up", "begun", "rows written", "rolling back"
DONE, ROLLED_BACK = "done", "rolled back"
"""After BACKED_UP nothing is changed yet; BEGUN, WRITTEN and GOING_BACK are what a crash leaves behind."""


NEVER_BEGUN = "it had not begun: nothing had been written"
"""The outcome of a reset that a crash left behind as BACKED_UP: it has raised no epoch, and no start was refused."""


@dataclass(frozen=True, slots=True)
class ResetEntry:
    """A reset; times as RFC 3339, `plan` and `backup` are texts of `core.domain.reset_text`."""

    id: str
    job: str
    source: str
    table: str
    slot: str
    target: str
    plan_id: str
    step: str
    who: str
    reason: str
    plan: str
    backup: str
    outcome: str = ""
    begun_at: str = ""
    ended_at: str = ""
