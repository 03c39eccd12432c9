"""The keys of `[jobs.X.binlog]` and `[jobs.X.sync]`, which control how a source is read, and the rules between them.

The traits of each kind of source name its set of keys (`binlog_keys`). Vendor parameters have the vendor's names in
snake_case; each class names the documentation that defines its defaults, units and meanings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from slotkeeper.core.config import values
from slotkeeper.core.config.check import Reading, Table, as_table, dotted, read_options, read_value, refuse_below
from slotkeeper.core.config.keys import SAME, Key, Section, defaults, no_meaning, section, vendor
from slotkeeper.core.config.model import Path
from slotkeeper.core.domain.spec import ALLOW, EVERY_DN, READ_BY, BinlogOptions, ChannelSpec, SinkOptions, SyncOptions
from slotkeeper.core.domain.text import safe
from slotkeeper.core.sources import registry

_ROWS = values.whole(1, 10_000_000)
_WAIT = values.duration(1, values.DAY)
_LIMIT = values.duration(1, values.WEEK)


class _Binlog:
    """The keys of DWS sources.

    Defaults, units and meanings are from "Real-Time Binlog Consumption by Flink", table 1 (19 parameters), and the
    connector's further pool options.
    """

    binlog = vendor(values.boolean)
    """read the binlog; if false, the job only makes one full copy"""
    binlog_slot_name = vendor(values.slot)
    """slot of the source table; the same setting as the job's `slot`, so set only one of the two"""
    binlog_batch_read_size = vendor(_ROWS, "rows")
    """binlog rows per read batch"""
    full_sync_binlog_batch_read_size = vendor(_ROWS, "rows")
    """rows per chunk of the full copy"""
    binlog_read_timeout = vendor(_LIMIT, "ms")
    """time limit of one incremental read"""
    full_sync_binlog_read_timeout = vendor(_LIMIT, "ms")
    """time limit of one read of the full copy; in the sink, also the time limit of a chunk and (at least 30m) of the
    table exchange"""
    binlog_sleep_time = vendor(_WAIT, "ms")
    """wait after an empty read, multiplied by the number of consecutive empty reads"""
    binlog_max_sleep_time = vendor(_WAIT, "ms")
    """maximum wait after an empty read"""
    binlog_max_retry_times = vendor(values.whole(0, 1_000))
    """number of quick retries after an error at the source"""
    binlog_retry_interval = vendor(values.duration(0, 3_600_000), "ms")
    """wait before the n-th quick retry: n times this value, plus a random time of up to 100 ms"""
    new_system_value = vendor(values.boolean)
    """use the new names of the system columns; false for older kernels"""
    connection_socket_timeout = vendor(values.duration(0, values.WEEK), "ms")
    """client-side time limit for a response; 0 means no limit"""
    binlog_sync_point_size = vendor(values.whole(1, 1_000_000_000), "sync points")
    """number of sync points per incremental range (DWS 9.1.0.200 and later)"""
    binlog_parallel_num = vendor(values.whole(1, 64))
    """number of lanes that one task reads at once if there are fewer Spark slots than DNs; the lanes share the
    connection pool"""
    connection_pool_size = vendor(values.whole(2, 1_000))
    """maximum number of source connections that tasks use at once, independent of the number of Spark slots; the driver
    holds [a few more](delivery.md), whose number does not depend on the number of tables"""
    need_redistribution = vendor(values.boolean)
    """continue with a changed set of DNs if that is safe; set false for kernels that cannot redistribute a table with a
    binlog"""
    check_node_change_interval = vendor(values.duration(100, values.DAY), "ms")
    """interval of the checks for changed DNs; rejected with need_redistribution = false"""
    binlog_ignore_update_before = vendor(values.boolean)
    """the server omits B rows, and deletes contain only the key (DWS 9.1.0.200 and later); requires `keys_never_change`
    the server omits B rows, and deletes contain only the key (DWS 9.1.0.200 and later); requires `keys_never_change`"""
    binlog_start_time = vendor(values.start_time)
    """time from which to read, `yyyy-MM-dd hh:mm:ss` in UTC or with an offset; the same setting as the job's `start`,
    so set only one of the two; requires enable_binlog_timestamp (DWS 9.1.0.200 and later)"""
    binlog_queue_size = no_meaning("rows pass through a pipe of fixed size", 0, "rows")
    """size of the reader's queue"""
    connection_size = no_meaning("Spark tasks read the binlog", 1)
    """number of threads in the read pool"""
    connection_pool_name = no_meaning("sessions are named slotkeeper/<job>/<epoch>")
    """name of the connection pool"""
    connection_pool_timeout = no_meaning("a task waits for a Spark slot", unit="ms")
    """time limit for waiting for a connection"""
    connection_max_use_count = no_meaning("a session lasts as long as its job's epoch")
    """maximum number of uses of a connection"""
    need_connection_pool_monitor = no_meaning("each task has its own session")
    """monitor the connection pool"""
    connection_pool_monitor_period = no_meaning("each task has its own session", unit="ms")
    """interval of the pool monitor"""
    connection_time_out = no_meaning("set the source's connect_timeout instead", unit="ms")
    """time limit of one connection attempt"""


