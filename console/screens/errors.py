"""Errors by kind, newest first: what happened how often, what became of it, and what is known about it.

Next door: `console.error_models` has rows and sentences, `console.remedies` what is known.
"""

from __future__ import annotations

from typing import ClassVar

from console.error_models import ERROR_COLUMNS, ack_key, error_key, error_lines, error_rows, summary
from console.picture import ErrorSeen, Level
from console.rows import Row
from console.screens.acking import AckingScreen
from console.screens.closing import close
from console.screens.frame import Lines
from core.domain.text import safe


class ErrorsScreen(AckingScreen):
    """One row per job and kind of error; of one job where it is named."""

    number = "4"
    columns = ERROR_COLUMNS
    panel_height = 10
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "open", "filter", "faults", "ack", "unack", "pause", "quit")

    def __init__(self, job: str = "") -> None:
        super().__init__()
        self.job = job

    def rows(self) -> list[Row]:
        """The errors, those that still matter first."""
        local = self.console.shown.local
        return error_rows(local, dict(local.acks), self.console.now, self.job) if local else []

    def heading(self) -> str:
        """The table's name."""
        return "Errors"

    def about(self) -> str:
        """How many kinds, how often in all."""
        return summary(self.rows())

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """The message, what it does, what is known."""
        one = self._error(key)
        if one is None:
            return "Message", [(Level.REST, "no row is chosen" if self.rows() else "no error was recorded")]
        return f"{safe(one.job, 60)}  {safe(one.code or 'no code', 40)}", error_lines(
            one, self.console.shown.job(one.job), self.console.now
        )

    def opened(self, key: str) -> None:
        """The job."""
        one = self._error(key)
        if one is not None:
            self.console.open_job(one.job, self.number)

    def crumb(self) -> str:
        """Where one is."""
        return f"Errors > {safe(self.job, 60)}" if self.job else "Errors"

    def ack_of(self, key: str) -> str:
        """This kind of error up to its last time."""
        one = self._error(key)
        return ack_key(one) if one else ""

    def leave(self) -> None:
        """Back to the job that it was opened from."""
        if self.job:
            close(self)

    def _error(self, key: str | None) -> ErrorSeen | None:
        local = self.console.shown.local
        return next((one for one in local.errors if error_key(one) == key), None) if local else None
