"""Read the quarantine, and run the two commands that resolve an entry.

Each command is audited: an intent line is written before it, and each result after it. If the intent line cannot be
written, nothing is done. A replay into a sink with a separate store is stored as a plan of an empty range, which is
armed before it is committed (ADR 50). Nothing else is planned on the row's lane until the replay is resolved, by this
command, a later one, or a worker of the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.quarantine import (
    DAMAGED,
    OUTDATED,
    OUTDATED_WHY,
    EntryState,
    QuarantineEntry,
    Refusal,
    Replayed,
)
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.domain.text import typed
from slotkeeper.core.errors import Busy, Defect, Refused, RowRefused
from slotkeeper.core.ports.kinds import StoreSession
from slotkeeper.core.ports.sink import Batch, LabelSink, Outcome, Quarantine, ReplaysBeside
from slotkeeper.core.redaction import masked
from slotkeeper.core.services.audit import CopiedAudit, Tell, audited, silent
from slotkeeper.core.services.looking import open_store
from slotkeeper.core.slots.change import Done
from slotkeeper.core.state.audit import actor, intent
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.wiring import worker

GAP_SECONDS = 20.0
"""Seconds to wait until no range is in progress on the lane."""
_EVERY_S = 0.02
_OTHER_COLUMNS = Refusal("", "", "the target's mirrored columns have changed since the row was quarantined")


@dataclass(frozen=True, slots=True)
class Replay:
    """Replays entries of one channel of `job`, whose store is `store`."""

    job: JobSpec
    store: StoreSession
    identity: TableIdentity
    by: str
    reason: str
    monotonic: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep

    def carry_out(self, id: int) -> Replayed:
        """Apply an entry; a failed one stays quarantined. Raises Busy if its lane stays busy, Refused during a copy."""
        key = self.job.lane_key()
        replays = self.store.replays(key)
        with closing(worker.session_beside(self.job, "errors")) as session:
            sink = session.batch_sink(self.job, self.identity, "direct")
            if not isinstance(sink, LabelSink):
                raise Defect(f"a sink of kind {self.job.sink_kind} cannot quarantine rows")
            for label, load in replays.waiting():
                resolve(sink, replays, label, load)
            entry = self.store.quarantine().entry(id)
            if entry is None or entry.state is not EntryState.QUARANTINED:
                return Replayed(id, entry.state if entry else EntryState.ARCHIVED)
            return self._applied(sink, replays, key, entry)

    def _applied(self, sink: LabelSink, replays: ReplaysBeside, key: LaneKey, entry: QuarantineEntry) -> Replayed:
        if entry.sqlstate == OUTDATED:
            return self._still_bad(replays, entry, Refusal(OUTDATED, "", OUTDATED_WHY))
        values = dict(entry.values)
        if tuple(values) != sink.columns:
            return self._still_bad(replays, entry, _OTHER_COLUMNS)
        if entry.sqlstate == DAMAGED:
            return self._still_bad(replays, entry, Refusal(DAMAGED, "", "its text is stored with escaped bytes"))
        row = (str(entry.point), str(entry.sequence), "U", *values.values())
        batch = Batch(key, f"entry {entry.id}", 1, lambda: iter((row,)))
        label = sink.label(batch)
        try:
            load = sink.send(batch, label)
        except RowRefused:
            return self._still_bad(replays, entry, sink.refusal(row, False) or Refusal(entry.sqlstate, "", "refused"))
        try:
            end = self.monotonic() + GAP_SECONDS
            while not replays.arm(entry.id, (label, load), self.by, self.reason):
                if self.monotonic() > end:
                    what = f"entry {entry.id}: its lane had a range in progress for {GAP_SECONDS:.0f} s"
                    raise Busy(what, "pause the job, and replay again", where="sink")
                self.pause(_EVERY_S)
        except BaseException:
            sink.abort(load)
            raise
        if resolve(sink, replays, label, load):
            return Replayed(entry.id, EntryState.REPLAYED, (entry.id,))
        raise Busy(f"the sink ended load {load} of entry {entry.id}: replay the entry again", where="sink")

    def _still_bad(self, replays: ReplaysBeside, entry: QuarantineEntry, refusal: Refusal) -> Replayed:
        replays.still_bad(entry.id, refusal)
        ids = (entry.id,)
        return Replayed(entry.id, EntryState.QUARANTINED, ids, refusal.sqlstate, refusal.message, refusal.column)


def resolve(sink: LabelSink, replays: ReplaysBeside, label: str, load: str) -> bool:
    """Commit an armed replay and record it in the store; return False if it was not committed (its entry stays)."""
    applied = sink.commit(label, load) is Outcome.COMMITTED
    replays.resolve(label, applied)
    return applied


OnEach = Callable[[Replayed], None]


@contextmanager
def polling(job: JobSpec) -> Iterator[Quarantine]:
    """Open the quarantine of a job's sink, which all jobs of that sink share, over a read-only session."""
    with closing(open_store(job)) as session:
        yield session.quarantine()


