"""Job specifications for the engine and the workers, and the rules for slot names and `start` in a configuration.

The values are small, frozen and picklable, and hold no secrets; `slotkeeper.core.config` creates them. Options have the
vendor's names in snake_case (DWS: "Real-Time Binlog Consumption by Flink", table 1); times are in milliseconds and
sizes in rows or sync points, as documented there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING

from slotkeeper.core.domain.copy_limit import NO_LIMIT, CopyLimit
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.errors import Defect

if TYPE_CHECKING:
    from slotkeeper.core.domain.slot import Column
    from slotkeeper.core.domain.type_name import Condition

SLOT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")
"""A valid slot name: an identifier of at most 63 bytes, safe in every statement and file name."""


def slot_name(text: str) -> str:
    """Return the name if it is a valid slot name; otherwise raise ValueError with the rule.

    >>> slot_name("orders_rt")
    'orders_rt'
    """
    if not SLOT_NAME.fullmatch(text):
        raise ValueError(f"slot name {text!r}: letters, digits, _ and $ only, at most 63, not starting with a digit")
    return text


class StartKind(Enum):
    """Kinds of `start` values."""

    INITIAL = "initial"
    LATEST = "latest"
    EARLIEST = "earliest"
    TIME = "time"
    POINTS = "points"


@dataclass(frozen=True, slots=True)
class StartAt:
    """A parsed `start`: `at` is set for a time, `points` for a list of pairs (DN name, start position as typed)."""

    kind: StartKind
    at: datetime | None = None
    points: tuple[tuple[str, str], ...] = ()

    @property
    def partial(self) -> bool:
        """Whether the target holds only changes since the start; such a target cannot be compared with the source."""
        return self.kind in (StartKind.EARLIEST, StartKind.TIME, StartKind.POINTS)

    @property
    def copies(self) -> bool:
        """Whether the start makes a copy; a snapshot is possible only if it does."""
        return self.kind is StartKind.INITIAL


NO_COPY = 'set start = "initial" for the snapshot'
"""The hint if a copy is required but `start` does not make a copy."""

EVERY_DN = "all"
"""The name that represents all DNs in a list of points."""

_POINT = re.compile(r"([A-Za-z_][\w$]{0,62})=([0-9][0-9A-Za-z:./_-]{0,63})")
_RULE = (
    'must be "initial", "latest", "earliest", a time with its offset ("2024-11-14 15:48:40+08:00"), or points'
    ' ("dn_1=10516, ...", "all=10516")'
)


def start_at(text: str) -> StartAt:
    """Parse a `start` value; raises ValueError with the rule.

    >>> start_at("latest").kind, start_at("dn_1=10516, dn_2=10517").points
    (<StartKind.LATEST: 'latest'>, (('dn_1', '10516'), ('dn_2', '10517')))
    """
    if text in ("initial", "latest", "earliest"):
        return StartAt(StartKind(text))
    if "=" in text:
        return StartAt(StartKind.POINTS, points=_points(text))
    if not re.match(r"\d{4}-\d\d-\d\d[ T]", text):
        raise ValueError(_RULE)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("must be a time that exists, such as 2024-11-14 15:48:40+08:00") from None
    if at.tzinfo is None:
        raise ValueError("must be a time with its offset, such as 2024-11-14 15:48:40+08:00")
    return StartAt(StartKind.TIME, at)


def _points(text: str) -> tuple[tuple[str, str], ...]:
    found = []
    for part in text.split(","):
        match = _POINT.fullmatch(part.strip())
        if match is None:
            raise ValueError('must name points as "dn_1=10516, dn_2=10517"')
        found.append((match[1], match[2]))
    if len({name for name, _ in found}) < len(found):
        raise ValueError("must name each DN once")
    return tuple(found)


STOP, IGNORE, APPLY, RESNAPSHOT = "stop", "ignore", "apply", "resnapshot"
"""Reactions of a job to changed columns of a source table: show the commands to run; mirror no added column; alter the
target at the position of the change; or alter the target and copy again. A change of columns that are not mirrored
never stops a source that follows such changes by its log."""
ON_SCHEMA_CHANGE = (STOP, IGNORE, APPLY, RESNAPSHOT)
FOLLOWING = (IGNORE, APPLY)
"""Reactions that need a source whose log contains the statements."""


READ_BY = ("sql", "stream")
"""Ways to read the changes to a Hologres table."""


@dataclass(frozen=True, slots=True)
class BinlogOptions:
    """The source's documented parameters, with the documented defaults."""

    binlog: bool = False
    binlog_batch_read_size: int = 5_000
    full_sync_binlog_batch_read_size: int = 50_000
    binlog_sync_point_size: int = 5_000
    binlog_sleep_time: int = 500
    binlog_max_sleep_time: int = 10_000
    binlog_max_retry_times: int = 1
    binlog_retry_interval: int = 100
    new_system_value: bool = True
    binlog_read_timeout: int = 600_000
    full_sync_binlog_read_timeout: int = 1_800_000
    connection_socket_timeout: int = 0
    binlog_parallel_num: int = 3
    need_redistribution: bool = True
    check_node_change_interval: int = 10_000
    connection_pool_size: int = 5
    binlog_ignore_update_before: bool = False
    binlog_read_batch_size: int = 1_024
    binlog_heart_beat_interval_ms: int = -1
    binlog_ignore_delete: bool = False
    binlog_ignore_before_update: bool = False
    binlog_visibility_lag: int = 0
    read_by: str = "sql"
    enable_compression: bool = False
    """`binlog_read_batch_size` and the options below it apply to a Hologres source and have its client's defaults."""

    @property
    def by_stream(self) -> bool:
        """Whether changes are read from the binlog stream instead of with SQL."""
        return self.read_by == READ_BY[1]


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """Limits that divide a binlog into steps, with the documented defaults (Doris, "Binlog Load"); byte limits
    count the size of events."""

    sync_commit_interval_second: int = 10
    min_sync_commit_size: int = 10_000
    min_bytes_sync_commit: int = 15 << 20
    max_bytes_sync_commit: int = 64 << 20
    stream_read_timeout: int = 30_000
    """An option of Slotkeeper, not of Doris; in milliseconds."""


