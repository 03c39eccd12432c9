"""The composition root of a slot's reset: one session at the source, one at the sink that holds the lease, the files.

Whether a job lives is asked by the console, because processes are seen above this layer.
Next door: `core.slots` plans, applies and resumes; `core.services.verify` has the commands that only look.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone

from core.clock import SystemClock
from core.config.model import Loaded
from core.config.secrets import resolve
from core.domain.reset import Check
from core.domain.slot import TableIdentity
from core.domain.spec import JobSpec
from core.engine.driver.context import lane_key
from core.errors import ConfigError, Refused
from core.ports.progress import Runner
from core.services.audit import CopiedAudit
from core.sinks.postgres.check import target as targets
from core.sinks.postgres.progress.resets import PostgresResets
from core.sinks.postgres.session import SinkSession
from core.slots.reset.context import Probe, ResetContext, silent
from core.sources.dws.retention import DwsRetention
from core.sources.dws.session import DwsSession
from core.state.audit import actor
from core.state.folder import StateFolder
from core.state.resets import ResetFiles
from core.wiring import worker

probe: Probe = silent
"""Called at named points of a reset; tests put theirs here."""


class WiredRetention(DwsRetention):
    """The reset's session at the source; it may end the job's others."""

    job_name = ""

    def silence(self) -> bool:
        """End the job's sessions of earlier epochs at the source; False where it is not certain."""
        pattern = worker.session_name(self.job_name, "%").replace("_", r"\_")
        return self.end_sessions(pattern, self.session.application_name)


class WiredResets(PostgresResets):
    """The reset's session at the sink."""

    def __init__(self, session: SinkSession, job: JobSpec, runner: Runner) -> None:
        super().__init__(session, lane_key(job, ""), runner)
        self._job = job

    def can_copy(self, identity: TableIdentity) -> bool:
        """Whether the target is empty or absent."""
        target = targets.target_of(self._job.channel, identity)
        return not targets.exists(self.session, target.name) or targets.is_empty(self.session, target)


def job_of(loaded: Loaded, table: str, slot: str) -> JobSpec:
    """The configured job that follows a table by a slot, narrowed to that channel; ConfigError where there is none.

    A refused job may be the one that follows it: then its error is raised.
    """
    for job in loaded.jobs.values():
        if job.slot == slot and any(channel.source_table == table for channel in job.channels):
            return job.of(table)
    loaded.whole()
    places = [f"{channel.source_table} {job.slot}" for job in loaded.jobs.values() for channel in job.channels]
    known = ", ".join(places) or "none"
    raise ConfigError(f"{loaded.path}: no job follows {table} by slot {slot}", f"its slots: {known}")


@contextmanager
def reset_context(
    job: JobSpec,
    folder: StateFolder,
    at_rest: Callable[[], Check],
    told: Callable[[str], None],
    steal: str = "",
) -> Iterator[ResetContext]:
    """Everything that a reset of a job's slot needs, for the block; the lease, once taken, is held to its end."""
    if job.sink_kind != "postgres":
        what = f"the sink of slot {job.slot} is a DWS: a reset keeps its steps in PostgreSQL only"
        cure = (
            "with the job stopped: slots drop, delete its slotkeeper_progress rows, start with on_existing (runbook.md)"
        )
        raise Refused(what, cure, where="sink")
    name = f"reset-{uuid.uuid4().hex[:8]}"
    session = DwsSession(job.source, resolve(job.source.password), worker.session_name(job.name, name))
    retention = WiredRetention(session, job.channel.source_table, job.slot, job.binlog)
    retention.job_name = job.name
    sink = SinkSession(job.sink, resolve(job.sink.password), worker.session_name(job.name, name), job.progress_schema)
    resets = WiredResets(sink, job, worker.who(job, name))
    try:
        yield ResetContext(
            job=job,
            retention=retention,
            resets=resets,
            files=ResetFiles(folder),
            actor=actor(),
            audit=CopiedAudit(folder, sink).append,
            at_rest=at_rest,
            told=told,
            clock=SystemClock(),
            now=_now,
            pause=time.sleep,
            new_id=_new_id,
            steal=steal,
            probe=probe,
        )
    finally:
        retention.close()
        resets.close()


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _new_id() -> str:
    return f"{_now():%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
