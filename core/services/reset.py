"""Provide the inputs of a slot reset: a source session, a sink session with the lease, and files.

The console checks whether a job runs, because processes are visible only above this layer.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache, partial

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.reset import Check, ResetStep, backup_of, plan_from
from slotkeeper.core.domain.reset_files import BACKUPS, PLANS
from slotkeeper.core.domain.spec import JobSpec, TableAsked
from slotkeeper.core.domain.text import see
from slotkeeper.core.domain.traits import refuse_shared
from slotkeeper.core.errors import ConfigError, Refused
from slotkeeper.core.services.audit import CopiedAudit, Tell
from slotkeeper.core.services.audit import silent as silent_tell
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.slots.reset_apply import no_undo
from slotkeeper.core.slots.reset_plan import Probe, ResetContext, silent, unseen
from slotkeeper.core.sources import registry
from slotkeeper.core.state import observed
from slotkeeper.core.state.audit import actor
from slotkeeper.core.state.files import ResetFiles, StoredConsents
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.wiring import worker

STORE_LIMIT_MS = 40_000
"""Time limit in milliseconds of a reset's statement in its store, which has few rows; exceeds the lock wait (30 s)."""
probe: Probe = silent
"""Called at named points of a reset; tests replace it."""


def job_of(loaded: Loaded, table: str, slot: str) -> JobSpec:
    """Return the job that reads a table through a slot, restricted to that channel; raises ConfigError without one.

    If a job with an invalid configuration could be that job, the error of its configuration is raised.
    """
    for job in loaded.jobs.values():
        if job.slot == slot and any(channel.source_table == table for channel in job.channels):
            refuse_shared(registry.open(job.source_kind).traits, job.name, len(job.channels))
            return job.of(table)
    loaded.whole()
    places = [f"{channel.source_table} {job.slot}" for job in loaded.jobs.values() for channel in job.channels]
    known = ", ".join(places) or "none"
    raise ConfigError(f"{loaded.path}: no job reads {table} with slot {slot}", f"known slots: {known}")


def refuse_place(job: JobSpec, text: str) -> None:
    """Raise ConfigError for a string that is not a binlog position in the format of a job's source."""
    positions = registry.positions(job.source_kind)
    try:
        positions.place(text)
    except ValueError:
        what = f"{text!r} is not a {positions.name}"
        raise ConfigError(what, "write DN=POSITION or POSITION, in the format of slots show and slots peek") from None


@contextmanager
def reset_context(
    job: JobSpec,
    folder: StateFolder,
    at_rest: Callable[[], Check],
    report: Callable[[str, bool], object],
    steal: str = "",
    tell: Tell = silent_tell,
    void: Callable[[str], object] = silent,
    alone: bool = True,
    rate: Callable[[int | None], float | None] = lambda present: None,
    progress: Callable[[ResetStep, int, int], None] = unseen,
    approved: Callable[[str, str], object] = lambda plan, what: None,
) -> Iterator[ResetContext]:
    """Yield the context of a reset of a job's slot, with the lease held until the block ends.

    `tell` receives secondary failures, such as a failed copy of the audit; `ResetContext` describes the others.
    """
    why = sinks.open(job.sink_kind).no_reset
    if why:
        cure = "stop the job, drop the slot, delete its slotkeeper_progress rows, and start the job with on_existing"
        hint = f"{cure}: {see('runbook', 'I must reset a slot')}"
        raise Refused(f"the sink of slot {job.slot} {why}", hint, where="sink")
    name = f"reset-{uuid.uuid4().hex[:8]}"
    session, store = worker.source_session(job, name), worker.store_session(job, name, STORE_LIMIT_MS)
    table = session.table(TableAsked.of(job))
    worker.show(table, worker.session_name(job.name, worker.channel_part(job, name)))
    beside = worker.session_beside(job, name) if job.in_two_parts else None
    resets = store.resets(job, worker.who(job, name))
    clock = SystemClock()
    with closing(session), closing(resets), closing(beside or resets), ExitStack() as stack:
        stack.callback(observed.forget, folder.path, job.channel.source_table, job.slot)  # outdated after the block
        yield ResetContext(
            job=job,
            positions=registry.positions(job.source_kind),
            table=table,
            resets=resets,
            files=ResetFiles(folder),
            actor=actor(),
            audit=CopiedAudit(folder, store, tell).append,
            at_rest=at_rest,
            report=report,
            silence=partial(worker.end_channel_sessions, job, table),
            target=cache(lambda: (beside or store).target(job)),
            void=void,
            clock=clock,
            pause=time.sleep,
            new_id=lambda: f"{clock.utc():%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}",
            consents=StoredConsents(folder, job.name),
            alone=alone,
            copied_per_second=rate,
            steal=steal,
            apart=registry.open(job.source_kind).traits.apart,
            probe=probe,
            progress=progress,
            approved=approved,
        )


def no_undo_of(files: ResetFiles, table: str, slot: str) -> str:
    """Return why a slot's newest reset from this host cannot be undone; "" if unknown or if nothing prevents it.

    Raises Refused if a plan or a backup is damaged.
    """
    texts = (files.load(BACKUPS, name) for name in files.names(BACKUPS))
    backups = [backup_of(text, registry.positions) for text in texts if text]
    of_slot = sorted((one for one in backups if (one.table, one.slot) == (table, slot)), key=lambda one: one.when)
    plan = files.load(PLANS, of_slot[-1].plan) if of_slot else None
    return no_undo(plan_from(plan, registry.positions(of_slot[-1].dialect))) if plan else ""