_DEFAULTS = defaults(BinlogOptions)
BINLOG = section(_Binlog, of=_DEFAULTS)


_SHARED = (
    "binlog",
    "binlog_slot_name",
    "full_sync_binlog_batch_read_size",
    "binlog_read_timeout",
    "full_sync_binlog_read_timeout",
    "binlog_sleep_time",
    "binlog_max_sleep_time",
    "binlog_retry_interval",
    "connection_socket_timeout",
    "binlog_parallel_num",
    "connection_pool_size",
)
START_MODES = ("initial", "earliest_offset", "timestamp")


class _Own:
    """The keys of hologres sources that DWS sources do not have.

    Defaults and meanings are those of holo-client ("HoloConfig") and of the table in "Technical Principle of Hologres
    Binlog"; `binlogStartUpMode`, `startTime` and `cdcMode` are from the Flink connector.
    """

    binlog_read_batch_size = vendor(values.whole(1, 1_000_000), "records")
    """binlog records per page, or maximum number of records per message of the stream"""
    binlog_heart_beat_interval_ms = vendor(values.whole(-1, values.DAY), "ms")
    """interval at which the progress row of an idle shard records the server time up to which all changes have been
    read; -1 means eight times per binlog.ttl"""
    binlog_ignore_delete = vendor(values.boolean)
    """ignore deletes (event type 2)"""
    binlog_ignore_before_update = vendor(values.boolean)
    """ignore the old rows of updates (event type 3)"""
    retry_count = vendor(values.whole(1, 1_000), default=3)
    """number of attempts, including the first one, after an error at the source before the long waits start; a success
    resets the count"""
    binlog_start_up_mode = vendor(values.choice(*START_MODES))
    """where a new job starts: `initial` (a copy, then the binlog), `earliest_offset`, or `timestamp` with `start_time`;
    the same setting as the job's `start`, so set only one of the two"""
    start_time = vendor(values.start_time)
    """time from which to read, `yyyy-MM-dd hh:mm:ss` in UTC or with an offset; the same setting as the job's `start`,
    so set only one of the two"""
    start_lsn = vendor(values.start_lsn)
    """LSN after which to read, for all shards (`"10516"`) or by shard (`"shard_0=10516, shard_1=99"`); cannot be
    combined with `start_time` (Hologres allows both and uses the LSN)"""
    cdc_mode = vendor(values.only_true, default=True)
    """must be true: each record is applied according to its type; false, which would append every image as a row, is
    rejected"""
    read_by = Key(values.choice(*READ_BY))
    """how changes are read: `sql`, or `stream`, which is the binlog stream over PostgreSQL's replication protocol
    (Hologres 2.1 and later, without a slot; the connector's `sdkMode` `jdbc`); the end of a range is queried with SQL
    in both cases"""
    enable_compression = vendor(values.boolean)
    """compress the messages of the stream (LZ4; Hologres 3.2 and later); only with `read_by = "stream"`"""
    binlog_visibility_lag = Key(values.duration(0, values.DAY), unit="ms")
    """minimum age of the records that are read, for servers where a record with a lower LSN may become visible after a
    record with a higher LSN"""


