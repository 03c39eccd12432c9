"""Errors by kind, newest first: what happened how often, what became of it, and what is known about it.

Rows that a target refused stand among them, a line per job, as far as its sink or its last report tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.ack_table import AckTable
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.tui.screens.below import events_below
from slotkeeper.console.views.errors import ERROR_COLUMNS, ack_key, error_key, error_lines, error_rows, summary
from slotkeeper.console.views.jobs import parts
from slotkeeper.console.views.quarantine import JobQuarantine, group_lines, group_rows, quarantine_of
from slotkeeper.console.views.rows import Column, Row, named_by, rank
from slotkeeper.core.domain.row_counts import rows_quarantined
from slotkeeper.core.domain.text import safe
from slotkeeper.core.state.rows import ErrorRow


class ErrorsScreen(AckTable):
    """One row per job and kind of error, and one per job that holds rows; of one job where it is named."""

    its_name = "Errors"
    number = "4"
    columns = ERROR_COLUMNS
    panel_height = 10
    has_actions = True
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "open", "act", "filter", "faults", "ack", "unack", "pause", "quit")

    def __init__(self, job: str = "") -> None:
        super().__init__()
        self.job = job

    def every_column(self) -> Sequence[Column]:
        """All of them, with what a lane reads called as the jobs' sources call it."""
        return named_by(self.columns, (), (), parts(self.console.shown.local.jobs) or ("lane",))

    def rows(self) -> list[Row]:
        """What still matters first; of what matters alike, rows that are held before errors."""
        every = [*group_rows(self._quarantines(), self._acks(), self.console.now), *self._errors()]
        return sorted(every, key=lambda row: rank(row.level))

    def _errors(self) -> list[Row]:
        return error_rows(self.console.shown.local, self._acks(), self.console.now, self.job)

    def about(self) -> str:
        """How many kinds, how often in all; how many rows are held."""
        number = sum(one.number or 0 for one in self._quarantines())
        return summary(self._errors()) + (f", {rows_quarantined(number)}" if number else "")

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """The message, what it does, what is known."""
        quarantined = self._quarantine_at(key)
        if quarantined is not None:
            return f"{safe(quarantined.job or quarantined.sink, 60)}  quarantine", group_lines(
                quarantined, self.console.now
            )
        one = self._error(key)
        if one is None:
            return "Message", [(Level.REST, "no row is chosen" if self.rows() else "no error was recorded")]
        return f"{safe(one.job, 60)}  {safe(one.code or 'no code', 40)}", error_lines(
            one, self.console.shown.job(one.job), self.console.now
        )

    def more(self, key: str | None, room: int) -> list[Text]:
        """What happened last."""
        return events_below(self, room)

    def opened(self, key: str) -> None:
        """The rows that are held, or the job."""
        quarantined, one = self._quarantine_at(key), self._error(key)
        if quarantined is not None:
            self.console.open_quarantine(quarantined.job, quarantined.key)
        elif one is not None:
            self.console.open_job(one.job, self.number)

    def act(self, keys: list[str]) -> None:
        """What can be done to all rows that a job holds; an error has nothing of its own to be done to it."""
        found = [quarantined for key in keys if (quarantined := self._quarantine_at(key)) is not None]
        if len(found) == 1 and len(keys) == 1:
            self.console.open_quarantine_menu(found[0].choice)
        else:
            self.console.say("one job's rows in quarantine at a time; Enter opens the job of an error", Level.WARNING)

    def crumb(self) -> str:
        """Where one is."""
        return f"Errors > {safe(self.job, 60)}" if self.job else "Errors"

    def ack_of(self, key: str) -> str:
        """This kind of error up to its last time; so many rows of a job."""
        quarantined, one = self._quarantine_at(key), self._error(key)
        return quarantined.ack if quarantined is not None else ack_key(one) if one else ""

    def _quarantines(self) -> list[JobQuarantine]:
        loaded = self.console.services.loaded
        found = quarantine_of(self.console.shown, loaded.jobs if loaded else {})
        return [one for one in found if self.job in ("", one.job)]

    def _quarantine_at(self, key: str | None) -> JobQuarantine | None:
        return next((one for one in self._quarantines() if one.key == key), None)

    def _error(self, key: str | None) -> ErrorRow | None:
        return next((one for one in self.console.shown.local.errors if error_key(one) == key), None)
