"""Asks the sinks who waits for a lock, while the screen of it is seen; sessions are opened at the first question.

Drivers are loaded when a sink is first asked.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slotkeeper.core.config.model import Loaded
    from slotkeeper.core.services.looking import LocksSeen, SinkLocks

EVERY = 2.0
"""So many seconds lie between two questions."""


class LockPoller:
    """Asks all sinks of a configuration; one question at a time."""

    def __init__(self) -> None:
        self._asking: SinkLocks | None = None
        self._lock = threading.Lock()

    def ask(self, loaded: Loaded, now: float) -> list[LocksSeen]:
        """What each sink says; `now` is this machine's clock in seconds since 1970."""
        from slotkeeper.core.services.looking import SinkLocks

        with self._lock:
            self._asking = self._asking or SinkLocks(loaded)
            return self._asking.ask(now)

    def rest(self) -> None:
        """End the sessions; a question that is under way fails. The next one opens new ones."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.close()