UPSERT_MODES = ("auto", "upsert", "copy_upsert", "copy_merge")
UPDATE_MODES = ("update", "copy_update", "update_auto")
"""The documented write modes: modes that insert or update rows, and modes that only update existing rows."""
CONFLICT_STRATEGIES = ("update", "replace", "ignore")
ON_BAD_ROW = ("stop", "quarantine")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The sink's documented parameters, with the connector's defaults."""

    auto_flush_batch_size: int = 5_000
    auto_flush_max_interval: int = 5_000
    max_flush_retry_times: int = 3
    write_mode: str = "auto"
    conflict_strategy: str = "update"
    copy_write_batch_size: int = 5_000
    ignore_update_before: bool = True
    ignore_delete: bool = False
    ignore_null_when_update: bool = False
    connection_size: int = 1
    connection_max_use_time_seconds: int = 3_600
    connection_max_use_time_threshold: int | None = None
    on_bad_row: str = "stop"
    quarantine_limit: int = 100
    optimistic_step: bool = True

    @property
    def quarantines(self) -> bool:
        """Whether rows that the target rejects are quarantined while others are written (not a connector option)."""
        return self.on_bad_row == "quarantine"

    @property
    def connection_max_use_time(self) -> int:
        """Seconds after which a worker reopens its connection to the sink; the option has two names."""
        return self.connection_max_use_time_threshold or self.connection_max_use_time_seconds

    @property
    def updates_only(self) -> bool:
        """Whether rows are only updated and deleted (the update modes of the connector)."""
        return self.write_mode in UPDATE_MODES


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """Options for second-level retries, in milliseconds; `give_up_after` limits the retries of transient errors.

    If it is None, there is no limit.
    """

    wait_initial: int = 1_000
    wait_max: int = 30_000
    wait_jitter: int = 1_000
    give_up_after: int | None = None


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Options for starting Spark; `settings` holds only allow-listed keys.

    `secret` is a standalone cluster's `spark.authenticate.secret`; `python` is the interpreter of its workers
    ("": the driver's interpreter).
    """

    master: str = "local[4]"
    driver_memory: str = "512m"
    settings: tuple[tuple[str, str], ...] = ()
    secret: SecretRef = field(default_factory=SecretRef)
    python: str = ""
    spark_ui: bool = False


