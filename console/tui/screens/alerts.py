"""The Errors and Alerts screens: two tables of problems with rows that a user can acknowledge."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from textual.binding import Binding, BindingType

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.console.views import headlines
from slotkeeper.console.views.alerts import ALERT_COLUMNS, Alert, alert_lines, alert_rows, alerts, figures
from slotkeeper.console.views.errors import (
    ERROR_COLUMNS,
    WINDOWS,
    ack_key,
    error_key,
    error_lines,
    error_rows,
    summary,
    within,
)
from slotkeeper.console.views.jobs import parts
from slotkeeper.console.views.quarantine import JobQuarantine, group_lines, group_rows, quarantine_of
from slotkeeper.console.views.rows import Column, Row, Verdict, named_by, rank
from slotkeeper.core.domain.access import Right
from slotkeeper.core.domain.fault import Ack
from slotkeeper.core.domain.row_counts import rows_quarantined
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.state.alerts import AckFile
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.rows import ErrorRow

NO_ERROR = "Each error is listed here with its impact on the job and the actions, least loss first."
NO_ALERT = "Each alert is listed here with its meaning and the action. `slotkeeper docs alerts` explains notifications."
Change = Callable[[AckFile], object]


class AckTable(TableScreen):
    """A table whose rows can be acknowledged."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "ack", "acknowledge", id="ack"),
        Binding("u", "unack", "withdraw", id="unack", tooltip="remove the acknowledgement"),
    ]
    tells_events = True

    def ack_of(self, key: str) -> str:
        """Return the key under which a row is acknowledged; "" if the row cannot be acknowledged."""
        raise NotImplementedError

    def action_ack(self) -> None:
        self.put(None, "acknowledged: not counted until it changes")

    def action_unack(self) -> None:
        key = self._key()
        if key:
            self._change(lambda file: file.remove(key, self.console.now), "acknowledgement removed: counted again")

    def _acks(self) -> Mapping[str, Ack]:
        return self.console.shown.local.acks

    def put(self, until: datetime | None, said: str) -> None:
        """Acknowledge the selected row, or silence it until that time."""
        key = self._key()
        if key:
            ack = Ack(getpass.getuser(), self.console.now, until)
            self._change(lambda file: file.put(key, ack), said)

    def _key(self) -> str:
        if self.console.in_history:
            self.console.say("cannot acknowledge in history; press R to leave it", Level.WARNING)
            return ""
        row = self.table.cursor_key
        key = self.ack_of(row) if row is not None else ""
        if not key:
            self.console.say("nothing to acknowledge here", Level.REST)
        return key

    def _change(self, change: Change, said: str) -> None:
        services = self.console.services
        try:
            services.require("alerts ack", Right.PAUSE)
            change(AckFile(StateFolder.open(services.folder)))
        except (SlotkeeperError, OSError) as error:
            self.console.say(f"could not save the acknowledgement: {error}", Level.WARNING)
            return
        self.console.say(said, Level.FINE)
        self.console.action_renew()