OWN = section(_Own, of=_DEFAULTS)
HOLOGRES: Section = {name: BINLOG[name] for name in _SHARED} | dict(OWN)
"""All keys of a hologres source, including the keys that it shares with DWS sources."""


def start_of_hologres(reading: Reading, path: Path, raw: Table, below: Table) -> None:
    """Set the job's start from `binlog_start_up_mode`, `start_time` or `start_lsn`, which are the same setting."""
    named = [name for name in ("binlog_start_up_mode", "start_time", "start_lsn") if name in below]
    if not named:
        return
    here: Path = (*path, "binlog", named[-1])
    if "start" in raw:
        what = f"[{dotted(path)}] sets start and binlog.{named[-1]}, two keys for one setting"
        raise reading.error(here, what, "keep start")
    if {"start_time", "start_lsn"} <= set(named):
        what = f"[{dotted(path)}.binlog] sets start_time and start_lsn; Hologres would ignore start_time"
        raise reading.error(here, what, "set only one of them")
    mode, given = below.get("binlog_start_up_mode"), {name: below.pop(name) for name in named}
    read = {}
    for name, value in given.items():
        reader = HOLOGRES[name].read
        assert reader is not None
        read[name] = str(read_value(reading, (*path, "binlog", name), reader, value))
    lsn = read.get("start_lsn")
    if lsn == f"{EVERY_DN}=0":  # the vendor's example uses LSN 0 for all shards to read all retained changes
        lsn = "earliest"
    place = read.get("start_time") or lsn
    if mode == "timestamp" and "start_time" not in read:
        raise reading.error(here, f'{dotted(here)} = "timestamp" needs start_time', "set start_time, or another mode")
    if mode is not None and place and not (mode == "timestamp" and "start_time" in read):
        what = f'{dotted(here)} and binlog_start_up_mode = "{safe(mode, 20)}" specify two start positions'
        raise reading.error(here, what, "set only one of them")
    raw["start"] = place or {"initial": "initial"}.get(str(mode), "earliest")
    reading.overrides[(*path, "start")] = reading.origin(here)


def _tries_of_hologres(set_here: Table, options: BinlogOptions) -> BinlogOptions:
    """Return the options with the number of retries from `retry_count`, which includes the first attempt."""
    tries = set_here.get("retry_count", HOLOGRES["retry_count"].default)
    assert isinstance(tries, int)
    return replace(options, binlog_max_retry_times=tries - 1)


@dataclass(frozen=True, slots=True)
class BinlogKeys:
    """One set of binlog keys. `start` moves start settings that exist only in this set to the job's own table; `more`
    applies keys that do not correspond to a single field.
    """

    section: Section
    start: Callable[[Reading, Path, Table, Table], None] = lambda *_: None
    more: Callable[[Table, BinlogOptions], BinlogOptions] = lambda _set_here, options: options


SETS = {"dws": BinlogKeys(BINLOG), "hologres": BinlogKeys(HOLOGRES, start_of_hologres, _tries_of_hologres)}
"""The sets of keys by name; the traits of each kind of source contain the name."""
UNTOLD = SETS["dws"]
"""The set for a job without a source; the missing source is reported when `[jobs.X]` is read."""


def binlog_table(reading: Reading, path: Path, raw: Table) -> Table:
    """Return the table `binlog` of the job at `path` as written in the file."""
    return as_table(reading, (*path, "binlog"), raw.get("binlog", {}))


_BYTES = values.whole(1, 1 << 40)


