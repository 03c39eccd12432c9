"""What a running job tells the state store about itself, as values; screens and `--json` show nothing else.

Unknown is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from slotkeeper.core.domain.condition import Condition
from slotkeeper.core.domain.lag import FRESH_SECONDS
from slotkeeper.core.domain.lock_wait import LockWait
from slotkeeper.core.domain.table import TableReport


@dataclass(frozen=True, slots=True)
class LaneReport:
    """One lane (a source table on one DN) at one moment; positions are texts of its dialect, times are seconds.

    `activity` is one word of: idle, due, applying, registering, waiting, stopped (its table has ended alone); `retry`
    says "retrying n, next in s" or "", `side` whose trouble that is: source, sink, spark or "" where it is not known.
    `polled_age` is how long ago the source said what is latest. `read_s`, `write_s` and `register_s` are the seconds
    that this run's lane has spent reading from the source, writing to the sink and registering, since its driver
    began. `waited` is the longest time that the lane was due before a step of it began. `source_table` and `target`
    are its channel's; `label` is what the lane is called where the job has several channels. `registered` is the
    place up to which the source was told that all is done. `position` is the form that is stored, `shown` the same
    place for people, as `latest` and `registered` are. `at`, `latest_at` and `registered_to` are numbers that grow
    with position, latest and registered, `empty_to` with the place up to which no row was found beyond position;
    `behind` is what lies between position and latest in the dialect's own unit.
    """

    shard: str
    node_id: int
    state: str
    activity: str
    position: str | None
    latest: str | None
    registered: str | None
    changes: int
    last_commit_age: float | None
    retry: str = ""
    error: str = ""
    side: str = ""
    polled_age: float | None = None
    read_s: float | None = None
    write_s: float | None = None
    register_s: float | None = None
    waited: float = 0.0
    source_table: str = ""
    target: str = ""
    label: str = ""
    at: int | None = None
    latest_at: int | None = None
    registered_to: int | None = None
    empty_to: int | None = None
    behind: int | None = None
    shown: str | None = None
    gtids: str = ""
    """The transactions that are done at `position`, as the server names them; "" where positions name none."""
    delay: float | None = None
    """By how much what was applied last is behind the source's clock, which grows while nothing more is applied; 0
    where nothing waits; None where positions do not tell (`Position.committed_at`)."""

    @property
    def name(self) -> str:
        """What the lane is called within its job: its DN, or its label."""
        return self.label or self.shard

    @property
    def done_to(self) -> int | None:
        """The number up to which nothing is left to apply: `at`, or beyond it where no row was found in between."""
        return self.at if self.at is None or self.empty_to is None else max(self.at, self.empty_to)

    @property
    def known_behind(self) -> int | None:
        """`behind`, and unknown where the lane is at a latest that the source has told too long ago to be called so."""
        old = self.polled_age is not None and self.polled_age > FRESH_SECONDS
        return None if old and self.behind == 0 else self.behind


@dataclass(frozen=True, slots=True)
class JobReport:
    """A job's own account of itself, written every second or so while its driver lives.

    `state` is a `slotkeeper.core.domain.job.JobState` value ("CATCHING UP"); `trouble` is a name of trouble or "";
    `safe` says what is safe to do about it. `quarantined` are the rows that it holds, None where it holds none by its
    configuration; with more than `quarantine_limit` of a table it stops. `repeats` are the rows that a sink beside its
    progress store may have got once more, ever. `unit` is what `behind` counts, `place` what a position is called and
    `part` what a lane reads, by the source's dialect; `keeps_positions`: it keeps some that have a time to live
    (`slotkeeper.core.domain.source_traits`), else no slot expires. `tables` are how the tables of a job of several
    stand, each by itself; `conditions` what the driver knows to be wrong, the oldest first. `lock_waits` are those of
    its sessions at the sink, as last measured, and `locks_untold` why the sink could not tell of them when it was last
    asked, "" where it could. `clock_apart`: by how many seconds the source's clock was ahead of this machine's when
    last measured, at least (below 0: behind); None where nobody has measured it.
    """

    job: str
    run: str
    state: str
    reason: str = ""
    trouble: str = ""
    safe: str = ""
    epoch: int | None = None
    lanes: tuple[LaneReport, ...] = ()
    chunks_done: int | None = None
    chunks_total: int | None = None
    snapshot_rows: int = 0
    changes: int = 0
    tasks_started: int = 0
    registrations: int = 0
    environment: str = ""
    quarantined: int | None = None
    repeats: int = 0
    unit: str = ""
    place: str = ""
    part: str = "DN"
    keeps_positions: bool = True
    tables: tuple[TableReport, ...] = ()
    conditions: tuple[Condition, ...] = ()
    lock_waits: tuple[LockWait, ...] = ()
    locks_untold: str = ""
    clock_apart: float | None = None
    quarantine_limit: int | None = None
