"""The composition root of the quarantine: reading it.

Next door: `core.sinks.postgres.held` reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from core.config.secrets import resolve
from core.domain.spec import JobSpec
from core.sinks.postgres.held import HeldRows
from core.sinks.postgres.session import SinkSession
from core.wiring_slots import look_name


@contextmanager
def looking(job: JobSpec) -> Iterator[HeldRows]:
    """The quarantine of a job's sink, which all jobs of that sink share, over a session that only looks."""
    password = resolve(job.sink.password)
    session = SinkSession(job.sink, password, look_name(job.name), job.progress_schema, job.sink_kind)
    try:
        yield HeldRows(session)
    finally:
        session.close()
