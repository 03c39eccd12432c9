"""Alerts: what fires now, what it means, until when, and the ways out, the one that loses least first."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.ack_table import AckTable
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.tui.screens.below import events_below
from slotkeeper.console.views.alerts import ALERT_COLUMNS, Alert, alert_lines, alert_rows, alerts, figures
from slotkeeper.console.views.rows import Row

SILENCE = timedelta(hours=1)


class AlertsScreen(AckTable):
    """The conditions that hold now."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("n", "snooze", "silent for 1h", id="snooze")]
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
        """The alerts, those that need somebody first; they are found once for each drawing, not for each key."""
        self._alerts = alerts(self.console.shown, self.console.now)
        return alert_rows(self._alerts, self._acks(), self.console.now)

    def about(self) -> str:
        """How many fire."""
        slots = "" if self.console.shown.tables else "   slots not seen yet"
        return figures(self._alerts, self._acks(), self.console.now) + slots

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """What it means and what can be done."""
        one = self._alert(key)
        if one is None:
            gone = "the alert that was chosen has ended; j or k chooses another"
            return "What this means", [(Level.REST, gone if self._alerts else "nothing fires")]
        return f"{one.rule}  {one.thing}", alert_lines(one)

    def more(self, key: str | None, room: int) -> list[Text]:
        """What happened last."""
        return events_below(self, room)

    def opened(self, key: str) -> None:
        """The thing that it is about."""
        one = self._alert(key)
        if one is None:
            return
        kind, name = one.goes_to
        if kind == "job" and name:
            self.console.open_job(name, self.number)
        elif kind == "quarantined":
            self.console.open_quarantine(name)
        elif kind == "slot" and name:
            self.console.open_slot(name)
        else:
            self.console.say("this is about no single job or slot", Level.REST)

    def ack_of(self, key: str) -> str:
        """What it is acknowledged by already, else what it would be: it ends where the condition does."""
        one, acks = self._alert(key), self._acks()
        keys = () if one is None else one.ack_keys
        return next((each for each in keys if each in acks), next(iter(keys), ""))

    def action_snooze(self) -> None:
        """Silent for an hour."""
        self.put_silence(self.console.now + SILENCE, "silent for 1h; `u` takes it back")

    def _alert(self, key: str | None) -> Alert | None:
        return next((one for one in self._alerts if one.key == key), None)
