"""A job in the columns of SHOW SYNC JOB, for users of Binlog Load; from stored values and the configuration. Pure.

Source of the columns and of the old states: Doris, "SHOW SYNC JOB" and "Binlog Load".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Annotated

from slotkeeper.core.domain.elapsed import FRESH_SECONDS, elapsed
from slotkeeper.core.domain.field import TextOrNull
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobStatus, why_of
from slotkeeper.core.domain.spec import JobSpec

OLD_STATES = ("PENDING", "RUNNING", "PAUSED", "CANCELLED")
NEVER = "never started on this host"
_S = JobState
_OLD = {
    _S.PENDING: "PENDING",
    _S.SNAPSHOT: "RUNNING",
    _S.CATCHING_UP: "RUNNING",
    _S.RUNNING: "RUNNING",
    _S.CANCELLED: "CANCELLED",
    _S.FINISHED: None,
}
"""The state that Binlog Load would show; it shows PAUSED for any other state, because a user has to restart the job."""


@dataclass(frozen=True, slots=True)
class SyncChannel:
    """A source table and its target."""

    source_table: str
    """The source table, as schema.table."""
    target: str
    """The target table, as schema.table."""


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """The lane with the lowest position, which is the job's acknowledged position."""

    source_table: str
    """The lane's source table, as schema.table."""
    lanes: int
    """Number of the job's lanes."""
    position: str
    """The position up to which changes are applied, in the format of the progress rows."""
    shown: str
    """The position as shown on screens: file number and offset."""
    latest: str | None
    """The end of the source's binlog as last reported: file number and offset."""
    behind_bytes: int | None
    """Bytes from the position to the end of the binlog; null: unknown, or in different files."""
    execute_time: datetime | None
    """Commit time of the last applied change, by the source's clock."""
    delay_seconds: float | None
    """Seconds by which the last applied change is behind the source's clock now; 0 if no change is pending."""
    gtid: TextOrNull
    """GTIDs applied at the position, in the server's format; null: none."""
    current: bool
    """False if the source has not reported its end recently; distance and delay are then minimums."""
    reported_at: datetime | None
    """When the driver last reported."""


@dataclass(frozen=True, slots=True)
class SyncConfig:
    """Settings of a job as configured now, without any secret."""

    address: str
    """The source's host and port."""
    destination: str
    """The source's name in the configuration."""
    slot: str
    """The job's slot name."""
    sync_commit_interval_second: int
    """Seconds after which a step ends."""
    min_sync_commit_size: int
    """Number of rows with which a step ends."""
    min_bytes_sync_commit: int
    """Bytes of events with which a step ends."""
    max_bytes_sync_commit: int
    """Bytes of events that a step does not exceed."""


@dataclass(frozen=True, slots=True)
class SyncJob:
    """A job in the columns of SHOW SYNC JOB."""

    job_id: TextOrNull
    """The id of its newest run; null: never started on this host."""
    job_name: str
    """The job's name."""
    type: str
    """The protocol by which the source is read; the old column shows CANAL."""
    state: JobState | None
    """The job's state (`slotkeeper docs states`); null: never started on this host."""
    binlog_load_state: Annotated[str | None, OLD_STATES]
    """The state that Binlog Load would show; null: it has none."""
    last_known: bool
    """Whether state and status are the last known ones, because none of its processes was found on this host."""
    channel: tuple[SyncChannel, ...]
    """Its tables."""
    status: SyncStatus | None
    """Its position, delay and GTIDs; null: no position yet."""
    job_config: SyncConfig | None
    """Its settings; null: no configuration was read, or the job is not in it."""
    create_time: datetime | None
    """When its oldest run started that this host retains (at most 100 runs); null: none."""
    last_start_time: datetime | None
    """When it was last started or resumed; null: never."""
    last_stop_time: datetime | None
    """When it was last stopped or paused; null: never."""
    finish_time: datetime | None
    """When it finished or was cancelled, which is final; null: neither."""
    msg: TextOrNull
    """The job's current problem or the reason for its state; null: none."""


