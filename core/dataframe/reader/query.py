"""Determines the offsets of a streaming query, registers positions, and plans the parts of a batch.

Spark calls these methods on its driver, in one thread: `initial` if the checkpoint contains no offset, `latest(start)`,
where `start` is the end of the last batch in the commit log, and `parts` for a batch. Only `latest` registers
positions, because Spark calls `commit(end)` one batch late and never for the last batch: a slot that is advanced by
`commit` would not advance while the query is idle.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.dataframe.reader.accounts import MARK, UNREAD_TO, Place
from slotkeeper.core.dataframe.reader.faults import tried
from slotkeeper.core.dataframe.reader.lease import Begun, SlotLease
from slotkeeper.core.dataframe.reader.options import Asked
from slotkeeper.core.dataframe.reader.parts import ChunkPart, Offset, Part, RangePart
from slotkeeper.core.dataframe.reader.schema import Layout
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.watch import exactly, judge, trouble
from slotkeeper.core.engine.worker.step import Probe, nothing
from slotkeeper.core.errors import Refused, TopologyTrouble, Trouble, TroubleName
from slotkeeper.core.ports.kinds import SourceSession
from slotkeeper.core.ports.source import Source
from slotkeeper.core.wiring.worker import changelog_of, changelog_session

EVERYTHING = 1 << 40
"""The width of a range without a limit, in any source's unit."""
MOVED_AFTER = 60.0
"""Seconds after which a query of an idle table runs an empty batch, so that its slot does not retain old changes."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """The newest positions at the start of a query with Trigger.AvailableNow, which reads up to them and then ends."""

    positions: Mapping[str, Position]


class Query:
    """The offsets of one query; not thread-safe; opens no session before the first call."""

    def __init__(self, asked: Asked, layout: Layout, clock: Clock | None = None, probe: Probe = nothing) -> None:
        self._asked, self._layout = asked, layout
        self._clock = clock or SystemClock()
        self._lease: SlotLease | SlotOnlooker = (
            SlotLease(asked.job, asked.start, self._clock, probe, take_over=asked.takes_over)
            if asked.registers
            else SlotOnlooker(asked.job, asked.start)
        )
        self._session: SourceSession | None = None
        self._log: Source | None = None
        self._begun_at: Offset | None = None
        self._fresh, self._epoch, self._feed = False, 0, ""
        self._bound: _Bound | None = None
        self._idle_since: float | None = None
        self._moved_at = self._clock.monotonic()
        self._known: dict[tuple[str, str], Position] = {}
        """Positions as created by the dialect, by DN and text; a registration needs data that the text lacks."""
        self._newest: Offset | None = None
        self._unread_to: dict[str, Position] = {}
        """The newest position by DN, which is the end of the next batch if that batch reads everything."""

    def initial(self) -> Offset:
        """Return the query's start, which does not change until the first batch is in the commit log."""
        begun = self._begun()
        if not self._fresh:
            job = self._asked.job
            places = ", ".join(f"{name} {one.text}" for name, one in sorted(begun.positions.items()))
            what = (
                f"slot {job.slot} of {job.channel.source_table} is read by a query with another checkpoint ({places})"
            )
            raise Refused(what, "continue with that checkpoint, or give this query its own slot", where="spark")
        return begun

    def latest(self, start: Offset, width: int | None) -> Offset:
        """Return the end of the next batch, or `start` if there is none; `width` is in the source's unit (None: all).

        `start` is the end of the last batch in the commit log: the slot advances to it.
        """
        self._resumed(start)
        self._lease.committed({name: self._as_given(name, one) for name, one in start.positions.items()})
        self._lease.keep()
        if not start.copied:
            return start.at(start.positions)
        # wait before the next query if the last query found no changes, because Spark calls this a hundred times per
        # second
        if self._idle_since is not None and self._bound is None:
            time.sleep(max(0.0, self._idle_since + self._asked.poll_interval - self._clock.monotonic()))
        ends = self._ends(start, width)
        self._idle_since = self._clock.monotonic() if ends == start.positions else None
        return start.at(ends)

    def stop_at_newest(self) -> None:
        """Stop reading at the current newest positions (Trigger.AvailableNow)."""
        self._begun()
        log, statuses = self._changelog, self._statuses()

        def newest(status: SlotStatus) -> Position:
            return tried(lambda: log.reached(status.latest.from_here, status.latest, None, status))

        self._bound = _Bound({status.shard.name: newest(status) for status in statuses})

    def parts(self, start: Offset, end: Offset) -> list[Part]:
        """Return the parts of a batch: one range for each DN that has changes, and the table's chunks during a copy.

        Raises Refused if the first batch was planned with another start, whose rows this run would not read.
        """
        self._resumed(start)
        if start.origin != end.origin:
            what = f'the first batch was planned with another start than start = "{self._asked.start}" at this slot'
            hint = "restore the option start; if the slot was moved, start over with a new slot and a new checkpoint"
            raise Refused(what, hint, where="spark")
        found: list[Part] = []
        if end.copied and not start.copied:
            chunks = tried(lambda: self._changelog.plan_chunks(self._asked.partition_rows))
            found += [ChunkPart(self._asked.job, self._epoch, self._layout, chunk) for chunk in chunks]
        by_name = {shard.name: shard for shard in tried(self._changelog.nodes)}
        self._refuse_other_dns(set(by_name), start)
        for name in sorted(end.positions):
            after, up_to = start.positions[name], end.positions[name]
            if after < up_to:
                read = self._asked.job, self._epoch, self._layout, by_name[name], after, up_to
                found.append(RangePart(*read, feed=self._feed))
        return found

    @property
    def reported(self) -> dict[str, Any] | None:
        """Return the newest reported positions with the slot's owner (`accounts.Place`); None before the first status.

        A query that registers nothing does not own a slot, so its offset contains no owner.
        """
        places = self._newest.json if self._newest else {}
        if not self._epoch:
            return places or None
        job = self._asked.job
        mark = Place(self._asked.config, job.name, job.channel.source_table, self._epoch)
        unread = {name: one.text for name, one in self._unread_to.items()}
        return {**places, MARK: {**asdict(mark), UNREAD_TO: unread}}

    def close(self) -> None:
        self._lease.close()
        if self._session is not None:
            self._session.close()
            self._session = None

    # -- starting ------------------------------------------------------------------------------------------------

    def _begun(self) -> Offset:
        if self._begun_at is None:
            begun = self._lease.begin()
            self._fresh, self._epoch, self._feed = begun.fresh, begun.epoch, begun.feed
            if begun.fingerprint != self._layout.fingerprint:
                raise trouble(TroubleName.SCHEMA_CHANGED, "the table was altered since the DataFrame was created")
            copied = self._asked.start != "initial"
            self._begun_at = Offset.first(begun.fingerprint, begun.positions, copied)
        return self._begun_at

    def _resumed(self, start: Offset) -> None:
        begun = self._begun()
        if start.fingerprint != begun.fingerprint:
            raise trouble(
                TroubleName.SCHEMA_CHANGED, "the checkpoint belongs to a table with other columns, or to another table"
            )
        self._refuse_other_dns(set(begun.positions), start)
        for name, place in begun.positions.items():
            if start.positions[name] < place:
                what = f"{name}: the checkpoint is at {start.positions[name].text}, but its slot is at {place.text}"
                raise trouble(TroubleName.SLOT_MOVED, what)

    def _refuse_other_dns(self, here: set[str], start: Offset) -> None:
        if here != set(start.positions):
            wrong = ", ".join(sorted(here ^ set(start.positions)))
            what = f"the checkpoint and the cluster have different DNs ({wrong})"
            raise TopologyTrouble(what, name=TroubleName.TOPOLOGY_CHANGED)

    # -- the next end --------------------------------------------------------------------------------------------

    def _ends(self, start: Offset, width: int | None) -> dict[str, Position]:
        statuses = self._statuses()
        self._refuse_other_dns({status.shard.name for status in statuses}, start)
        for status in statuses:
            found = self._lease.judged(status)
            if found:
                raise found
        self._newest = start.at({status.shard.name: status.latest.from_here for status in statuses})
        self._unread_to = {}
        moves = self._clock.monotonic() - self._moved_at >= MOVED_AFTER
        ends = {one.shard.name: self._end(one, start.positions[one.shard.name], width, moves) for one in statuses}
        if moves or ends != start.positions:
            self._moved_at = self._clock.monotonic()
        self._unread_to = ends | self._unread_to
        return ends

    def _end(self, status: SlotStatus, after: Position, width: int | None, moves: bool) -> Position:
        """Return the position up to which the next batch reads a DN, or `after` if there are no changes."""
        log, shard = self._changelog, status.shard
        bound = self._bound.positions[shard.name] if self._bound else None
        if bound is not None and not after < bound:
            return after
        everything = status.latest.ahead_of(after) or EVERYTHING
        wanted = everything if width is None else width
        end = max(tried(lambda: log.next_range(after, status, wanted)), after.place)
        if bound is not None and not end < bound:
            return self._kept(shard, bound)
        if end < status.latest:
            self._unread_to[shard.name] = status.latest.from_here
        if end < status.latest or moves or tried(lambda: log.has_changes(shard, after, end)):
            return self._kept(shard, tried(lambda: log.reached(after, end, None, status)))
        return after

    def _kept(self, shard: Shard, position: Position) -> Position:
        self._known[shard.name, position.text] = position
        return position

    def _as_given(self, name: str, position: Position) -> Position:
        """Return the position with the data added by its dialect; drop the DN's earlier stored positions."""
        given = self._known.get((name, position.text))
        self._known = {key: one for key, one in self._known.items() if key[0] != name or not one < position}
        return given or position

    # -- queries at the source -----------------------------------------------------------------------------------

    @property
    def _changelog(self) -> Source:
        if self._session is None or self._log is None:
            self._session = changelog_session(self._asked.job, self._epoch, "offsets")
            self._log = changelog_of(self._session, self._asked.job, feed=self._feed).source
        return self._log

    def _statuses(self) -> list[SlotStatus]:
        return tried(lambda: self._changelog.read_status(None))


