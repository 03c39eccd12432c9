"""The keys of `[jobs.X.binlog]` of a hologres source: its own client's parameters under their own names in snake_case.

Defaults and meanings are those of holo-client ("HoloConfig") and of the table in "Technical Principle of Hologres
Binlog"; `binlogStartUpMode`, `startTime` and `cdcMode` are the Flink connector's. What every source has is as for a
DWS.
"""

from __future__ import annotations

from slotkeeper.core.config import values
from slotkeeper.core.config.keys import Key, Section, section, vendor
from slotkeeper.core.config.keys_binlog import BINLOG
from slotkeeper.core.domain.spec import READ_BY

_TESTS = "tests/integration/test_hologres_parameters.py"
_STREAM = "tests/integration/test_hologres_by_stream.py"
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

OWN: Section = section(
    vendor(
        "binlogReadBatchSize",
        "binlog records read in a page, or at most in a message of the stream",
        values.whole(1, 1_000_000),
        1_024,
        _TESTS,
        "records",
    ),
    vendor(
        "binlogHeartBeatIntervalMs",
        "an idle shard's progress row says this often up to which time of the server nothing else was there; -1: eight"
        " times in a binlog.ttl",
        values.whole(-1, values.DAY),
        -1,
        _TESTS,
        "ms",
    ),
    vendor("binlogIgnoreDelete", "leave deletes (event type 2) out", values.boolean, False, _TESTS),
    vendor(
        "binlogIgnoreBeforeUpdate", "leave the rows before an update (event type 3) out", values.boolean, False, _TESTS
    ),
    vendor(
        "retryCount",
        "tries after an error at the source before the long waits begin, the first one among them; counted anew after a"
        " success",
        values.whole(1, 1_000),
        3,
        _TESTS,
    ),
    vendor(
        "binlogStartUpMode",
        "where a new job starts: `initial` (a copy, then the binlog), `earliest_offset`, or `timestamp` with"
        " `start_time`; the same as the job's `start`, set one of them",
        values.choice(*START_MODES),
        None,
        _TESTS,
    ),
    vendor(
        "startTime",
        "time from which to read, `yyyy-MM-dd hh:mm:ss` in UTC or with an offset; the same as the job's `start`, set"
        " one of them",
        values.start_time,
        None,
        _TESTS,
    ),
    vendor(
        "startLsn",
        'LSN behind which to read, of all shards (`"10516"`) or by shard (`"shard_0=10516, shard_1=99"`); not together'
        " with `start_time`, where Hologres itself lets the LSN win",
        values.start_lsn,
        None,
        _TESTS,
    ),
    vendor(
        "cdcMode",
        "each record takes effect as what it is; false, which appends every image as a row, is refused",
        values.only_true,
        True,
        _TESTS,
    ),
    Key(
        "read_by",
        "how changes come: `sql`, or `stream`, the binlog's own over PostgreSQL's replication protocol (Hologres 2.1"
        " and later, without a slot), which is what the connector calls `sdkMode` `jdbc`; where a range ends is asked"
        " by SQL either way",
        values.choice(*READ_BY),
        "sql",
        tested=_STREAM,
    ),
    vendor(
        "enableCompression",
        'messages of the stream come compressed (LZ4; Hologres 3.2 and later); with `read_by = "stream"` only',
        values.boolean,
        False,
        _STREAM,
    ),
    Key(
        "binlog_visibility_lag",
        "read only records that are older than this: for servers where one with a lower LSN might show after one with a"
        " higher",
        values.duration(0, values.DAY),
        0,
        "ms",
        tested=_TESTS,
    ),
)
"""Those that no other source has."""
HOLOGRES: Section = {name: BINLOG[name] for name in _SHARED} | dict(OWN)
"""All of them."""