class ErrorsScreen(AckTable):
    """One row per job and kind of error, newest first; only rows of `job` if it is given.

    The table also has one row per job for quarantined rows, as reported by its sink or in its last report.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "t", "window", "time window", id="window", tooltip="all, 1 hour, 6 hours, 24 hours; faults are always shown"
        )
    ]
    its_name = "Errors"
    number = "4"
    columns = ERROR_COLUMNS
    panel_height = 10
    has_actions = True
    keys_shown: ClassVar[tuple[str, ...]] = (
        "help",
        "open",
        "act",
        "filter",
        "faults",
        "ack",
        "unack",
        "freeze",
        "quit",
    )

    def __init__(self, job: str = "") -> None:
        super().__init__()
        self.job = job

    def every_column(self) -> Sequence[Column]:
        return named_by(self.columns, (), (), parts(self.console.shown.local.jobs) or ("lane",))

    def rows(self) -> list[Row]:
        """Return the rows, most severe first; at the same severity, quarantined rows precede errors."""
        errors = within(self._errors(), self._window, self.console.now)
        every = [*group_rows(self._quarantines(), self._acks(), self.console.now), *errors]
        return sorted(every, key=lambda row: rank(row.level))

    def verdict(self) -> Verdict:
        first = self.every_row[0].key if self.every_row else None
        errors = [one for one in self.console.shown.local.errors if self.job in ("", one.job)]
        worst = self._quarantine_at(first) or self._error(first)
        return headlines.of_errors(self.every_row, worst, errors, self.console.now, self.apart)

    def _errors(self) -> list[Row]:
        return error_rows(self.console.shown.local, self._acks(), self.console.now, self.job)

    def about(self) -> str:
        number, every = sum(one.number or 0 for one in self._quarantines()), self._errors()
        shown = within(every, self._window, self.console.now)
        older = f"last {WINDOWS[self._window]}, {len(every) - len(shown)} older, " if self._window else ""
        return older + summary(shown) + (f", {rows_quarantined(number)}" if number else "")

    @property
    def _window(self) -> int:
        chosen = self.console.services.settings.now.window
        return chosen if chosen in WINDOWS else 0

    def action_window(self) -> None:
        """Switch to the next longer time window; after the longest, show all errors."""
        windows = list(WINDOWS)
        chosen = windows[(windows.index(self._window) + 1) % len(windows)]
        self.console.services.settings.change(chosen, "window")
        self.console.say(f"errors: {WINDOWS[chosen] if not chosen else f'of the last {WINDOWS[chosen]}'}")
        self.rearranged()

    def panel(self, key: str | None) -> tuple[str, Lines]:
        quarantined = self._quarantine_at(key)
        if quarantined is not None:
            return f"{safe(quarantined.job or quarantined.sink, 60)}  quarantine", group_lines(
                quarantined, self.console.now
            )
        one = self._error(key)
        if one is None:
            return "Message", [(Level.REST, "no row is selected" if self.every_row else NO_ERROR)]
        return f"{safe(one.job, 60)}  {safe(one.code or 'no code', 40)}", error_lines(
            one, self.console.shown.job(one.job), self.console.now
        )

    def opened(self, key: str) -> None:
        quarantined, one = self._quarantine_at(key), self._error(key)
        if quarantined is not None:
            self.console.open("quarantine", quarantined.job, quarantined.key)
        elif one is not None:
            self.console.open("job", one.job, self.number)

    def act(self, keys: list[str]) -> None:
        """Open the menu for all quarantined rows of a job. There are no actions on an error."""
        found = [quarantined for key in keys if (quarantined := self._quarantine_at(key)) is not None]
        if len(found) == 1 and len(keys) == 1:
            self.console.open("quarantine-menu", found[0].choice)
        else:
            self.console.say(
                "select the quarantined rows of one job only; Enter opens the job of an error", Level.WARNING
            )

    def crumb(self) -> str:
        return f"Errors > {safe(self.job, 60)}" if self.job else "Errors"

    def jobs_meant(self) -> list[str]:
        quarantined, one = self._quarantine_at(self.table.cursor_key), self._error(self.table.cursor_key)
        return [quarantined.job] if quarantined is not None else [one.job] if one is not None else []

    def ack_of(self, key: str) -> str:
        """Return the key of this kind of error up to its last occurrence, or of a job's quarantined-row count."""
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


SILENCE = timedelta(hours=1)


class AlertsScreen(AckTable):
    """The current alerts."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("n", "snooze", "silence 1 h", id="snooze")]
    its_place = "Alerts   bell: critical only"
    its_name = "Alerts"
    number = "6"
    columns = ALERT_COLUMNS
    panel_height = 9
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "open", "ack", "unack", "snooze", "filter", "faults", "quit")

    def __init__(self) -> None:
        super().__init__()
        self._alerts: list[Alert] = []

    def rows(self) -> list[Row]:
        """Return the alerts; those that require action come first. They are determined once per drawing."""
        self._alerts = alerts(self.console.shown, self.console.now)
        return alert_rows(self._alerts, self._acks(), self.console.now)

    def verdict(self) -> Verdict:
        return headlines.of_alerts(self.every_row, self._alerts, bool(self.console.shown.tables), self.apart)

    def about(self) -> str:
        return figures(self._alerts, self._acks(), self.console.now)

    def panel(self, key: str | None) -> tuple[str, Lines]:
        one = self._alert(key)
        if one is None:
            gone = "the selected alert has ended; j or k selects another"
            return "What this means", [(Level.REST, gone if self._alerts else NO_ALERT)]
        return f"{one.rule}  {one.thing}", alert_lines(one)

    def opened(self, key: str) -> None:
        one = self._alert(key)
        if one is None:
            return
        kind, name = one.goes_to
        if kind == "job" and name:
            self.console.open("job", name, self.number)
        elif kind == "quarantined":
            self.console.open("quarantine", name)
        elif kind == "slot" and name:
            self.console.open("slot", name)
        else:
            self.console.say("this alert is not about a single job or slot", Level.REST)

    def ack_of(self, key: str) -> str:
        """Return the key of the existing acknowledgement, or of a new one that lasts as long as the condition."""
        one, acks = self._alert(key), self._acks()
        keys = () if one is None else one.ack_keys
        return next((each for each in keys if each in acks), next(iter(keys), ""))

    def action_snooze(self) -> None:
        self.put(self.console.now + SILENCE, "silenced for 1 h; `u` ends the silence")

    def _alert(self, key: str | None) -> Alert | None:
        return next((one for one in self._alerts if one.key == key), None)