def sync_job(
    name: str,
    speaks: str,
    view: JobStatus | None,
    spec: JobSpec | None,
    starts: Sequence[datetime],
    stops: Sequence[datetime],
    now: datetime,
) -> SyncJob:
    """Return a job's row: `view` is None if it never started here, `spec` if it is not configured.

    `starts` and `stops` are the times at which it was started or resumed, and stopped or paused, in any order.
    """
    state = view.state if view is not None and view.run else None
    final = view is not None and state in (_S.FINISHED, _S.CANCELLED)
    return SyncJob(
        job_id=view.run if view is not None else "",
        job_name=name,
        type=speaks,
        state=state,
        binlog_load_state=_OLD.get(state, "PAUSED") if state is not None else None,
        last_known=view is not None and view.last_known,
        channel=_channel(view, spec),
        status=_status(view, now) if view is not None else None,
        job_config=_config(spec) if spec is not None else None,
        create_time=min(starts, default=None),
        last_start_time=max(starts, default=None),
        last_stop_time=max(stops, default=None),
        finish_time=view.changed_at if view is not None and final else None,
        msg=why_of(view) if view is not None and state is not None else NEVER,
    )


def delay_now(delay: float | None, age: float, current: bool) -> float | None:
    """Return a delay that was reported `age` seconds ago as of now; None if it is unknown.

    A pending change stays pending until a report shows otherwise, so the delay grows. If no change was pending, one may
    be pending now unless the report is `current`.

    >>> delay_now(4.0, 60.0, False), delay_now(0.0, 1.0, True), delay_now(0.0, 60.0, False)
    (64.0, 0.0, None)
    """
    if delay is None:
        return None
    return delay + age if delay > 0 else 0.0 if current else None


def _channel(view: JobStatus | None, spec: JobSpec | None) -> tuple[SyncChannel, ...]:
    """Return the tables of the last report, which are those of its run; without a report, the configured tables."""
    report = view.report if view is not None else None
    pairs = [(one.source_table, one.target) for one in report.tables] if report is not None else []
    pairs += [(one.source_table, one.target) for one in report.lanes] if report is not None else []
    if not pairs and spec is not None:
        pairs = [(one.source_table, one.target) for one in spec.channels]
        pairs = pairs or [(one.source, one.into) for one in spec.patterns]
    return tuple(SyncChannel(source, target) for source, target in dict.fromkeys(pairs))


def _status(view: JobStatus, now: datetime) -> SyncStatus | None:
    report = view.report
    lanes = report.lanes if report is not None else ()
    known = [(lane.at, place) for place, lane in enumerate(lanes) if lane.at is not None]
    if not known:
        return None
    lane = lanes[min(known)[1]]
    age = None if view.reported_at is None else elapsed(view.reported_at, now)
    heard = age is not None and lane.polled_age is not None and lane.polled_age + age <= FRESH_SECONDS
    current = heard and not view.last_known
    return SyncStatus(
        source_table=lane.source_table,
        lanes=len(lanes),
        position=lane.position or "",
        shown=lane.shown or "",
        latest=lane.latest,
        behind_bytes=lane.behind if lane.behind or current else None,
        execute_time=None if lane.applied_at is None else datetime.fromtimestamp(lane.applied_at, timezone.utc),
        delay_seconds=None if age is None else delay_now(lane.delay, age, current),
        gtid=lane.gtids,
        current=current,
        reported_at=view.reported_at,
    )


def _config(spec: JobSpec) -> SyncConfig:
    """Return the settings; credentials and their references are left out."""
    return SyncConfig(
        address=f"{spec.source.host}:{spec.source.port}",
        destination=spec.source.name,
        slot=spec.slot,
        sync_commit_interval_second=spec.sync.sync_commit_interval_second,
        min_sync_commit_size=spec.sync.min_sync_commit_size,
        min_bytes_sync_commit=spec.sync.min_bytes_sync_commit,
        max_bytes_sync_commit=spec.sync.max_bytes_sync_commit,
    )
