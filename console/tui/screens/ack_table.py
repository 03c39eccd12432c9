"""Screens whose rows a person can acknowledge, so that the next one knows that somebody is on it."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import ClassVar

from textual.binding import Binding, BindingType

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.core.domain.fault import Ack
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.state.alerts import AckFile
from slotkeeper.core.state.folder import StateFolder

Change = Callable[[AckFile], object]


class AckTable(TableScreen):
    """A table whose rows have something that can be acknowledged."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "ack", "acknowledge", id="ack"),
        Binding("u", "unack", "take back", id="unack"),
    ]

    def ack_of(self, key: str) -> str:
        """The key of what is acknowledged with a row; "" where there is nothing to acknowledge."""
        raise NotImplementedError

    def action_ack(self) -> None:
        """Somebody is on it: it counts no more until it changes."""
        self._put(None, "acknowledged; it counts no more until it changes")

    def action_unack(self) -> None:
        """Take an acknowledgement or a silence back."""
        key = self._key()
        if key:
            self._change(lambda file: file.remove(key, self.console.now), "taken back; it counts again")

    def put_silence(self, until: datetime, said: str) -> None:
        """Silent until then."""
        self._put(until, said)

    def _acks(self) -> Mapping[str, Ack]:
        return self.console.shown.local.acks

    def _put(self, until: datetime | None, said: str) -> None:
        key = self._key()
        if key:
            ack = Ack(getpass.getuser(), self.console.now, until)
            self._change(lambda file: file.put(key, ack), said)

    def _key(self) -> str:
        if self.console.in_history:
            self.console.say("a moment of the past cannot be acknowledged; R leaves history", Level.WARNING)
            return ""
        row = self.table.cursor_key
        key = self.ack_of(row) if row is not None else ""
        if not key:
            self.console.say("nothing to acknowledge here", Level.REST)
        return key

    def _change(self, change: Change, said: str) -> None:
        try:
            change(AckFile(StateFolder.open(self.console.services.folder)))
        except (SlotkeeperError, OSError) as error:
            self.console.say(f"not noted: {error}", Level.WARNING)
            return
        self.console.say(said, Level.FINE)
        self.console.action_renew()