def is_of(entry: QuarantineEntry, job: JobSpec) -> bool:
    """Whether an entry belongs to a job's slot and one of its tables."""
    tables = {channel.source_table for channel in job.channels}
    return (entry.source, entry.slot) == (job.source.name, job.slot) and entry.source_table in tables


def quarantine_of(job: JobSpec) -> list[QuarantineEntry]:
    """Return all quarantined rows of a job in reading order, without values."""
    with polling(job) as rows:
        found = []
        for channel in job.channels:
            ids = rows.ids(_of(job, channel).lane_key())
            found += [entry for id in ids if (entry := rows.entry(id)) is not None]
    return found


def check(job: JobSpec, ids: Sequence[int]) -> None:
    """Raise Refused for an id of another job; change nothing."""
    with polling(job) as rows:
        _places(job, rows, ids)


def _ignored(one: Replayed) -> None:
    pass


def replay(
    job: JobSpec, folder: StateFolder, ids: Sequence[int], reason: str, on_each: OnEach = _ignored, tell: Tell = silent
) -> list[Replayed]:
    """Apply entries to the target, each in its own transaction; rows that fail again stay quarantined.

    The job can be running. Raises Refused without a reason, for an id that is not the job's, and during a copy.
    """
    tables: dict[str, TableIdentity] = {}

    def one(rows: Quarantine, channel: JobSpec, id: int) -> Replayed:
        name = channel.channel.source_table
        if name not in tables:  # the source's table as the job's workers see it; no slot is touched
            with worker.open_source(channel, "errors") as source:
                tables[name] = source.identify()
        if channel.in_two_parts:
            with closing(open_store(job)) as store:
                return Replay(channel, store, tables[name], actor().text, masked(reason)).carry_out(id)
        return rows.replay(id, channel, channel.lane_key(), tables[name], actor().text, masked(reason))

    return _each(job, (folder, tell), "errors replay", ids, reason, one, on_each)


def discard(
    job: JobSpec, folder: StateFolder, ids: Sequence[int], reason: str, on_each: OnEach = _ignored, tell: Tell = silent
) -> list[Replayed]:
    """Discard entries: the target lacks those rows until their keys change again. Raises the errors of `replay`."""

    def one(rows: Quarantine, channel: JobSpec, id: int) -> Replayed:
        return rows.discard(id, channel.lane_key(), actor().text, masked(reason))

    return _each(job, (folder, tell), "errors discard", ids, reason, one, on_each)


def _each(
    job: JobSpec,
    audit: tuple[StateFolder, Tell],
    action: str,
    ids: Sequence[int],
    reason: str,
    act: Callable[[Quarantine, JobSpec, int], Replayed],
    on_each: OnEach,
) -> list[Replayed]:
    """Run an action on each entry between two audit lines; an entry handled with an earlier entry is skipped.

    `audit`: the folder of the audit, and the function that reports a failed copy.
    """
    if not reason.strip():
        raise Refused(f"{action} needs a reason", "add --reason TEXT: it is stored with the entries and in the audit")
    found: list[Replayed] = []

    def after() -> dict[str, str]:
        return {str(one.id): f"{one.state.value} {one.sqlstate}".strip() for one in found}

    with closing(open_store(job)) as session:
        rows = session.quarantine()
        places = _places(job, rows, ids)

        def do() -> Done:
            for id in ids:
                if any(id in one.ids for one in found):
                    continue
                found.append(act(rows, places[id], id))
                on_each(found[-1])
            over = sum(one.state is not EntryState.QUARANTINED for one in found)
            return Done(f"{over} of {len(found)} are closed", after())

        line = intent(action, f"job {job.name}", reason, {str(id): "asked" for id in ids})
        audited(CopiedAudit(audit[0], session, audit[1]), line, do, after)
    return found


def _places(job: JobSpec, rows: Quarantine, ids: Sequence[int]) -> dict[int, JobSpec]:
    """Return, by entry id, the job restricted to the entry's channel."""
    channels = {channel.source_table: _of(job, channel) for channel in job.channels}
    found = {}
    for id in ids:
        entry = rows.entry(id)
        if entry is None or not is_of(entry, job):
            what = f"unknown entry {id} of job {job.name}"
            raise Refused(what, f"`slotkeeper errors list {typed(job.name)}` lists the entries", where="sink")
        found[id] = channels[entry.source_table]
    return found


def _of(job: JobSpec, channel: ChannelSpec) -> JobSpec:
    return replace(job, channels=(channel,))
