"""Writes batches into a target one by one, without a progress row: what the library asks of a sink.

Writing a batch again changes nothing.
"""

from __future__ import annotations

import io

from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write import statements as compose


class PostgresBatches:
    """The target of a job's channel: made on request and checked; implements `ports.sink.BatchWriter`."""

    def __init__(self, session: SinkSession, job: JobSpec, identity: TableIdentity) -> None:
        self._session, self._options = session, job.sink_options
        target, image = targets.target_of(job.channel, identity), image_of(job.channel, identity)
        if job.channel.create_target:
            targets.create(session, job.channel.target, image)
        targets.check(session, target, image, self._options)
        self._target = targets.seen(session, target)

    def write(self, text: bytes, rows: int) -> None:
        """The net effect of a batch per key, in one transaction."""
        plan = compose.plan(self._target, self._options, rows)
        with self._session.transaction() as cursor:
            for made in compose.temporary(self._target, self._options):
                cursor.execute(made)
            cursor.copy_expert(compose.fill_staging(self._target).as_string(cursor), io.BytesIO(text))
            compose.execute(cursor, plan)