CASCADES = ("refuse", "allow")
"""How to treat a foreign key whose cascades change the source table without row events."""
ALLOW = CASCADES[1]


@dataclass(frozen=True, slots=True)
class Constant:
    """A column of a target's key in which all rows of one channel have the same value, which the source does not have.

    Several channels can write to one target if each has its own value (ADR 93).
    """

    column: str
    value: str | int

    @property
    def text(self) -> str:
        """The value as text, which contains no character that COPY or SQL would have to escape."""
        return str(self.value)

    @property
    def type(self) -> str:
        """The type of the column in a created target."""
        if isinstance(self.value, str):
            return f"character varying({CONSTANT_MAX})"
        return "integer" if -(2**31) <= self.value < 2**31 else "bigint"


CONSTANT_MAX = 63


@dataclass(frozen=True, slots=True)
class SoftDelete:
    """The columns that a delete sets instead of removing the row (ADR 101)."""

    deleted_at: str = "deleted_at"
    """The time at which the delete was read; NULL while the source has the row."""
    op: str = "op"
    """The last operation: I (inserted or copied), U (updated) or D (deleted)."""


def place_of(target: str, constant: Constant | None) -> str:
    """Return a target's name in progress rows, locks and messages, with the constant of a part."""
    return target if constant is None else f"{target} [{constant.column}={constant.text}]"


def parts_of(place: str) -> tuple[str, str]:
    """Return the target and the constant's column of `ChannelSpec.place`; "" without a constant.

    >>> parts_of("mart.orders [shop_id=eu_1]"), parts_of("mart.orders")
    (('mart.orders', 'shop_id'), ('mart.orders', ''))
    """
    target, found, rest = place.rpartition(" [")
    return (target, rest.partition("=")[0]) if found and place.endswith("]") else (place, "")


