"""The records of targets that a sink beside this store has; the same columns as those of the store's own targets."""

from __future__ import annotations

from collections.abc import Sequence

from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import TargetSeen
from slotkeeper.core.ports.sink import Applied
from slotkeeper.core.sinks.postgres.check import seen
from slotkeeper.core.sinks.postgres.session import SinkSession


class PostgresRecords:
    """Implements `slotkeeper.core.ports.sink.TargetRecords`; not shared between threads."""

    def __init__(self, session: SinkSession) -> None:
        self._session = session
        self.mark = seen.PostgresTargets(session).mark
        self.sever = session.sever

    def applied(self, jobs: Sequence[JobSpec]) -> dict[str, Applied]:
        """What is counted for the channel of each job, by source table, in one statement."""
        key = jobs[0].lane_key()
        tables = [job.channel.source_table for job in jobs]
        values = {"source": key.source, "slot": key.slot, "source_tables": tables, "home": self._session.schema.string}
        with self._session.transaction() as cursor:
            found = self._session.run(cursor, "applied", values, seen.SQL_BOOK).fetchall()
        counted = {str(row[0]): Applied(*map(int, row[1:])) for row in found}
        return {table: counted.get(table, Applied(0, 0, 0)) for table in tables}

    def recorded(self, job: JobSpec) -> tuple[TargetSeen | None, bool]:
        """The newest record of a job's channel, and whether a copy is due, which asks for none."""
        with self._session.transaction() as cursor:
            return seen.recorded(self._session, cursor, job.lane_key())

    def record(self, job: JobSpec, record: TargetSeen) -> None:
        """Write the record into all rows of a job's channel."""
        with self._session.transaction() as cursor:
            seen.write(self._session, cursor, job.lane_key(), record)
