"""The composition root of the quarantine: reading it, and the two verbs that end an entry.

Each verb is audited: an intent line before (nothing is done where it cannot be written), what became of each after.
Next door: `core.sinks.postgres.quarantine.entries` reads, `core.sinks.postgres.quarantine.replay` acts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from core.config.secrets import resolve
from core.domain.audit import AuditLine
from core.domain.quarantine import Held, HeldState, Replayed
from core.domain.spec import ChannelSpec, JobSpec
from core.domain.text import safe
from core.engine.driver.context import lane_key
from core.errors import Refused
from core.services.audit import CopiedAudit
from core.services.verify import poll_name
from core.sinks.postgres.check import target as targets
from core.sinks.postgres.quarantine.entries import HeldRows
from core.sinks.postgres.quarantine.replay import Replays
from core.sinks.postgres.session import SinkSession
from core.sinks.postgres.write.statements import TargetTable
from core.state.audit import actor, intent, outcome
from core.state.faults import StateError
from core.state.folder import StateFolder
from core.wiring import worker

OnEach = Callable[[Replayed], None]


@contextmanager
def polling(job: JobSpec) -> Iterator[HeldRows]:
    """The quarantine of a job's sink, which all jobs of that sink share, over a session that only looks."""
    session = _session(job)
    try:
        yield HeldRows(session)
    finally:
        session.close()


def is_of(entry: Held, job: JobSpec) -> bool:
    """Whether an entry is of a job's slot and one of its tables."""
    tables = {channel.source_table for channel in job.channels}
    return (entry.source, entry.slot) == (job.source.name, job.slot) and entry.source_table in tables


def held_of(job: JobSpec) -> list[Held]:
    """All that is held of a job, in the order in which it was read, without values."""
    with polling(job) as rows:
        found = []
        for channel in job.channels:
            ids = Replays(rows.session, lane_key(_of(job, channel), "")).held()
            found += [entry for id in ids if (entry := rows.entry(id)) is not None]
    return found


def replay(
    job: JobSpec, folder: StateFolder, ids: Sequence[int], reason: str, on_each: OnEach = lambda one: None
) -> list[Replayed]:
    """Apply entries to the target, each in a transaction of its own; those that are still bad stay held.

    The job may run. Raises Refused without a reason, for an id that is none of the job's, and during a copy.
    """
    tables: dict[str, TargetTable] = {}

    def one(session: SinkSession, channel: JobSpec, id: int) -> Replayed:
        name = channel.channel.source_table
        tables[name] = tables.get(name) or _table(channel, session)
        return Replays(session, lane_key(channel, "")).replay(
            id, tables[name], channel.sink_options, actor().text, reason
        )

    return _each(job, folder, "errors replay", ids, reason, one, on_each)


def discard(
    job: JobSpec, folder: StateFolder, ids: Sequence[int], reason: str, on_each: OnEach = lambda one: None
) -> list[Replayed]:
    """Give entries up: the target stays without those rows until their keys change again. Raises as `replay`."""

    def one(session: SinkSession, channel: JobSpec, id: int) -> Replayed:
        return Replays(session, lane_key(channel, "")).discard(id, actor().text, reason)

    return _each(job, folder, "errors discard", ids, reason, one, on_each)


def _each(
    job: JobSpec,
    folder: StateFolder,
    action: str,
    ids: Sequence[int],
    reason: str,
    act: Callable[[SinkSession, JobSpec, int], Replayed],
    on_each: OnEach,
) -> list[Replayed]:
    """Do something to each entry between two audit lines; halves that went with an earlier one are not done twice."""
    if not reason.strip():
        raise Refused(f"{action} needs a reason", "--reason TEXT: it is kept with the entries and in the audit")
    session = _session(job)
    try:
        places = _places(job, HeldRows(session), ids)
        audit = CopiedAudit(folder, session)
        line = intent(action, f"job {job.name}", reason, {str(id): "asked" for id in ids})
        audit.append(line)
        found: list[Replayed] = []
        try:
            for id in ids:
                if any(id in one.ids for one in found):
                    continue
                found.append(act(session, places[id], id))
                on_each(found[-1])
        except Exception as error:
            _tell(audit, line, f"failed: {safe(error, 300)}", found)
            raise
        _tell(audit, line, f"{sum(one.state is not HeldState.HELD for one in found)} of {len(found)} are over", found)
    finally:
        session.close()
    return found


def _tell(audit: CopiedAudit, line: AuditLine, said: str, found: Sequence[Replayed]) -> None:
    with suppress(StateError):  # what was done stands in the entries themselves
        audit.append(outcome(line, said, {str(one.id): f"{one.state.value} {one.sqlstate}".strip() for one in found}))


def _places(job: JobSpec, rows: HeldRows, ids: Sequence[int]) -> dict[int, JobSpec]:
    """The job narrowed to the channel of each entry."""
    channels = {channel.source_table: _of(job, channel) for channel in job.channels}
    found = {}
    for id in ids:
        entry = rows.entry(id)
        if entry is None or not is_of(entry, job):
            what = f"there is no entry {id} of job {job.name}"
            raise Refused(what, f"slotkeeper errors list {job.name}", where="sink")
        found[id] = channels[entry.source_table]
    return found


def _of(job: JobSpec, channel: ChannelSpec) -> JobSpec:
    return replace(job, channels=(channel,))


def _table(job: JobSpec, session: SinkSession) -> TargetTable:
    """The target as the job's workers see it; the source is asked for its columns and key, no slot is touched."""
    source = worker.open_source(job, "errors")
    try:
        return targets.seen(session, targets.target_of(job.channel, source.identify()))
    finally:
        source.close()


def _session(job: JobSpec) -> SinkSession:
    password = resolve(job.sink.password)
    return SinkSession(job.sink, password, poll_name(job.name), job.progress_schema, job.sink_kind)