@dataclass(frozen=True, slots=True)
class Computed:
    """A computed column of a target (`slotkeeper.core.domain.expressions`)."""

    name: str
    sql: str
    inputs: tuple[str, ...] = ()
    """The columns of the source that the expression names."""
    salted: bool = False
    of_change: bool = False
    """Whether the expression uses the change that wrote the row, such as its position."""
    timed: bool = False
    """Whether it uses the time that the source's log has for the change."""


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """One source table and its target table; names are `schema.table` as written in the configuration.

    `columns` are pairs (source column, target column); empty: all columns, matched by name. `where` is a condition
    over source columns; `on_schema_change` is one of `slotkeeper.core.domain.spec.ON_SCHEMA_CHANGE`, `cascades` one of
    `CASCADES`. `known` is not configured: a start sets it to the source's columns at the position of the table's lanes,
    for a source that follows changes of columns by its log.
    """

    source_table: str
    target: str
    create_target: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    where: str = ""
    keys_never_change: bool = False
    on_schema_change: str = "stop"
    cascades: str = "refuse"
    constant: Constant | None = None
    soft_delete: SoftDelete | None = None
    synced_at: str = ""
    """The column with the time at which a row was last read from the source; "" if there is none."""
    compute: tuple[Computed, ...] = ()
    """The computed columns; one with the name of a mirrored column replaces it."""
    salt: SecretRef = field(default_factory=SecretRef)
    """The secret text that expressions use as salt()."""
    known: tuple[Column, ...] = ()
    start: str = ""
    """The start of this table if it differs from the job's: a table that joins a job of patterns later is copied."""

    @property
    def place(self) -> str:
        """The target, with the constant if the channel writes to a part of it: `mart.orders [shop_id=eu_1]`."""
        return place_of(self.target, self.constant)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that are read from the source, in order; empty for all."""
        named = [source for source, _ in self.columns]
        more = (name for one in self.compute for name in one.inputs) if named else ()
        return tuple(dict.fromkeys([*named, *more]))

    @property
    def timed(self) -> bool:
        """Whether a source must read each change with its time, as a last column."""
        return any(one.timed for one in self.compute)

    @property
    def is_plain(self) -> bool:
        """Whether the target's rows are the source's values, with no column added or replaced."""
        return self.constant is None and self.soft_delete is None and not self.synced_at and not self.compute

    @property
    def marks(self) -> tuple[str, ...]:
        """The columns that a soft delete sets: deleted_at, op and, if configured, synced_at; empty without it."""
        one = self.soft_delete
        return () if one is None else (one.deleted_at, one.op, *filter(None, [self.synced_at]))


@dataclass(frozen=True, slots=True)
class TablePattern:
    """A configuration block that applies to every matching source table.

    `source` and `excluded` are patterns of `schema.table`; `into` is the target, in which `{schema}` and `{table}` are
    replaced by the names of the source table. `channel` has the options of each table; its two names are not used.
    """

    source: str
    into: str
    excluded: tuple[str, ...] = ()
    channel: ChannelSpec = field(default_factory=lambda: ChannelSpec("", ""))


METHODS = ("auto", "recompute", "delta")
"""How a round applies changes to a view: recompute the affected keys, or add up weights; `auto` prefers weights."""


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """A SELECT over the job's targets whose result the sink maintains as a table (ADR 94)."""

    target: str
    """The table that contains the result, as `schema.table`."""
    sql: str
    key: tuple[str, ...] = ()
    """The output columns that identify a row; empty for GROUP BY, where the grouping columns are the key."""
    lookup: tuple[str, ...] = ()
    """Tables that the SELECT reads although the job does not mirror them, as `schema.table`."""
    method: str = "auto"


