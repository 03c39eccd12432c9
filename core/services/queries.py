"""The DataFrame query that reads a slot, as the store's rows tell of it: a job that runs elsewhere. Only looks.

Next door: `core.dataframe.reader.lease` keeps those rows; `slot_commands.py` has the slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from core.domain.spec import JobSpec
from core.errors import SlotkeeperError
from core.services.sessions import open_store
from core.services.slot_commands import FOLLOWED_LIMIT_MS
from core.wiring import worker


@dataclass(frozen=True, slots=True)
class QuerySeen:
    """A query: whether its lease is taken, who it is by its rows, and by DN the end of its newest committed batch."""

    lives: bool
    who: str
    positions: Mapping[str, str]

    @property
    def text(self) -> str:
        """In words.

        >>> QuerySeen(True, "job o run query-1", {"dn_1": "10145/-1"}).text
        'a DataFrame query reads it (job o run query-1); committed up to dn_1 10145/-1'
        """
        reads = "reads it" if self.lives else "has read it and does not live"
        places = ", ".join(f"{name} {place}" for name, place in sorted(self.positions.items()))
        return f"a DataFrame query {reads} ({self.who}); committed up to {places}"


def query_of(job: JobSpec) -> QuerySeen | None:
    """The query that reads the slot of a job's channel; None where none does, or the store does not answer at once."""
    try:
        with closing(open_store(job, FOLLOWED_LIMIT_MS)) as session:
            if not session.lanes(job):  # there may be no progress table, and none is made by looking
                return None
            progress = session.progress(job, worker.who(job, "slots show"))
            rows = progress.rows()
            if not rows or not all(row.of_query for row in rows):
                return None
            positions = {row.key.shard: row.position.text for row in rows if row.position is not None}
            return QuerySeen(bool(progress.lease_owners()), progress.holder(), positions)
    except SlotkeeperError:
        return None
