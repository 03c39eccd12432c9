"""A table of what a server answers, asked for in a thread that the console does not wait for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from textual.message import Message

from slotkeeper.console.tui.screens.table import TableScreen


class Answered(Message):
    """What was asked for; or a sentence on why it could not be had."""

    def __init__(self, number: int, found: object, fault: str) -> None:
        super().__init__()
        self.number = number
        self.found = found
        self.fault = fault


class AskingScreen(TableScreen):
    """Rows that a server answers.

    Who opens such a screen asks once; an answer to an earlier question is dropped. `fault` says why the server could
    not answer, and what was shown before stays.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fault = ""
        self.asked_at: float | None = None
        self.took = 0.0
        self._number = 0

    def taken(self, found: object) -> None:
        """The answer is there."""
        raise NotImplementedError

    def begin(self, question: Callable[[], object]) -> None:
        """Ask; an answer to an earlier question is not wanted any more."""
        self._number += 1
        self.asked_at = time.monotonic()
        number = self._number

        def work() -> None:
            found, fault = None, ""
            try:
                found = question()
            except Exception as error:  # the top of a thread: whatever it is must be told
                from slotkeeper.console.monitor.store_reader import message_of  # the first frame is seen without it

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