@dataclass(frozen=True, slots=True)
class RoundOptions:
    """Options for the rounds of a job's views: the pause between two rounds in ms, and the maximum rows per round."""

    min_interval: int = 200
    delta_rows_max: int = 5_000_000


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A configured pipeline; `start_at` parses `start`.

    `on_existing` is "refuse", "replace" or "merge". `wait_ms` limits the wait for transactions that were open when the
    slot was created; `progress_schema` is the schema of `slotkeeper_progress` and `slotkeeper_chunks` in the sink;
    `source_kind` and `sink_kind` are names in the registries. `store` and `store_kind` define the store of the progress
    rows if the sink is not a store itself.
    """

    name: str
    source: Endpoint
    sink: Endpoint
    slot: str
    channels: tuple[ChannelSpec, ...]
    start: str = "initial"
    on_existing: str = "refuse"
    wait_ms: int = 600_000
    progress_schema: str = "public"
    sink_kind: str = "postgres"
    source_kind: str = "dws"
    environment: str = ""
    binlog: BinlogOptions = field(default_factory=BinlogOptions)
    sink_options: SinkOptions = field(default_factory=SinkOptions)
    sync: SyncOptions = field(default_factory=SyncOptions)
    retry: RetryOptions = field(default_factory=RetryOptions)
    spark: SparkOptions = field(default_factory=SparkOptions)
    store: Endpoint | None = None
    store_kind: str = ""
    copy_limit: CopyLimit = NO_LIMIT
    views: tuple[ViewSpec, ...] = ()
    rounds: RoundOptions = field(default_factory=RoundOptions)
    patterns: tuple[TablePattern, ...] = ()
    """The pattern blocks; `channels` contains the tables that are known to match."""

    @property
    def several(self) -> bool:
        """Whether the job can have several tables, so that lanes and messages name their table."""
        return len(self.channels) > 1 or bool(self.patterns)

    @property
    def in_two_parts(self) -> bool:
        """Whether the sink's rows and the progress rows are committed in separate transactions."""
        return self.store is not None

    @property
    def store_at(self) -> tuple[Endpoint, str]:
        """The store of the progress rows and its kind; the sink itself if no store is configured."""
        return (self.store, self.store_kind) if self.store is not None else (self.sink, self.sink_kind)

    @property
    def locked_target(self) -> str:
        """The name under which the target is locked; with the sink's database if a separate store holds the lock."""
        return f"{self.sink.database}.{self.channel.place}" if self.in_two_parts else self.channel.place

    @property
    def channel(self) -> ChannelSpec:
        """The only channel of the job, as configured or after narrowing; raises Defect if there are several."""
        if len(self.channels) != 1:
            raise Defect(f"job {self.name} has {len(self.channels)} channels, but one is expected")
        return self.channels[0]

    def of(self, source_table: str) -> JobSpec:
        """Return the job narrowed to the channel of a source table; raises Defect if it has no such channel."""
        for channel in self.channels:
            if channel.source_table == source_table:
                start = channel.start or self.start
                return replace(self, channels=(channel,), patterns=(), start=start) if self.several else self
        raise Defect(f"job {self.name} has no channel from {source_table}")

    def rewritten(self, source_table: str) -> list[ChannelSpec]:
        """Return a list of a source table's channel if its rows are rewritten on their way, else an empty list."""
        return [one for one in self.channels if one.source_table == source_table and not one.is_plain]

    def lane_key(self, shard: str = "") -> LaneKey:
        """Return the key of a lane's progress row; without `shard`, the key of all lanes of the channel."""
        return LaneKey(self.source.name, self.channel.source_table, self.slot, shard)

    @property
    def narrowed(self) -> tuple[JobSpec, ...]:
        """One job per channel, narrowed to that channel, in the order of the configuration."""
        return tuple(self.of(channel.source_table) for channel in self.channels)

    def lane_name(self, source_table: str, shard: str) -> str:
        """Return a lane's name: its DN, with its source table as a prefix if the job has several channels.

        >>> none = Endpoint("none", "localhost", 1, "none", "none")
        >>> job = JobSpec("j", none, none, "s", (ChannelSpec("ods.a", "mart.a"), ChannelSpec("ods.b", "mart.b")))
        >>> job.lane_name("ods.b", "dn_1"), job.of("ods.b").lane_name("ods.b", "dn_1")
        ('ods.b dn_1', 'dn_1')
        """
        return f"{source_table} {shard}" if self.several else shard


@dataclass(frozen=True, slots=True)
class Images:
    """The rows of a changelog: all values of these columns, of rows that meet all conditions (applied if possible)."""

    columns: tuple[Column, ...] = ()
    only: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class TableAsked:
    """A table to open, with its slot; `channel` is None for a slot command.

    `points_proven`: a probe recorded that the source makes one sync point per transaction.
    """

    table: str
    slot: str
    binlog: BinlogOptions
    channel: ChannelSpec | None = None
    sync: SyncOptions = field(default_factory=SyncOptions)
    points_proven: bool = False
    images: Images | None = None
    """The rows of a changelog, which a DataFrame reads; None for the rows that a sink reads."""
    feed: str = ""
    """The address of the job's shared reader, from which this table is read where possible; "" if there is none."""

    @classmethod
    def of(cls, job: JobSpec, points_proven: bool = False, images: Images | None = None, feed: str = "") -> TableAsked:
        return cls(job.channel.source_table, job.slot, job.binlog, job.channel, job.sync, points_proven, images, feed)