class SlotOnlooker:
    """Read-only slot access for a query that registers nothing (`register = "never"`): another program owns the slot.

    All changes after a slot's registered position are retained, so the query can read from any later position; the
    program that maintains the slot advances it after the query has read the changes. The query has no lease and writes
    nothing.
    """

    def __init__(self, job: JobSpec, start: str) -> None:
        self._job, self._start = job, start
        self._session = changelog_session(job, 0, "onlooker")
        self._fingerprint = ""

    def begin(self) -> Begun:
        """Return the slot's positions; raises Refused if the slot does not exist."""
        if self._start != "slot":
            what = f'register = "never" always starts at the slot\'s position, not at start = "{self._start}"'
            raise Refused(what, 'remove .option("start")', where="spark")
        table = changelog_of(self._session, self._job)
        if not table.lists(self._job.slot):
            what = f"slot {self._job.slot} of {self._job.channel.source_table} does not exist or cannot be listed"
            raise Refused(what, "create it: `slotkeeper slots create`", where="source")
        statuses = table.source.read_status(None)
        positions = {}
        for status in statuses:
            oldest = status.kept.oldest
            if status.kept.missing or oldest is None:
                raise trouble(TroubleName.SLOT_LOST, f"{status.shard.name}: the slot holds {status.kept.shown}")
            positions[status.shard.name] = oldest.from_here
        self._fingerprint = table.source.identify().text
        return Begun(0, self._fingerprint, positions, True)

    def judged(self, status: SlotStatus) -> Trouble | None:
        """Return the problem indicated by a slot status, or None; `committed` checks the registered positions."""
        return judge(status, exactly(status.kept, self._fingerprint))

    def committed(self, positions: Mapping[str, Position]) -> None:
        """Raise SLOT MOVED if the slot's owner has moved it past the query's position."""
        for status in changelog_of(self._session, self._job).source.read_status(None):
            there, here = status.kept.furthest, positions.get(status.shard.name)
            if there is not None and here is not None and there > here:
                what = f"{status.shard.name}: the slot is at {there.shown}, but the query is at {here.text}"
                raise trouble(TroubleName.SLOT_MOVED, what)

    def keep(self) -> None:
        """Do nothing, because this query takes no lease."""

    def close(self) -> None:
        self._session.close()
