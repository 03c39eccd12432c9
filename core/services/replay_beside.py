"""A replay into a sink beside its store: a plan without width, armed before it is committed (ADR 50).

Nothing else is planned on the row's lane until the replay is resolved, by this command, a later one, or a worker of the
job.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.quarantine import DAMAGED, EntryState, QuarantineEntry, Refusal, Replayed
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import Busy, Defect, RowRefused
from slotkeeper.core.ports.kinds import StoreSession
from slotkeeper.core.ports.sink import Batch, LabelSink, Outcome, ReplaysBeside
from slotkeeper.core.wiring import worker

GAP_SECONDS = 20.0
"""How long a moment is waited for in which no range of the lane is under way."""
_EVERY_S = 0.02
_OTHER_COLUMNS = Refusal("", "", "the target's mirrored columns are others now than when the row was quarantined")


@dataclass(frozen=True, slots=True)
class Replay:
    """One entry of a channel of `job`, whose store is `store`."""

    job: JobSpec
    store: StoreSession
    identity: TableIdentity
    by: str
    reason: str
    monotonic: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep

    def carry_out(self, id: int) -> Replayed:
        """Apply the entry; one that is still bad stays. Raises Busy where its lane is never idle, Refused in a copy."""
        key = self.job.lane_key()
        replays = self.store.replays(key)
        with closing(worker.session_beside(self.job, "errors")) as session:
            sink = session.batch_sink(self.job, self.identity, "direct")
            if not isinstance(sink, LabelSink):
                raise Defect(f"a sink of kind {self.job.sink_kind} tries no rows")
            for label, load in replays.waiting():
                resolve(sink, replays, label, load)
            entry = self.store.quarantine().entry(id)
            if entry is None or entry.state is not EntryState.QUARANTINED:
                return Replayed(id, entry.state if entry else EntryState.ARCHIVED)
            return self._applied(sink, replays, key, entry)

    def _applied(self, sink: LabelSink, replays: ReplaysBeside, key: LaneKey, entry: QuarantineEntry) -> Replayed:
        values = dict(entry.values)
        if tuple(values) != sink.columns:
            return self._still_bad(replays, entry, _OTHER_COLUMNS)
        if entry.sqlstate == DAMAGED:
            return self._still_bad(replays, entry, Refusal(DAMAGED, "", "its text is kept with bytes spelled out"))
        row = (str(entry.point), str(entry.sequence), "U", *values.values())
        batch = Batch(key, f"entry {entry.id}", 1, lambda: iter((row,)))
        label = sink.label(batch)
        try:
            load = sink.send(batch, label)
        except RowRefused:
            return self._still_bad(replays, entry, sink.refusal(row, False) or Refusal(entry.sqlstate, "", "refused"))
        try:
            self._arm(replays, entry.id, label, load)
        except BaseException:
            sink.abort(load)
            raise
        if resolve(sink, replays, label, load):
            return Replayed(entry.id, EntryState.REPLAYED, (entry.id,))
        raise Busy(f"load {load} of entry {entry.id} was ended by the sink: replay it again", where="sink")

    def _arm(self, replays: ReplaysBeside, id: int, label: str, load: str) -> None:
        end = self.monotonic() + GAP_SECONDS
        while not replays.arm(id, (label, load), self.by, self.reason):
            if self.monotonic() > end:
                what = f"entry {id}: its lane had a range under way for {GAP_SECONDS:.0f} s"
                raise Busy(what, "pause the job, and replay again", where="sink")
            self.pause(_EVERY_S)

    def _still_bad(self, replays: ReplaysBeside, entry: QuarantineEntry, refusal: Refusal) -> Replayed:
        replays.still_bad(entry.id, refusal)
        ids = (entry.id,)
        return Replayed(entry.id, EntryState.QUARANTINED, ids, refusal.sqlstate, refusal.message, refusal.column)


def resolve(sink: LabelSink, replays: ReplaysBeside, label: str, load: str) -> bool:
    """Commit a replay that was armed, and say so in the store; False where it was never seen, and its entry stays."""
    applied = sink.commit(label, load) is Outcome.COMMITTED
    replays.resolve(label, applied)
    return applied
