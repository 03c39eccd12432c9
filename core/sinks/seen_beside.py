"""Records the state of a separate sink's targets in the job's store, and compares targets with their records.

Two servers have no common snapshot. So an empty target is compared with the changes that the store counts after the
target was read, plus the batch that has been decided by then (a batch is decided before it is written). A target with
rows is recorded with the changes counted before the read, minus changes that may not be visible yet. Both rules avoid
false alarms.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import LEAST_COUNTED, TargetSeen, begun, changed, renewed, trouble
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.sink import Asked, TargetReader, TargetRecords, TargetSight


class SeenBeside:
    """Implements `slotkeeper.core.ports.sink.TargetReader`; not shared between threads."""

    def __init__(self, sight: TargetSight, records: TargetRecords) -> None:
        self._sight, self._records = sight, records
        self.refusal, self.mark = sight.refusal, records.mark
        self._counted: dict[str, deque[tuple[float, int]]] = {}

    def read(self, asked: Sequence[Asked]) -> Mapping[str, TargetSeen | SlotkeeperError]:
        jobs = [one.job for one in asked]
        before = self._records.applied(jobs)
        found = self._sight.sight(asked)
        empty = any(isinstance(seen, TargetSeen) and not seen.rows for seen in found.values())
        after = self._records.applied(jobs) if empty else before
        records = {one.job.channel.source_table: one.since for one in asked}
        placed = dict(found)
        for table, seen in found.items():
            if isinstance(seen, TargetSeen):
                changes = self._shown(table, before[table].changes, records[table])
                if not seen.rows:
                    changes = after[table].changes + after[table].decided
                placed[table] = replace(seen, home=before[table].home, changes=changes, older=seen.rows > 0)
        return placed

    def _shown(self, table: str, changes: int, since: TargetSeen | None) -> int:
        """Return how many of the counted changes are certainly visible in the target."""
        now, late = time.monotonic(), self._sight.late
        counted = self._counted.setdefault(table, deque())
        counted.append((now, changes))
        while len(counted) > 1 and counted[1][0] <= now - late:
            counted.popleft()
        at, known = counted[0]
        if at > now - late:
            return min(changes, since.changes) if since is not None else 0
        return known

    def sever(self) -> None:
        self._sight.sever()
        self._records.sever()

    def refuse_changed(self, job: JobSpec, columns: Sequence[str]) -> None:
        refuse_changed(self, self._records, job, columns)

    def begin_copy(self, job: JobSpec, columns: Sequence[str], way: str) -> None:
        """Record the target at the start of a copy, before the lanes change state."""
        earlier, _ = self._records.recorded(job)
        self._records.record(job, begun(earlier, self._now(job, columns, earlier), way))

    def refuse_changed_copy(self, job: JobSpec, columns: Sequence[str]) -> None:
        """Raise TARGET CHANGED if the target is not the table with which the copy started."""
        record, _ = self._records.recorded(job)
        why = changed(record, self._now(job, columns, record))
        if why:
            raise trouble(job.channel.target, why)

    def end_copy(self, job: JobSpec, columns: Sequence[str]) -> None:
        """Record the target at the end of a copy, before the lanes change state."""
        self._records.record(job, renewed(self._now(job, columns, None)))

    def _now(self, job: JobSpec, columns: Sequence[str], since: TargetSeen | None) -> TargetSeen:
        return _now(self, job, columns, since)


def _now(reader: TargetReader, job: JobSpec, columns: Sequence[str], since: TargetSeen | None) -> TargetSeen:
    ((_, now),) = reader.read([Asked(job, tuple(columns), since, LEAST_COUNTED)]).items()
    if isinstance(now, SlotkeeperError):
        raise now
    return now


def refuse_changed(reader: TargetReader, records: TargetRecords, job: JobSpec, columns: Sequence[str]) -> None:
    """Raise TARGET CHANGED if a target differs from its record; otherwise record its current state."""
    record, due = records.recorded(job)
    if due or not job.binlog.binlog:  # the job's pending copy decides what to do with the target
        return
    now = _now(reader, job, columns, record)
    why = changed(record, now)
    if why:
        raise trouble(job.channel.target, why)
    if record is None or not record.copying:
        records.record(job, renewed(now))
