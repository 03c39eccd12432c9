"""Checks the targets of the lanes that stream, once a second, and knows up to where each lane may be registered.

No position is registered unless a check of the target has passed that began after the position was committed: what is
written into a target that somebody has emptied, exchanged or altered can then be replayed (ADR 63). Only the
registration waits, never a step. `loop.py` calls this in every turn, `slotkeeper.core.domain.target_seen` decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.lane import Activity, Lane
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.target_seen import LEAST_COUNTED, TargetSeen, altered, changed, counts_to, renewed, trouble
from slotkeeper.core.engine.driver.context import StreamPlan
from slotkeeper.core.engine.driver.idle_lanes import LaneOwner
from slotkeeper.core.engine.driver.registration import Proven, register_at
from slotkeeper.core.engine.driver.serial_executor import SerialExecutor
from slotkeeper.core.engine.worker.step import Probe
from slotkeeper.core.errors import Busy, SlotkeeperError, Superseded, Trouble, classed
from slotkeeper.core.ports.sink import Asked, TargetReader, Watched

EVERY = 1.0
SHARE = 10
"""Checks that take long, two in a row, are made less often: they take a tenth of the time at most. One alone is a
server that stood still for a moment. One that waited for a lock is no load, and the other targets are to be named
within seconds also then."""
SAID_AFTER = 3.0
"""Seconds of failing checks after which they are reported: RUNNING alone would hide that no position is confirmed."""
SILENT_AFTER = 8.0
"""Seconds without an answer to a check after which that is reported, before the limit of its session ends it."""


class TargetWatch:
    """`provable` says how far a lane may be registered; a check that does not pass fails its table."""

    def __init__(self, loop: LaneOwner, plan: StreamPlan, executor: SerialExecutor, clock: Clock, probe: Probe) -> None:
        self._loop, self._targets, self._epoch = loop, plan.targets, plan.epoch
        self._executor, self._clock, self._probe = executor, clock, probe
        self._records = {table: one.record for table, one in plan.targets.tables.items()}
        self._most = dict.fromkeys(plan.targets.tables, LEAST_COUNTED)
        self._proven = {name: lane.position for name, lane in loop.lanes.items()}
        self._asked: float | None = None
        self._last = False
        """Whether the loop is ending, so that lanes which are due have no further step."""
        self._next, self._took = 0.0, 0.0
        self._retrying = plan.retrying
        self._failing_since: float | None = None
        self._said = False
        self.waiting: set[str] = set()
        """Lanes whose registration waits for the next check."""
        self.failing = False
        """Whether the last check was not answered for some target."""

    def provable(self, lane: Lane) -> Proven | None:
        """Up to where a lane may be registered now, and what that rests on; None where nothing is checked."""
        if self._targets.reader is None:
            return None
        shared = self._loop.sharing(lane)
        lanes = [lane, *(one for one in self._loop.lanes.values() if one.key in shared)] if shared else [lane]
        places = [min(one.position, self._proven.get(one.name, one.position)) for one in lanes]
        record = self._records.get(lane.key.source_table)
        return Proven(min(places), record.text if record else "")

    def note(self, lane: Lane) -> None:
        """Remember a lane of which more may be registered behind the next check than now."""
        if self._targets.reader is not None and self._proven.get(lane.name, lane.position) < lane.position:
            self.waiting.add(lane.name)

    def register(self, lane: Lane) -> bool:
        """Register what is proven of a lane; False where nothing new is."""
        place, others, proven = lane.position, self._loop.sharing(lane), self.provable(lane)
        if lane.registered.at(proven.place if proven else place) == lane.registered:
            return False
        registrar, epoch, clock, probe = self._loop.registrar, self._epoch, self._clock, self._probe
        self._loop.start_registration(
            lane, lambda: register_at(*registrar(lane), lane, epoch, place, clock, probe, others, proven)
        )
        return True

    @property
    def owes(self) -> bool:
        """Whether a check would let more be registered, as far as the last one was answered."""
        return bool(self.waiting) and not self.failing

    def _register_waiting(self) -> None:
        """Register the idle lanes that waited for a check; what is in a task is registered behind that."""
        for name in list(self.waiting):
            lane = self._loop.lanes.get(name)
            if lane is not None and lane.activity is Activity.REGISTERING:
                continue
            self.waiting.discard(name)
            if lane is not None and (lane.activity is Activity.IDLE or (self._last and lane.activity is Activity.DUE)):
                self.register(lane)

    def check(self, now: float, at_once: bool = False) -> None:
        """Begin a check where one is due, or `at_once`, as the loop ends, where none is under way."""
        self._report_silence(now)
        reader, self._last = self._targets.reader, at_once
        if reader is None or self._asked is not None or (now < self._next and not at_once):
            return
        tables = {lane.key.source_table for lane in self._loop.lanes.values()} & self._records.keys()
        if not tables:
            return
        stood: dict[str, Position] = {name: lane.position for name, lane in self._loop.lanes.items()}
        watched = [self._targets.tables[table] for table in sorted(tables)]
        records = dict(self._records)
        self._asked = now

        def ask() -> None:
            found: dict[str, TargetSeen | SlotkeeperError] = {}
            try:
                found = self._judged(reader, watched, records)
            except Exception as raised:
                found = dict.fromkeys(tables, classed(raised))
            self._loop.post(self._answered, stood, found)

        self._executor.submit("targets", ask)

    def _judged(
        self, reader: TargetReader, watched: Sequence[Watched], records: Mapping[str, TargetSeen | None]
    ) -> dict[str, TargetSeen | SlotkeeperError]:
        """Each table's new record, or why there is none: TARGET CHANGED is written down before it is told."""
        tables = {one.job.channel.source_table: one for one in watched}
        asked = [Asked(one.job, one.columns, records[table], self._most[table]) for table, one in tables.items()]
        found: dict[str, TargetSeen | SlotkeeperError] = {}
        for table, seen in reader.read(asked).items():
            one, record = tables[table], records[table]
            if isinstance(seen, SlotkeeperError):
                found[table] = seen
                continue
            named = self._named(reader, one, record, seen)
            if named is not None and record is not None:
                reader.mark(
                    one.job,
                    self._epoch,
                    replace(record, why=named.message.removeprefix(f"target {one.job.channel.target} ")),
                )
            found[table] = named or renewed(seen)
        return found

    @staticmethod
    def _named(reader: TargetReader, one: Watched, record: TargetSeen | None, seen: TargetSeen) -> Trouble | None:
        name = one.job.channel.target
        if record is not None and record.oid == seen.oid and (parts := altered(record, seen)):
            refused = reader.refusal(one.job, one.identity)
            if refused is not None:
                return trouble(
                    name, f"was altered ({parts}); the check found: {refused.message}; to revert: {refused.hint}"
                )
        why = changed(record, seen)
        return trouble(name, why) if why else None

    def _answered(self, stood: Mapping[str, Position], found: Mapping[str, TargetSeen | SlotkeeperError]) -> None:
        now = self._clock.monotonic()
        self._report([one for one in found.values() if isinstance(one, SlotkeeperError)], now)
        took, self._asked = now - (self._asked or now), None
        waited = any(isinstance(one, Busy) for one in found.values())
        least, self._took = min(took, self._took), took
        self._next = now + max(EVERY if waited or took > EVERY else EVERY - took, 0.0 if waited else SHARE * least)
        self.failing = any(isinstance(one, SlotkeeperError) for one in found.values())
        for table, seen in found.items():
            if isinstance(seen, TargetSeen):
                before = self._records[table]
                applied = seen.changes - before.changes if before else 0
                self._most[table] = max(self._most[table], counts_to(applied))
                self._records[table] = seen
            elif isinstance(seen, Trouble):
                self._loop.fail(table, seen)
            elif isinstance(seen, Superseded):
                self._loop.end_with(seen)
        passed = {table for table, seen in found.items() if isinstance(seen, TargetSeen)}
        for name, lane in self._loop.lanes.items():
            if name in stood and lane.key.source_table in passed:
                self._proven[name] = stood[name]
        if passed:
            self._register_waiting()

    def _report(self, errors: Sequence[SlotkeeperError], now: float) -> None:
        """Report checks that fail for a while, and their end. Locks and what ends a table are reported elsewhere."""
        passing = [one for one in errors if not isinstance(one, (Busy, Trouble, Superseded))]
        if not passing:
            if self._said:
                self._retrying("", None)
            self._failing_since, self._said = None, False
            return
        self._failing_since = self._asked if self._failing_since is None else self._failing_since
        if now - (self._failing_since or now) >= SAID_AFTER:
            self._said = True
            text = f"checking the target; positions are confirmed after that: {passing[0].message}"
            self._retrying(text, passing[0])

    def _report_silence(self, now: float) -> None:
        if self._asked is not None and not self._said and now - self._asked >= SILENT_AFTER:
            self._said = True
            text = f"checking the target; positions are confirmed after that: no answer for {SILENT_AFTER:.0f} s"
            self._retrying(text, Party.SINK)
