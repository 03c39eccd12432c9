"""Copies tables of a streaming job again, as users request, while their streams continue (ADR 98).

A thread plans the chunks of a requested table, and reports the progress. The tasks of the loop copy the chunks, because
each chunk is a part of a lane's step.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress

from slotkeeper.core.domain.job import JobEvent, WantedState
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.engine.driver.context import JobContext
from slotkeeper.core.errors import Busy, ErrorKind, Refused, SlotkeeperError
from slotkeeper.core.ports.again import CHUNK_ROWS, CopiedAgain
from slotkeeper.core.ports.driver import StartStore

ACTION = "table copied again"
CHECK_EVERY = 1.0
"""Seconds between two checks of the requests and of the chunks."""
END_WITHIN = 4.0


class CopyingAgain:
    """The tables of one start's loop that are copied again; `parts`: the contexts of its tables by name."""

    def __init__(self, parts: Mapping[str, JobContext], epoch: int) -> None:
        self._parts, self._epoch = parts, epoch
        self._requests = next((one.again for one in parts.values()), None)
        self.tables: frozenset[str] = frozenset()
        """The tables whose chunks are planned under this epoch: their tasks copy them."""
        self.delays: dict[str, str] = {}
        """Why a table's last chunk was not copied, as its task reported."""
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def check(self) -> None:
        """Handle new requests; called in every turn of the loop."""
        if self._requests is None or (self._thread is not None and self._thread.is_alive()):
            return
        if self._mine():
            self._thread = threading.Thread(target=self._run, name="slotkeeper-again", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread; its statements have time limits. The next start continues with the chunks that are left."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(END_WITHIN)

    def _mine(self) -> list[str]:
        assert self._requests is not None
        return [table for table in self._requests.tables() if table in self._parts]

    def _run(self) -> None:
        stores: dict[str, StartStore] = {}
        try:
            while mine := self._mine():
                self.tables &= frozenset(mine)  # a request can be withdrawn
                for table in mine:
                    self._attempt(table, stores)
                if self._closing.wait(CHECK_EVERY):
                    return
        finally:
            self.tables = frozenset()
            for one in stores.values():
                with suppress(SlotkeeperError):
                    one.close()

    def _attempt(self, table: str, stores: dict[str, StartStore]) -> None:
        assert self._requests is not None
        part = self._parts[table]
        if part.wanted() is not WantedState.RUN:
            return
        try:
            if table not in stores:
                stores[table] = part.sessions.ending()
            self._advance(table, part, stores[table])
        except SlotkeeperError as error:
            if error.kind is not ErrorKind.SUPERSEDED:
                self._requests.tell(table, f"{table}: waits to be copied again: {error.message}")
            if (broken := stores.pop(table, None)) is not None:
                broken.sever()

    def _advance(self, table: str, part: JobContext, store: StartStore) -> None:
        assert self._requests is not None
        if not self._requests.is_planned(table):
            self._plan(table, part, store)
            return
        counts = store.chunk_counts()
        if counts.done < counts.total:
            self.tables |= {table}
            why = self.delays.get(table, "")
            delayed = f"; the next chunk waits: {why}" if why else ""
            self._requests.tell(table, f"{table}: copied again, chunk {counts.done} of {counts.total}{delayed}")
            return
        self.tables -= {table}
        said = f"{counts.rows} rows in {counts.total} chunks"
        if part.audit is not None:
            line = part.audit.intent(ACTION, self._what(part), "all chunks are copied", {})
            part.audit.outcome(line, f"done: {said}", {})
        self._requests.end(table)
        part.narrator.event(JobEvent.COPIED_AGAIN, f"{table}: {said}")
        self._requests.tell(table, "")

    def _what(self, part: JobContext) -> str:
        return f"{part.job.source.name} {part.job.channel.source_table} slot {part.job.slot}"

    def _plan(self, table: str, part: JobContext, store: StartStore) -> None:
        assert self._requests is not None
        line = None
        if part.audit is not None:
            line = part.audit.intent(ACTION, self._what(part), "requested by a command", {})
        try:
            source = part.sessions.source("again")
            if not isinstance(source, CopiedAgain):
                raise Refused(f"{table}: this kind of source cannot copy a table again while it streams")
            rows = store.rows()
            if any(row.epoch != self._epoch or row.state is not LaneState.RUNNING for row in rows):
                raise Busy(f"{table} has to catch up first", where="sink")
            self._requests.tell(table, f"{table}: the chunks of its new copy are planned")
            chunks = source.plan_again(CHUNK_ROWS)
            part.probe("before_again_planned")
            store.plan_again(self._epoch, chunks)
            part.probe("after_again_planned")
        except SlotkeeperError as error:
            if part.audit is not None and line is not None:
                part.audit.outcome(line, f"failed: {error.message}", {})
            if isinstance(error, Refused):
                self._requests.end(table)
                part.narrator.event(JobEvent.COPIED_AGAIN, f"{table}: refused: {error.message}")
            raise
        self._requests.planned(table)
        if part.audit is not None and line is not None:
            part.audit.outcome(line, f"planned: {len(chunks)} chunks", {})
