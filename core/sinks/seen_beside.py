"""Keeps, at a job's store, what a sink beside it tells of its targets, and compares; the same record as a store's own.

Two servers have no snapshot in common. So a target that has no row is compared with what the store counts behind that
look, and with what was decided by then: a batch is decided before it is written. One that has rows is recorded with
what was counted before it, less what may not be seen yet. Either errs to the side of no alarm.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import LEAST_COUNTED, TargetSeen, begun, changed, renewed, trouble
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.ports.sink import Applied, Asked, TargetRecords, TargetSight


class SeenBeside:
    """Implements `slotkeeper.core.ports.sink.TargetReader`; not shared between threads."""

    def __init__(self, sight: TargetSight, records: TargetRecords) -> None:
        self._sight, self._records = sight, records
        self._counted: dict[str, deque[tuple[float, int]]] = {}

    def read(self, asked: Sequence[Asked]) -> Mapping[str, TargetSeen | SlotkeeperError]:
        jobs = [one.job for one in asked]
        before = self._records.applied(jobs)
        found = self._sight.sight(asked)
        empty = any(isinstance(seen, TargetSeen) and not seen.rows for seen in found.values())
        after = self._records.applied(jobs) if empty else before
        records = {one.job.channel.source_table: one.since for one in asked}
        return {
            table: seen
            if isinstance(seen, SlotkeeperError)
            else self._placed(table, seen, before[table], after[table], records[table])
            for table, seen in found.items()
        }

    def _placed(
        self, table: str, seen: TargetSeen, before: Applied, after: Applied, since: TargetSeen | None
    ) -> TargetSeen:
        counted = self._shown(table, before.changes, since)
        changes = counted if seen.rows else after.changes + after.decided
        return replace(seen, home=before.home, changes=changes, older=seen.rows > 0)

    def _shown(self, table: str, changes: int, since: TargetSeen | None) -> int:
        """Of what is counted, what the target has been showing for certain."""
        now, late = time.monotonic(), self._sight.late
        counted = self._counted.setdefault(table, deque())
        counted.append((now, changes))
        while len(counted) > 1 and counted[1][0] <= now - late:
            counted.popleft()
        at, known = counted[0]
        if at > now - late:
            return min(changes, since.changes) if since is not None else 0
        return known

    def refusal(self, job: JobSpec, identity: TableIdentity) -> Refused | None:
        return self._sight.refusal(job, identity)

    def mark(self, job: JobSpec, epoch: int, record: TargetSeen) -> None:
        self._records.mark(job, epoch, record)

    def sever(self) -> None:
        self._sight.sever()
        self._records.sever()

    def refuse_changed(self, job: JobSpec, columns: Sequence[str]) -> None:
        """TARGET CHANGED where it is not what was recorded of it; else what it is now is the record."""
        record, due = self._records.recorded(job)
        if due or not job.binlog.binlog:  # its copy decides about the target
            return
        now = self._now(job, columns, record)
        why = changed(record, now)
        if why:
            raise trouble(job.channel.target, why)
        if record is None or not record.copying:
            self._records.record(job, renewed(now))

    def begin_copy(self, job: JobSpec, columns: Sequence[str], way: str) -> None:
        """Record the target that a copy begins with, before the lanes turn."""
        earlier, _ = self._records.recorded(job)
        self._records.record(job, begun(earlier, self._now(job, columns, earlier), way))

    def refuse_changed_copy(self, job: JobSpec, columns: Sequence[str]) -> None:
        """TARGET CHANGED where it is not the table any more that the copy began with."""
        record, _ = self._records.recorded(job)
        why = changed(record, self._now(job, columns, record))
        if why:
            raise trouble(job.channel.target, why)

    def end_copy(self, job: JobSpec, columns: Sequence[str]) -> None:
        """Record the target that a copy leaves, before the lanes turn."""
        self._records.record(job, renewed(self._now(job, columns, None)))

    def _now(self, job: JobSpec, columns: Sequence[str], since: TargetSeen | None) -> TargetSeen:
        ((_, now),) = self.read([Asked(job, tuple(columns), since, LEAST_COUNTED)]).items()
        if isinstance(now, SlotkeeperError):
            raise now
        return now
