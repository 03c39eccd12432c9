"""What is asked of a sink about locks: which sessions of ours wait there, and who is in front of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slotkeeper.core.domain.locks import LockWait


class LockReader(Protocol):
    """Asks one sink, again and again; it remembers its last answer, by which a wait goes on between two attempts."""

    def read(self, now: float) -> Sequence[LockWait]:
        """The waits of this moment, within a few seconds; `now` is this machine's clock in seconds since 1970.

        Takes no lock of a table. A session that waited in the last answer and is not waiting now is among them, with
        `waits` False, as long as the server shows that the one in front of it is there still. Raises an error of ours.
        """
