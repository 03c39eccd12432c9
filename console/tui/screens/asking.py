"""A table of rows from a server. A thread sends the query, so that the console does not wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from textual.message import Message

from slotkeeper.console.tui.screens.table import TableScreen


class Answered(Message):
    """The answer to a query, or a sentence that explains why the query failed."""

    def __init__(self, number: int, found: object, fault: str) -> None:
        super().__init__()
        self.number = number
        self.found = found
        self.fault = fault


class AskingScreen(TableScreen):
    """Rows from a server.

    Opening the screen sends one query. An answer to an earlier query is discarded. `fault` is the error of the last
    query; after an error, the previous rows stay.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fault = ""
        self.asked_at: float | None = None
        self.took = 0.0
        self._number = 0

    def taken(self, found: object) -> None:
        """Show the answer."""
        raise NotImplementedError

    def begin(self, question: Callable[[], object]) -> None:
        """Send the query; answers to earlier queries are discarded."""
        self._number += 1
        self.asked_at = time.monotonic()
        number = self._number

        def work() -> None:
            found, fault = None, ""
            try:
                found = question()
            except Exception as error:  # top level of a thread: any error must be shown
                from slotkeeper.console.monitor.store_reader import message_of  # not needed for the first frame

                fault = message_of(error)
            self.post_message(Answered(number, found, fault))

        threading.Thread(target=work, name=f"slotkeeper-ask-{number}", daemon=True).start()
        self.redraw()

    def on_answered(self, message: Answered) -> None:
        if message.number != self._number or self.asked_at is None:
            return
        self.took, self.asked_at = time.monotonic() - self.asked_at, None
        self.fault = message.fault
        if not message.fault:
            self.taken(message.found)
        self.rearranged()
