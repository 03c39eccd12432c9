"""A query that registers nothing (`register = "never"`): it reads beyond a slot that somebody else keeps.

What a slot has registered and everything behind it is there; so a query may stand anywhere from its slot on, and
whoever keeps the slot moves it once the query is through. It takes no lease and writes nothing anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotkeeper.core.dataframe.reader.lease import Begun
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import SlotStatus
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.watch import exactly, judge, trouble
from slotkeeper.core.errors import Refused, Trouble, TroubleName
from slotkeeper.core.wiring.worker import changelog_session


class SlotOnlooker:
    """In the place of `SlotLease`."""

    def __init__(self, job: JobSpec, start: str) -> None:
        self._job = job
        self._start = start
        self._session = changelog_session(job, 0, "onlooker")
        self._fingerprint = ""

    def begin(self) -> Begun:
        """Where the slot stands; Refused where it is not there."""
        if self._start != "slot":
            what = f'register = "never" begins where its slot stands, not at start = "{self._start}"'
            raise Refused(what, 'leave out .option("start")', where="spark")
        log = self._session.changelog(self._job)
        if not log.exists():
            what = f"slot {self._job.slot} of {self._job.channel.source_table} is not there, or is not listed here"
            raise Refused(what, "make it: `slotkeeper slots create`", where="source")
        statuses = log.read_status(None)
        positions = {}
        for status in statuses:
            oldest = status.kept.oldest
            if status.kept.missing or oldest is None:
                raise trouble(TroubleName.SLOT_LOST, f"{status.shard.name}: the slot holds {status.kept.shown}")
            positions[status.shard.name] = oldest.from_here
        self._fingerprint = log.identify().text
        return Begun(0, self._fingerprint, positions, True)

    def judged(self, status: SlotStatus) -> Trouble | None:
        """The trouble that a status shows: whatever its keeper has registered is right, until `committed`."""
        return judge(status, exactly(status.kept, self._fingerprint))

    def committed(self, positions: Mapping[str, Position]) -> None:
        """SLOT MOVED where the slot's keeper has gone beyond what the query has read."""
        for status in self._session.changelog(self._job).read_status(None):
            there, here = status.kept.furthest, positions.get(status.shard.name)
            if there is not None and here is not None and there > here:
                what = f"{status.shard.name}: the slot is registered at {there.shown}, the query stands at {here.text}"
                raise trouble(TroubleName.SLOT_MOVED, what)

    def keep(self) -> None:
        """Nothing is leased."""

    def close(self) -> None:
        """End the session."""
        self._session.close()
