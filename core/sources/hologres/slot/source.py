"""A Hologres table whose slot at the server follows our progress row: read as any, confirmed over a line of its own.

The row is the truth, as anywhere: a job goes on from it, never from the slot. What is confirmed was committed at the
sink before (the row is locked meanwhile), so the slot is at most where the row is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from slotkeeper.core.domain.position import Kept, Position
from slotkeeper.core.domain.slot import FirstRecord, RegisteredPoint, Shard, SlotStatus
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec
from slotkeeper.core.errors import Busy, Refused
from slotkeeper.core.ports.source import Confirmation
from slotkeeper.core.sources.hologres.catalog import number_of
from slotkeeper.core.sources.hologres.position import ours
from slotkeeper.core.sources.hologres.retention import HoloRetention
from slotkeeper.core.sources.hologres.session import HoloSession
from slotkeeper.core.sources.hologres.slot import progress
from slotkeeper.core.sources.hologres.slot.kept import SlotKept, kept_of
from slotkeeper.core.sources.hologres.slot.line import ConfirmLine
from slotkeeper.core.sources.hologres.slot.points import listed
from slotkeeper.core.sources.hologres.slot.words import SLOT_WORDS
from slotkeeper.core.sources.hologres.source import HoloSource
from slotkeeper.core.sources.hologres.stream.records import StreamRecords, Streams

REFUSED_BACK = "this server does not move a slot back; take --to snapshot instead"


class SlotSource(HoloSource):
    """One table and its slot; implements `slotkeeper.core.ports.source.Source`, `SlotAdmin` and `SlotVerbs`."""

    by_slot = True

    def __init__(
        self,
        session: HoloSession,
        table: str,
        options: BinlogOptions,
        channel: ChannelSpec | None,
        streams: Streams,
        slot: str,
        line: ConfirmLine,
    ) -> None:
        super().__init__(session, table, options, channel, streams)
        self.slot = slot
        self._line = line
        if options.by_stream:
            self.reader = StreamRecords(streams, table, options, self._version, slot)

    def admit(self) -> None:
        """Refuse by name what cannot be followed, and a slot that reads another table."""
        progress.refuse_name(self.slot)
        super().admit()
        if self.options.binlog:
            self._bound()

    # -- where the slot stands ----------------------------------------------------------------------------------------

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """The status of one shard, or of all, with what is confirmed there."""
        kept = self._kept()
        return [replace(one, kept=kept(one.shard)) for one in super().read_status(shard)]

    def _kept(self) -> Callable[[Shard], SlotKept]:
        if not self.options.binlog:
            return lambda shard: SlotKept(None)
        # before whether it is there: dropping takes both away, and a slot that has gone is not one that fell back
        found = progress.confirmed(self.session, [self.slot])
        if not self._there():
            return lambda shard: SlotKept(None)
        return lambda shard: SlotKept(found.get((self.slot, number_of(shard)), 0))

    def _there(self) -> bool:
        """Whether the table has this slot; one of the same name that reads another table is not it."""
        found = progress.bound(self.session, self.slot, self.table)
        return found.there and found.table == self.table

    def _bound(self) -> progress.Bound:
        found = progress.bound(self.session, self.slot, self.table)
        if found.there and not found.table:
            what = f"slot {self.slot} is left over: its publication {found.publication} has no table any more"
            hint = f"CALL hg_drop_logical_replication_slot('{self.slot}'), or choose another slot name"
            raise Refused(what, hint, where="source")
        if found.there and found.table != self.table:
            what = f"slot {self.slot} reads {found.table} (publication {found.publication}), not {self.table}"
            raise Refused(what, "a slot is of one table: choose another slot name", where="source")
        return found

    # -- moving it ----------------------------------------------------------------------------------------------------

    def confirm(self, first: SlotStatus, asked: Confirmation) -> SlotKept:
        """Tell the server up to where a lane is done; nothing where it knows."""
        before = kept_of(first.kept)
        goal = before.at(asked.position)
        if goal == before:
            asked.check()
            return goal
        asked.probe("before_confirm")
        self._tell(first.shard, goal, asked.check)
        asked.probe("after_confirm")
        return goal

    def register_first(self, shard: Shard, kept: Kept, probe: Callable[[str], None]) -> None:
        """Confirm where a lane begins; Refused where a shard without a record has a slot that is somewhere."""
        goal = kept_of(kept)
        before = self._kept()(shard)
        if goal.lsn and goal != before:
            self._tell(shard, goal, lambda: None)
        elif not goal.lsn and before.lsn:
            what = f"{shard.name}: nothing can be confirmed on a shard without a record, and slot {self.slot}"
            hint = f"`slotkeeper slots drop`, then start again: the slot is made anew for {self.table}"
            raise Refused(f"{what} stands at {before.lsn}", hint, where="source")
        probe("after_first_confirm")

    def _tell(self, shard: Shard, goal: SlotKept, check: Callable[[], None]) -> None:
        """Send it, and see it: Busy where the server does not show it in time."""
        lsn = goal.lsn or 0
        with self._line.open(self.table, self.slot, number_of(shard), lsn) as line:
            check()
            line.confirm(lsn)
            there = self._line.seen(lambda: self._kept()(shard).lsn, lsn)
        if there != lsn:
            what = f"{shard.name}: slot {self.slot} was told LSN {lsn}, and shows {there}"
            raise Busy(what, "the slot follows later; nothing is lost by it", where="source")

    def create_slot(self) -> list[SlotStatus]:
        """Make the slot where it is not there, and its publication; Refused where it reads another table."""
        if not self._bound().there:
            progress.create(self.session, self.slot, self.table)
        return self.read_status(None)

    def full_sync(self) -> str:
        """Confirm the newest record of every shard."""
        for status in self.read_status(None):
            goal = kept_of(status.kept).at(status.latest)
            if goal != status.kept:
                self._tell(status.shard, goal, lambda: None)
        return "the newest record of every shard"

    def pinned(self) -> AbstractContextManager[None]:
        """Hold the session by SQL open: it is lost where this process stood still for long."""
        return self.session.pinned()

    def end_rivals(self) -> bool:
        """False: no page says which view shows every session of an instance, so an earlier one is waited out."""
        return False

    def end_sessions(self, pattern: str) -> bool:
        """The same."""
        return False

    def clear(self) -> int:
        """Drop the slot, with a publication that was made for it; returns its shards."""
        found = self._bound()
        progress.drop(self.session, self.slot, found.publication)
        return len(self.nodes())


class SlotRetention(SlotSource, HoloRetention):
    """What a start without a copy and a reset ask, of a table with a slot; implements
    `slotkeeper.core.ports.source.Retention`.
    """

    words = SLOT_WORDS

    def full_sync(self) -> str:
        """Confirm the newest record of every shard; the slot is made where it is not there, as a start asks for."""
        self.create_slot()
        return super().full_sync()

    def points(self) -> Sequence[RegisteredPoint] | None:
        """Every slot of the table by shard."""
        return listed(self.session, self.table)

    def kept_by(self, points: Sequence[RegisteredPoint]) -> SlotKept:
        """The LSN of one slot on one shard."""
        return SlotKept(ours(points[0].point).lsn if points and points[0].point else None)

    def begin_at(self, status: SlotStatus, place: Position, record: FirstRecord | None) -> SlotKept:
        """That place."""
        return kept_of(status.kept).at(place)

    def kept_at(self, shard: Shard, place: Position, before: Kept, status: SlotStatus | None, back: bool) -> SlotKept:
        """That place."""
        return kept_of(before).at(place)

    def restore(self, shard: Shard, kept: Kept, first: SlotStatus, lost: bool, probe: Callable[[str], None]) -> None:
        """Confirm exactly this, ahead or back; Refused where the server does not take it."""
        goal = kept_of(kept)
        if goal != first.kept and goal.lsn:
            try:
                self._tell(shard, goal, lambda: None)
            except Busy as error:
                if kept_of(first.kept).behind(goal):
                    raise
                raise Refused(error.message, REFUSED_BACK, where="source") from error
        probe("after_confirm")

    def registration_text(self, node: int, kept: Kept) -> list[str]:
        """What is said over a stream of the slot."""
        return [f"START_REPLICATION SLOT {self.slot} (parallel_index {node - 1}); flushed = {kept_of(kept).text}"]