class _Sync:
    """Parameters of Doris Binlog Load, for sources whose own binlog is read in ranges of transactions.

    Names, defaults and meanings are those of Doris, "Binlog Load", "FE configuration".
    """

    sync_commit_interval_second = Key(values.whole(1, 86_400), unit="s", documented=SAME)
    """time for which a step reads before it commits; set either this or sink_options.auto_flush_max_interval"""
    min_sync_commit_size = Key(values.whole(1, 10_000_000), unit="rows", documented=SAME)
    """number of rows after which a step commits; a step at the end of the binlog never waits for more rows; set either
    this or sink_options.auto_flush_batch_size"""
    min_bytes_sync_commit = Key(_BYTES, unit="bytes", documented=SAME)
    """bytes of events after which a range ends; the step also ends if it has enough rows"""
    max_bytes_sync_commit = Key(_BYTES, unit="bytes", documented=SAME)
    """maximum bytes of events per step; a larger transaction is not split but forms a separate step; must be at least
    min_bytes_sync_commit"""
    stream_read_timeout = Key(values.duration(5_000, 3_600_000), unit="ms")
    """time without data after which the reader closes the binlog stream and reconnects; a healthy server sends a
    heartbeat every second"""
    max_sync_task_threads_num = no_meaning(
        "Spark limits the tasks that run at once: set master in [jobs.X.spark]", 10, documented=SAME
    )
    """number of load threads of all jobs"""


SYNC = section(_Sync, of=defaults(SyncOptions))
_SAME = {"min_sync_commit_size": "auto_flush_batch_size", "sync_commit_interval_second": "auto_flush_max_interval"}
"""Keys of `sync`, each with the key of `sink_options` for the same setting."""


def read_sync(
    reading: Reading, path: Path, raw: Table, dialect: str, options: SinkOptions
) -> tuple[SyncOptions, SinkOptions]:
    """Return the options from the table `sync` of the job at `path`, and the sink options updated from that table.

    Raises ConfigError for a table that has no effect, and for limits that contradict each other.
    """
    here: Path = (*path, "sync")
    set_here = as_table(reading, here, raw.get("sync", {}))
    if not registry.traits(dialect).paced:
        for name in set_here:
            what = f"{dotted((*here, name))} has no effect: a source of kind {dialect} is read by sync points"
            raise reading.error((*here, name), what, "see binlog_sync_point_size, sink_options.auto_flush_batch_size")
        return SyncOptions(), options
    sync = read_options(reading, path, raw, "sync", SYNC, SyncOptions)
    least, hint = f" ({sync.min_bytes_sync_commit} bytes)", "a range must reach the minimum before the maximum"
    refuse_below(reading, here, sync, "max_bytes_sync_commit", "min_bytes_sync_commit", least, hint)
    theirs = as_table(reading, (*path, "sink_options"), raw.get("sink_options", {}))
    for name, other in _SAME.items():
        if name in set_here and other in theirs:
            what = f"[{dotted(path)}] sets sync.{name} and sink_options.{other}, two keys for one setting"
            raise reading.error((*here, name), what, "set only one of them")
    if "auto_flush_batch_size" not in theirs:
        options = replace(options, auto_flush_batch_size=sync.min_sync_commit_size)
    if "auto_flush_max_interval" not in theirs:
        options = replace(options, auto_flush_max_interval=sync.sync_commit_interval_second * 1000)
    return sync, options


def refuse_cascades(reading: Reading, path: Path, dialect: str, channels: tuple[ChannelSpec, ...]) -> None:
    """Reject `cascades = "allow"` for sources that write cascading changes to their binlog."""
    for number, channel in enumerate(channels):
        if channel.cascades == ALLOW and not registry.traits(dialect).silent_cascades:
            here: Path = (*path, "channels", number, "cascades")
            what = f"{dotted(here)} has no effect: a source of kind {dialect} logs the changes of cascades"
            raise reading.error(here, what, "remove the key")
