"""Says to a Hologres up to where a slot is done on one shard: a stream that is begun for that and read never.

holo-client confirms over the stream that it reads (`setFlushedLSN`, `forceUpdateStatus`). Here who reads is a worker
and who may confirm is the driver, behind the commit; so it is said over a stream of its own, which begins behind that
LSN.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_stream import SlotReplication
from slotkeeper.core.sources.hologres.faults import classify
from slotkeeper.core.sources.hologres.stream.session import StreamAsked, command

SEEN_SECONDS = 3.0
"""How long the server may take until it shows what it was told."""
PAUSE_SECONDS = 0.02


class ConfirmLine:
    """Opens a line for each confirmation; one thread at a time uses it, any may sever it."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._line: SlotReplication | None = None

    @contextmanager
    def open(self, table: str, slot: str, shard: int, lsn: int) -> Iterator[SlotReplication]:
        """A line by the slot, on which nothing was said yet; raises an error of ours."""
        try:
            line = self._line = SlotReplication(self._login)
            line.start(command(StreamAsked(table, 1, slot=slot), shard, lsn))
            yield line
        except pg.DriverError as error:
            raise classify(pg.hiding(error, self._login.password), self._login.endpoint.place) from error
        finally:
            self.close()

    def seen(self, ask: Callable[[], int | None], lsn: int) -> int | None:
        """What the server shows once it shows this, or after a while."""
        until = time.monotonic() + SEEN_SECONDS
        while (there := ask()) != lsn and time.monotonic() < until:
            time.sleep(PAUSE_SECONDS)
        return there

    def sever(self) -> None:
        """Cut the line off, from any thread, without waiting."""
        line = self._line
        if line is not None:
            line.sever()

    def close(self) -> None:
        """End the line; safe to call twice."""
        line, self._line = self._line, None
        if line is not None:
            line.close()
